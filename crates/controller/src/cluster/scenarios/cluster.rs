//! The cluster of a scenario, with the controller over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base::clock;
use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::onnx;
use embedder::MicroDollars;
use instances::{CatalogFile, InstanceTypeEntry, PriceRules, Reserved, instance_type};
use placeholders::{BUCKET_ANNOTATION, Ceiling, GROUP_ANNOTATION};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::api::Api;
use super::step::{Step, container};
use crate::catalog::INSTANCE_TYPE_LABEL;
use crate::cluster::pod_sizes::PodSizes;
use crate::cluster::sources::Groups;
use crate::cluster::trusted_clock::Now;
use crate::cluster::{Allowed, Config, Controller, GroupSource, Health, Leadership, Looked};
use crate::cluster::{PRIORITIES, priority_class};
use crate::crd::{Mode, PlannedDemand};
use crate::explain::Explain;
use crate::observe::{
    Announcement, BatchJob, CronJob, Key, OwnedObject, Priority, Scope, Shared, Watches, World,
};
use crate::outcome::{Cause, Outcome};
use crate::writes::Writes;

/// The cluster, and the controller over it.
pub(super) struct Cluster {
    api: Api,
    shared: Arc<Shared>,
    groups: watch::Sender<Arc<Groups>>,
    /// `None` before the first turn, until which the operator's settings can change.
    controller: Option<Controller>,
    allowed: Allowed,
    pods: BTreeMap<String, Value>,
    /// When each node was created, and its type.
    nodes: BTreeMap<String, (DateTime<Utc>, String)>,
    now: DateTime<Utc>,
    generation: i64,
    /// The last lines of the buckets and conditions, which are shown when they change.
    shown: Vec<String>,
    /// Whether the API server has refused writes.
    refused: bool,
    /// The maxima of the groups.
    maxima: BTreeMap<String, u64>,
    /// What did not hold after a turn, for random worlds.
    violated: Option<String>,
    /// The placeholders after the last turn whose observation was not out of date.
    seen_placeholders: u64,
}

/// The seconds between two turns while a scenario waits.
const TURN_SECONDS: i64 = 10;

impl Cluster {
    /// An empty cluster, on 1 July 2026.
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        {
            let mut world = shared.world();
            world.index.begin_pods();
            world.index.end_pods();
            world.index.begin_nodes();
            world.index.end_nodes();
            for value in PRIORITIES.0..=PRIORITIES.1 {
                let name = priority_class(value);
                let class = Priority { value, may_preempt: false, is_default: false };
                let key = Key { namespace: String::new(), name };
                world.index.admission().priorities.insert(key, class);
            }
        }
        Self {
            api: Api::default(),
            shared,
            groups: watch::channel(Arc::new(Groups::default())).0,
            controller: None,
            allowed: Allowed {
                placeholder_priority_max: -1,
                needs_limit: true,
                ceiling: Ceiling { placeholders: Some(1_000), hourly: None },
                ..Allowed::default()
            },
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            now: DateTime::from_timestamp(1_782_900_000, 0).unwrap_or_default(),
            generation: 0,
            shown: Vec::new(),
            refused: false,
            maxima: BTreeMap::new(),
            violated: None,
            seen_placeholders: 0,
        }
    }

    /// What did not hold after a turn: limits, the off switch, the mode, and faults that are
    /// reported. `ceiling` is the operator's limit.
    pub(super) fn violation(&self, ceiling: u64) -> Option<String> {
        let held: u64 = self.replicas().values().sum();
        let over = (held > ceiling && !self.refused)
            .then(|| format!("{held} placeholders stand, and the operator allows {ceiling}"));
        self.violated.clone().or(over)
    }

    /// The number of placeholders by ReplicaSet, as the name of the policy and of the group.
    fn replicas(&self) -> BTreeMap<(String, String), u64> {
        let state = self.api.state();
        let one = |set: &Value| {
            let owner = set["metadata"]["ownerReferences"][0]["name"].as_str();
            let group = set["metadata"]["annotations"][GROUP_ANNOTATION].as_str();
            let of = (owner.unwrap_or_default().to_owned(), group.unwrap_or_default().to_owned());
            (of, set["spec"]["replicas"].as_u64().unwrap_or(0))
        };
        state.sets.values().map(one).collect()
    }

    /// Checks what a turn did.
    fn check_turn(&mut self, looked: &[Looked]) {
        let (replicas, refuses) = (self.replicas(), self.api.state().refuses);
        let (is_off, fails_pods) = {
            let world = self.shared.world();
            (world.is_off, world.failing.contains_key("pods"))
        };
        let held: u64 = replicas.values().sum();
        // The pauses after a refused write have the real clock, and no time passes by it here.
        self.refused |= refuses;
        let recovered = !self.refused;
        let mut violations = Vec::new();
        if fails_pods && held > self.seen_placeholders {
            violations.push(format!("{held} placeholders while the watch of pods fails"));
        }
        if !fails_pods {
            self.seen_placeholders = held;
        }
        for one in looked {
            let name = &one.key.name;
            let has = |cause: Cause| one.outcome.faults.has(cause);
            let of_policy = replicas.iter().filter(|((owner, _), _)| owner == name);
            let held: u64 = of_policy.map(|(_, replicas)| replicas).sum();
            let observes = is_off || one.policy.spec.mode == Mode::Observe;
            if observes && held > 0 && recovered {
                violations.push(format!("{name} holds {held}, and observes or is off"));
            }
            if is_off != has(Cause::SwitchedOff) {
                violations.push(format!("{name} reports the off switch wrongly"));
            }
            // A policy without buckets reads no pods.
            if fails_pods && one.outcome.offers.is_some() && !has(Cause::WatchFailed) {
                violations.push(format!("{name} does not report that the watch of pods fails"));
            }
            if recovered && has(Cause::WriteFailed) {
                violations.push(format!("{name} reports a write that failed"));
            }
            // Without a decision, an observation that is out of date lets what stands be.
            let limit = one.policy.spec.limits.placeholders.map(u64::from);
            let outdated = fails_pods && one.outcome.offers.is_some();
            let decides = one.outcome.decision.is_some() || outdated;
            if limit.is_some_and(|limit| held > limit) && decides && recovered {
                violations.push(format!("{name} holds {held} above its limit"));
            }
        }
        for ((_, group), replicas) in &replicas {
            if self.maxima.get(group).is_some_and(|most| replicas > most) {
                violations.push(format!("{replicas} placeholders in group {group}"));
            }
        }
        self.violated = self.violated.take().or_else(|| violations.first().cloned());
    }

    /// Takes a step. Returns what the controller did, one line each.
    pub(super) async fn step(&mut self, step: Step) -> anyhow::Result<Vec<String>> {
        match step {
            Step::Operator(limits) => {
                let ceiling = &mut self.allowed.ceiling;
                ceiling.placeholders = limits["placeholders"].as_u64();
                let dollars = limits["dollarsPerHour"].as_u64();
                ceiling.hourly = dollars.map(|dollars| MicroDollars(dollars * 1_000_000));
            }
            Step::Groups(groups) => self.read_groups(&groups).await?,
            Step::LiveGroups => {
                let groups = Groups::read_once(GroupSource::Nodes, LABEL).await;
                self.groups.send_replace(Arc::new(groups));
            }
            Step::Policy { name, spec } => self.write_policy(&name, &spec)?,
            Step::PolicyGone(name) => {
                self.shared.world().policies.remove(&in_team(&name));
                // The garbage collector deletes the objects of the policy.
                let mut state = self.api.state();
                state.status.remove(&name);
                state.sets.retain(|_, set| set["metadata"]["ownerReferences"][0]["name"] != *name);
                let sets: BTreeSet<String> = state.sets.keys().cloned().collect();
                state.pods.retain(|_, pod| {
                    let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str();
                    owner.is_some_and(|owner| sets.contains(owner))
                });
            }
            Step::Node { name, instance_type, fields } => {
                self.write_node(&name, &instance_type, &fields)?;
            }
            Step::NodeGone(name) => {
                self.nodes.remove(&name);
                let node = json!({"metadata": {"name": name}});
                self.shared.world().index.delete_node(&read(&node)?);
            }
            Step::Pods { names, requests, node } => {
                for name in names {
                    self.write_pod(&name, &requests, node.as_deref())?;
                }
            }
            Step::Bind { name, node } => {
                let pod = self.pods.get_mut(&name).context("no such pod")?;
                pod["spec"]["nodeName"] = json!(node);
                pod["status"] = started(self.now);
                self.shared.world().index.apply_pod(&read(pod)?);
            }
            Step::End(name) => {
                let pod = self.pods.remove(&name).context("no such pod")?;
                self.shared.world().index.delete_pod(&read(&pod)?);
            }
            Step::Object(object) => apply(&mut self.shared.world(), &object)?,
            Step::Placeholder { node } => self.bind_placeholder(&node)?,
            Step::Preempt { node } => {
                let mut state = self.api.state();
                let before = state.pods.len();
                state.pods.retain(|_, pod| pod["spec"]["nodeName"] != *node);
                anyhow::ensure!(state.pods.len() < before, "no placeholder is on {node}");
            }
            Step::Autoscaler(status) => self.shared.world().read_autoscaler(&status),
            Step::Watch { name, works } => {
                let mut world = self.shared.world();
                if works {
                    world.failing.remove(&name);
                } else {
                    world.failing.insert(name, "connection refused".into());
                }
            }
            Step::Api { works } => self.api.state().refuses = !works,
            Step::OffSwitch { is_off } => self.shared.world().is_off = is_off,
            Step::Wait(seconds) => return self.turns(seconds).await,
        }
        Ok(Vec::new())
    }

    async fn read_groups(&mut self, groups: &Value) -> anyhow::Result<()> {
        let mut file = CatalogFile::default();
        for (name, fields) in groups.as_object().into_iter().flatten() {
            self.maxima.extend(fields["max"].as_u64().map(|max| (name.clone(), max)));
            let mut group = fields.clone();
            let fields = group.as_object_mut().context("expected the fields of a group")?;
            let of = fields.remove("type").unwrap_or_default();
            let of = of.as_str().context("expected the type of a group")?;
            let capacity = fields.remove("capacityType").unwrap_or_else(|| json!("on-demand"));
            fields.insert("name".into(), json!(name));
            let known = instance_type(of).with_context(|| format!("unknown type {of}"))?;
            // Nodes reserve nothing, so that sizes are easy to read.
            let mut entry = InstanceTypeEntry { reserved: Reserved::default(), ..known.entry() };
            entry.capacity_type = read(&capacity)?;
            let alike = |known: &&mut InstanceTypeEntry| {
                known.name == entry.name && known.capacity_type == entry.capacity_type
            };
            let group = read(&group)?;
            if let Some(known) = file.instance_types.iter_mut().find(alike) {
                known.groups.push(group);
            } else {
                entry.groups.push(group);
                file.instance_types.push(entry);
            }
        }
        let groups = Groups::read_once(GroupSource::File(file), LABEL).await;
        if let Some(error) = &groups.failing {
            anyhow::bail!("{error}");
        }
        self.groups.send_replace(Arc::new(groups));
        Ok(())
    }

    fn write_policy(&mut self, name: &str, spec: &Value) -> anyhow::Result<()> {
        self.generation += 1;
        let key = in_team(name);
        let mut world = self.shared.world();
        let before =
            world.policies.get(&key).and_then(|policy| policy.metadata.creation_timestamp.clone());
        let created = before.map_or_else(|| json!(self.now.to_rfc3339()), |created| json!(created));
        let policy = json!({
            "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
            "metadata": {"name": name, "namespace": "team", "uid": format!("uid of {name}"),
                "generation": self.generation, "creationTimestamp": created},
            "spec": spec,
        });
        let crate::observe::StoredPolicy(policy) = read(&policy)?;
        world.policies.insert(key, policy);
        Ok(())
    }

    fn write_node(&mut self, name: &str, of: &str, fields: &Value) -> anyhow::Result<()> {
        let known = instance_type(of).with_context(|| format!("unknown instance type {of}"))?;
        let size = known.entry();
        let cpu = size.cpu_millis.unwrap_or(0);
        let mut allocatable = json!({
            "cpu": format!("{cpu}m"), "memory": size.memory_bytes.unwrap_or(0).to_string(),
            "ephemeral-storage": "100Gi", "pods": "110",
        });
        if let Some(gpus) = size.accelerators {
            allocatable["nvidia.com/gpu"] = json!(gpus.to_string());
        }
        let mut labels = json!({INSTANCE_TYPE_LABEL: of, "kubernetes.io/hostname": name});
        for (key, value) in fields["labels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        let ready = if fields["ready"] == json!(false) { "False" } else { "True" };
        let node = self.nodes.entry(name.to_owned()).or_insert((self.now, of.to_owned()));
        anyhow::ensure!(node.1 == of, "node {name} has the type {}", node.1);
        let created = node.0;
        let node = json!({
            "metadata": {"name": name, "labels": labels, "creationTimestamp": created.to_rfc3339()},
            "spec": {"taints": fields.get("taints").unwrap_or(&json!([])), "unschedulable": fields["unschedulable"] == json!(true)},
            "status": {"capacity": allocatable, "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": self.now.to_rfc3339()}]},
        });
        self.shared.world().index.apply_node(&read(&node)?);
        Ok(())
    }

    fn write_pod(
        &mut self,
        name: &str,
        requests: &Value,
        node: Option<&str>,
    ) -> anyhow::Result<()> {
        let waits = json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
            "lastTransitionTime": self.now.to_rfc3339(),
        }]});
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "jobs", "uid": name, "creationTimestamp": self.now.to_rfc3339(),
                "ownerReferences": [{"kind": "Job", "name": "job", "uid": "job", "controller": true}]},
            "spec": {"priority": 0, "containers": [container(requests)]},
            "status": if node.is_some() { started(self.now) } else { waits },
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        self.shared.world().index.apply_pod(&read(&pod)?);
        self.pods.insert(name.to_owned(), pod);
        Ok(())
    }

    fn bind_placeholder(&self, node: &str) -> anyhow::Result<()> {
        let mut state = self.api.state();
        let (_, of) = self.nodes.get(node).context("no such node")?;
        let waits = |pod: &Value| {
            let gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
            let bucket = pod["metadata"]["annotations"][BUCKET_ANNOTATION].as_str();
            let fits = bucket.is_some_and(|bucket| bucket.split('/').next() == Some(of));
            fits && gates == 0 && pod["spec"]["nodeName"].is_null()
        };
        let is_taken = state.pods.values().any(|pod| pod["spec"]["nodeName"] == *node);
        anyhow::ensure!(!is_taken, "a placeholder is on {node} already");
        let pod = state.pods.values_mut().find(|pod| waits(pod));
        let pod = pod.context("no placeholder waits for a node")?;
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = started(self.now);
        Ok(())
    }

    /// Turns now, and then every ten seconds until this time has passed.
    async fn turns(&mut self, seconds: i64) -> anyhow::Result<Vec<String>> {
        let end = self.now + TimeDelta::seconds(seconds);
        let mut done = Vec::new();
        let start = self.now;
        loop {
            let lines = self.turn().await?;
            if seconds > 0 && !lines.is_empty() {
                done.push(format!("after {} s:", (self.now - start).num_seconds()));
            }
            done.extend(lines);
            if self.now >= end {
                return Ok(done);
            }
            self.now += TimeDelta::seconds(TURN_SECONDS);
        }
    }

    async fn turn(&mut self) -> anyhow::Result<Vec<String>> {
        self.deliver()?;
        let (api, allowed) = (&self.api, &self.allowed);
        let (shared, groups) = (&self.shared, &self.groups);
        let controller =
            self.controller.get_or_insert_with(|| controller(api, allowed, shared, groups));
        let now = Now { time: self.now, fault: None, leapt: false };
        controller.read_labels();
        let looked = controller.turn_at(&now, true).await;
        self.check_turn(&looked);
        let mut lines = std::mem::take(&mut self.api.state().written);
        lines.sort();
        let mut state = Vec::new();
        for one in &looked {
            let name = &one.key.name;
            let status = self.api.state().status.get(name).cloned();
            let lines = [buckets(&one.outcome), conditions(status.as_ref())].concat();
            // Of several policies, each line has the name of its policy.
            let of = if looked.len() > 1 { format!("{name}: ") } else { String::new() };
            state.extend(lines.into_iter().map(|line| format!("{of}{line}")));
        }
        if looked.is_empty() {
            state.push("no policy".into());
        }
        if state != self.shown {
            lines.extend(state.iter().filter(|line| !self.shown.contains(line)).cloned());
            self.shown = state;
        }
        // The API server and its controllers act before the next step.
        self.deliver()?;
        Ok(lines)
    }

    /// Does what the watches do: the objects of the API server become those of the world.
    fn deliver(&self) -> anyhow::Result<()> {
        let mut state = self.api.state();
        state.control_replica_sets();
        let mut world = self.shared.world();
        world.sets.clear();
        for (name, set) in &state.sets {
            let key = in_team(name);
            world.sets.extend(OwnedObject::of_set(&read(set)?).map(|set| (key, set)));
        }
        let known: BTreeSet<String> =
            world.index.placeholders().map(|(key, _)| key.name.clone()).collect();
        for gone in known.iter().filter(|name| !state.pods.contains_key(*name)) {
            let pod = json!({"metadata": {"name": gone, "namespace": "team"}});
            world.index.delete_pod(&read(&pod)?);
        }
        for pod in state.pods.values_mut() {
            if pod["metadata"]["creationTimestamp"].is_null() {
                pod["metadata"]["creationTimestamp"] = json!(self.now.to_rfc3339());
            }
            world.index.apply_pod(&read(pod)?);
        }
        for (key, policy) in &mut world.policies {
            policy.status = state.status.get(&key.name).map(read).transpose()?;
        }
        Ok(())
    }
}

/// The key of an object in the namespace of the policies.
fn in_team(name: &str) -> Key {
    Key { namespace: "team".into(), name: name.to_owned() }
}

/// The label of placement groups.
const LABEL: &str = "placement";

fn controller(
    api: &Api,
    allowed: &Allowed,
    shared: &Arc<Shared>,
    groups: &watch::Sender<Arc<Groups>>,
) -> Controller {
    let client = api.client();
    let config = Config {
        scope: Scope {
            namespaces: vec!["team".into()],
            off_switch_namespace: None,
            autoscaler_namespace: "kube-system".into(),
            karpenter: false,
            usage: false,
        },
        data: None,
        own_history: false,
        stuck_after: Duration::from_mins(5),
        retention_days: 180,
        record_names: false,
        placement_group_label: LABEL.into(),
        startup_taints: BTreeSet::new(),
        prices: PriceRules::default(),
        price_reader: None,
        launch_seconds: 120,
        unneeded_seconds: 600,
        priority_cutoff: -10,
        writes_per_minute: 1_000_000,
        allowed: allowed.clone(),
        model: onnx::ModelSource::None,
        simulate_if_acted: None,
    };
    Controller {
        wanted_pools: <_>::default(),
        client: client.clone(),
        leadership: Leadership::alone(),
        shared: Arc::clone(shared),
        watches: Watches::none(client.clone(), Arc::clone(shared)),
        groups: groups.subscribe(),
        types_on_offer: <_>::default(),
        known: <_>::default(),
        sizes: PodSizes::default(),
        runs: BTreeMap::new(),
        yielding: <_>::default(),
        stale: <_>::default(),
        started: clock::Stopwatch::now(),
        clock: <_>::default(),
        health: Arc::new(Health::new(config.stuck_after)),
        patience: Duration::ZERO,
        writes: Writes::new(config.writes_per_minute),
        explain: Explain::new(client),
        config,
    }
}

/// A line for each bucket of a decision, and for the pods that do not count.
fn buckets(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let (Some(offers), Some(turn)) = (&outcome.offers, outcome.turn()) else { return lines };
    let observation = &outcome.observation;
    for plan in &turn.plan.buckets {
        let id = plan.bucket;
        let steps = plan.why.iter().map(|step| format!("{} {}", step.reason.label(), step.target));
        lines.push(format!(
            "{}: demand {}, announced {}; {}; {} of {} placeholders on nodes",
            offers.catalog.buckets()[id].name,
            turn.demand.present[id],
            turn.demand.announced[id],
            steps.collect::<Vec<_>>().join(", "),
            observation.ready[id].iter().sum::<u64>(),
            observation.observed.standing.placeholders(id),
        ));
    }
    for plan in &observation.plans {
        let held = turn.planned.iter().find(|(name, _)| *name == plan.plan);
        let held = held.map_or(0, |(_, pods)| *pods);
        lines.push(format!("{}: {held} pods held, {} came", plan.key, plan.came));
    }
    for (why, pods) in &observation.held_back {
        lines.push(format!("not counted: {pods} pods, {}", why.label()));
    }
    for (_, pods, why) in &observation.unfit {
        lines.push(format!("in no bucket: {pods} pods, {}", why.label()));
    }
    lines
}

/// A line for each condition of a status that is not the usual one.
fn conditions(status: Option<&Value>) -> Vec<String> {
    let conditions = status.and_then(|status| status["conditions"].as_array());
    let shown = conditions.into_iter().flatten().map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        format!("{} {}, {}: {}", text("type"), text("status"), text("reason"), text("message"))
    });
    shown.collect()
}

/// The status of a pod that runs since `now`.
fn started(now: DateTime<Utc>) -> Value {
    json!({"phase": "Running", "startTime": now.to_rfc3339(), "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now.to_rfc3339()},
    ]})
}

/// Applies an object of a kind that has no step of its own.
fn apply(world: &mut World, object: &Value) -> anyhow::Result<()> {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let key = Key { namespace: text("namespace"), name: text("name") };
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => world.index.apply_pod(&read(object)?),
        "DaemonSet" => world.index.apply_daemon(&read(object)?),
        "Job" => {
            let job: BatchJob = read(object)?;
            world.index.note_release(&job);
            world.index.announce("jobs", key, Announcement::of_job(&job));
        }
        "CronJob" => {
            let job: CronJob = read(object)?;
            world.index.announce("cronjobs", key, Announcement::of_cron_job(&job));
        }
        "PlannedDemand" => {
            let planned: PlannedDemand = read(object)?;
            let status = planned.status.unwrap_or_default();
            let announced = Announcement::of_planned(&planned.metadata, &planned.spec, &status);
            world.index.announce("planneddemands", key, announced);
        }
        "PriorityClass" => {
            let class = Priority::of(&read(object)?);
            world.index.admission().priorities.insert(key, class);
            world.index.readmit(None);
        }
        kind => anyhow::bail!("no scenario has used the kind {kind:?} yet"),
    }
    Ok(())
}

fn read<T: DeserializeOwned>(object: &Value) -> anyhow::Result<T> {
    serde_json::from_value(object.clone()).with_context(|| format!("{object}"))
}
