//! Who is judged, and what each knows.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::forecast::Method;
use crate::simulate::NamedPolicy;

/// Someone who is judged.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedForecaster {
    /// Says that nothing is needed. Knows nothing.
    Zero,
    /// Says that nothing changes. Knows the present.
    LastValue,
    /// What forecasts for a policy.
    Policy(NamedPolicy),
    /// A network beside the one that policies hear.
    Network(NamedModel),
}

/// A network to be judged under a name of its own: `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedModel {
    /// No other entrant has it.
    pub name: String,
    /// An ONNX file that keeps the contract.
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
            return Err(format!("{name} is the name of a policy: give the network another"));
        }
        Ok(Self { name: name.into(), file: file.into() })
    }
}

impl fmt::Display for NamedForecaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::LastValue => f.write_str("last-value"),
            Self::Policy(contender) => contender.fmt(f),
            Self::Network(network) => f.write_str(&network.name),
        }
    }
}

/// The ensemble, as an entrant.
pub(super) const ENSEMBLE: NamedForecaster =
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Ensemble, None));

/// Those that the ensemble's demand ahead is blended of.
pub(super) const BLENDED: [NamedForecaster; 9] = [
    NamedForecaster::LastValue,
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Increments, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Seasonal, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::State, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Scenario, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::ScenarioArrivals, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::HoltWinters, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Arima, None)),
    NamedForecaster::Policy(NamedPolicy::Forecast(Method::Onnx, None)),
];

/// What is judged where no forecasters are named: all methods of the past.
pub fn default_forecasters() -> Vec<NamedPolicy> {
    let methods = Method::QUANTILES.into_iter().chain(Method::POINTS);
    methods
        .filter(|method| *method != Method::MovingWindow)
        .map(|m| NamedPolicy::Forecast(m, None))
        .collect()
}

/// The references, the forecasters and the networks, each once, the oracle last.
pub(super) fn lineup(forecasters: &[NamedPolicy], networks: &[NamedModel]) -> Vec<NamedForecaster> {
    let references = [
        NamedPolicy::StaticMax,
        CONSTANT,
        NamedPolicy::Ladder,
        NamedPolicy::Forecast(Method::MovingWindow, None),
    ];
    let policies =
        references.into_iter().chain(forecasters.iter().copied()).map(NamedForecaster::Policy);
    let networks = networks.iter().cloned().map(NamedForecaster::Network);
    let last = NamedForecaster::Policy(NamedPolicy::Oracle);
    once(
        [NamedForecaster::Zero, NamedForecaster::LastValue]
            .into_iter()
            .chain(policies)
            .chain(networks)
            .chain([last]),
    )
}

/// The policies that decisions are compared of: the references and the forecasters, each once.
pub fn policies(forecasters: &[NamedPolicy]) -> Vec<NamedPolicy> {
    let references = [
        NamedPolicy::Reactive,
        NamedPolicy::StaticMax,
        CONSTANT,
        NamedPolicy::BestConstant,
        NamedPolicy::Ladder,
        NamedPolicy::Paper,
        NamedPolicy::Forecast(Method::MovingWindow, None),
    ];
    once(references.into_iter().chain(forecasters.iter().copied()).chain([NamedPolicy::Oracle]))
}

/// As simulate's.
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
