//! The methods by name, and what they rest on.

use chrono::{DateTime, Utc};
use embedder::Catalog;
use placeholders::Objective;
use serde::{Deserialize, Serialize};

use super::onnx::{Onnx, Source};
use super::{
    Arima, AutopilotMl, Calibrated, Ensemble, Forecaster, HoltWinters, Increments, Ladder, LadderForecaster,
    LastValue, Lead, MovingWindow, Mstl, Paths, Scenario, Seasonal, State,
};

/// A method of forecasting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Experts, each a method and a quantile, followed by what each would have cost.
    #[default]
    Ensemble,
    /// Past windows of arrivals, packed onto the free room of the moment.
    Scenario,
    /// The same, where windows before which as much arrived as just now count more.
    #[serde(rename = "scenario+arrivals")]
    ScenarioArrivals,
    /// Past needs where free room, arrivals and time were alike.
    State,
    /// Past needs at this time of day.
    Seasonal,
    /// The decayed distribution of past needs.
    Increments,
    /// Exponential smoothing of demand, with a trend and a daily season, and its past errors.
    HoltWinters,
    /// ARIMA(7, 1, 7) over demand, and its past errors.
    Arima,
    /// The season and the trend of demand, taken apart, and their past errors.
    Mstl,
    /// A trained network.
    Onnx,
    /// Autopilot's moving window over demand.
    MovingWindow,
    /// Autopilot's recommender that chooses among models of demand.
    AutopilotMl,
    /// A step function of running cores and nodes.
    Ladder,
    /// What is announced within the lead, and nothing beyond it: no forecast.
    #[serde(alias = "last-value")]
    Scheduled,
}

impl Method {
    /// Those of which a quantile can be asked.
    pub const QUANTILES: [Self; 10] = [
        Self::Ensemble,
        Self::Scenario,
        Self::ScenarioArrivals,
        Self::State,
        Self::Seasonal,
        Self::Increments,
        Self::HoltWinters,
        Self::Arima,
        Self::Mstl,
        Self::Onnx,
    ];

    /// Those that say how much to hold by themselves, beside the references.
    pub const POINTS: [Self; 2] = [Self::MovingWindow, Self::AutopilotMl];

    /// Its name, as policies spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ensemble => "ensemble",
            Self::Scenario => "scenario",
            Self::ScenarioArrivals => "scenario+arrivals",
            Self::State => "state",
            Self::Seasonal => "seasonal",
            Self::Increments => "increments",
            Self::HoltWinters => "holt-winters",
            Self::Arima => "arima",
            Self::Mstl => "mstl",
            Self::Onnx => "onnx",
            Self::MovingWindow => "moving-window",
            Self::AutopilotMl => "autopilot-ml",
            Self::Ladder => "ladder",
            Self::Scheduled => "scheduled",
        }
    }
}

/// What forecasts rest on; when any of it changes, all is learnt anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// The buckets.
    pub catalog: Catalog,
    /// The method.
    pub method: Method,
    /// The steps of the method `ladder`.
    pub ladder: Ladder,
    /// The window that forecasts look over.
    pub lead: Lead,
    /// What the ensemble aims for; of others, a quantile that is asked for is calibrated.
    pub objective: Objective,
    /// The network of the method `onnx`, which the ensemble hears, too.
    pub network: Source,
}

impl Basis {
    /// What forecasts, with nothing learnt yet.
    pub fn forecaster(&self) -> Box<dyn Forecaster> {
        self.judged_since(DateTime::UNIX_EPOCH)
    }

    /// The same, where what precedes a moment is learnt from, and not judged: a long log is replayed.
    pub fn judged_since(&self, since: DateTime<Utc>) -> Box<dyn Forecaster> {
        let method = self.uncalibrated(since);
        match self.objective {
            Objective::Quantile(quantile)
                if self.method != Method::Ensemble && Method::QUANTILES.contains(&self.method) =>
            {
                Box::new(Calibrated::new(method, quantile, &self.catalog, self.lead, since))
            }
            _ => method,
        }
    }

    /// The same, with quantiles as the method believes them to be.
    pub fn uncalibrated(&self, since: DateTime<Utc>) -> Box<dyn Forecaster> {
        let (catalog, lead) = (&self.catalog, self.lead);
        match self.method {
            Method::Ensemble => {
                let ensemble = Ensemble::new(catalog, lead, &self.ladder, self.objective);
                Box::new(ensemble.hearing(self.network()).judging_since(since))
            }
            Method::Scenario => Box::new(Scenario::new(catalog, lead, false)),
            Method::ScenarioArrivals => Box::new(Scenario::new(catalog, lead, true)),
            Method::State => Box::new(State::new(catalog, lead)),
            Method::Seasonal => Box::new(Seasonal::new(catalog.len(), lead)),
            Method::Increments => Box::new(Increments::new(catalog.len(), lead)),
            Method::HoltWinters => Box::new(Paths::<HoltWinters>::new(catalog.len(), lead)),
            Method::Arima => Box::new(Paths::<Arima>::new(catalog.len(), lead)),
            Method::Mstl => Box::new(Paths::<Mstl>::new(catalog.len(), lead)),
            Method::Onnx => Box::new(self.network()),
            Method::MovingWindow => Box::new(MovingWindow::new(catalog.len(), lead)),
            Method::AutopilotMl => Box::new(AutopilotMl::new(catalog.len())),
            Method::Ladder => Box::new(LadderForecaster::new(self.ladder.clone(), catalog)),
            Method::Scheduled => Box::new(LastValue),
        }
    }

    fn network(&self) -> Onnx {
        Onnx::new(self.network.clone(), &self.catalog, self.lead)
    }
}
