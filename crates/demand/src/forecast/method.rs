//! The forecasting methods by name.

use serde::{Deserialize, Serialize};

/// A method of forecasting. Policies in a cluster offer those that are on the frontier of waiting
/// and idling of some log. The others are baselines of the papers, for simulations and backtests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A weighted median over experts, each a method and a quantile, weighted by hindsight cost.
    #[default]
    Ensemble,
    /// Past windows of arrivals, packed into the present free room.
    Scenario,
    /// Like `scenario`, but windows weigh more where the arrivals just before them were similar to
    /// the present.
    #[serde(rename = "scenario+arrivals")]
    ScenarioArrivals,
    /// Past needs, weighted by similarity of free room, recent arrivals and time.
    State,
    /// Past needs, weighted by nearness in time of day.
    #[cfg_attr(feature = "kubernetes", schemars(skip))]
    Seasonal,
    /// The decayed distribution of past needs.
    Increments,
    /// Exponential smoothing of demand with a trend and a daily season, and the errors of past
    /// forecasts.
    #[cfg_attr(feature = "kubernetes", schemars(skip))]
    HoltWinters,
    /// ARIMA(7, 1, 7) over demand, and the errors of past forecasts.
    #[cfg_attr(feature = "kubernetes", schemars(skip))]
    Arima,
    /// A trained model from an ONNX file.
    Onnx,
    /// Autopilot's moving window over demand.
    #[cfg_attr(feature = "kubernetes", schemars(skip))]
    MovingWindow,
    /// Autopilot's recommender, which chooses among models of demand.
    #[cfg_attr(feature = "kubernetes", schemars(skip))]
    AutopilotMl,
    /// A step function of running cores and nodes.
    Ladder,
    /// An expression in CEL: a rule of the user, which can read the forecast of the ensemble.
    Expression,
    /// Announced demand only. This method forecasts no new nodes.
    #[serde(alias = "last-value")]
    Scheduled,
}

impl Method {
    /// The methods that accept a quantile.
    pub const QUANTILES: [Self; 9] = [
        Self::Ensemble,
        Self::Scenario,
        Self::ScenarioArrivals,
        Self::State,
        Self::Seasonal,
        Self::Increments,
        Self::HoltWinters,
        Self::Arima,
        Self::Onnx,
    ];

    /// The methods that forecast a single count, except the references.
    pub const POINTS: [Self; 2] = [Self::MovingWindow, Self::AutopilotMl];

    /// Returns the name of the method, as policies spell it.
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
            Self::Onnx => "onnx",
            Self::MovingWindow => "moving-window",
            Self::AutopilotMl => "autopilot-ml",
            Self::Ladder => "ladder",
            Self::Expression => "expression",
            Self::Scheduled => "scheduled",
        }
    }
}
