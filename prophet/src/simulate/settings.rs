//! Every option of a run. The same object, given as a file, repeats it.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use embedder::Catalog;
use placeholders::Policy;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use crate::catalog::CatalogFile;
use crate::forecast::onnx::Source;
use crate::forecast::{Ladder, Lead};
use crate::span::Span;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The log; a synthetic one when absent.
    pub trace: Option<String>,
    /// Whether bad lines of the log are passed over.
    pub lenient: bool,
    /// Jobs submitted from here on count; what precedes warms up.
    pub from: Option<Moment>,
    /// Jobs submitted before this count.
    pub until: Option<Moment>,
    /// The instance types; chosen to suit the log when absent.
    pub catalog: Option<CatalogFile>,
    /// The policies to compare.
    pub policies: Vec<Contender>,
    /// What the policies that forecast aim for, and what holds them back.
    pub policy: Policy,
    /// The steps of `ladder`.
    pub ladder: Ladder,
    /// The network of `onnx` and of `ensemble`, a file; the one that is shipped when absent.
    pub model: Option<String>,
    /// Time between decisions where demand does not change.
    pub tick: Span,
    /// Time between two scans of the autoscaler.
    pub scan: Span,
    /// From the request of a node to its readiness.
    pub launch_latency: LaunchLatency,
    /// The share of launches that fail, in [0, 1).
    pub launch_failure_share: f64,
    /// How the scheduler chooses nodes.
    pub scheduler: SchedulerKind,
    /// How pods of one job are placed.
    pub gang: GangMode,
    /// How long after a scale-up no node is removed.
    pub scale_down_delay_after_add: Span,
    /// How long a node must be unneeded before it is removed.
    pub scale_down_unneeded_time: Span,
    /// How often the run is repeated with moved submissions.
    pub replays: u32,
    /// How far submissions are moved, either way, where there is more than one replay.
    pub jitter: Span,
    /// What all randomness derives from.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            trace: None,
            lenient: false,
            from: None,
            until: None,
            catalog: None,
            policies: Contender::defaults(),
            policy: Policy::default(),
            ladder: Ladder::default(),
            model: None,
            tick: Span::seconds(60),
            scan: Span::seconds(10),
            launch_latency: LaunchLatency::Constant(Span::seconds(300)),
            launch_failure_share: 0.0,
            scheduler: SchedulerKind::Pack,
            gang: GangMode::Whole,
            scale_down_delay_after_add: Span::seconds(600),
            scale_down_unneeded_time: Span::seconds(600),
            replays: 1,
            jitter: Span::seconds(30),
            seed: 1,
        }
    }
}

/// Why settings make no sense.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not the fields that settings have; the message names line and column.
    #[error("{0}")]
    Parse(String),
    /// Values that make no sense, each with its field path.
    #[error("{}", .0.join("; "))]
    Faults(Vec<String>),
}

impl Settings {
    /// Parses YAML or JSON.
    ///
    /// # Errors
    /// A syntax error, an unknown field, or a value of the wrong type, with its line.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        serde_saphyr::from_str(text).map_err(|error| SettingsError::Parse(error.to_string()))
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// All values that make no sense, each with its field path.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut faults: Vec<String> =
            self.policy.faults().into_iter().map(|fault| format!("policy.{fault}")).collect();
        for (name, span, least) in [("tick", self.tick, 1), ("scan", self.scan, 1)] {
            if span.as_seconds() < least {
                faults.push(format!("{name}: must be at least {least}s, got {span}"));
            }
        }
        if !(0.0..1.0).contains(&self.launch_failure_share) {
            faults.push(format!("launch_failure_share: {} is not in [0, 1)", self.launch_failure_share));
        }
        if self.lead().ticks() > LEAD_TICKS_MAX {
            faults.push(format!("tick: {} is too short for launches of {}", self.tick, self.launch_latency));
        }
        let steps = self.ladder.nodes_to_replicas.iter().chain(&self.ladder.cores_to_replicas);
        if let Some((_, replicas)) =
            steps.into_iter().find(|(_, replicas)| *replicas > Contender::CONSTANT_MAX)
        {
            faults.push(format!("ladder: {replicas} placeholders are above {}", Contender::CONSTANT_MAX));
        }
        if !(1..=REPLAYS_MAX).contains(&self.replays) {
            faults.push(format!("replays: {} is not in 1 to {REPLAYS_MAX}", self.replays));
        }
        if self.policies.is_empty() {
            faults.push("policies: name at least one".into());
        }
        if faults.is_empty() { Ok(()) } else { Err(SettingsError::Faults(faults)) }
    }

    /// Checks that what names buckets names those of a catalog.
    ///
    /// # Errors
    /// All names that are not in it.
    pub fn check_names(&self, catalog: &Catalog) -> Result<(), SettingsError> {
        let known = |name: &&String| catalog.buckets().iter().any(|bucket| bucket.name == **name);
        let unknown = self.policy.limits.buckets.keys().filter(|name| !known(name));
        let faults: Vec<String> = unknown
            .map(|name| format!("policy.limits.buckets.{name}: no instance type has this name"))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(SettingsError::Faults(faults)) }
    }

    /// The window that forecasts look over: from a decision until a node ordered at the next one is ready.
    pub fn lead(&self) -> Lead {
        let seconds = self.launch_latency.typical() + self.tick.as_seconds() + self.scan.as_seconds();
        Lead { seconds, tick_seconds: self.tick.as_seconds() }
    }

    /// The network that is heard.
    pub fn network(&self) -> Source {
        self.model.as_ref().map_or(Source::Pretrained, |path| Source::File(path.into()))
    }
}

/// A lead of more ticks than this would outgrow what histories keep.
const LEAD_TICKS_MAX: usize = 1_000;

/// Results of more replays than this would only fill memory.
const REPLAYS_MAX: u32 = 1_000;

/// How the scheduler chooses among nodes that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The node with the least free room that fits, accelerators first.
    Pack,
    /// The node with the smallest share in use (Kubernetes' default, `LeastAllocated`).
    Spread,
}

/// How pods of one job are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GangMode {
    /// All at once or not at all; none holds room while it waits.
    Whole,
    /// One by one, each as soon as it fits, as the plain scheduler does.
    PodByPod,
}

/// From the request of a node to its readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LaunchLatency {
    /// Always the same.
    Constant(Span),
    /// Log-normal, by its median and its 95th percentile.
    LogNormal {
        /// Half of launches are faster.
        median: Span,
        /// One in twenty is slower.
        p95: Span,
    },
}

impl LaunchLatency {
    /// The median, in seconds.
    pub fn typical(self) -> i64 {
        match self {
            Self::Constant(span) | Self::LogNormal { median: span, .. } => span.as_seconds(),
        }
    }
}

impl FromStr for LaunchLatency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(parameters) = text.strip_prefix("lognormal:") else {
            return text.parse().map(Self::Constant);
        };
        let expected = || format!("expected lognormal:MEDIAN:P95 such as lognormal:4m:9m, got {text:?}");
        let (median, p95) = parameters.split_once(':').ok_or_else(expected)?;
        let (median, p95): (Span, Span) = (median.parse()?, p95.parse()?);
        if median.as_seconds() == 0 || p95 < median {
            return Err(format!(
                "the 95th percentile must not be below the median, nor the median 0, in {text:?}"
            ));
        }
        Ok(Self::LogNormal { median, p95 })
    }
}

impl TryFrom<String> for LaunchLatency {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LaunchLatency> for String {
    fn from(latency: LaunchLatency) -> Self {
        latency.to_string()
    }
}

impl fmt::Display for LaunchLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => span.fmt(f),
            Self::LogNormal { median, p95 } => write!(f, "lognormal:{median}:{p95}"),
        }
    }
}

/// A date, a date-time, or an offset from the first submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment {
    text: String,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Time(i64),
    Offset(i64),
}

impl Moment {
    /// In seconds of a log whose first job was submitted at `first`.
    pub fn seconds(&self, first: i64) -> i64 {
        match self.at {
            At::Time(time) => time,
            At::Offset(seconds) => first.saturating_add(seconds),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date =
            || text.parse::<NaiveDate>().ok().and_then(|date| date.and_hms_opt(0, 0, 0)).map(|t| t.and_utc());
        let time = || {
            let formats = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
            formats
                .iter()
                .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
                .map(|t| t.and_utc())
        };
        let zoned = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
        let at = match zoned().or_else(date).or_else(time) {
            Some(time) => At::Time(time.timestamp()),
            None => At::Offset(text.parse::<Span>().map(Span::as_seconds).map_err(|_| {
                format!("expected a date (2017-11-06), a time (2017-11-06T12:00:00) or an offset from the first job (8d), got {text:?}")
            })?),
        };
        Ok(Self { text: text.into(), at })
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.text
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_repeat_themselves() {
        let settings = Settings { from: Some("8d".parse().unwrap()), ..Settings::default() };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(Settings::parse(&text).unwrap(), settings);
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Settings::parse(text).and_then(|settings| settings.check()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected:?} is not in: {error}");
    }

    #[test]
    fn faults_name_the_field() {
        check("tik: 1m\n", "tik");
        check("tick: 0s\n", "tick: must be at least 1s");
        check("scheduler: best\n", "best");
        check("launch_latency: lognormal:9m:4m\n", "must not be below the median");
        check("policy: {objective: {quantile: 1.5}}\n", "policy.objective.quantile: 1.5");
        check("replays: 0\n", "replays: 0");
        check("policies: [increments:2]\n", "increments:2");
    }

    #[test]
    fn moments_are_dates_times_or_offsets() {
        let seconds = |text: &str| text.parse::<Moment>().map(|moment| moment.seconds(1_000));
        assert_eq!(seconds("1970-01-02"), Ok(86_400));
        assert_eq!(seconds("1970-01-01T00:01:00"), Ok(60));
        assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Ok(0));
        assert_eq!(seconds("8d"), Ok(1_000 + 8 * 86_400));
        assert!(seconds("yesterday").is_err());
    }
}
