//! The steps of workflows: those that run, and those that follow.

use control::{Step, StepState, Workflow};
use embedder::{BucketSet, Gang, PodRequest, Shape, virtual_instance};

use super::{Seen, View};
use crate::catalog::Offers;
use crate::cluster::announced_share::AnnouncedShare;
use crate::cluster::known_workflow::{ExpectedPods, KnownStep, KnownWorkflow};
use crate::observe::{
    Announcement, Index, Key, PODS_MAX, SeenState, SeenStep, WORKFLOW_KINDS, Workloads,
};

/// How long the pods of a step that started are still seen to come, in seconds. A pod is seen ten
/// seconds after its creation at the latest, and the status of a workflow may be seen before.
const SEEN_SECONDS: i64 = 60;

/// The most steps of all workflows that count.
const STEPS_MAX: usize = 10_000;

impl View {
    /// Adds the workflows that run and of which the policy covers pods, the steps that ended since
    /// the last turn, and what became of steps that were expected.
    pub(super) fn workflows(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        ((now, lead_seconds), admitted): ((i64, &[i64]), &mut AnnouncedShare<'_>),
        seen: &mut Seen,
    ) {
        if WORKFLOW_KINDS.iter().any(|kind| index.is_stale(kind)) {
            return;
        }
        let mut before = std::mem::take(&mut self.workflows);
        for pods in self.expected.values_mut() {
            pods.until.get_or_insert(now.saturating_add(SEEN_SECONDS));
        }
        self.expected.retain(|_, pods| pods.until.is_some_and(|until| now < until));
        let mut steps = 0;
        let mut namespaces = Vec::new();
        for (key, announcement) in index.announcements() {
            let Some(workflow) = &announcement.workflow else { continue };
            let kind = workflow.template.split(' ').next().unwrap_or_default();
            let name = format!("{kind} {key}");
            let earlier = before.remove(&name);
            let is_ours = announcement.pods.iter().any(|pods| workloads.select(&pods.class));
            steps += if is_ours { workflow.steps.len() } else { 0 };
            if !is_ours || steps > STEPS_MAX {
                continue;
            }
            let mut known =
                KnownWorkflow { template: workflow.template.clone(), ..Default::default() };
            let mut control = Vec::new();
            for step in &workflow.steps {
                let requests = self.requests(announcement, step, offers, workloads);
                let pods = requests.iter().map(|request| request.count).sum();
                let earlier = earlier.as_ref().and_then(|of| of.steps.get(&step.name));
                let next = KnownStep::next(workflow, step, earlier, pods, now);
                seen.runs.extend(earlier.and_then(|of| of.run(workflow, step, now)));
                seen.ended.extend(earlier.and_then(|of| of.kept(&workflow.template, &next)));
                let step = Step {
                    state: next.state(now),
                    ..step_of(announcement, step, requests, (offers, lead_seconds))
                };
                known.steps.insert(step.name.clone(), next);
                control.push(step);
            }
            self.expect(&name, key, &mut control);
            namespaces.push(key.namespace.as_str());
            let author = workflow.template.clone();
            let parallelism = workflow.parallelism;
            seen.workflows.push(Workflow {
                name: name.clone(),
                author,
                steps: control,
                parallelism,
            });
            self.workflows.insert(name, known);
        }
        // The steps that come next count first.
        for is_next in [true, false] {
            for (workflow, namespace) in seen.workflows.iter_mut().zip(&namespaces) {
                admit(&mut workflow.steps, is_next, |request| admitted.admit(namespace, request));
            }
        }
        // The steps of workflows that ended before they started.
        seen.ended.extend(before.values().flat_map(KnownWorkflow::unstarted));
    }

    /// Notes pods of a namespace and a shape that arrived, which steps may have expected. Returns
    /// for how many of them nodes were held.
    pub(super) fn expected_of(
        &mut self,
        key: (&str, &Shape),
        count: u64,
        came: &mut dyn FnMut(&str, u64) -> u64,
    ) -> u64 {
        let (mut rest, mut held) = (count, 0);
        let (of_namespace, of_shape) = key;
        for (plan, pods) in &mut self.expected {
            if rest > 0
                && pods.namespace == of_namespace
                && let Some((_, came_already)) =
                    pods.shapes.iter_mut().find(|(shape, _)| shape == of_shape)
            {
                let ours = came(plan, rest);
                *came_already = came_already.saturating_add(ours);
                held += ours;
                rest -= ours;
            }
        }
        held
    }

    /// Remembers the pods of steps that did not start, and takes those out of the steps that came,
    /// because the status of a workflow may be behind its pods.
    fn expect(&mut self, workflow: &str, key: &Key, steps: &mut [Step]) {
        for step in steps.iter_mut().filter(|step| step.state == StepState::Waiting) {
            let plan = format!("{workflow}/{}", step.name);
            let before = self.expected.remove(&plan);
            let mut shapes = Vec::new();
            for PodRequest { shape, count } in &mut step.requests {
                let mut known = before.iter().flat_map(|before| &before.shapes);
                let came = known.find(|(known, _)| known == shape).map_or(0, |(_, came)| *came);
                *count = count.saturating_sub(came);
                shapes.push((shape.clone(), came));
            }
            let pods = ExpectedPods { namespace: key.namespace.clone(), shapes, until: None };
            self.expected.insert(plan, pods);
        }
    }

    /// The pods of a step that the policy covers.
    fn requests(
        &mut self,
        announcement: &Announcement,
        step: &SeenStep,
        offers: &Offers,
        workloads: &Workloads,
    ) -> Vec<PodRequest> {
        let has_pods = !matches!(step.state, SeenState::Ended { .. });
        let Some((at, count)) = step.pods.filter(|_| has_pods) else { return Vec::new() };
        let pods = announcement.pods.get(at);
        let Some(pods) = pods.filter(|pods| workloads.select(&pods.class)) else {
            return Vec::new();
        };
        let shape = self.shape(&pods.class, offers, workloads);
        let fits = offers.catalog.buckets_for(&shape).is_ok();
        let request = PodRequest { shape, count: count.min(PODS_MAX) };
        if fits && count > 0 { vec![request] } else { Vec::new() }
    }
}

/// Reduces the pods of the steps that wait to those that count: of the next steps, before which
/// none waits, or of the others.
fn admit(steps: &mut [Step], is_next: bool, mut counted: impl FnMut(&PodRequest) -> u64) {
    let waits: Vec<bool> = steps.iter().map(|step| step.state == StepState::Waiting).collect();
    let waits = |at: &usize| waits.get(*at).copied().unwrap_or(false);
    for (at, step) in steps.iter_mut().enumerate() {
        let none_before = !step.after.iter().any(waits);
        if waits(&at) && none_before == is_next {
            for request in &mut step.requests {
                request.count = counted(request);
            }
        }
    }
}

/// A step that waits.
fn step_of(
    announcement: &Announcement,
    step: &SeenStep,
    requests: Vec<PodRequest>,
    (offers, lead_seconds): (&Offers, &[i64]),
) -> Step {
    let lead = |request: &PodRequest| {
        let fitting = offers.catalog.buckets_for(&request.shape).ok();
        let first = fitting.as_ref().and_then(BucketSet::first)?;
        lead_seconds.get(first).copied()
    };
    let gang = (announcement.gang && !requests.is_empty())
        .then(|| virtual_instance(&Gang { requests: requests.clone() }, &offers.catalog).ok());
    let template = announcement.workflow.as_ref().map_or("", |of| of.template.as_str());
    Step {
        name: step.name.clone(),
        template: format!("{template}/{}", step.name),
        after: step.after.clone(),
        state: StepState::Waiting,
        lead_seconds: requests.iter().filter_map(lead).max().unwrap_or(0),
        gang: gang.flatten().filter(|gang| gang.instances > 1),
        requests,
    }
}
