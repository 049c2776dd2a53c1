//! The forecasting methods by name.

use serde::{Deserialize, Serialize};

/// A method of forecasting that a policy can choose, because it is on the frontier of waiting and
/// idling of some log. [`Baseline`] has the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A weighted median over experts, each a method at a quantile or a rule, weighted by what
    /// following it would have cost.
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
    /// The decayed distribution of past needs.
    Increments,
    /// A trained model from an ONNX file.
    Onnx,
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
    pub const QUANTILES: [Self; 6] = [
        Self::Ensemble,
        Self::Scenario,
        Self::ScenarioArrivals,
        Self::State,
        Self::Increments,
        Self::Onnx,
    ];

    /// Returns the name of the method, as policies spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ensemble => "ensemble",
            Self::Scenario => "scenario",
            Self::ScenarioArrivals => "scenario+arrivals",
            Self::State => "state",
            Self::Increments => "increments",
            Self::Onnx => "onnx",
            Self::Ladder => "ladder",
            Self::Expression => "expression",
            Self::Scheduled => "scheduled",
        }
    }
}

/// A method that no policy can choose, because another one is better. The simulator and the
/// backtest compare with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Past needs, weighted by nearness in time of day.
    Seasonal,
    /// Exponential smoothing of demand with a trend and a daily season, and the errors of past
    /// forecasts.
    HoltWinters,
    /// ARIMA(7, 1, 7) over demand, and the errors of past forecasts.
    Arima,
    /// Autopilot's moving window over demand.
    MovingWindow,
    /// Autopilot's recommender, which chooses among models of demand.
    AutopilotMl,
}

impl Baseline {
    /// All of them. The last two forecast a single count, and the others accept a quantile.
    pub const ALL: [Self; 5] =
        [Self::Seasonal, Self::HoltWinters, Self::Arima, Self::MovingWindow, Self::AutopilotMl];

    /// Whether it accepts a quantile.
    pub const fn has_quantiles(self) -> bool {
        matches!(self, Self::Seasonal | Self::HoltWinters | Self::Arima)
    }

    /// Returns the name, as the simulator spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seasonal => "seasonal",
            Self::HoltWinters => "holt-winters",
            Self::Arima => "arima",
            Self::MovingWindow => "moving-window",
            Self::AutopilotMl => "autopilot-ml",
        }
    }
}
