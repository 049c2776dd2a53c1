//! Who is judged, and what each knows.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::forecast::Method;
use crate::simulate::Contender;

/// Someone who is judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Entrant {
    /// Says that nothing is needed. Knows nothing.
    Zero,
    /// Says that nothing changes. Knows the present.
    LastValue,
    /// What forecasts for a policy.
    Policy(Contender),
    /// A network beside the one that policies hear.
    Network(NamedNetwork),
}

/// A network to be judged under a name of its own: `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedNetwork {
    /// No other entrant has it.
    pub name: String,
    /// An ONNX file that keeps the contract.
    pub file: String,
}

impl FromStr for NamedNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
        if name.is_empty() || file.is_empty() {
            return Err("expected NAME=FILE".into());
        }
        if name.parse::<Contender>().is_ok() || ["zero", "last-value"].contains(&name) {
            return Err(format!("{name} is the name of a policy: give the network another"));
        }
        Ok(Self { name: name.into(), file: file.into() })
    }
}

impl fmt::Display for Entrant {
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
pub(super) const ENSEMBLE: Entrant = Entrant::Policy(Contender::Forecast(Method::Ensemble, None));

/// Those that the ensemble's demand ahead is blended of.
pub(super) const BLENDED: [Entrant; 9] = [
    Entrant::LastValue,
    Entrant::Policy(Contender::Forecast(Method::Increments, None)),
    Entrant::Policy(Contender::Forecast(Method::Seasonal, None)),
    Entrant::Policy(Contender::Forecast(Method::State, None)),
    Entrant::Policy(Contender::Forecast(Method::Scenario, None)),
    Entrant::Policy(Contender::Forecast(Method::ScenarioArrivals, None)),
    Entrant::Policy(Contender::Forecast(Method::HoltWinters, None)),
    Entrant::Policy(Contender::Forecast(Method::Arima, None)),
    Entrant::Policy(Contender::Forecast(Method::Onnx, None)),
];

/// What is judged where no forecasters are named: all methods of the past.
pub fn default_forecasters() -> Vec<Contender> {
    let methods = Method::QUANTILES.into_iter().chain(Method::POINTS);
    methods.filter(|method| *method != Method::MovingWindow).map(|m| Contender::Forecast(m, None)).collect()
}

/// The references, the forecasters and the networks, each once, the oracle last.
pub(super) fn lineup(forecasters: &[Contender], networks: &[NamedNetwork]) -> Vec<Entrant> {
    let references =
        [Contender::StaticMax, CONSTANT, Contender::Ladder, Contender::Forecast(Method::MovingWindow, None)];
    let policies = references.into_iter().chain(forecasters.iter().copied()).map(Entrant::Policy);
    let networks = networks.iter().cloned().map(Entrant::Network);
    let last = Entrant::Policy(Contender::Oracle);
    once([Entrant::Zero, Entrant::LastValue].into_iter().chain(policies).chain(networks).chain([last]))
}

/// The policies that decisions are compared of: the references and the forecasters, each once.
pub fn policies(forecasters: &[Contender]) -> Vec<Contender> {
    let references = [
        Contender::Reactive,
        Contender::StaticMax,
        CONSTANT,
        Contender::BestConstant,
        Contender::Ladder,
        Contender::Paper,
        Contender::Forecast(Method::MovingWindow, None),
    ];
    once(references.into_iter().chain(forecasters.iter().copied()).chain([Contender::Oracle]))
}

/// As simulate's.
const CONSTANT: Contender = Contender::Constant(4);

fn once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}
