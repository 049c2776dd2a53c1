//! The methods by name.

use chrono::{DateTime, Utc};
use embedder::Catalog;
use placeholders::Objective;
use serde::{Deserialize, Serialize};

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
    pub const QUANTILES: [Self; 9] = [
        Self::Ensemble,
        Self::Scenario,
        Self::ScenarioArrivals,
        Self::State,
        Self::Seasonal,
        Self::Increments,
        Self::HoltWinters,
        Self::Arima,
        Self::Mstl,
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
            Self::MovingWindow => "moving-window",
            Self::AutopilotMl => "autopilot-ml",
            Self::Ladder => "ladder",
            Self::Scheduled => "scheduled",
        }
    }

    /// What forecasts by it, with nothing learnt yet. The ladder has steps; the ensemble aims for the objective; of others, a
    /// quantile that is asked for is calibrated.
    pub fn forecaster(
        self,
        catalog: &Catalog,
        lead: Lead,
        ladder: &Ladder,
        objective: Objective,
    ) -> Box<dyn Forecaster> {
        self.judged_since(DateTime::UNIX_EPOCH, catalog, lead, ladder, objective)
    }

    /// The same, where what precedes a moment is learnt from, and not judged: a long log is replayed.
    pub fn judged_since(
        self,
        since: DateTime<Utc>,
        catalog: &Catalog,
        lead: Lead,
        ladder: &Ladder,
        objective: Objective,
    ) -> Box<dyn Forecaster> {
        match objective {
            _ if self == Self::Ensemble => {
                Box::new(Ensemble::new(catalog, lead, ladder, objective).judging_since(since))
            }
            Objective::Quantile(quantile) if Self::QUANTILES.contains(&self) => {
                let method = self.uncalibrated(catalog, lead, ladder, objective);
                Box::new(Calibrated::new(method, quantile, catalog, lead, since))
            }
            _ => self.uncalibrated(catalog, lead, ladder, objective),
        }
    }

    /// The same, with quantiles as the method believes them to be.
    pub fn uncalibrated(
        self,
        catalog: &Catalog,
        lead: Lead,
        ladder: &Ladder,
        objective: Objective,
    ) -> Box<dyn Forecaster> {
        match self {
            Self::Ensemble => Box::new(Ensemble::new(catalog, lead, ladder, objective)),
            Self::Scenario => Box::new(Scenario::new(catalog, lead, false)),
            Self::ScenarioArrivals => Box::new(Scenario::new(catalog, lead, true)),
            Self::State => Box::new(State::new(catalog, lead)),
            Self::Seasonal => Box::new(Seasonal::new(catalog.len(), lead)),
            Self::Increments => Box::new(Increments::new(catalog.len(), lead)),
            Self::HoltWinters => Box::new(Paths::<HoltWinters>::new(catalog.len(), lead)),
            Self::Arima => Box::new(Paths::<Arima>::new(catalog.len(), lead)),
            Self::Mstl => Box::new(Paths::<Mstl>::new(catalog.len(), lead)),
            Self::MovingWindow => Box::new(MovingWindow::new(catalog.len(), lead)),
            Self::AutopilotMl => Box::new(AutopilotMl::new(catalog.len())),
            Self::Ladder => Box::new(LadderForecaster::new(ladder.clone(), catalog)),
            Self::Scheduled => Box::new(LastValue),
        }
    }
}
