//! Checks a policy's prerequisites in the cluster, and finds the nodes that other workloads took
//! from its placeholders.

use super::gather::Places;
use super::settings::PolicySettings;
use super::surroundings::Surroundings;
use super::templates::{PRIORITIES, priority_class};
use crate::catalog::Offers;
use crate::crd::PlaceholderKind;
use crate::observe::{Key, Preempted, World};
use crate::outcome::{Cause, Outcome};

/// Adds a fault for each prerequisite of the policy that the cluster does not meet.
pub(super) fn check_surroundings(
    settings: &PolicySettings,
    offers: &Offers,
    around: &Surroundings<'_>,
    outcome: &mut Outcome,
) {
    let world = around.shared.world();
    let cutoff = around.config.priority_cutoff;
    let classes: Vec<String> = match &settings.placeholders.priority_class_name {
        Some(name) => vec![name.clone()],
        None => (PRIORITIES.0..=PRIORITIES.1).map(priority_class).collect(),
    };
    for name in classes {
        match world.priority(&name) {
            None => outcome.fault(Cause::PriorityClass, format!("there is no PriorityClass {name}")),
            Some(value) if value < cutoff => outcome.fault(
                Cause::PriorityClass,
                format!(
                    "PriorityClass {name} has value {value}, but cluster-autoscaler ignores pods below {cutoff}"
                ),
            ),
            Some(value) if value >= settings.workloads.priority_min => outcome.fault(
                Cause::PriorityClass,
                format!(
                    "PriorityClass {name} has value {value}, so workloads of priority {} cannot preempt its pods",
                    settings.workloads.priority_min
                ),
            ),
            Some(_) => {}
        }
    }
    if settings.placeholders.kind == PlaceholderKind::CapacityBuffer && world.buffers.is_none() {
        outcome.fault(
            Cause::NoCapacityBuffers,
            "the cluster does not serve CapacityBuffers of autoscaling.x-k8s.io/v1beta1",
        );
    }
    if let Some(error) = &around.groups.failing {
        outcome.fault(Cause::CatalogFailed, error.clone());
    }
    for problem in around.groups.problems.iter().chain(&offers.problems) {
        outcome.fault(Cause::Groups, problem.clone());
    }
}

/// The nodes on which the policy's placeholders were preempted and that now run only pods outside
/// the policy's batch demand.
pub(super) fn taken_by_others(
    world: &World,
    preempted: &[Preempted],
    settings: &PolicySettings,
    places: &Places,
) -> Vec<String> {
    let index = &world.index;
    let ours = preempted.iter().filter(|preempted| {
        let namespace = preempted.pod.namespace.clone();
        places.contains_key(&Key { namespace, name: preempted.replica_set.clone() })
    });
    let by_others = |node: &&String| {
        let Some(slot) = index.nodes().by_name(node) else { return false };
        let is_batch =
            |id| index.classes().get(id).is_some_and(|class| settings.workloads.select(class));
        !slot.pods.is_empty() && !slot.pods.iter().any(|pods| is_batch(pods.class))
    };
    ours.map(|preempted| &preempted.node).filter(by_others).cloned().collect()
}
