//! The steps of Argo Workflows, and the pods with which CronWorkflows start.
//!
//! A Workflow names all its steps when it is submitted: the tasks of its DAG, or lists of steps.
//! Its status has a node for each step that started, by a name that is the path of the step.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

use super::announced::{AnnouncedPods, Announcement, Held};
use super::objects::{Affinity, Container, PodSpec, PodTemplate, TemplateMeta, Toleration};
use super::schedule::Schedule;
use super::steps::{STEPS_MAX, SeenState, SeenStep, SeenWorkflow, template_of};

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
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    affinity: Option<Affinity>,
    pod_priority_class_name: Option<String>,
    scheduler_name: Option<String>,
    pod_metadata: TemplateMeta,
    workflow_template_ref: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArgoStatus {
    phase: String,
    nodes: BTreeMap<String, ArgoNode>,
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
    container: Option<Container>,
    script: Option<Container>,
    container_set: Option<ContainerSet>,
    init_containers: Vec<Container>,
    sidecars: Vec<Container>,
    dag: Option<Dag>,
    steps: Option<Vec<Vec<Task>>>,
    metadata: TemplateMeta,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    affinity: Option<Affinity>,
    priority_class_name: Option<String>,
    scheduler_name: Option<String>,
    parallelism: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerSet {
    containers: Vec<Container>,
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

impl Announcement {
    /// Returns the steps of a Workflow that runs.
    pub(super) fn of_argo(metadata: &ObjectMeta, workflow: &ArgoWorkflow) -> Option<Self> {
        let ArgoWorkflow { spec, status } = workflow;
        if status.phase != "Running" || spec.suspend || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let stored = status.stored_workflow_template_spec.as_ref();
        let stored = stored.filter(|_| spec.workflow_template_ref.is_some());
        let mut spec = spec.clone();
        if let Some(stored) = stored {
            spec.templates.extend(stored.templates.iter().cloned());
            if spec.entrypoint.is_empty() {
                spec.entrypoint.clone_from(&stored.entrypoint);
            }
        }
        let name = metadata.name.clone().unwrap_or_default();
        let (steps, pods) = Expansion::of(&spec, status, metadata, &name);
        let labels = metadata.labels.clone().unwrap_or_default();
        let by_label = TEMPLATE_LABELS.iter().find_map(|label| labels.get(*label)).cloned();
        let by_name = || template_of(&name, metadata.generate_name.as_deref());
        let template = by_label.unwrap_or_else(by_name);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let template = format!("Workflow {namespace}/{template}");
        let workflow = Some(SeenWorkflow { template, steps });
        Some(Self { workflow, ..Self::new(Held::Created, labels, pods) })
    }

    /// Returns the pods with which the next Workflow of a CronWorkflow starts. Of several
    /// schedules, the first one counts.
    pub(super) fn of_cron_workflow(metadata: &ObjectMeta, cron: &CronWorkflow) -> Option<Self> {
        let CronWorkflow { spec, status } = cron;
        let forbidden = spec.concurrency_policy == "Forbid" && !status.active.is_empty();
        if spec.suspend || forbidden || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = metadata.name.clone().unwrap_or_default();
        let (steps, pods) =
            Expansion::of(&spec.workflow_spec, &ArgoStatus::default(), metadata, &name);
        let first = steps.iter().filter(|step| step.after.is_empty()).filter_map(|step| step.pods);
        let pods = first.map(|(at, count)| pods[at].with_count(count)).collect();
        let since = status.last_scheduled_time.as_ref().or(metadata.creation_timestamp.as_ref());
        let text = spec.schedules.first().unwrap_or(&spec.schedule);
        let since = since.map_or(0, |time| time.0.as_second());
        let schedule = Schedule::parse(text, spec.timezone.as_deref(), since);
        let held = if schedule.is_some() { Held::Scheduled } else { Held::Unscheduled };
        let labels = metadata.labels.clone().unwrap_or_default();
        let fired = status.last_scheduled_time.as_ref().map(|time| time.0.as_second());
        Some(Self { schedule, fired, ..Self::new(held, labels, pods) })
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
    steps: Vec<SeenStep>,
    pods: Vec<AnnouncedPods>,
    /// The place of the pods of each template.
    places: BTreeMap<String, Option<usize>>,
}

impl<'a> Expansion<'a> {
    fn of(
        spec: &ArgoSpec,
        status: &ArgoStatus,
        metadata: &ObjectMeta,
        name: &str,
    ) -> (Vec<SeenStep>, Vec<AnnouncedPods>) {
        let entry = Task { template: spec.entrypoint.clone(), ..Task::default() };
        let nodes = status.nodes.values().map(|node| (node.name.as_str(), node)).collect();
        let (steps, pods, places) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut expansion = Expansion { spec, status, metadata, nodes, steps, pods, places };
        expansion.expand(&entry, name, &[], (0, u64::MAX));
        // The name of the workflow is of no use in the names of its steps.
        for step in &mut expansion.steps {
            let path = step.name.strip_prefix(name).unwrap_or(&step.name);
            step.name = path.strip_prefix('.').unwrap_or(path).to_owned();
        }
        (expansion.steps, expansion.pods)
    }

    fn template(&self, task: &'a Task) -> Option<(&'a Template, String)> {
        if let Some(inline) = &task.inline {
            return Some((inline, format!("{}/inline", task.name)));
        }
        if let Some(TemplateRef { name, template, cluster_scope }) = &task.template_ref {
            let scope = if *cluster_scope { "cluster" } else { "namespaced" };
            let key = format!("{scope}/{name}/{template}");
            return Some((self.status.stored_templates.get(&key)?, key));
        }
        let found = self.spec.templates.iter().find(|template| template.name == task.template)?;
        Some((found, task.template.clone()))
    }

    /// Adds the steps of a task whose path is `path`, which starts when the steps `after` ended.
    /// Returns the steps with which it ends. `most` is the number of its pods that run at once.
    fn expand(
        &mut self,
        task: &'a Task,
        path: &str,
        after: &[usize],
        (depth, most): (usize, u64),
    ) -> Vec<usize> {
        if self.steps.len() >= STEPS_MAX || depth >= DEPTH_MAX {
            return after.to_vec();
        }
        let is_skipped = self.nodes.get(path).is_some_and(|node| is_skipped(&node.phase));
        let found = self.template(task).filter(|_| !is_skipped);
        let Some((template, key)) = found else {
            return vec![self.add(path, after, None)];
        };
        let most = [self.spec.parallelism, template.parallelism]
            .into_iter()
            .flatten()
            .fold(most, u64::min);
        let times = task.times();
        if template.dag.is_none() && template.steps.is_none() {
            let pods = self.pods_of(template, key).map(|at| (at, times.min(most)));
            return vec![self.add(path, after, pods)];
        }
        if times != 1 || task.with_param.is_some() {
            // The nodes of repeated steps are named by their items, which are not known.
            return vec![self.add(path, after, None)];
        }
        if let Some(Dag { tasks }) = &template.dag {
            return self.expand_dag(tasks, path, after, (depth + 1, most));
        }
        let mut last = after.to_vec();
        for (at, group) in template.steps.iter().flatten().enumerate() {
            let mut ends = BTreeSet::new();
            for step in group {
                let path = format!("{path}[{at}].{}", step.name);
                ends.extend(self.expand(step, &path, &last, (depth + 1, most)));
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
        within: (usize, u64),
    ) -> Vec<usize> {
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
        let depends: Vec<BTreeSet<&str>> =
            tasks.iter().map(|task| task.depends_on(&names)).collect();
        let mut ends: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        // A pass adds the tasks whose dependencies are there. What is left depends on itself.
        loop {
            let before = ends.len();
            for (task, depends) in tasks.iter().zip(&depends) {
                let is_ready = depends.iter().all(|name| ends.contains_key(name));
                if ends.contains_key(task.name.as_str()) || !is_ready {
                    continue;
                }
                let all: BTreeSet<usize> =
                    depends.iter().flat_map(|name| &ends[name]).copied().collect();
                let all: Vec<usize> =
                    if depends.is_empty() { after.to_vec() } else { all.into_iter().collect() };
                let own = self.expand(task, &format!("{path}.{}", task.name), &all, within);
                ends.insert(&task.name, own);
            }
            if ends.len() == before {
                break;
            }
        }
        let followed: BTreeSet<&str> = depends.iter().flatten().copied().collect();
        let last = ends.iter().filter(|(name, _)| !followed.contains(*name));
        let last: BTreeSet<usize> = last.flat_map(|(_, ends)| ends).copied().collect();
        last.into_iter().collect()
    }

    fn add(&mut self, path: &str, after: &[usize], pods: Option<(usize, u64)>) -> usize {
        let seconds = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
        let state = self.nodes.get(path).map_or(SeenState::Waiting, |node| {
            let started = seconds(&node.started_at);
            match node.phase.as_str() {
                "" | "Pending" | "Running" => SeenState::Running(started),
                phase => SeenState::Ended {
                    ran: started.zip(seconds(&node.finished_at)),
                    skipped: is_skipped(phase),
                },
            }
        });
        let (name, after) = (path.to_owned(), after.to_vec());
        self.steps.push(SeenStep { name, after, state, pods });
        self.steps.len() - 1
    }

    /// The place of the pods of a template. `None` if it has none, or if parameters decide their
    /// size.
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

    fn pod_template(&self, template: &Template) -> Option<PodTemplate> {
        let Self { spec, .. } = self;
        let main = template.container.iter().chain(&template.script);
        let set = template.container_set.iter().flat_map(|set| &set.containers);
        let mut containers: Vec<Container> = main.chain(set).cloned().collect();
        if containers.is_empty() {
            return None;
        }
        containers.extend(template.sidecars.iter().cloned());
        let amounts = containers.iter().chain(&template.init_containers).flat_map(|container| {
            container.resources.requests.values().chain(container.resources.limits.values())
        });
        if amounts.into_iter().any(|amount| amount.contains("{{")) {
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
        Some(PodTemplate {
            metadata: TemplateMeta { labels },
            spec: PodSpec {
                containers,
                init_containers: template.init_containers.clone(),
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

impl Task {
    /// The tasks on which it depends.
    fn depends_on<'a>(&'a self, names: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
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
            &[("[0].a", "Running"), ("[0].b[0].x", "Succeeded"), ("[0].b[1].y", "Pending")],
            &[
                "[0].a runs, 1 of 0, after []",
                "[0].b[0].x ended, 1 of 0, after []",
                "[0].b[1].y runs, 1 of 1, after [1]",
                "[1].c waits, 4 of 0, after [0, 2]",
                "[2].d waits, 3 of 0, after [3]",
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
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        let deepest = format!("again{}[0].b", "[0].a".repeat(DEPTH_MAX - 3));
        assert_eq!(names[..5], ["wait", "sized", "many", "unknown", &deepest]);
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
    }

    #[test]
    fn a_workflow_of_a_template_has_the_steps_of_the_template() {
        let spec = json!({"entrypoint": "main", "templates": [
            {"name": "main", "steps": [[{"name": "a", "templateRef": {"name": "t", "template": "large"}}]]},
        ]});
        let workflow = json!({
            "spec": {"workflowTemplateRef": {"name": "nightly"}},
            "status": {"phase": "Running", "storedWorkflowTemplateSpec": spec,
                "storedTemplates": {"namespaced/t/large": pod("large", "8")}},
        });
        let labels = [("workflows.argoproj.io/workflow-template".to_owned(), "nightly".to_owned())];
        let metadata = ObjectMeta { labels: Some(labels.into()), ..metadata("flow-a") };
        let workflow = serde_json::from_value(workflow).unwrap();
        let announced = Announcement::of_argo(&metadata, &workflow).unwrap();
        assert_eq!(announced.pods[0].class.requests.cpu_millis, 8_000);
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
