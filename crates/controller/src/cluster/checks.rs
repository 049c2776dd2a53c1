//! Checks a policy's prerequisites in the cluster.

use super::settings::PolicySettings;
use super::templates::{PRIORITIES, priority_class};
use super::turn_input::TurnContext;
use crate::catalog::Offers;
use crate::crd::PlaceholderKind;
use crate::observe::{Key, Priority, World};
use crate::outcome::{Cause, Faults};

/// The effect of a watch that fails on a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The policy's decisions need the watch.
    Stops,
    /// Decisions are made without the watch, from the state that it reported before.
    Degrades,
    /// The policy does not use what is watched.
    None,
}

/// The effect on a policy in `namespace` of a watch that fails. `karpenter` is whether the groups
/// of nodes come from Karpenter's pools.
fn effect(watch: &str, namespace: &str, kind: PlaceholderKind, karpenter: bool) -> Effect {
    let (resource, of) = watch.split_once(" of ").unwrap_or((watch, namespace));
    let is_used = match resource {
        "pods" | "nodes" | "daemonsets" | "priorityclasses" => true,
        "policies" | "replicasets" => of == namespace,
        "capacitybuffers" => of == namespace && kind == PlaceholderKind::CapacityBuffer,
        "nodepools" | "nodeclaims" => karpenter,
        // Prices then stay as they were read.
        "nodeoverlays" if !karpenter => false,
        // Announced demand, and the status of cluster-autoscaler.
        _ => return Effect::Degrades,
    };
    if is_used { Effect::Stops } else { Effect::None }
}

/// The watches that fail and that the policy uses. Returns also whether the policy's decisions need
/// one of them, so that the observed cluster is out of date.
///
/// `karpenter` is whether the groups of nodes come from Karpenter's pools.
pub(super) fn check_watches(
    world: &World,
    key: &Key,
    settings: &PolicySettings,
    karpenter: bool,
) -> (bool, Faults) {
    let mut faults = Faults::default();
    let effect = |name: &str| effect(name, &key.namespace, settings.placeholders.kind, karpenter);
    let mut stops = false;
    for (name, error) in &world.failing {
        let effect = effect(name);
        stops |= effect == Effect::Stops;
        if effect != Effect::None {
            // Without the watch of pods, nothing is decided, whatever they announce.
            let stale = effect == Effect::Degrades && world.index.is_stale(name);
            let note = if stale { "; the pods that they announce no longer count" } else { "" };
            faults.add(Cause::WatchFailed, format!("{name}: {error}{note}"));
        }
    }
    for name in world.unlisted().filter(|name| effect(name) == Effect::Stops) {
        stops = true;
        if !world.failing.contains_key(name) {
            faults.add(Cause::WatchFailed, format!("{name}: not listed yet"));
        }
    }
    (stops, faults)
}

/// The prerequisites of the policy that the cluster does not meet.
pub(super) fn check_prerequisites(
    settings: &PolicySettings,
    offers: &Offers,
    context: &TurnContext<'_>,
) -> Faults {
    let mut faults = Faults::default();
    let world = context.shared.world();
    let cutoff = context.config.priority_cutoff;
    let classes: Vec<String> = match &settings.placeholders.priority_class_name {
        Some(name) => vec![name.clone()],
        None => (PRIORITIES.0..=PRIORITIES.1).map(priority_class).collect(),
    };
    for name in classes {
        let allowed = &context.config.allowed;
        match world.priority(&name) {
            Some(Priority { may_preempt: true, .. }) => faults.add(
                Cause::PriorityClass,
                format!("PriorityClass {name}: its preemptionPolicy must be Never, because placeholders must not preempt pods"),
            ),
            Some(Priority { value, .. }) if value > allowed.placeholder_priority_max => faults.add(
                Cause::PriorityClass,
                format!(
                    "PriorityClass {name} has value {value}, but the operator allows placeholders at most {}",
                    allowed.placeholder_priority_max
                ),
            ),
            None => faults.add(Cause::PriorityClass, format!("there is no PriorityClass {name}")),
            Some(Priority { value, .. }) if value < cutoff => faults.add(
                Cause::PriorityClass,
                format!(
                    "PriorityClass {name} has value {value}, but cluster-autoscaler ignores pods below {cutoff}"
                ),
            ),
            Some(Priority { value, .. }) if value >= settings.workloads.priority_min => faults.add(
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
        faults.add(
            Cause::NoCapacityBuffers,
            "the cluster does not serve CapacityBuffers of autoscaling.x-k8s.io/v1beta1",
        );
    }
    if let Some(error) = &context.groups.failing {
        faults.add(Cause::CatalogFailed, error.clone());
    }
    faults.add_all(Cause::Groups, context.groups.problems.iter().chain(&offers.problems));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effects of a watch that fails on policies in namespace `a`: with ReplicaSets, with
    /// CapacityBuffers, and with groups of Karpenter.
    #[track_caller]
    fn check(watch: &str, expected: [Effect; 3]) {
        let (sets, buffers) = (PlaceholderKind::ReplicaSet, PlaceholderKind::CapacityBuffer);
        let effects = [(sets, false), (buffers, false), (sets, true)]
            .map(|(kind, karpenter)| effect(watch, "a", kind, karpenter));
        assert_eq!(effects, expected, "{watch}");
    }

    #[test]
    fn a_watch_stops_only_the_policies_that_use_it() {
        use Effect::{Degrades, None, Stops};
        check("pods", [Stops; 3]);
        check("policies of a", [Stops; 3]);
        check("replicasets of b", [None; 3]);
        check("capacitybuffers of a", [None, Stops, None]);
        check("capacitybuffers of b", [None; 3]);
        check("nodepools", [None, None, Stops]);
        check("nodeclaims", [None, None, Stops]);
        check("nodeoverlays", [None, None, Degrades]);
        check("workloads", [Degrades; 3]);
        check("podgroups.scheduling.x-k8s.io", [Degrades; 3]);
        check("cronjobs", [Degrades; 3]);
    }
}
