//! What must hold in a random world, seen from outside.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;
use tests::installed::{self, NAMESPACE, Prophet};
use tokio::time::Instant;

use super::super::world::{World, is_bound, is_gated};
use super::step::{Network, POLICY, Step};

/// The most placeholders that the operator allows.
pub(super) const CEILING: u64 = 6;

/// How long placeholders may stand that ought to be gone.
const GONE: Duration = Duration::from_mins(1);

/// How long the numbers of placeholders may exceed a limit that was lowered.
const LOWERED: Duration = Duration::from_secs(20);

/// How long a fault may be missing, and how long it may outlast its cause.
const REPORTED: Duration = Duration::from_secs(30);
const CLEARED: Duration = Duration::from_secs(100);

/// How long a tick of ten seconds may be late.
const LATE_SECONDS: f64 = 45.0;

/// How long the controller does not trust a clock that leapt.
const DISTRUST: Duration = Duration::from_mins(11);

/// What the steps so far made of the world.
#[derive(Debug)]
pub(super) struct Facts {
    policy: Option<(Value, bool)>,
    off: bool,
    network: Network,
    /// The last changes: of the policy or the off switch, of the network, of the clock, and of what
    /// can be wrong with groups and nodes.
    decided: Instant,
    connected: Instant,
    clock: Option<Instant>,
    groups: Option<Instant>,
    /// The limits on placeholders that counted, with the time of each.
    limits: Vec<(Instant, u64)>,
    /// The numbers of pods that were announced.
    announced: Vec<(Instant, u64)>,
}

impl Facts {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            policy: None,
            off: false,
            network: Network::Works,
            decided: now,
            connected: now,
            clock: None,
            groups: None,
            limits: Vec::new(),
            announced: Vec::new(),
        }
    }

    /// Notes a step that was done.
    pub(super) fn note(&mut self, step: &Step) {
        let now = Instant::now();
        match step {
            Step::Policy(spec, is_valid) => {
                (self.policy, self.decided) = (Some((spec.clone(), *is_valid)), now);
            }
            Step::PolicyGone => (self.policy, self.decided) = (None, now),
            Step::Off(off) => (self.off, self.decided) = (*off, now),
            Step::Network(network) => (self.network, self.connected) = (*network, now),
            Step::Clock(_) => self.clock = Some(now),
            Step::Node(..) | Step::Group(..) => self.groups = Some(now),
            Step::Object(object) if object["kind"] == "DaemonSet" => self.groups = Some(now),
            Step::Object(_) | Step::JobsGone | Step::PodsEnd | Step::Wait(_) => {}
        }
    }

    /// How long the controller has been able to respond to what was decided.
    fn settled(&self) -> Duration {
        if self.network == Network::Works {
            self.decided.max(self.connected).elapsed()
        } else {
            Duration::ZERO
        }
    }

    fn connected(&self) -> Duration {
        if self.network == Network::Works { self.connected.elapsed() } else { Duration::ZERO }
    }

    fn holds_none(&self) -> bool {
        self.off || self.policy.as_ref().is_none_or(|(spec, _)| spec["mode"] == "Observe")
    }

    fn is_invalid(&self) -> bool {
        self.policy.as_ref().is_some_and(|(_, is_valid)| !is_valid)
    }

    /// The largest limit that counted lately.
    fn limit(&mut self) -> u64 {
        let own = self.policy.as_ref().filter(|(_, is_valid)| *is_valid);
        let own = own.map_or(CEILING, |(spec, _)| {
            // Two nodes of the smaller group cost less than half a dollar an hour.
            let of_dollars = spec["limits"]["dollarsPerHour"].is_f64().then_some(2);
            spec["limits"]["placeholders"].as_u64().or(of_dollars).unwrap_or(CEILING)
        });
        let settled = self.settled();
        let now = Instant::now();
        self.limits.push((now, own.min(CEILING)));
        // Until the controller could respond, the limits of before count, too.
        let window = if settled < LOWERED { self.decided.elapsed() + GONE } else { LOWERED };
        self.limits.retain(|(at, _)| now.duration_since(*at) <= window);
        self.limits.iter().map(|(_, limit)| *limit).max().unwrap_or(CEILING)
    }
}

impl World {
    /// What does not hold, one text each, which begins with what should hold.
    pub(super) async fn violations(&self, facts: &mut Facts) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut pods = self.pods(NAMESPACE).await?;
        pods.retain(|pod| {
            pod.labels().contains_key("prophet.dev/policy")
                && pod.metadata.deletion_timestamp.is_none()
        });
        for pod in &pods {
            let spec = pod.spec.as_ref();
            let priority = spec.and_then(|spec| spec.priority).unwrap_or(0);
            let policy = spec.and_then(|spec| spec.preemption_policy.as_deref());
            if priority >= 0 || policy != Some("Never") {
                wrong.push(format!(
                    "batch pods can preempt: {} has {priority}, {policy:?}",
                    pod.name_any()
                ));
            }
        }
        let free = pods.iter().filter(|pod| !is_gated(pod)).count() as u64;
        let limit = facts.limit();
        if free > limit {
            wrong.push(format!("limits hold: {free} placeholders of {limit}"));
        }
        if facts.holds_none() && facts.settled() > GONE && !pods.is_empty() {
            wrong.push(format!("placeholders go within a minute: {} stand", pods.len()));
        }
        self.bought_for_nothing(facts, free, &mut wrong).await?;
        self.faults(facts, &mut wrong).await?;
        let log = self.prophet.as_ref().map(Prophet::log).transpose()?;
        if log.is_some_and(|log| log.contains("panicked at")) {
            wrong.push("the controller does not panic".to_owned());
        }
        Ok(wrong)
    }

    /// The method `scheduled` holds placeholders for announced pods only, at most one for each.
    async fn bought_for_nothing(
        &self,
        facts: &mut Facts,
        free: u64,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let client = self.plane.client();
        let jobs: Api<Job> = Api::all(client.clone());
        let crons: Api<CronJob> = Api::all(client);
        let of_spec = |spec: Option<&k8s_openapi::api::batch::v1::JobSpec>| {
            let pods = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
            u64::try_from(pods).unwrap_or(0)
        };
        let mut announced = 0;
        for job in jobs.list(&ListParams::default()).await?.items {
            let spec = job.spec.as_ref();
            if spec.and_then(|spec| spec.suspend) == Some(true) {
                announced += of_spec(spec);
            }
        }
        for cron in crons.list(&ListParams::default()).await?.items {
            announced += of_spec(cron.spec.job_template.spec.as_ref());
        }
        let now = Instant::now();
        facts.announced.push((now, announced));
        facts.announced.retain(|(at, _)| now.duration_since(*at) < LOWERED);
        let most = facts.announced.iter().map(|(_, pods)| *pods).max().unwrap_or(0);
        let scheduled = facts
            .policy
            .as_ref()
            .is_some_and(|(spec, is_valid)| *is_valid && spec["forecast"]["method"] == "scheduled");
        if scheduled && facts.settled() > GONE && free > most {
            wrong.push(format!(
                "nothing is bought for nothing: {free} placeholders, {most} pods announced"
            ));
        }
        Ok(())
    }

    /// Faults are reported while something is wrong, and only then, and no tick is lost without
    /// one.
    async fn faults(&self, facts: &Facts, wrong: &mut Vec<String>) -> anyhow::Result<()> {
        if facts.policy.is_none() || facts.settled() < REPORTED {
            return Ok(());
        }
        let status = installed::status(&self.plane, POLICY).await?;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let reasons: Vec<&str> = conditions
            .iter()
            .filter(|condition| condition["type"] == "Degraded" && condition["status"] == "True")
            .filter_map(|condition| condition["reason"].as_str())
            .collect();
        if facts.off {
            if !reasons.contains(&"SwitchedOff") {
                wrong.push(format!("the off switch is reported: {reasons:?}"));
            }
            return Ok(());
        }
        if facts.is_invalid() {
            if !reasons.contains(&"InvalidPolicy") {
                wrong.push(format!("an invalid policy is reported: {reasons:?}"));
            }
            return Ok(());
        }
        let leapt = facts.clock.is_some_and(|at| at.elapsed() < DISTRUST);
        let groups = facts.groups.is_some();
        let is_well = facts.settled() > CLEARED && !leapt && !groups;
        if is_well && !reasons.is_empty() {
            wrong.push(format!("faults end with their causes: {reasons:?}"));
        }
        let ticks = facts.connected() > CLEARED && facts.decided.elapsed() > CLEARED && !leapt;
        if ticks && reasons.is_empty() {
            let Some(prophet) = &self.prophet else { return Ok(()) };
            let metrics = prophet.metrics().await?;
            let line = metrics.lines().find(|line| {
                line.starts_with("prophet_last_tick_timestamp_seconds{") && line.contains(POLICY)
            });
            let last = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            let late = super::now() as f64 - last.unwrap_or(0.0);
            if late > LATE_SECONDS {
                wrong.push(format!(
                    "no tick is lost without a fault: the last one is {late:.0} s old"
                ));
            }
        }
        Ok(())
    }

    /// The pods of people on nodes, for the output.
    pub(super) async fn running(&self) -> anyhow::Result<usize> {
        Ok(self.pods("plain").await?.iter().filter(|pod| is_bound(pod)).count())
    }
}
