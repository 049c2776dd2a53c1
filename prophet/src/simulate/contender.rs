//! The policies by name, and what each of them knows.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::Catalog;
use placeholders::{Objective, Policy};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::forecast::{Basis, Constant, Forecaster, LadderForecaster, LastValue, Method, Oracle, StaticMax};

/// A policy of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Contender {
    /// No placeholders: the autoscaler alone. Knows nothing.
    Reactive,
    /// As many nodes at all times as demand needed at most before `--from`. Knows the demand until then.
    StaticMax,
    /// So many placeholders of each bucket at all times. Knows nothing.
    Constant(u64),
    /// The smallest constant whose pending minutes are at most those of the default policy: found in hindsight.
    BestConstant,
    /// A step function of present demand. Knows the present.
    Ladder,
    /// The paper's rule, a point forecast of demand less present demand, with the last value as its forecast. Knows the
    /// present; equals `reactive`.
    Paper,
    /// A method, and what is asked of it: of the ensemble a share of launches to hide, of others a quantile; what the
    /// policy's objective says where nothing is given. Knows the past.
    Forecast(Method, Option<f64>),
    /// A quantile of what the arrivals around each moment would need, without those within the lead. Knows the future: a
    /// reference for what rates can tell.
    Rates(f64),
    /// The maximum of offered demand within the lead. Knows the future: a reference, not a bound.
    Oracle,
}

impl Contender {
    /// The policy that is compared with the references.
    pub const DEFAULT: Self = Self::Forecast(Method::Ensemble, None);

    /// No constant above this is held or looked for: no cluster keeps so many nodes idle.
    pub const CONSTANT_MAX: u64 = 1 << 14;

    /// The default policy among its references.
    pub fn defaults() -> Vec<Self> {
        let constant = Self::Constant(4);
        vec![
            Self::Reactive,
            Self::StaticMax,
            constant,
            Self::BestConstant,
            Self::Ladder,
            Self::Paper,
            Self::DEFAULT,
            Self::Oracle,
        ]
    }

    /// Whether it knows more than the past.
    pub fn knows_the_future(self) -> bool {
        matches!(self, Self::Rates(_) | Self::Oracle)
    }

    /// What forecasts for it, for decisions before and after `from`; `None` holds no placeholders, or has to be told the jobs of the
    /// log (`rates.rs`).
    pub(crate) fn forecaster(
        self,
        settings: &Settings,
        catalog: &Catalog,
        from: DateTime<Utc>,
    ) -> Option<Box<dyn Forecaster>> {
        match self {
            Self::Reactive | Self::BestConstant | Self::Rates(_) => None,
            Self::StaticMax => Some(Box::new(StaticMax::new(catalog.len(), from))),
            Self::Constant(n) => Some(Box::new(Constant(n))),
            Self::Ladder => Some(Box::new(LadderForecaster::new(settings.ladder.clone(), catalog))),
            Self::Paper => Some(Box::new(LastValue)),
            Self::Forecast(method, _) => {
                let basis = Basis {
                    catalog: catalog.clone(),
                    method,
                    ladder: settings.ladder.clone(),
                    lead: settings.lead(),
                    objective: self.policy(&settings.policy).objective,
                    network: settings.network(),
                };
                Some(basis.judged_since(from - JUDGED))
            }
            Self::Oracle => Some(Box::new(Oracle)),
        }
    }

    /// The policy that its decisions are made by: references hold what they say, whatever it costs.
    pub(crate) fn policy(self, policy: &Policy) -> Policy {
        match self {
            Self::Forecast(_, quantile) => {
                let objective = quantile.map_or(policy.objective, Objective::Quantile);
                Policy { objective, ..policy.clone() }
            }
            Self::Rates(quantile) => Policy { objective: Objective::Quantile(quantile), ..Policy::default() },
            _ => Policy { objective: policy.objective, ..Policy::default() },
        }
    }
}

/// Experts are judged by so much of what precedes the window: four of the half-lives by which the ensemble forgets.
const JUDGED: TimeDelta = TimeDelta::days(28);

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let quantile = |text: Option<&str>| match text {
            None => Some(None),
            Some(text) => text.parse().ok().filter(|q: &f64| *q > 0.0 && *q < 1.0).map(Some),
        };
        let contender = match (name, parameter) {
            ("reactive", None) => Some(Self::Reactive),
            ("static-max", None) => Some(Self::StaticMax),
            ("constant", Some(n)) => n.parse().ok().filter(|n| *n <= Self::CONSTANT_MAX).map(Self::Constant),
            ("best-constant", None) => Some(Self::BestConstant),
            ("ladder", None) => Some(Self::Ladder),
            ("paper" | "paper(last-value)", None) => Some(Self::Paper),
            ("rates", q @ Some(_)) => quantile(q).flatten().map(Self::Rates),
            ("oracle", None) => Some(Self::Oracle),
            (name, q) => {
                let points = Method::POINTS.into_iter().filter(|_| q.is_none());
                let mut methods = Method::QUANTILES.into_iter().chain(points);
                methods
                    .find(|method| method.name() == name)
                    .zip(quantile(q))
                    .map(|(method, q)| Self::Forecast(method, q))
            }
        };
        contender.ok_or_else(|| {
            format!(
                "unknown policy {text:?}: expected reactive, static-max, constant:N with N up to 16384, best-constant, ladder, paper, ensemble, scenario, scenario+arrivals, state, seasonal, increments, holt-winters, arima, mstl, onnx (these ten with :Q, between 0 and 1, or without), moving-window, autopilot-ml, rates:Q, or oracle"
            )
        })
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reactive => f.write_str("reactive"),
            Self::StaticMax => f.write_str("static-max"),
            Self::Constant(n) => write!(f, "constant:{n}"),
            Self::BestConstant => f.write_str("best-constant"),
            Self::Ladder => f.write_str("ladder"),
            Self::Paper => f.write_str("paper(last-value)"),
            Self::Forecast(method, quantile) => {
                f.write_str(method.name())?;
                quantile.iter().try_for_each(|q| write!(f, ":{q}"))
            }
            Self::Rates(quantile) => write!(f, "rates:{quantile}"),
            Self::Oracle => f.write_str("oracle"),
        }
    }
}

impl TryFrom<String> for Contender {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Contender> for String {
    fn from(contender: Contender) -> Self {
        contender.to_string()
    }
}
