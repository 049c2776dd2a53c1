//! One forecaster, run online from tick to tick.

use std::ops::Range;
use std::time::Duration;

use base::clock::Stopwatch;
use chrono::{DateTime, Utc};
use demand::forecast::onnx::{ModelSource, Onnx};
use demand::forecast::{DemandForecaster, Learners, Method, Paths, Present, Ses};
use embedder::Catalog;
use placeholders::{Prices, Reason};
use simulator::{NamedPolicy, SimulationSettings, causal_forecaster};

use super::answer::JudgedForecast;
use super::horizon::Horizon;
use super::moments::Moments;
use super::named_forecaster::{NamedForecaster, NamedModel};

/// A forecaster with its learnt state.
pub(super) struct Pass {
    pub(super) named_forecaster: NamedForecaster,
    learners: Option<Learners<dyn DemandForecaster>>,
    prices: Prices,
    /// The index of the first tick at which it forecasts.
    forecasts_from: usize,
    /// How long it learned and forecast, at these ticks.
    spent: Duration,
    /// The number of ticks at which it forecast.
    ticks: u32,
}

/// The forecasts made at a tick.
pub(super) struct TickForecasts {
    pub(super) at: usize,
    /// By horizon, then by bucket in use; empty for a horizon without forecasts.
    pub(super) answers: [Vec<JudgedForecast>; Horizon::ALL.len()],
    /// By bucket in use, the method that was the carrier of the ensemble.
    pub(super) carriers: Vec<&'static str>,
}

impl Pass {
    /// Returns a forecaster that has learnt nothing.
    pub(super) fn new(
        named_forecaster: NamedForecaster,
        settings: &SimulationSettings,
        catalog: &Catalog,
        from: DateTime<Utc>,
        forecasts_from: usize,
    ) -> Self {
        let forecaster: Option<Box<dyn DemandForecaster>> = match &named_forecaster {
            NamedForecaster::Zero | NamedForecaster::LastValue => None,
            NamedForecaster::Policy(named_policy) => {
                causal_forecaster(*named_policy, settings, catalog, from)
            }
            NamedForecaster::Paper(forecast) => {
                settings.paper_network(*forecast).map(|source| network(source, settings, catalog))
            }
            NamedForecaster::Ses { week: true } => {
                Some(Box::new(Paths::<Ses<7>>::new(catalog.len(), settings.lead())))
            }
            NamedForecaster::Ses { week: false } => {
                Some(Box::new(Paths::<Ses<1>>::new(catalog.len(), settings.lead())))
            }
            NamedForecaster::Network(NamedModel { file, .. }) => {
                Some(network(ModelSource::File(file.into()), settings, catalog))
            }
        };
        Self::with(named_forecaster, forecaster, settings, catalog, forecasts_from)
    }

    /// Returns a forecaster that has learnt nothing, under a name. It forecasts zero nodes if it is
    /// `None`.
    pub(super) fn with(
        named_forecaster: NamedForecaster,
        forecaster: Option<Box<dyn DemandForecaster>>,
        settings: &SimulationSettings,
        catalog: &Catalog,
        forecasts_from: usize,
    ) -> Self {
        Self {
            named_forecaster,
            learners: forecaster.map(|forecaster| Learners::new(forecaster, catalog)),
            prices: Prices::new(settings.policy.objective, catalog),
            forecasts_from,
            spent: Duration::ZERO,
            ticks: 0,
        }
    }

    /// How much computing time the forecaster takes, as [`NamedPolicy::effort`].
    pub(super) fn effort(&self) -> u8 {
        match &self.named_forecaster {
            NamedForecaster::Zero | NamedForecaster::LastValue => 0,
            NamedForecaster::Policy(named_policy) => named_policy.effort(),
            NamedForecaster::Ses { .. } => 1,
            NamedForecaster::Paper(_) | NamedForecaster::Network(_) => {
                NamedPolicy::DEFAULT.effort()
            }
        }
    }

    /// Learns from each of these ticks, and returns the forecasts made at each.
    pub(super) fn go_on(&mut self, moments: &Moments, ticks: Range<usize>) -> Vec<TickForecasts> {
        let mut forecasts = Vec::new();
        for at in ticks {
            let start = Stopwatch::now();
            if let Some(learners) = &mut self.learners {
                learners.learn(moments.tick(at).clone());
            }
            if at >= self.forecasts_from {
                forecasts.push(self.forecasts(moments, at));
                self.spent += start.elapsed();
                self.ticks += 1;
            }
        }
        forecasts
    }

    /// Returns the milliseconds in which it learned from a tick and forecast, on average.
    pub(super) fn milliseconds(&self) -> f64 {
        1e3 * self.spent.as_secs_f64() / f64::from(self.ticks.max(1))
    }

    /// Returns the first fault of the forecaster's ONNX model at the last tick, with the name of
    /// the forecaster.
    pub(super) fn fault(&self) -> Option<String> {
        if !self.is_network() {
            return None;
        }
        let name = &self.named_forecaster;
        let fault = self.learners.as_ref()?.faults().into_iter().next()?;
        Some(format!("{name}: {fault}; horizons without its forecasts have no row."))
    }

    fn is_network(&self) -> bool {
        matches!(self.named_forecaster, NamedForecaster::Network(_) | NamedForecaster::Paper(_))
    }

    fn forecasts(&self, moments: &Moments, at: usize) -> TickForecasts {
        let mut carriers = Vec::new();
        let answers = Horizon::ALL.map(|horizon| match horizon {
            Horizon::Ticks(ticks) => self.demand_ahead(moments, at, ticks),
            Horizon::Lead if moments.judged.contains(&at) => {
                self.new_nodes(moments, at, &mut carriers)
            }
            Horizon::Lead => Vec::new(),
        });
        TickForecasts { at, answers, carriers }
    }

    fn demand_ahead(&self, moments: &Moments, at: usize, ticks: usize) -> Vec<JudgedForecast> {
        let used = moments.used.iter();
        match &self.named_forecaster {
            NamedForecaster::Zero => used.map(|_| JudgedForecast::certain(0)).collect(),
            NamedForecaster::LastValue => used
                .map(|&id| JudgedForecast::certain(moments.tick(at).buckets[id].demand))
                .collect(),
            NamedForecaster::Policy(NamedPolicy::StaticMax) => {
                used.map(|&id| JudgedForecast::certain(moments.most[id])).collect()
            }
            NamedForecaster::Policy(NamedPolicy::Oracle) => used
                .map(|&id| JudgedForecast::certain(moments.actual(at, Horizon::Ticks(ticks), id)))
                .collect(),
            // A constant, a rule and the ladder forecast headroom, not demand. The demand forecast
            // of the ensemble is computed in `blended.rs`.
            NamedForecaster::Policy(
                NamedPolicy::Constant(_)
                | NamedPolicy::Constants(_)
                | NamedPolicy::ByHour(_)
                | NamedPolicy::Burst { .. }
                | NamedPolicy::Ladder
                | NamedPolicy::Forecast(Method::Ensemble | Method::Expression, None),
            ) => Vec::new(),
            NamedForecaster::Policy(_)
            | NamedForecaster::Paper(_)
            | NamedForecaster::Ses { .. }
            | NamedForecaster::Network(_) => {
                let ahead = self.learners.as_ref().map(|learners| learners.demand_ahead(ticks));
                let ahead = ahead.unwrap_or_default();
                used.filter_map(|&id| {
                    Some(JudgedForecast::of_demand(ahead.get(id)?, self.prices.quantile(id)))
                })
                .collect()
            }
        }
    }

    fn new_nodes(
        &self,
        moments: &Moments,
        at: usize,
        carriers: &mut Vec<&'static str>,
    ) -> Vec<JudgedForecast> {
        if self.named_forecaster == NamedForecaster::Policy(NamedPolicy::Oracle) {
            return moments
                .used
                .iter()
                .map(|&id| JudgedForecast::certain(moments.rise(at)[id]))
                .collect();
        }
        let Some(learners) = &self.learners else {
            return moments.used.iter().map(|_| JudgedForecast::certain(0)).collect();
        };
        let demand = moments.demand(at);
        // Forecasts are scored at ticks, so no pods have arrived since the last tick.
        let now = Present::at_tick(moments.tick(at).time, &demand);
        let outlook = learners.forecast(&now);
        if self.is_network()
            && outlook.buckets.iter().all(|bucket| bucket.reason == Reason::TooLittleHistory)
        {
            return Vec::new();
        }
        let answer = |&id: &usize| {
            let bucket = &outlook.buckets[id];
            carriers.extend(bucket.carrier.map(|carrier| carrier.method));
            let headroom = bucket.headroom(self.prices.quantile(id));
            JudgedForecast::of_new_nodes(&bucket.new_nodes, headroom)
        };
        moments.used.iter().map(answer).collect()
    }
}

/// Returns a forecaster that is an ONNX model alone, without an ensemble.
fn network(
    source: ModelSource,
    settings: &SimulationSettings,
    catalog: &Catalog,
) -> Box<dyn DemandForecaster> {
    Box::new(Onnx::patient(source, catalog, settings.lead()).verbatim())
}
