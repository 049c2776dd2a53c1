//! The steps of Argo Workflows, and the pods with which CronWorkflows start.
//!
//! A Workflow names all its steps when it is submitted: the tasks of its DAG, or lists of steps.
//! Its status has a node for each step that started, by a name that is the path of the step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

use super::announced::{AnnouncedPods, Announcement, Held, beside_active};
use super::objects::{Affinity, Container, PodSpec, PodTemplate, TemplateMeta, Toleration, Volume};
use super::steps::{STEPS_MAX, SeenState, SeenStep, SeenWorkflow, template};

/// A Workflow, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ArgoWorkflow {
    spec: ArgoSpec,
    status: ArgoStatus,
}

/// A CronWorkflow, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CronWorkflow {
    spec: CronWorkflowSpec,
    status: CronWorkflowStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronWorkflowSpec {
    schedule: String,
    schedules: Vec<String>,
    timezone: Option<String>,
    suspend: bool,
    concurrency_policy: String,
    workflow_spec: ArgoSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CronWorkflowStatus {
    active: Vec<serde::de::IgnoredAny>,
    last_scheduled_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArgoSpec {
    entrypoint: String,
    suspend: bool,
    parallelism: Option<u64>,
    templates: Vec<Template>,
    volumes: Option<Vec<NamedVolume>>,
    volume_claim_templates: Option<Vec<ClaimTemplate>>,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    affinity: Option<Affinity>,
    pod_priority_class_name: Option<String>,
    scheduler_name: Option<String>,
    pod_metadata: TemplateMeta,
    pod_spec_patch: String,
    template_defaults: Option<serde::de::IgnoredAny>,
    workflow_template_ref: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArgoStatus {
    phase: String,
    nodes: BTreeMap<String, ArgoNode>,
    compressed_nodes: String,
    offload_node_status_version: String,
    /// The specification of the WorkflowTemplate that the Workflow refers to.
    stored_workflow_template_spec: Option<ArgoSpec>,
    /// The templates of WorkflowTemplates that steps refer to.
    stored_templates: BTreeMap<String, Template>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArgoNode {
    name: String,
    phase: String,
    started_at: Option<Time>,
    finished_at: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Template {
    name: String,
    container: Option<ArgoContainer>,
    script: Option<ArgoContainer>,
    container_set: Option<ContainerSet>,
    init_containers: Vec<ArgoContainer>,
    sidecars: Vec<ArgoContainer>,
    dag: Option<Dag>,
    steps: Option<Vec<Vec<Task>>>,
    volumes: Option<Vec<NamedVolume>>,
    metadata: TemplateMeta,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    affinity: Option<Affinity>,
    priority_class_name: Option<String>,
    scheduler_name: Option<String>,
    pod_spec_patch: String,
    parallelism: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerSet {
    containers: Vec<ArgoContainer>,
}

/// A container, with the names of the volumes that it mounts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ArgoContainer {
    #[serde(flatten)]
    container: Container,
    #[serde(rename = "volumeMounts")]
    volume_mounts: Option<Vec<Named>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

/// A volume with its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NamedVolume {
    name: String,
    #[serde(flatten)]
    volume: Volume,
}

/// A claim that the Workflow makes when it starts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimTemplate {
    metadata: Named,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Dag {
    tasks: Vec<Task>,
}

/// A task of a DAG, or a step.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Task {
    name: String,
    template: String,
    template_ref: Option<TemplateRef>,
    inline: Option<Box<Template>>,
    dependencies: Vec<String>,
    depends: String,
    with_items: Option<Vec<serde::de::IgnoredAny>>,
    with_param: Option<serde::de::IgnoredAny>,
    with_sequence: Option<Sequence>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateRef {
    name: String,
    template: String,
    cluster_scope: bool,
}

/// The numbers that a step is repeated for. Each is a number or a text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Sequence {
    count: Value,
    start: Value,
    end: Value,
}

/// How deep templates may contain others.
const DEPTH_MAX: usize = 10;

/// The most tasks that are read of a Workflow, also of templates without steps.
const TASKS_MAX: usize = 2_000;

impl Announcement {
    /// Returns the steps of a Workflow that runs.
    pub(super) fn of_argo(metadata: &ObjectMeta, workflow: &ArgoWorkflow) -> Option<Self> {
        let ArgoWorkflow { spec, status } = workflow;
        // The nodes of a large Workflow are compressed, or in a database.
        let is_elsewhere =
            !status.compressed_nodes.is_empty() || !status.offload_node_status_version.is_empty();
        let runs = status.phase == "Running" && !spec.suspend && !is_elsewhere;
        if !runs || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let stored = status.stored_workflow_template_spec.as_ref();
        let stored = stored.filter(|_| spec.workflow_template_ref.is_some());
        // It is that of the template with the fields of the Workflow.
        let mut whole = stored.unwrap_or(spec).clone();
        if whole.entrypoint.is_empty() {
            whole.entrypoint.clone_from(&spec.entrypoint);
        }
        let name = metadata.name.clone().unwrap_or_default();
        let (steps, pods) = Expansion::of(&whole, status, metadata, &name);
        let labels = metadata.labels.clone().unwrap_or_default();
        let made_from = TEMPLATE_LABELS.iter().find_map(|label| labels.get(*label));
        let template = template("Workflow", metadata, made_from.map(String::as_str));
        let workflow = Some(SeenWorkflow { template, steps, parallelism: whole.parallelism });
        Some(Self { workflow, ..Self::new(Held::Created, labels, pods) })
    }

    /// Returns the pods with which the next Workflow of a CronWorkflow starts. Of several
    /// schedules, the first one counts.
    pub(super) fn of_cron_workflow(metadata: &ObjectMeta, cron: &CronWorkflow) -> Option<Self> {
        let CronWorkflow { spec, status } = cron;
        if spec.suspend || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = metadata.name.clone().unwrap_or_default();
        let (steps, pods) =
            Expansion::of(&spec.workflow_spec, &ArgoStatus::default(), metadata, &name);
        let first = steps.iter().filter(|step| step.after.is_empty()).filter_map(|step| step.pods);
        let pods = first.map(|(at, count)| pods[at].with_count(count)).collect();
        let pods = beside_active(pods, &spec.concurrency_policy, status.active.len())?;
        let text = spec.schedules.first().unwrap_or(&spec.schedule);
        let times = (text.as_str(), spec.timezone.as_deref(), status.last_scheduled_time.as_ref());
        let labels = metadata.labels.clone().unwrap_or_default();
        Some(Self::scheduled(times, metadata, labels, pods))
    }
}

/// The labels of a Workflow with the name of the object that it was made from.
const TEMPLATE_LABELS: [&str; 3] = [
    "workflows.argoproj.io/cron-workflow",
    "workflows.argoproj.io/workflow-template",
    "workflows.argoproj.io/cluster-workflow-template",
];

/// The steps of a Workflow, from its templates.
struct Expansion<'a> {
    spec: &'a ArgoSpec,
    status: &'a ArgoStatus,
    metadata: &'a ObjectMeta,
    /// The nodes of the status by their names, which are paths of steps.
    nodes: BTreeMap<&'a str, &'a ArgoNode>,
    /// The nodes of repeated steps by the path of the step.
    repeated: BTreeMap<&'a str, Vec<&'a ArgoNode>>,
    steps: Vec<SeenStep>,
    pods: Vec<AnnouncedPods>,
    /// The place of the pods of each template.
    places: BTreeMap<String, Option<usize>>,
    /// The number of tasks that may still be read.
    left: usize,
}

/// Where a task is.
#[derive(Clone, Copy)]
struct Within<'a> {
    /// The number of templates around it.
    depth: usize,
    /// The most of its pods that run at once.
    parallelism: u64,
    /// Whether a template around it ended, so that it starts no more.
    is_over: bool,
    /// The WorkflowTemplate whose templates it names. `None` for those of the Workflow.
    scope: Option<&'a TemplateRef>,
}

impl<'a> Expansion<'a> {
    /// The steps and their pods. None of a Workflow with too many of them, because what follows the
    /// others would seem to start at once.
    fn of(
        spec: &ArgoSpec,
        status: &ArgoStatus,
        metadata: &ObjectMeta,
        name: &str,
    ) -> (Vec<SeenStep>, Vec<AnnouncedPods>) {
        let entry = Task { template: spec.entrypoint.clone(), ..Task::default() };
        let nodes = status.nodes.values().map(|node| (node.name.as_str(), node)).collect();
        let mut repeated: BTreeMap<&str, Vec<&ArgoNode>> = BTreeMap::new();
        for node in status.nodes.values() {
            if let Some((path, _)) = node.name.split_once('(') {
                repeated.entry(path).or_default().push(node);
            }
        }
        let (steps, pods, places, left) = (Vec::new(), Vec::new(), BTreeMap::new(), TASKS_MAX);
        let mut expansion =
            Expansion { spec, status, metadata, nodes, repeated, steps, pods, places, left };
        let within = Within { depth: 0, parallelism: u64::MAX, is_over: false, scope: None };
        expansion.expand(&entry, name, &[], within);
        if expansion.left == 0 || expansion.steps.len() > STEPS_MAX {
            return (Vec::new(), Vec::new());
        }
        // The name of the workflow is of no use in the names of its steps.
        for step in &mut expansion.steps {
            let path = step.name.strip_prefix(name).unwrap_or(&step.name);
            step.name = path.strip_prefix('.').unwrap_or(path).to_owned();
        }
        (expansion.steps, expansion.pods)
    }

    /// The template of a task, what identifies it, and the WorkflowTemplate that has it.
    fn template(
        &self,
        task: &'a Task,
        path: &str,
        scope: Option<&'a TemplateRef>,
    ) -> Option<(&'a Template, String, Option<&'a TemplateRef>)> {
        if let Some(inline) = &task.inline {
            return Some((inline, path.to_owned(), scope));
        }
        let (scope, name) = match &task.template_ref {
            Some(of) => (Some(of), &of.template),
            None => (scope, &task.template),
        };
        let Some(of) = scope else {
            let mut own = self.spec.templates.iter();
            return Some((own.find(|template| template.name == *name)?, name.clone(), None));
        };
        let kind = if of.cluster_scope { "cluster" } else { "namespaced" };
        let key = format!("{kind}/{}/{name}", of.name);
        Some((self.status.stored_templates.get(&key)?, key, scope))
    }

    /// Adds the steps of a task whose path is `path`, which starts when the steps `after` ended.
    /// Returns the steps with which it ends.
    fn expand(
        &mut self,
        task: &'a Task,
        path: &str,
        after: &[usize],
        within: Within<'a>,
    ) -> Vec<usize> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Vec::new();
        }
        let phase = self.nodes.get(path).map_or("", |node| node.phase.as_str());
        let found = self.template(task, path, within.scope);
        let found = found.filter(|_| within.depth < DEPTH_MAX && !is_skipped(phase));
        let Some((template, key, scope)) = found else {
            return vec![self.add(path, after, None, within)];
        };
        let limits = [self.spec.parallelism, template.parallelism];
        let parallelism = limits.into_iter().flatten().fold(within.parallelism, u64::min);
        let times = task.times();
        if template.dag.is_none() && template.steps.is_none() {
            let pods = self.pods_of(template, key).map(|at| (at, times.min(parallelism)));
            return vec![self.add(path, after, pods, within)];
        }
        if times != 1 || task.with_param.is_some() {
            // The nodes within repeated steps are named by their items, which are not known.
            return vec![self.add(path, after, None, within)];
        }
        let is_over = within.is_over || has_ended(phase);
        let within = Within { depth: within.depth + 1, parallelism, is_over, scope };
        if let Some(Dag { tasks }) = &template.dag {
            return self.expand_dag(tasks, path, after, within);
        }
        let mut last = after.to_vec();
        for (at, group) in template.steps.iter().flatten().enumerate() {
            let mut ends = BTreeSet::new();
            for step in group {
                let path = format!("{path}[{at}].{}", step.name);
                ends.extend(self.expand(step, &path, &last, within));
            }
            if !ends.is_empty() {
                last = ends.into_iter().collect();
            }
        }
        last
    }

    fn expand_dag(
        &mut self,
        tasks: &'a [Task],
        path: &str,
        after: &[usize],
        within: Within<'a>,
    ) -> Vec<usize> {
        if tasks.len() > self.left {
            self.left = 0;
            return Vec::new();
        }
        let names = tasks.iter().enumerate().map(|(at, task)| (task.name.as_str(), at)).collect();
        let depends: Vec<BTreeSet<usize>> =
            tasks.iter().map(|task| task.depends_on(&names)).collect();
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
        for (at, depends) in depends.iter().enumerate() {
            for before in depends {
                followers[*before].push(at);
            }
        }
        let mut open: Vec<usize> = depends.iter().map(BTreeSet::len).collect();
        let mut ready: VecDeque<usize> = (0..tasks.len()).filter(|at| open[*at] == 0).collect();
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
        let mut last = BTreeSet::new();
        // Tasks that depend on themselves are never ready.
        while let Some(at) = ready.pop_front() {
            let before = depends[at].iter().flat_map(|before| &ends[*before]).copied();
            let before: BTreeSet<usize> = if depends[at].is_empty() {
                after.iter().copied().collect()
            } else {
                before.collect()
            };
            let before: Vec<usize> = before.into_iter().collect();
            ends[at] =
                self.expand(&tasks[at], &format!("{path}.{}", tasks[at].name), &before, within);
            if followers[at].is_empty() {
                last.extend(ends[at].iter().copied());
            }
            for follower in &followers[at] {
                open[*follower] -= 1;
                if open[*follower] == 0 {
                    ready.push_back(*follower);
                }
            }
        }
        last.into_iter().collect()
    }

    fn add(
        &mut self,
        path: &str,
        after: &[usize],
        pods: Option<(usize, u64)>,
        within: Within<'_>,
    ) -> usize {
        let nothing = if within.is_over {
            SeenState::Ended { ran: None, skipped: true }
        } else {
            SeenState::Waiting
        };
        let state = match (self.nodes.get(path), self.repeated.get(path)) {
            (Some(node), _) => state_of(&[node]),
            (None, Some(nodes)) => state_of(nodes),
            (None, None) => nothing,
        };
        let (name, after) = (path.to_owned(), after.to_vec());
        self.steps.push(SeenStep { name, after, state, pods });
        self.steps.len() - 1
    }

    /// The place of the pods of a template. `None` if it has none, or if parameters or a patch
    /// decide their size.
    fn pods_of(&mut self, template: &Template, key: String) -> Option<usize> {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.pod_template(template).map(|pod| {
            self.pods.push(AnnouncedPods::of(&pod, self.metadata, 1));
            self.pods.len() - 1
        });
        self.places.insert(key, place);
        place
    }

    /// The volumes that containers mount: those of the Workflow and of the template, and those of
    /// the claims that the Workflow makes (Argo Workflows, `addVolumeReferences`).
    fn mounted<'b>(
        &self,
        template: &Template,
        containers: impl Iterator<Item = &'b ArgoContainer>,
    ) -> Vec<Volume> {
        let mounts = containers.flat_map(|container| container.volume_mounts.iter().flatten());
        let mounts: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
        let own = self.spec.volumes.iter().chain(&template.volumes).flatten();
        let own = own.map(|NamedVolume { name, volume }| (name, volume.clone()));
        let claimed = Volume { persistent_volume_claim: Some(serde::de::IgnoredAny) };
        let made = self.spec.volume_claim_templates.iter().flatten();
        let made = made.map(|claim| (&claim.metadata.name, claimed.clone()));
        let mounted = own.chain(made).filter(|(name, _)| mounts.contains(name.as_str()));
        mounted.map(|(_, volume)| volume).collect()
    }

    fn pod_template(&self, template: &Template) -> Option<PodTemplate> {
        let Self { spec, .. } = self;
        let main = template.container.iter().chain(&template.script);
        let set = template.container_set.iter().flat_map(|set| &set.containers);
        let mut containers: Vec<&ArgoContainer> = main.chain(set).collect();
        if containers.is_empty() {
            return None;
        }
        containers.extend(&template.sidecars);
        let all = || containers.iter().copied().chain(&template.init_containers);
        let amounts = all().flat_map(|ArgoContainer { container, .. }| {
            container.resources.requests.values().chain(container.resources.limits.values())
        });
        let is_patched = !spec.pod_spec_patch.is_empty()
            || !template.pod_spec_patch.is_empty()
            || spec.template_defaults.is_some();
        if is_patched || amounts.into_iter().any(|amount| amount.contains("{{")) {
            return None;
        }
        let mut labels = spec.pod_metadata.labels.clone();
        labels.extend(template.metadata.labels.clone());
        let name = self.metadata.name.clone().unwrap_or_default();
        labels.insert("workflows.argoproj.io/workflow".into(), name);
        labels.insert("workflows.argoproj.io/completed".into(), "false".into());
        let mut node_selector = spec.node_selector.clone();
        node_selector.extend(template.node_selector.clone());
        let tolerations =
            if template.tolerations.is_empty() { &spec.tolerations } else { &template.tolerations };
        let affinity = template.affinity.as_ref().or(spec.affinity.as_ref());
        let priority =
            template.priority_class_name.as_ref().or(spec.pod_priority_class_name.as_ref());
        let scheduler = template.scheduler_name.as_ref().or(spec.scheduler_name.as_ref());
        let init_containers = template.init_containers.iter().map(|one| &one.container);
        Some(PodTemplate {
            metadata: TemplateMeta { labels },
            spec: PodSpec {
                volumes: self.mounted(template, all()),
                containers: containers.iter().map(|one| one.container.clone()).collect(),
                init_containers: init_containers.cloned().collect(),
                node_selector,
                tolerations: tolerations.clone(),
                affinity: affinity.cloned().unwrap_or_default(),
                priority_class_name: priority.cloned(),
                scheduler_name: scheduler.cloned(),
                ..PodSpec::default()
            },
        })
    }
}

/// Whether a node of this phase never ran.
fn is_skipped(phase: &str) -> bool {
    ["Skipped", "Omitted"].contains(&phase)
}

/// Whether a node of this phase runs no more.
fn has_ended(phase: &str) -> bool {
    !["", "Pending", "Running"].contains(&phase)
}

/// The state of a step that has these nodes.
fn state_of(nodes: &[&ArgoNode]) -> SeenState {
    let seconds = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    let started = nodes.iter().filter_map(|node| seconds(&node.started_at)).min();
    if !nodes.iter().all(|node| has_ended(&node.phase)) {
        return SeenState::Running(started);
    }
    let ended = nodes.iter().filter_map(|node| seconds(&node.finished_at)).max();
    let skipped = nodes.iter().all(|node| is_skipped(&node.phase));
    SeenState::Ended { ran: started.zip(ended), skipped }
}

impl Task {
    /// The tasks on which it depends, by their places.
    fn depends_on(&self, names: &BTreeMap<&str, usize>) -> BTreeSet<usize> {
        // `depends` is an expression over names and their results, such as `a && b.Succeeded`.
        let word = |at: char| !(at.is_alphanumeric() || "-_.".contains(at));
        let words = self.depends.split(word).map(|word| word.split('.').next().unwrap_or(word));
        let all = self.dependencies.iter().map(String::as_str).chain(words);
        all.filter_map(|name| names.get(name).copied()).collect()
    }

    /// How many times it runs at once. A number that only its parameters tell is 1.
    fn times(&self) -> u64 {
        if let Some(items) = &self.with_items {
            return items.len() as u64;
        }
        let Some(Sequence { count, start, end }) = &self.with_sequence else { return 1 };
        let number = |value: &Value| {
            let text = value.as_str().and_then(|text| text.parse::<i64>().ok());
            value.as_i64().or(text)
        };
        let between = || {
            let (from, until) = (number(start).unwrap_or(0), number(end)?);
            Some(from.abs_diff(until).saturating_add(1))
        };
        let counted = number(count).and_then(|count| u64::try_from(count).ok());
        counted.or_else(between).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(name: &str) -> ObjectMeta {
        let generate_name = Some("flow-".into());
        let namespace = Some("batch".into());
        ObjectMeta { name: Some(name.into()), namespace, generate_name, ..ObjectMeta::default() }
    }

    /// Checks the steps of a Workflow, in a line each. `nodes` has the paths of those that started.
    #[track_caller]
    fn check(spec: &Value, nodes: &[(&str, &str)], expected: &[&str]) -> Announcement {
        let nodes = nodes.iter().map(|(path, phase)| {
            let started = "2026-12-03T09:00:00Z";
            let node = json!({"name": format!("flow-x7k2p{path}"), "phase": phase,
                "startedAt": started, "finishedAt": "2026-12-03T09:10:00Z"});
            ((*path).to_owned(), node)
        });
        let nodes: BTreeMap<String, Value> = nodes.collect();
        let workflow = json!({"spec": spec, "status": {"phase": "Running", "nodes": nodes}});
        let workflow = serde_json::from_value(workflow).unwrap();
        let announced = Announcement::of_argo(&metadata("flow-x7k2p"), &workflow).unwrap();
        let seen = announced.workflow.clone().unwrap();
        assert_eq!(seen.template, "Workflow batch/flow");
        let line = |step: &SeenStep| {
            let state = match step.state {
                SeenState::Waiting => "waits",
                SeenState::Running(since) => {
                    assert!(since.is_some());
                    "runs"
                }
                SeenState::Ended { skipped: true, .. } => "was skipped",
                SeenState::Ended { ran, skipped: false } => {
                    assert_eq!(ran.map(|(from, until)| until - from), Some(600));
                    "ended"
                }
            };
            let pods =
                step.pods.map_or("no pods".to_owned(), |(at, count)| format!("{count} of {at}"));
            format!("{} {state}, {pods}, after {:?}", step.name, step.after)
        };
        assert_eq!(seen.steps.iter().map(line).collect::<Vec<_>>(), expected);
        announced
    }

    fn pod(name: &str, cpu: &str) -> Value {
        json!({"name": name, "container": {"image": "a", "resources": {"requests": {"cpu": cpu}}}})
    }

    #[test]
    fn tasks_of_a_dag_follow_those_they_depend_on() {
        let spec = json!({
            "entrypoint": "main", "nodeSelector": {"pool": "batch"},
            "templates": [
                {"name": "main", "dag": {"tasks": [
                    {"name": "report", "template": "small", "depends": "fit.Succeeded && (check || read.Failed)"},
                    {"name": "read", "template": "small"},
                    {"name": "fit", "template": "large", "dependencies": ["read"], "withItems": [1, 2, 3]},
                    {"name": "check", "template": "small", "dependencies": ["read"], "when": "false"},
                ]}},
                pod("small", "1"), pod("large", "8"),
            ],
        });
        let announced = check(
            &spec,
            &[("", "Running"), (".read", "Succeeded"), (".check", "Skipped"), (".fit", "Pending")],
            &[
                "read ended, 1 of 0, after []",
                "fit runs, 3 of 1, after [0]",
                "check was skipped, no pods, after [0]",
                "report waits, 1 of 0, after [0, 1, 2]",
            ],
        );
        let classes =
            announced.pods.iter().map(|pods| (pods.class.requests.cpu_millis, pods.count));
        assert_eq!(classes.collect::<Vec<_>>(), [(1_000, 1), (8_000, 1)]);
        assert!(announced.pods.iter().all(|pods| pods.class.constraints.selects("pool", "batch")));
    }

    #[test]
    fn pods_have_the_volumes_that_they_mount() {
        let mounts = |name: &str, volume: &str| {
            let mut pod = pod(name, "1");
            pod["container"]["volumeMounts"] = json!([{"name": volume, "mountPath": "/a"}]);
            pod
        };
        let spec = json!({
            "entrypoint": "main",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "a"}},
                {"name": "empty", "emptyDir": {}}],
            "volumeClaimTemplates": [{"metadata": {"name": "work"}, "spec": {}}],
            "templates": [
                {"name": "main", "dag": {"tasks": [
                    {"name": "a", "template": "none"}, {"name": "b", "template": "data"},
                    {"name": "c", "template": "work"}, {"name": "d", "template": "empty"}]}},
                pod("none", "1"), mounts("data", "data"), mounts("work", "work"),
                mounts("empty", "empty"),
            ],
        });
        let line = |at: usize| format!("{} waits, 1 of {at}, after []", ["a", "b", "c", "d"][at]);
        let lines = [0, 1, 2, 3].map(line);
        let lines = [0, 1, 2, 3].map(|at| lines[at].as_str());
        let announced = check(&spec, &[("", "Running")], &lines);
        let have: Vec<bool> = announced.pods.iter().map(|pods| pods.class.has_claims).collect();
        assert_eq!(have, [false, true, true, false]);
    }

    #[test]
    fn lists_of_steps_follow_each_other_also_within_others() {
        let spec = json!({
            "entrypoint": "main", "parallelism": 4,
            "templates": [
                {"name": "main", "steps": [
                    [{"name": "a", "template": "one"}, {"name": "b", "template": "inner"}],
                    [{"name": "c", "template": "one", "withSequence": {"count": "40"}}],
                    [{"name": "d", "template": "one", "withSequence": {"start": 3, "end": "5"}}],
                ]},
                {"name": "inner", "steps": [[{"name": "x", "template": "one"}], [{"name": "y", "inline": pod("", "2")}]]},
                {"name": "one", "script": {"source": "true", "resources": {"limits": {"cpu": "1"}}}},
            ],
        });
        check(
            &spec,
            &[
                ("[0].a", "Running"),
                ("[0].b[0].x", "Succeeded"),
                ("[0].b[1].y", "Pending"),
                ("[1].c(0:0)", "Succeeded"),
                ("[1].c(1:1)", "Running"),
                ("[2].d(0:3)", "Succeeded"),
                ("[2].d(1:4)", "Failed"),
            ],
            &[
                "[0].a runs, 1 of 0, after []",
                "[0].b[0].x ended, 1 of 0, after []",
                "[0].b[1].y runs, 1 of 1, after [1]",
                "[1].c runs, 4 of 0, after [0, 2]",
                "[2].d ended, 3 of 0, after [3]",
            ],
        );
    }

    /// Steps whose pods are not known take time. Steps that contain themselves are read to a depth.
    #[test]
    fn steps_of_unknown_pods_have_none() {
        let spec = json!({
            "entrypoint": "main",
            "templates": [
                {"name": "main", "dag": {"tasks": [
                    {"name": "wait", "template": "pause"},
                    {"name": "sized", "template": "sized", "dependencies": ["wait"]},
                    {"name": "many", "template": "again", "withParam": "{{tasks.wait.outputs.result}}"},
                    {"name": "unknown", "templateRef": {"name": "others", "template": "a"}},
                    {"name": "loop", "template": "b", "dependencies": ["pool"]},
                    {"name": "pool", "template": "b", "dependencies": ["loop"]},
                    {"name": "again", "template": "again"},
                ]}},
                {"name": "pause", "suspend": {}},
                pod("sized", "{{inputs.parameters.cpu}}"),
                {"name": "again", "steps": [[{"name": "a", "template": "again"}, {"name": "b", "template": "pause"}]]},
            ],
        });
        let workflow = json!({"spec": spec, "status": {"phase": "Running"}});
        let workflow = serde_json::from_value(workflow).unwrap();
        let announced = Announcement::of_argo(&metadata("flow-a"), &workflow).unwrap();
        let steps = announced.workflow.unwrap().steps;
        assert!(steps.len() < 20 && steps.iter().all(|step| step.pods.is_none()), "{steps:?}");
        assert!(steps.iter().any(|step| step.name == "sized"));
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        let deepest = format!("again{}", "[0].a".repeat(DEPTH_MAX - 1));
        assert_eq!(names[..4], ["wait", "many", "unknown", &deepest]);
    }

    #[test]
    fn a_workflow_of_too_many_tasks_has_no_steps() {
        let of = |main: Value| {
            let spec =
                json!({"entrypoint": "main", "templates": [main, {"name": "none", "steps": []}]});
            let workflow = json!({"spec": spec, "status": {"phase": "Running"}});
            let workflow = serde_json::from_value(workflow).unwrap();
            Announcement::of_argo(&metadata("flow-a"), &workflow)
                .unwrap()
                .workflow
                .unwrap()
                .steps
                .len()
        };
        let tasks = |count: usize, template: &str| -> Value {
            let task = |at: usize| json!({"name": at.to_string(), "template": template});
            json!({"name": "main", "dag": {"tasks": (0..count).map(task).collect::<Vec<_>>()}})
        };
        assert_eq!([400, 501, 5_000].map(|count| of(tasks(count, "unknown"))), [400, 0, 0]);
        // Templates that contain themselves, and those without steps.
        assert_eq!(of(tasks(30, "main")), 0);
        assert_eq!(of(tasks(1_999, "none")), 0);
        let chain =
            |at: usize| json!({"name": at.to_string(), "dependencies": [(at + 1).to_string()]});
        let chain: Vec<Value> = (0..450).map(chain).collect();
        assert_eq!(of(json!({"name": "main", "dag": {"tasks": chain}})), 450);
    }

    /// The steps of a template that failed start no more, and those of a skipped task neither.
    #[test]
    fn steps_within_what_ended_do_not_wait() {
        let spec = json!({
            "entrypoint": "main",
            "templates": [
                {"name": "main", "dag": {"tasks": [
                    {"name": "a", "template": "inner"},
                    {"name": "b", "template": "inner"},
                    {"name": "c", "template": "one", "depends": "a.Failed"},
                ]}},
                {"name": "inner", "steps": [[{"name": "x", "template": "one"}], [{"name": "y", "template": "one"}]]},
                pod("one", "1"),
            ],
        });
        check(
            &spec,
            &[(".a", "Failed"), (".a[0].x", "Failed"), (".b", "Omitted")],
            &[
                "a[0].x ended, 1 of 0, after []",
                "a[1].y was skipped, 1 of 0, after [0]",
                "b was skipped, no pods, after []",
                "c waits, 1 of 0, after [1]",
            ],
        );
    }

    #[test]
    fn a_workflow_that_does_not_run_has_no_steps() {
        let of = |spec: Value, phase: &str| {
            let workflow = json!({"spec": spec, "status": {"phase": phase}});
            let workflow = serde_json::from_value(workflow).unwrap();
            Announcement::of_argo(&metadata("flow-a"), &workflow).is_some()
        };
        assert!(of(json!({}), "Running"));
        assert!(!of(json!({}), ""));
        assert!(!of(json!({}), "Succeeded"));
        assert!(!of(json!({"suspend": true}), "Running"));
        let large = json!({"status": {"phase": "Running", "compressedNodes": "H4sI"}});
        let large = serde_json::from_value(large).unwrap();
        assert_eq!(Announcement::of_argo(&metadata("flow-a"), &large), None);
    }

    #[test]
    fn a_workflow_of_a_template_has_the_steps_of_the_template() {
        let spec = json!({"entrypoint": "main", "nodeSelector": {"pool": "batch"}, "templates": [
            {"name": "main", "steps": [[{"name": "a", "templateRef": {"name": "t", "template": "both"}}]]},
            pod("large", "1"),
        ]});
        let both = json!({"name": "both", "steps": [[{"name": "b", "template": "large"}]]});
        let workflow = json!({
            "spec": {"workflowTemplateRef": {"name": "nightly"}},
            "status": {"phase": "Running", "storedWorkflowTemplateSpec": spec,
                "storedTemplates": {"namespaced/t/large": pod("large", "8"), "namespaced/t/both": both}},
        });
        let labels = [("workflows.argoproj.io/workflow-template".to_owned(), "nightly".to_owned())];
        let metadata = ObjectMeta { labels: Some(labels.into()), ..metadata("flow-a") };
        let workflow = serde_json::from_value(workflow).unwrap();
        let announced = Announcement::of_argo(&metadata, &workflow).unwrap();
        assert_eq!(announced.pods[0].class.requests.cpu_millis, 8_000);
        assert!(announced.pods[0].class.constraints.selects("pool", "batch"));
        assert_eq!(announced.workflow.unwrap().template, "Workflow batch/nightly");
    }

    #[test]
    fn a_cron_workflow_announces_the_pods_with_which_it_starts() {
        let cron = json!({
            "spec": {"schedules": ["0 9 * * *"], "timezone": "Europe/Berlin", "workflowSpec": {
                "entrypoint": "main", "templates": [
                    {"name": "main", "steps": [
                        [{"name": "a", "template": "large", "withItems": [1, 2]}],
                        [{"name": "b", "template": "large"}],
                    ]},
                    pod("large", "8"),
                ],
            }},
        });
        let cron = serde_json::from_value(cron).unwrap();
        let announced = Announcement::of_cron_workflow(&metadata("nightly"), &cron).unwrap();
        assert_eq!(announced.pods.iter().map(|pods| pods.count).collect::<Vec<_>>(), [2]);
        assert_eq!(announced.schedule.unwrap().next(1_796_256_000), Some(1_796_284_800));
    }
}
