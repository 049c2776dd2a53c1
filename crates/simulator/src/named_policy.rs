//! The policies by name, and the data that each of them reads.

use std::fmt;
use std::str::FromStr;

use base::input::instead_of;
use base::span::Span;
use demand::forecast::{Baseline, HEADROOM_MAX, Method};
use placeholders::{Objective, Policy};
use serde::{Deserialize, Serialize};

/// A policy of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NamedPolicy {
    /// No placeholders: the autoscaler alone. Reads no data.
    Reactive,
    /// The autoscaler alone, over groups with this number of stopped instances of each bucket in
    /// their warm pools. Reads no data.
    WarmPool(u64),
    /// The default policy over groups with warm pools. Placeholders cover what arrives until a
    /// stopped instance has started, and the pools what arrives until an instance is prepared. The
    /// pools have this number of instances of each bucket, or as many as pay off. Reads the past.
    Tiered(Option<u64>),
    /// At all times, as many nodes as the largest demand before `--from`. Reads the demand until
    /// then.
    StaticMax,
    /// This number of placeholders of each bucket at all times. Reads no data.
    Constant(u64),
    /// A number of placeholders for each bucket at all times. Reads no data.
    Constants(PerBucket),
    /// This number of placeholders of each bucket on average, and more of them in the hours of the
    /// day in which more nodes were newly needed so far. Reads the past.
    ByHour(u64),
    /// Half of the nodes that were newly needed within a period, up to a maximum. Reads the last
    /// minutes.
    Burst {
        /// How far back newly needed nodes count.
        period: Span,
        /// The largest number of placeholders of each bucket.
        most: Option<u64>,
    },
    /// The smallest constant whose pending minutes are at most those of the default policy. Found
    /// in hindsight, by a search over runs.
    BestConstant,
    /// A step function of present demand. Reads the present.
    Ladder,
    /// The paper's autoscaler: a point forecast of the counts of Algorithm 2, less the present
    /// counts. Reads the past.
    Paper(PaperForecast),
    /// A method and its level, in (0, 1). For the ensemble, the level is the share of pods to hide;
    /// for other methods, it is a quantile. Without a level, the policy's objective applies.
    /// Reads the past.
    Forecast(Method, Option<f64>),
    /// A method that no policy in a cluster can choose, and its quantile, in (0, 1). Reads the
    /// past.
    Baseline(Baseline, Option<f64>),
    /// A quantile of the new nodes that the arrivals around each moment would need, except the
    /// arrivals within the lead time. Reads the future. It is a reference for a forecast from
    /// arrival rates.
    Rates(f64),
    /// Like the oracle, but of the jobs of the lead time only those of some users are known. Reads
    /// the future. It is a reference for what the knowledge of sessions is worth.
    Jobs(KnownJobs),
    /// The default policy, whose forecasts also know which of the running jobs end within the lead
    /// time: their room counts as free. Reads the past, and the ends of running jobs. It is a
    /// reference for what run times are worth.
    Ends,
    /// The nodes that the jobs of the lead time will use and that are empty or missing now. Reads
    /// the future: submissions and the ends of jobs.
    Oracle,
}

/// A number of placeholders for each of the first buckets of the catalog, in its order: ascending
/// by accelerators, CPU and memory. Further buckets have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerBucket {
    counts: [u16; PerBucket::MAX],
    len: usize,
}

impl PerBucket {
    /// The most buckets that have a number.
    const MAX: usize = 12;

    /// The numbers, by bucket.
    pub fn counts(&self) -> Vec<u64> {
        self.counts[..self.len].iter().copied().map(u64::from).collect()
    }

    /// Parses numbers with slashes between them, such as `2/0/1`.
    fn parse(text: &str) -> Option<Self> {
        let mut all = Self::default();
        for part in text.split('/') {
            let count: u16 = part.parse().ok()?;
            *all.counts.get_mut(all.len)? = count;
            all.len += 1;
            if u64::from(count) > NamedPolicy::CONSTANT_MAX {
                return None;
            }
        }
        Some(all)
    }
}

/// The forecast of the policy `paper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperForecast {
    /// The Transformer, from an ONNX file.
    Transformer,
    /// The LSTM, from an ONNX file.
    Lstm,
    /// Exponential smoothing with a trend and a daily season.
    HoltWinters,
    /// The last value. With it, the policy holds no placeholders and equals `reactive`.
    LastValue,
}

impl PaperForecast {
    const ALL: [Self; 4] = [Self::Transformer, Self::Lstm, Self::HoltWinters, Self::LastValue];

    /// The name, as in `paper(NAME)`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Lstm => "lstm",
            Self::HoltWinters => "holt-winters",
            Self::LastValue => "last-value",
        }
    }

    /// Parses `paper`, which is `paper(transformer)`, or `paper(NAME)`.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("paper")?;
        if rest.is_empty() {
            return Some(Self::Transformer);
        }
        let name = rest.strip_prefix('(')?.strip_suffix(')')?;
        Self::ALL.into_iter().find(|forecast| forecast.name() == name)
    }
}

/// The jobs of the lead time that a reference knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownJobs {
    /// The jobs of the users who submitted a job within the last ten minutes.
    Active,
    /// The jobs of all other users, and those without a user.
    Others,
}

impl NamedPolicy {
    /// The policy that is compared with the references.
    pub const DEFAULT: Self = Self::Forecast(Method::Ensemble, None);

    /// The policy that evaluates the expression of the settings.
    pub const EXPRESSION: Self = Self::Forecast(Method::Expression, None);

    /// The largest constant, in placeholders per bucket.
    pub const CONSTANT_MAX: u64 = HEADROOM_MAX;

    /// How much computing time a run takes, from 0 to 2. Only the order of the values has a
    /// meaning.
    pub fn effort(self) -> u8 {
        match self {
            Self::Forecast(Method::Ensemble | Method::Expression | Method::Onnx, _)
            | Self::Ends
            | Self::Tiered(_)
            | Self::Paper(PaperForecast::Transformer | PaperForecast::Lstm) => 2,
            Self::Forecast(..)
            | Self::Baseline(..)
            | Self::Paper(PaperForecast::HoltWinters)
            | Self::Rates(_)
            | Self::Jobs(_)
            | Self::Oracle => 1,
            _ => 0,
        }
    }

    /// Whether decisions depend on earlier ticks, so that the policy observes the warm-up.
    pub(super) fn learns(self) -> bool {
        !matches!(
            self,
            Self::Reactive
                | Self::WarmPool(_)
                | Self::Constant(_)
                | Self::Constants(_)
                | Self::Ladder
                | Self::Paper(PaperForecast::LastValue)
                | Self::Rates(_)
                | Self::Jobs(_)
                | Self::Oracle
        )
    }

    /// Whether the policy reads the counts of the pods that run or are pending.
    pub(super) fn counts_pods(self) -> bool {
        matches!(self, Self::Paper(of) if of != PaperForecast::LastValue)
    }

    /// The default policy and its references. The networks of `paper` take minutes, so `paper` is
    /// not one of them.
    pub fn defaults() -> Vec<Self> {
        let constant = Self::Constant(4);
        vec![
            Self::Reactive,
            Self::StaticMax,
            constant,
            Self::BestConstant,
            Self::Burst { period: Span::seconds(600), most: Some(4) },
            Self::Ladder,
            Self::DEFAULT,
            Self::Oracle,
        ]
    }

    /// Whether the policy reads data of the future.
    pub(crate) fn knows_the_future(self) -> bool {
        matches!(self, Self::Rates(_) | Self::Jobs(_) | Self::Ends | Self::Oracle)
    }

    /// Returns the policy for `decide`. References get no limits, no spend cap and no behavior, so
    /// they hold exactly their own number of placeholders.
    pub fn policy(self, policy: &Policy) -> Policy {
        match self {
            Self::Forecast(_, quantile) | Self::Baseline(_, quantile) => {
                let objective = quantile.map_or(policy.objective, Objective::Quantile);
                Policy { objective, ..policy.clone() }
            }
            Self::Ends | Self::Tiered(_) => Self::DEFAULT.policy(policy),
            Self::Rates(quantile) => {
                Policy { objective: Objective::Quantile(quantile), ..Policy::default() }
            }
            _ => Policy { objective: policy.objective, ..Policy::default() },
        }
    }
}

impl FromStr for NamedPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) =
            text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let quantile = |text: Option<&str>| match text {
            None => Some(None),
            Some(text) => text.parse().ok().filter(|q: &f64| *q > 0.0 && *q < 1.0).map(Some),
        };
        let named_policy = match (name, parameter) {
            ("reactive", None) => Some(Self::Reactive),
            ("static-max", None) => Some(Self::StaticMax),
            ("warm-pool", Some(n)) => {
                n.parse().ok().filter(|n| *n <= Self::CONSTANT_MAX).map(Self::WarmPool)
            }
            ("ensemble+warm-pool", None) => Some(Self::Tiered(None)),
            ("ensemble+warm-pool", Some(n)) => {
                n.parse().ok().filter(|n| *n <= Self::CONSTANT_MAX).map(|n| Self::Tiered(Some(n)))
            }
            ("constant", Some(n)) => {
                n.parse().ok().filter(|n| *n <= Self::CONSTANT_MAX).map(Self::Constant)
            }
            ("constants", Some(counts)) => PerBucket::parse(counts).map(Self::Constants),
            ("by-hour", Some(n)) => {
                n.parse().ok().filter(|n| *n <= Self::CONSTANT_MAX).map(Self::ByHour)
            }
            ("burst", Some(text)) => {
                let (period, most) = text
                    .split_once(':')
                    .map_or((text, None), |(period, most)| (period, Some(most)));
                let most = most.map(str::parse).transpose().ok();
                period.parse().ok().zip(most).map(|(period, most)| Self::Burst { period, most })
            }
            ("best-constant", None) => Some(Self::BestConstant),
            ("ladder", None) => Some(Self::Ladder),
            ("expression", None) => Some(Self::EXPRESSION),
            (name, None) if name.starts_with("paper") => {
                PaperForecast::parse(name).map(Self::Paper)
            }
            ("rates", q @ Some(_)) => quantile(q).flatten().map(Self::Rates),
            ("jobs", Some("active")) => Some(Self::Jobs(KnownJobs::Active)),
            ("jobs", Some("others")) => Some(Self::Jobs(KnownJobs::Others)),
            ("ends", None) => Some(Self::Ends),
            ("oracle", None) => Some(Self::Oracle),
            (name, q) => quantile(q).and_then(|q| {
                let method = Method::QUANTILES.into_iter().find(|method| method.name() == name);
                let baseline = Baseline::ALL.into_iter().find(|baseline| baseline.name() == name);
                let baseline = baseline.filter(|baseline| q.is_none() || baseline.has_quantiles());
                let method = method.map(|method| Self::Forecast(method, q));
                method.or_else(|| baseline.map(|baseline| Self::Baseline(baseline, q)))
            }),
        };
        named_policy.ok_or_else(|| not_a_policy(text))
    }
}

/// The forms of the policies that have no parameter, or another one than a quantile.
const FORMS: [(&str, &str); 17] = [
    ("reactive", "reactive"),
    ("static-max", "static-max"),
    ("constant", "constant:N with a whole number N from 0 to 16384"),
    ("constants", "constants:N/N with a whole number from 0 to 16384 for up to 12 instance types"),
    ("by-hour", "by-hour:N with a whole number N from 0 to 16384"),
    ("burst", "burst:PERIOD or burst:PERIOD:MAXIMUM, such as burst:10m:4"),
    ("best-constant", "best-constant"),
    ("warm-pool", "warm-pool:N with a whole number N from 0 to 16384"),
    ("ladder", "ladder"),
    ("expression", "expression without a parameter: the expression is a setting of its own"),
    ("paper", "paper, paper(lstm), paper(holt-winters) or paper(last-value)"),
    ("rates", "rates:Q with Q between 0 and 1"),
    ("jobs", "jobs:active or jobs:others"),
    ("ends", "ends"),
    ("oracle", "oracle"),
    ("ensemble", "ensemble or ensemble:S with S between 0 and 1"),
    (
        "ensemble+warm-pool",
        "ensemble+warm-pool or ensemble+warm-pool:N with a whole number N from 0 to 16384",
    ),
];

/// The error of a text that is not a policy: the forms of the policy whose name it has, a policy
/// with a similar name, or the names of all.
fn not_a_policy(text: &str) -> String {
    let name = text.split([':', '(']).next().unwrap_or(text);
    if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) {
        return format!("expected {form}, got {text:?}");
    }
    let baselines = |have: bool| {
        let baselines = Baseline::ALL.into_iter();
        baselines.filter(move |baseline| baseline.has_quantiles() == have).map(Baseline::name)
    };
    let quantiles = || Method::QUANTILES.into_iter().map(Method::name).chain(baselines(true));
    let points = || baselines(false);
    if quantiles().any(|known| known == name) {
        return format!("expected {name} or {name}:Q with Q between 0 and 1, got {text:?}");
    }
    if points().any(|known| known == name) {
        return format!("expected {name} without a parameter, got {text:?}");
    }
    let mut names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
    names.extend(quantiles().filter(|name| !FORMS.iter().any(|(known, _)| known == name)));
    names.extend(points());
    format!("unknown policy {text:?}: {}", instead_of(name, &names))
}

impl fmt::Display for NamedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reactive => f.write_str("reactive"),
            Self::WarmPool(n) => write!(f, "warm-pool:{n}"),
            Self::Tiered(None) => f.write_str("ensemble+warm-pool"),
            Self::Tiered(Some(n)) => write!(f, "ensemble+warm-pool:{n}"),
            Self::StaticMax => f.write_str("static-max"),
            Self::Constant(n) => write!(f, "constant:{n}"),
            Self::Constants(counts) => {
                let counts: Vec<String> = counts.counts().iter().map(u64::to_string).collect();
                write!(f, "constants:{}", counts.join("/"))
            }
            Self::ByHour(n) => write!(f, "by-hour:{n}"),
            Self::Burst { period, most } => {
                write!(f, "burst:{period}")?;
                most.iter().try_for_each(|most| write!(f, ":{most}"))
            }
            Self::BestConstant => f.write_str("best-constant"),
            Self::Ladder => f.write_str("ladder"),
            Self::Paper(forecast) => write!(f, "paper({})", forecast.name()),
            Self::Forecast(method, quantile) => with_quantile(f, method.name(), *quantile),
            Self::Baseline(baseline, quantile) => with_quantile(f, baseline.name(), *quantile),
            Self::Rates(quantile) => write!(f, "rates:{quantile}"),
            Self::Jobs(KnownJobs::Active) => f.write_str("jobs:active"),
            Self::Jobs(KnownJobs::Others) => f.write_str("jobs:others"),
            Self::Ends => f.write_str("ends"),
            Self::Oracle => f.write_str("oracle"),
        }
    }
}

fn with_quantile(f: &mut fmt::Formatter<'_>, name: &str, quantile: Option<f64>) -> fmt::Result {
    f.write_str(name)?;
    quantile.iter().try_for_each(|quantile| write!(f, ":{quantile}"))
}

impl TryFrom<String> for NamedPolicy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<NamedPolicy> for String {
    fn from(named_policy: NamedPolicy) -> Self {
        named_policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_shown() {
        let texts = [
            "reactive",
            "warm-pool:4",
            "ensemble+warm-pool",
            "ensemble+warm-pool:4",
            "constant:4",
            "constants:2/0/16384",
            "by-hour:2",
            "burst:10m",
            "burst:10m:4",
            "paper(lstm)",
            "ensemble",
            "ensemble:0.9",
            "scenario+arrivals:0.5",
            "moving-window",
            "rates:0.9",
            "jobs:active",
            "ends",
            "expression",
            "oracle",
        ];
        for text in texts {
            let policy: NamedPolicy = text.parse().expect(text);
            assert_eq!(policy.to_string(), text);
        }
    }

    #[test]
    fn errors_have_the_form_of_the_named_policy_or_a_similar_name() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<NamedPolicy>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("constant:-3", "constant:N with a whole number N from 0 to 16384, got");
        check("constant", "expected constant:N");
        let limit = format!("from 0 to {}, got", NamedPolicy::CONSTANT_MAX);
        check("constant:16385", &limit);
        check("by-hour:16385", &limit);
        check("constants:1/-1", "expected constants:N/N with a whole number");
        check("constants:16385", "expected constants:N/N with a whole number");
        check("constants:1/1/1/1/1/1/1/1/1/1/1/1/1", "for up to 12 instance types");
        check("burst:soon", "such as burst:10m:4, got");
        check("paper(gru)", "expected paper, paper(lstm), paper(holt-winters)");
        check("ensemble:90", "ensemble:S with S between 0 and 1, got");
        check("seasonal:2", "expected seasonal or seasonal:Q with Q between 0 and 1, got");
        check("moving-window:0.5", "expected moving-window without a parameter");
        check("ensembl", "unknown policy \"ensembl\": did you mean ensemble?");
        check("best_constant", "did you mean best-constant?");
        check("scenari:0.9", "did you mean scenario?");
        check("magic", "unknown policy \"magic\": expected reactive, static-max, constant,");
    }
}
