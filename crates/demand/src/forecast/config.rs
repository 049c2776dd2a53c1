//! The configuration of a forecaster, and its construction.

use std::collections::BTreeSet;

use base::tier::Tiers;
use chrono::{DateTime, TimeDelta, Utc};
use embedder::Catalog;
use placeholders::{Objective, Prices};

use super::calibrated::Calibrated;
use super::ensemble::Ensemble;
use super::expression::Expression;
use super::gangs::WithGangs;
use super::lead::Lead;
use super::method::{Baseline, Method};
use super::methods::{
    Arima, AutopilotMl, ExpressionForecaster, HoltWinters, Increments, Ladder, LadderForecaster,
    LastValue, MovingWindow, Paths, Scenario, Seasonal, StateForecaster,
};
use super::onnx::{ModelSource, Onnx};
use super::per_lead::PerLead;
use super::question::{DemandForecaster, Forecaster};

/// The configuration of a forecaster. When any field changes, the forecaster learns anew.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecasterConfig {
    /// The buckets.
    pub catalog: Catalog,
    /// The method that computes the forecasts.
    pub method: Method,
    /// The steps of the method `ladder`.
    pub ladder: Ladder,
    /// Whether the ensemble starts with the steps of the ladder, until the history suffices.
    pub ladder_first: bool,
    /// The expression of the method `expression`. Without it, the method holds announced demand
    /// only.
    pub expression: Option<Expression>,
    /// The lead time that the forecast of each bucket covers. Each distinct one costs as much as
    /// another forecaster, so there should be at most three ([`Lead::at_most_three`]).
    pub leads: Vec<Lead>,
    /// By bucket, how long a node must be unneeded before the autoscaler removes it, in seconds.
    pub unneeded_seconds: Vec<i64>,
    /// The objective of the ensemble: prices or a service level. For other methods a quantile is
    /// calibrated.
    pub objective: Objective,
    /// The tiers, by whose weights the ensemble multiplies the cost of waiting. Other methods
    /// forecast all arrivals alike.
    pub tiers: Tiers,
    /// The model of the method `onnx`. A model that the user trained is also a method of the
    /// ensemble. The shipped one is not, because on the open windows of the evaluation the ensemble
    /// without it costs as much or less.
    pub model: ModelSource,
    /// Whether a forecast waits for the model as long as it takes, as in a simulation, whose result
    /// must not depend on how busy the machine is. Otherwise, a slow model has no forecast.
    pub patient: bool,
}

/// How far before the first decision experts are scored: 14 days, the part of the history that is
/// kept in memory and two half-lives of the ensemble's costs. A controller that restarts and a
/// simulation that begins both start to score here.
const SCORED: TimeDelta = TimeDelta::days(14);

impl ForecasterConfig {
    /// Builds a forecaster that has learnt nothing yet, for decisions from `from` on.
    ///
    /// All history trains the methods. Experts are scored only on ticks up to 14 days before
    /// `from`, because scoring is slow.
    pub fn forecaster(&self, from: DateTime<Utc>) -> Box<dyn Forecaster> {
        self.demand_forecaster(from)
    }

    /// Like [`Self::forecaster`], for a forecaster that also forecasts demand itself.
    pub fn demand_forecaster(&self, from: DateTime<Utc>) -> Box<dyn DemandForecaster> {
        let calibrates =
            self.method != Method::Ensemble && Method::QUANTILES.contains(&self.method);
        self.with_leads(from, calibrates, &|lead, since| self.uncalibrated(lead, since))
    }

    /// Like [`Self::demand_forecaster`], for a baseline in place of the method.
    pub fn baseline_forecaster(
        &self,
        baseline: Baseline,
        from: DateTime<Utc>,
    ) -> Box<dyn DemandForecaster> {
        let uncalibrated = |lead, _| self.uncalibrated_baseline(baseline, lead);
        self.with_leads(from, baseline.has_quantiles(), &uncalibrated)
    }

    /// Builds a forecaster for each lead time by `uncalibrated`. `calibrates` is whether a quantile
    /// is calibrated.
    fn with_leads(
        &self,
        from: DateTime<Utc>,
        calibrates: bool,
        uncalibrated: &dyn Fn(Lead, DateTime<Utc>) -> Box<dyn DemandForecaster>,
    ) -> Box<dyn DemandForecaster> {
        let since = from.checked_sub_signed(SCORED).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let with_lead = |lead: Lead| -> Box<dyn DemandForecaster> {
            let method = uncalibrated(lead, since);
            let new_nodes = match self.objective {
                Objective::Quantile(quantile) if calibrates => {
                    Box::new(Calibrated::new(method, quantile, self.catalog.len(), lead, since))
                }
                _ => method,
            };
            Box::new(WithGangs::new(new_nodes, lead))
        };
        let distinct: Vec<Lead> =
            self.leads.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let mut forecasters = distinct.iter().map(|lead| with_lead(*lead));
        if distinct.len() == 1
            && let Some(only) = forecasters.next()
        {
            return only;
        }
        let of = self.leads.iter().filter_map(|lead| distinct.binary_search(lead).ok());
        Box::new(PerLead::new(forecasters.collect(), of.collect()))
    }

    /// The longest lead time of a bucket, in seconds.
    pub fn longest_lead_seconds(&self) -> i64 {
        self.leads.iter().map(|lead| lead.seconds).max().unwrap_or(0)
    }

    /// Builds a forecaster for one lead time whose quantiles are not calibrated. Experts are scored
    /// from `since` on.
    pub fn uncalibrated(&self, lead: Lead, since: DateTime<Utc>) -> Box<dyn DemandForecaster> {
        let catalog = &self.catalog;
        match self.method {
            Method::Ensemble => Box::new(self.ensemble(lead, since)),
            Method::Scenario => Box::new(Scenario::new(lead, false)),
            Method::ScenarioArrivals => Box::new(Scenario::new(lead, true)),
            Method::State => Box::new(StateForecaster::new(catalog.len(), lead)),
            Method::Increments => Box::new(Increments::new(catalog.len(), lead)),
            Method::Onnx => Box::new(self.onnx(lead)),
            Method::Ladder => Box::new(LadderForecaster::new(self.ladder.clone(), catalog)),
            Method::Expression => match self.expression.clone() {
                Some(expression) => {
                    let prices = Prices::new(self.objective, catalog);
                    let ensemble = || Box::new(self.ensemble(lead, since).without_feedback()) as _;
                    Box::new(ExpressionForecaster::new(expression, catalog, prices, ensemble))
                }
                None => Box::new(LastValue),
            },
            Method::Scheduled => Box::new(LastValue),
        }
    }

    /// Builds a baseline for one lead time whose quantiles are not calibrated.
    pub fn uncalibrated_baseline(
        &self,
        baseline: Baseline,
        lead: Lead,
    ) -> Box<dyn DemandForecaster> {
        let buckets = self.catalog.len();
        match baseline {
            Baseline::Seasonal => Box::new(Seasonal::new(buckets, lead)),
            Baseline::HoltWinters => Box::new(Paths::<HoltWinters>::new(buckets, lead)),
            Baseline::Arima => Box::new(Paths::<Arima>::new(buckets, lead)),
            Baseline::MovingWindow => Box::new(MovingWindow::new(buckets, lead)),
            Baseline::AutopilotMl => Box::new(AutopilotMl::new(buckets, lead)),
        }
    }

    fn ensemble(&self, lead: Lead, since: DateTime<Utc>) -> Ensemble {
        let times = (lead, self.unneeded_seconds.as_slice());
        let mut ensemble = Ensemble::new(&self.catalog, times, &self.ladder, self.objective);
        if self.ladder_first {
            ensemble = ensemble.with_ladder_first();
        }
        let tiers = match self.objective {
            Objective::Quantile(_) => self.tiers.for_level(),
            Objective::WaitCost(_) | Objective::WaitRatio(_) => self.tiers.clone(),
        };
        let ensemble = ensemble.with_tiers(tiers).scoring_since(since);
        match self.model {
            ModelSource::Pretrained | ModelSource::None => ensemble,
            _ => ensemble.with_model(self.onnx(lead)),
        }
    }

    fn onnx(&self, lead: Lead) -> Onnx {
        let onnx = if self.patient { Onnx::patient } else { Onnx::new };
        onnx(self.model.clone(), &self.catalog, lead)
    }
}
