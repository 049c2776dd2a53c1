//! The forecasters that are scored, and the data that each reads.

use std::fmt;
use std::str::FromStr;

use demand::forecast::{Baseline, Method};
use serde::Serialize;
use simulator::{NamedPolicy, PaperForecast};

use super::table4::Protocol;

/// A forecaster that is scored.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedForecaster {
    /// Forecasts 0 nodes. Reads no data.
    Zero,
    /// Forecasts that demand does not change. Reads the present.
    LastValue,
    /// The forecaster of a policy.
    Policy(NamedPolicy),
    /// A network of the paper. Reads the past.
    Paper(PaperForecast),
    /// The paper's SES with a season of a week, or otherwise of a day. Reads the past.
    Ses {
        /// Whether the season is a week.
        week: bool,
    },
    /// An ONNX model that is scored in addition to the model that policies use.
    Network(NamedModel),
}

/// An ONNX model that is scored under its own name, given as `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedModel {
    /// The name, which is not the name of a policy.
    pub name: String,
    /// The path of an ONNX file with the input and output contract of models.
    pub file: String,
}

impl FromStr for NamedModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
        if name.is_empty() || file.is_empty() {
            return Err("expected NAME=FILE".into());
        }
        if name.parse::<NamedPolicy>().is_ok() || ["zero", "last-value"].contains(&name) {
            return Err(format!("{name} is the name of a policy: use another name for the model"));
        }
        Ok(Self { name: name.into(), file: file.into() })
    }
}

impl fmt::Display for NamedForecaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::LastValue => f.write_str("last-value"),
            Self::Policy(named_policy) => named_policy.fmt(f),
            Self::Paper(forecast) => f.write_str(forecast.name()),
            Self::Ses { .. } => f.write_str("ses"),
            Self::Network(network) => f.write_str(&network.name),
        }
    }
}

/// The ensemble, as a scored forecaster.
pub(super) const ENSEMBLE: NamedForecaster =
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Ensemble, None));

/// The methods of the weighted average that is the ensemble's demand forecast.
pub(super) const BLENDED: [NamedForecaster; 9] = [
    NamedForecaster::LastValue,
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Increments, None)),
    NamedForecaster::Policy(NamedPolicy::Baseline(Baseline::Seasonal, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::State, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Scenario, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::ScenarioArrivals, None)),
    NamedForecaster::Policy(NamedPolicy::Baseline(Baseline::HoltWinters, None)),
    NamedForecaster::Policy(NamedPolicy::Baseline(Baseline::Arima, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Onnx, None)),
];

/// The forecasters that are scored when none are named: all methods except `moving-window`, which
/// is always scored as a reference.
pub fn default_forecasters() -> Vec<NamedPolicy> {
    use Baseline::{Arima, AutopilotMl, HoltWinters, Seasonal};
    use Method::{Ensemble, Increments, Onnx, Scenario, ScenarioArrivals, State};
    let method = |method| NamedPolicy::Forecast(method, None);
    let baseline = |baseline| NamedPolicy::Baseline(baseline, None);
    let methods = [Ensemble, Scenario, ScenarioArrivals, State].map(method).into_iter();
    methods
        .chain([baseline(Seasonal), method(Increments), baseline(HoltWinters), baseline(Arima)])
        .chain([method(Onnx), baseline(AutopilotMl)])
        .collect()
}

/// What is scored, beside the references.
#[derive(Clone, Copy, Debug)]
pub struct Lineup<'a> {
    /// The methods.
    pub forecasters: &'a [NamedPolicy],
    /// The models under names of their own.
    pub networks: &'a [NamedModel],
    /// The paper's protocol; the models of the paper are scored, too.
    pub paper: Option<Protocol>,
}

/// The methods that are scored beside the models of the paper when none are named: those that
/// forecast from counts alone.
pub fn paper_forecasters() -> Vec<NamedPolicy> {
    let baselines = [Baseline::HoltWinters, Baseline::Arima];
    baselines.map(|baseline| NamedPolicy::Baseline(baseline, None)).into()
}

/// Returns the models of the paper, except those that a named model replaces.
fn of_paper(protocol: Protocol, networks: &[NamedModel]) -> Vec<NamedForecaster> {
    let models = [
        NamedForecaster::Paper(PaperForecast::Transformer),
        NamedForecaster::Paper(PaperForecast::Lstm),
        NamedForecaster::Ses { week: protocol.season_days >= 7 },
    ];
    let is_replaced =
        |model: &NamedForecaster| networks.iter().any(|named| named.name == model.to_string());
    models.into_iter().filter(|model| !is_replaced(model)).collect()
}

/// Returns the references, the forecasters and the named models, each once, the oracle last.
pub(super) fn lineup(all: Lineup<'_>) -> Vec<NamedForecaster> {
    let Lineup { forecasters, networks, paper } = all;
    let references = [
        NamedPolicy::StaticMax,
        CONSTANT,
        NamedPolicy::Ladder,
        NamedPolicy::Baseline(Baseline::MovingWindow, None),
    ];
    let policies =
        references.into_iter().chain(forecasters.iter().copied()).map(NamedForecaster::Policy);
    let of_paper = paper.map_or_else(Vec::new, |protocol| of_paper(protocol, networks));
    let networks = networks.iter().cloned().map(NamedForecaster::Network);
    let last = NamedForecaster::Policy(NamedPolicy::Oracle);
    once(
        [NamedForecaster::Zero, NamedForecaster::LastValue]
            .into_iter()
            .chain(policies)
            .chain(of_paper)
            .chain(networks)
            .chain([last]),
    )
}

/// Returns the policies whose decisions are compared: the references and the forecasters, each
/// once.
pub fn policies(forecasters: &[NamedPolicy]) -> Vec<NamedPolicy> {
    let references = [
        NamedPolicy::Reactive,
        NamedPolicy::StaticMax,
        CONSTANT,
        NamedPolicy::BestConstant,
        NamedPolicy::Ladder,
        NamedPolicy::Baseline(Baseline::MovingWindow, None),
    ];
    once(references.into_iter().chain(forecasters.iter().copied()).chain([NamedPolicy::Oracle]))
}

/// The constant among the references, the same as in the defaults of `simulate`.
const CONSTANT: NamedPolicy = NamedPolicy::Constant(4);

fn once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}
