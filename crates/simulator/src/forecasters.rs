//! The forecaster of each policy.

use chrono::{DateTime, Utc};
use demand::forecast::{
    Burst, ByHour, Constant, Constants, DemandForecaster, Forecaster, ForecasterConfig,
    LadderForecaster, LastValue, Lead, Method, StaticMax, WithGangs,
};
use embedder::{Bucket, Catalog};

use super::input::SimulationInput;
use super::named_policy::{NamedPolicy, PaperForecast};
use super::oracle::{Foreseen, Oracle};
use super::paper::{Counts, PaperRule};
use super::rates::Rates;
use super::settings::SimulationSettings;
use crate::replay::may_stop;

/// Returns the forecaster of a policy in a simulation.
///
/// Returns `None` for a policy that holds no placeholders. The oracle and `jobs` read
/// `foreseen`, and `paper` reads `counts`.
pub(super) fn forecaster(
    named_policy: NamedPolicy,
    world: SimulationInput<'_>,
    foreseen: &Foreseen,
    counts: &Counts,
) -> Option<Box<dyn Forecaster>> {
    let SimulationInput { workload, catalog, settings, window, .. } = world;
    let from: DateTime<Utc> = DateTime::from_timestamp(window.0, 0).unwrap_or_default();
    match named_policy {
        NamedPolicy::Rates(_) => {
            Some(Box::new(Rates::new(workload, catalog, settings.lead().seconds)))
        }
        NamedPolicy::Paper(of) if named_policy.counts_pods() => {
            let rule = PaperRule::new(of, settings, catalog, counts.clone());
            Some(Box::new(WithGangs::new(Box::new(rule), settings.lead())))
        }
        NamedPolicy::Oracle | NamedPolicy::Jobs(_) => Some(Box::new(Oracle(foreseen.clone()))),
        NamedPolicy::Ends => forecaster(NamedPolicy::DEFAULT, world, foreseen, counts),
        _ => causal_forecaster(named_policy, settings, catalog, from)
            .map(|forecaster| forecaster as Box<dyn Forecaster>),
    }
}

/// Returns the forecaster of a policy that reads no data of the future, for decisions from `from`
/// on.
///
/// Returns `None` for a policy that holds no placeholders, for one that reads data of the future,
/// and for `paper`, which reads the pods of a simulation.
pub fn causal_forecaster(
    named_policy: NamedPolicy,
    settings: &SimulationSettings,
    catalog: &Catalog,
    from: DateTime<Utc>,
) -> Option<Box<dyn DemandForecaster>> {
    match named_policy {
        NamedPolicy::Reactive
        | NamedPolicy::WarmPool(_)
        | NamedPolicy::BestConstant
        | NamedPolicy::Rates(_)
        | NamedPolicy::Jobs(_)
        | NamedPolicy::Ends
        | NamedPolicy::Oracle => None,
        NamedPolicy::Paper(of) => {
            (of == PaperForecast::LastValue).then(|| Box::new(LastValue) as Box<_>)
        }
        NamedPolicy::StaticMax => Some(Box::new(StaticMax::new(catalog.len(), from))),
        NamedPolicy::Constant(n) => Some(Box::new(Constant(n))),
        NamedPolicy::Constants(counts) => Some(Box::new(Constants(counts.counts()))),
        NamedPolicy::ByHour(n) => Some(Box::new(ByHour::new(catalog.len(), n))),
        NamedPolicy::Burst { period, most } => {
            Some(Box::new(Burst::new(period.as_seconds(), most.unwrap_or(u64::MAX))))
        }
        NamedPolicy::Ladder => {
            Some(Box::new(LadderForecaster::new(settings.ladder.clone(), catalog)))
        }
        NamedPolicy::Tiered(_) => {
            Some(config(named_policy, Method::Ensemble, settings, catalog).demand_forecaster(from))
        }
        NamedPolicy::Forecast(method, _) => {
            Some(config(named_policy, method, settings, catalog).demand_forecaster(from))
        }
        NamedPolicy::Baseline(baseline, _) => {
            let config = config(named_policy, Method::default(), settings, catalog);
            Some(config.baseline_forecaster(baseline, from))
        }
    }
}

fn config(
    named_policy: NamedPolicy,
    method: Method,
    settings: &SimulationSettings,
    catalog: &Catalog,
) -> ForecasterConfig {
    let has_pool = |bucket: &Bucket| {
        matches!(named_policy, NamedPolicy::Tiered(_))
            && may_stop(bucket)
            && settings.warm_start.as_seconds() < settings.launch_latency.typical()
    };
    let lead = |bucket| if has_pool(bucket) { settings.warm_lead() } else { settings.lead() };
    ForecasterConfig {
        catalog: catalog.clone(),
        method,
        ladder: settings.ladder.clone(),
        ladder_first: settings.ladder_first,
        expression: settings.expression.clone(),
        leads: Lead::at_most_three(catalog.buckets().iter().map(lead).collect()),
        unneeded_seconds: vec![settings.scale_down_unneeded_time.as_seconds(); catalog.len()],
        objective: named_policy.policy(&settings.policy).objective,
        tiers: settings.tiers.clone(),
        model: settings.model_source(),
        patient: true,
    }
}
