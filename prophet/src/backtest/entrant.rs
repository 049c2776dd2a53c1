//! Who is judged, and what each knows.

use std::fmt;

use crate::forecast::Method;
use crate::simulate::Contender;

/// Someone who is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entrant {
    /// Says that nothing is needed. Knows nothing.
    Zero,
    /// Says that nothing changes. Knows the present.
    LastValue,
    /// What forecasts for a policy.
    Policy(Contender),
}

impl fmt::Display for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::LastValue => f.write_str("last-value"),
            Self::Policy(contender) => contender.fmt(f),
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

/// The references and the forecasters, each once, the oracle last.
pub(super) fn lineup(forecasters: &[Contender]) -> Vec<Entrant> {
    let references =
        [Contender::StaticMax, CONSTANT, Contender::Ladder, Contender::Forecast(Method::MovingWindow, None)];
    let named = references.into_iter().chain(forecasters.iter().copied()).chain([Contender::Oracle]);
    let all = [Entrant::Zero, Entrant::LastValue].into_iter().chain(named.map(Entrant::Policy));
    once(all)
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
