//! Every option of a run. The same object, passed as a file, repeats the run.

use std::fmt;
use std::str::FromStr;

use base::days::DAY_SECONDS;
use base::input;
use base::input::YamlError;
use base::span::Span;
use base::tier::Tiers;
use chrono::{DateTime, NaiveDate, NaiveDateTime};
use demand::forecast::onnx::ModelSource;
use demand::forecast::{Expression, Ladder, Lead};
use embedder::{CapacityType, Catalog};
use instances::CatalogFile;
use placeholders::Policy;
use serde::{Deserialize, Serialize};

use super::announcements::Announcements;
use super::named_policy::{NamedPolicy, PaperForecast};
use super::spot::{Interruptions, SpotFor};
use crate::replay::SchedulerKind;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SimulationSettings {
    /// The path of the log. When absent, the example log is read.
    pub trace: Option<String>,
    /// The mapping of the log's columns to the parts of a job, such as
    /// `submit=Submit,runtime=Elapsed,cpu=NCPUS:cores`. When absent, the content of the log
    /// determines its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// The location of a history whose finished pods are replayed instead of a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The policy of this history, as NAMESPACE.NAME. When absent, the history has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_policy: Option<String>,
    /// Whether malformed lines of the log are skipped.
    pub lenient: bool,
    /// The start of the window. Jobs submitted from here on count; earlier jobs warm up the state.
    pub from: Option<TimePoint>,
    /// The end of the window, exclusive. Jobs submitted from here on do not count.
    pub until: Option<TimePoint>,
    /// The instance types. When absent, types are chosen that fit the log.
    pub catalog: Option<CatalogFile>,
    /// Whether the instance types were chosen for the log. No file has this option.
    #[serde(skip)]
    pub types_are_chosen: bool,
    /// The policies to compare.
    pub policies: Vec<NamedPolicy>,
    /// The objective, limits, spend cap and behavior of the policies that forecast.
    pub policy: Policy,
    /// The steps of `ladder`.
    pub ladder: Ladder,
    /// The expression of the policy `expression`, in CEL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<Expression>,
    /// The path of the ONNX model that `onnx` and `ensemble` use. When absent, `onnx` uses the
    /// shipped model, and `ensemble` uses none.
    pub model: Option<String>,
    /// The path of the ONNX model that `paper` uses. When absent, the shipped Transformer is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transformer: Option<String>,
    /// The path of the ONNX model that `paper(lstm)` uses. When absent, the shipped LSTM is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lstm: Option<String>,
    /// The source of the model that the methods use in place of `model`. No file has this option:
    /// the acceptance of a model compares with an ensemble without one, and the model of a
    /// controller may be in no file.
    #[serde(skip)]
    pub model_in_use: Option<ModelSource>,
    /// Whether the ladder holds until the history suffices, as under a policy of a cluster that has
    /// steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ladder_first: bool,
    /// The time between two decisions while demand does not change.
    pub tick: Span,
    /// The time between two scans of the autoscaler.
    pub scan: Span,
    /// The time from the request of a node to its readiness.
    pub launch_latency: LaunchLatency,
    /// The share of launches that fail, in [0, 1).
    pub launch_failure_share: f64,
    /// The time from the start of a stopped instance of a warm pool to its readiness.
    pub warm_start: Span,
    /// The price of a stopped instance of a warm pool, as a share of the price of a running one, in
    /// [0, 1]: its disk.
    pub warm_share: f64,
    /// The most instances in the warm pools whose sizes are decided. No limit when absent.
    pub warm_max: Option<u64>,
    /// The jobs that are announced before they are submitted.
    #[serde(skip_serializing_if = "Announcements::are_none")]
    pub announced: Announcements,
    /// The jobs that tolerate interruption, so that spot buckets admit them.
    pub spot_for: SpotFor,
    /// How often spot instances are interrupted.
    #[serde(skip_serializing_if = "Interruptions::are_none")]
    pub interruptions: Interruptions,
    /// The tiers of the jobs, by the priorities of the log.
    #[serde(skip_serializing_if = "Tiers::is_empty")]
    pub tiers: Tiers,
    /// How the scheduler chooses nodes.
    pub scheduler: SchedulerKind,
    /// How the pods of one job are placed.
    pub gang: GangMode,
    /// How the headroom for gangs is dealt to groups.
    pub gang_headroom: GangHeadroom,
    /// How long after any scale-up no node is removed.
    pub scale_down_delay_after_add: Span,
    /// How long a node must be unneeded before it is removed.
    pub scale_down_unneeded_time: Span,
    /// How many times the run is repeated with jittered submissions.
    pub replays: u32,
    /// The largest shift of a submission, earlier or later, from the first decision on. It applies
    /// when there is more than one replay.
    pub jitter: Span,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            trace: None,
            data: None,
            data_policy: None,
            columns: None,
            lenient: false,
            from: None,
            until: None,
            catalog: None,
            types_are_chosen: false,
            policies: NamedPolicy::defaults(),
            policy: Policy::default(),
            ladder: Ladder::default(),
            expression: None,
            model: None,
            transformer: None,
            lstm: None,
            model_in_use: None,
            ladder_first: false,
            tick: Span::seconds(60),
            scan: Span::seconds(10),
            launch_latency: LaunchLatency::Constant(Span::seconds(300)),
            launch_failure_share: 0.0,
            warm_start: Span::seconds(75),
            warm_share: control::WARM_SHARE,
            warm_max: None,
            announced: Announcements::default(),
            spot_for: SpotFor::None,
            interruptions: Interruptions::default(),
            tiers: Tiers::default(),
            scheduler: SchedulerKind::Pack,
            gang: GangMode::Whole,
            gang_headroom: GangHeadroom::OneGroup,
            scale_down_delay_after_add: Span::seconds(600),
            scale_down_unneeded_time: Span::seconds(600),
            replays: 1,
            jitter: Span::seconds(30),
            seed: 1,
        }
    }
}

/// Why the settings of a simulation are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SimulationSettingsError {
    /// The text is not a valid settings object.
    #[error(transparent)]
    Parse(#[from] YamlError),
    /// Values are out of range or unknown; one message for each, with its field path.
    #[error("{}", .0.join("; "))]
    Faults(Vec<String>),
}

impl SimulationSettings {
    /// Parses YAML or JSON, and checks that all values are in range. `file` stands for the file in
    /// errors.
    ///
    /// # Errors
    /// The text has a syntax error, an unknown field, or a value of the wrong type or out of range.
    /// The error contains the line.
    pub fn parse(text: &str, file: &str) -> Result<Self, SimulationSettingsError> {
        let parsed = input::parse::<Self>(text, file).map_err(|error| {
            let is_report = ["trace", "settings"].iter().all(|field| input::has_field(text, field));
            if is_report {
                let problem = "expected settings, but this is a report of prophet simulate or prophet backtest: give settings.json of --out, or the field settings of the report";
                YamlError::new(file, None, "", problem.into())
            } else {
                error
            }
        })?;
        let place = |(field, problem): (String, String)| {
            YamlError::new(file, input::line_of(text, &field), &field, problem).to_string()
        };
        let faults: Vec<String> = parsed.faults().into_iter().map(place).collect();
        if faults.is_empty() { Ok(parsed) } else { Err(SimulationSettingsError::Faults(faults)) }
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns all values that are out of range, each with its field path.
    pub fn check(&self) -> Result<(), SimulationSettingsError> {
        let faults = self.faults().into_iter();
        let faults: Vec<String> =
            faults.map(|(field, problem)| format!("{field}: {problem}")).collect();
        if faults.is_empty() { Ok(()) } else { Err(SimulationSettingsError::Faults(faults)) }
    }

    /// The values that are out of range: their field paths and problems.
    fn faults(&self) -> Vec<(String, String)> {
        let of_policy = self.policy.faults().into_iter();
        let mut faults: Vec<(String, String)> =
            of_policy.map(|fault| (format!("policy.{}", fault.field), fault.problem)).collect();
        let mut fault = |field: &str, problem: String| faults.push((field.into(), problem));
        let spans = [
            ("tick", self.tick, 1, SPAN_SECONDS_MAX),
            ("scan", self.scan, 1, SPAN_SECONDS_MAX),
            ("warmStart", self.warm_start, 1, SPAN_SECONDS_MAX),
            ("jitter", self.jitter, 0, SPAN_SECONDS_MAX),
        ];
        if let Some(Err(problem)) = self.columns.as_deref().map(str::parse::<traces::Mapping>) {
            fault("columns", problem.to_string());
        }
        for (name, span, least, most) in spans {
            if !(least..=most).contains(&span.as_seconds()) {
                fault(name, format!("{span} is not in {least}s to 1d"));
            }
        }
        if self.launch_latency.typical() > SPAN_SECONDS_MAX {
            fault("launchLatency", format!("{} is above 1d", self.launch_latency));
        } else if self.lead().ticks() > LEAD_TICKS_MAX {
            let problem =
                format!("{} is too short for launches of {}", self.tick, self.launch_latency);
            fault("tick", problem);
        }
        if !(0.0..1.0).contains(&self.launch_failure_share) {
            fault("launchFailureShare", format!("{} is not in [0, 1)", self.launch_failure_share));
        }
        if !(0.0..=1.0).contains(&self.warm_share) {
            fault("warmShare", format!("{} is not in 0 to 1", self.warm_share));
        }
        for (field, problem) in self.interruptions.faults().chain(self.announced.faults()) {
            fault(&field, problem);
        }
        for ((at, name), problem) in self.tiers.faults() {
            fault(&format!("tiers[{at}].{name}"), problem);
        }
        let steps = self.ladder.nodes_to_replicas.iter().chain(&self.ladder.cores_to_replicas);
        let most = NamedPolicy::CONSTANT_MAX;
        if let Some((_, replicas)) = steps.into_iter().find(|(_, replicas)| *replicas > most) {
            fault("ladder", format!("{replicas} placeholders are above {most}"));
        }
        if !(1..=REPLAYS_MAX).contains(&self.replays) {
            fault("replays", format!("{} is not in 1 to {REPLAYS_MAX}", self.replays));
        }
        if self.policies.is_empty() {
            fault("policies", "name at least one".into());
        }
        if self.policies.contains(&NamedPolicy::EXPRESSION) && self.expression.is_none() {
            let example = "forecast + 1";
            fault("expression", format!("the policy expression needs one, such as {example:?}"));
        }
        if let Some(Err(invalid)) = self.catalog.as_ref().map(CatalogFile::catalog) {
            let (field, problem) = invalid.field_and_problem();
            fault(&format!("catalog.{field}"), problem);
        }
        faults
    }

    /// Checks that all bucket names in the settings exist in a catalog.
    ///
    /// # Errors
    /// Returns all names that the catalog does not contain.
    pub fn check_names(&self, catalog: &Catalog) -> Result<(), SimulationSettingsError> {
        let known = |name: &&String| catalog.buckets().iter().any(|bucket| bucket.name == **name);
        let unknown = self.policy.limits.buckets.keys().filter(|name| !known(name));
        let mut faults: Vec<String> = unknown
            .map(|name| {
                let names: Vec<&str> =
                    catalog.buckets().iter().map(|bucket| bucket.name.as_str()).collect();
                format!(
                    "policy.limits.buckets.{name}: no instance type has this name; the names are {}",
                    names.join(", ")
                )
            })
            .collect();
        let spot = catalog.buckets().iter().any(|b| b.capacity_type == CapacityType::Spot);
        let uses = [
            ("spotFor", self.spot_for != SpotFor::None),
            ("interruptions", !self.interruptions.are_none()),
        ];
        let without = uses.into_iter().filter(|(_, used)| *used && !spot);
        faults.extend(without.map(|(field, _)| {
            format!(
                "{field}: the catalog has no spot instances; set capacityType: spot for an instance type"
            )
        }));
        faults.extend(self.interruptions.unknown(catalog));
        if faults.is_empty() { Ok(()) } else { Err(SimulationSettingsError::Faults(faults)) }
    }

    /// The lead time: the window that a forecast covers, from a decision until a node that is
    /// ordered at the next decision is ready.
    pub fn lead(&self) -> Lead {
        Lead::covering(
            self.launch_latency.typical(),
            self.tick.as_seconds(),
            self.scan.as_seconds(),
        )
    }

    /// The lead time where nodes come from a warm pool.
    pub(crate) fn warm_lead(&self) -> Lead {
        Lead::covering(self.warm_start.as_seconds(), self.tick.as_seconds(), self.scan.as_seconds())
    }

    /// The network that makes a forecast of the policy `paper`. `None` if no network does.
    pub fn paper_network(&self, forecast: PaperForecast) -> Option<ModelSource> {
        let (file, shipped) = match forecast {
            PaperForecast::Transformer => (&self.transformer, ModelSource::PaperTransformer),
            PaperForecast::Lstm => (&self.lstm, ModelSource::PaperLstm),
            PaperForecast::HoltWinters | PaperForecast::LastValue => return None,
        };
        Some(file.as_ref().map_or(shipped, |path| ModelSource::File(path.into())))
    }

    /// The source of the ONNX model that the methods use.
    pub fn model_source(&self) -> ModelSource {
        let named = || match &self.model {
            None => ModelSource::Pretrained,
            Some(path) => ModelSource::File(path.into()),
        };
        self.model_in_use.clone().unwrap_or_else(named)
    }
}

/// The longest tick, scan, launch latency and jitter, in seconds: a day. A tick must be shorter
/// than the day whose season it samples, no launch takes longer, and a shift of submissions by more
/// than a day would mix the days of the log.
const SPAN_SECONDS_MAX: i64 = DAY_SECONDS;

/// The longest lead time, in ticks. A longer one would exceed the ticks that a history keeps.
const LEAD_TICKS_MAX: usize = 1_000;

/// The largest number of replays. The limit bounds memory, because the results of all replays are
/// kept.
pub const REPLAYS_MAX: u32 = 1_000;

/// How the pods of one job are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GangMode {
    /// All pods at once or none. Pending pods hold no room.
    Whole,
    /// All pods at once or none, on nodes of one group, because they need fast links between them.
    OneGroup,
    /// One by one, each as soon as it fits, as the default Kubernetes scheduler does.
    PodByPod,
}

/// How the headroom for gangs that are larger than an instance is dealt to the groups of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GangHeadroom {
    /// The nodes for one gang go to one group.
    OneGroup,
    /// Node by node over all groups, as if no gang were known.
    Spread,
}

/// The time from the request of a node to its readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LaunchLatency {
    /// The same latency for every launch.
    Constant(Span),
    /// A log-normal distribution, given by its median and its 95th percentile.
    LogNormal {
        /// The median. It is not 0.
        median: Span,
        /// The 95th percentile. It is not below the median.
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
        let expected =
            || format!("expected lognormal:MEDIAN:P95 such as lognormal:4m:9m, got {text:?}");
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

/// A point in time: a date, a date with a time, or an offset from the first submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimePoint {
    text: String,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Time(i64),
    Offset(i64),
}

impl TimePoint {
    /// Returns the point in seconds, for a log whose first job was submitted at `first`.
    pub fn seconds(&self, first: i64) -> i64 {
        match self.at {
            At::Time(time) => time,
            At::Offset(seconds) => first.saturating_add(seconds),
        }
    }
}

impl FromStr for TimePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date = || {
            text.parse::<NaiveDate>()
                .ok()
                .and_then(|date| date.and_hms_opt(0, 0, 0))
                .map(|t| t.and_utc())
        };
        let time = || {
            let formats =
                ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
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

impl TryFrom<String> for TimePoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<TimePoint> for String {
    fn from(moment: TimePoint) -> Self {
        moment.text
    }
}

impl fmt::Display for TimePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_serialization() {
        let settings = SimulationSettings {
            from: Some("8d".parse().unwrap()),
            ..SimulationSettings::default()
        };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(SimulationSettings::parse(&text, "f").unwrap(), settings);
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(SimulationSettings::parse(text, "f").unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_contain_line_and_field() {
        check("seed: 1\ntick: 0s\n", "f:2: tick: 0s is not in 1s to 1d");
        check("jitter: 1000d\n", "f:1: jitter: 1000d is not in 0s to 1d");
        check("launchLatency: 2d\n", "f:1: launchLatency: 2d is above 1d");
        check("scheduler: best\n", "f:1: scheduler: expected pack or spread, got \"best\"");
        check(
            "launchLatency: lognormal:9m:4m\n",
            "f:1: launchLatency: the 95th percentile must not be below the median, nor the median 0, in \"lognormal:9m:4m\"",
        );
        check(
            "policy:\n  objective: {quantile: 1.5}\n",
            "f:2: policy.objective.quantile: 1.5 is not between 0 and 1",
        );
        check(
            "policy:\n  objective: {quantile: 0.5, waitCost: 1}\n",
            "f:2: policy.objective.waitCost: give quantile or waitCost, not both",
        );
        check("replays: 0\n", "f:1: replays: 0 is not in 1 to 1000");
        check(
            "policy: {behavior: {scaleUp: {policies: [{value: 1}]}}}\n",
            "f:1: policy.behavior.scaleUp.policies[0].periodSeconds: is missing",
        );
        check(
            "catalog:\n  instanceTypes:\n  - {name: a, pods: 1, pricePerHour: -1}\n",
            "f:3: catalog.instanceTypes[0].pricePerHour: expected a price of 0 to a billion dollars, got -1",
        );
        check(
            r#"{"trace": {}, "settings": {}, "policies": []}"#,
            "f: expected settings, but this is a report of prophet simulate or prophet backtest: give settings.json of --out, or the field settings of the report",
        );
    }

    #[test]
    fn a_time_point_is_a_date_a_time_or_an_offset() {
        let seconds = |text: &str| text.parse::<TimePoint>().map(|moment| moment.seconds(1_000));
        assert_eq!(seconds("1970-01-02"), Ok(86_400));
        assert_eq!(seconds("1970-01-01T00:01:00"), Ok(60));
        assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Ok(0));
        assert_eq!(seconds("8d"), Ok(1_000 + 8 * 86_400));
        assert!(seconds("yesterday").is_err());
    }
}
