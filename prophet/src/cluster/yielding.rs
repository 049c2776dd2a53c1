//! Whether placeholders yield, because pods of workloads wait for nodes that do not come.
//!
//! A ceiling of the cluster, such as cluster-autoscaler's `--max-nodes-total` or a quota of the
//! cloud provider, counts the nodes of placeholders, too. When it is reached, a pod that needs a
//! node of another instance type waits for as long as placeholders hold theirs. So once pods have
//! waited for longer than a launch takes, and a group could still launch nodes for them, the
//! policies give up placeholders: as many as the pods need nodes, and twice as many every minute.
//! Afterwards no policy adds placeholders for a while.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{BucketSet, Cluster, PodRequest, Shape, embed};

use super::gather::{by_type, place, usable};
use crate::catalog::Offers;
use crate::observe::{ClassId, Index, PodClass, Role};

/// How long placeholders yield to the same pods: 30 minutes, enough for cluster-autoscaler to
/// remove the empty nodes (after 10 minutes by default) and to launch others. Pods that still wait
/// then wait for something else.
const IN_VAIN: TimeDelta = TimeDelta::minutes(30);

/// How long placeholders do not yield again to pods to which they yielded in vain.
const EXEMPT: TimeDelta = TimeDelta::hours(12);

/// The first and the longest pause of growth after placeholders yielded, in minutes. Each time
/// doubles the pause.
const PAUSE_MINUTES: (i64, i64) = (5, 60);

/// How long after a pause the next one is the first again.
const CALM: TimeDelta = TimeDelta::hours(2);

/// The priority below which a pod gets no placeholder's node: that of placeholders is negative.
const PRIORITY_MIN: i32 = 0;

/// What placeholders do for waiting pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Yield {
    /// They follow the plan.
    #[default]
    No,
    /// Each policy gives up this many of the placeholders that it had at the beginning.
    Shed(u64),
    /// No policy adds placeholders.
    Hold,
}

/// The pods that wait for nodes, and how long placeholders have been yielding to them.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    waiting: HashMap<ClassId, Waiting>,
    /// When placeholders began to yield.
    since: Option<DateTime<Utc>>,
    paused_until: Option<DateTime<Utc>>,
    pause_minutes: i64,
}

/// Pods of one class that wait for a node.
#[derive(Debug)]
struct Waiting {
    class: Arc<PodClass>,
    /// The number of pods of the class that had ceased to wait when it was last observed.
    left: u64,
    /// Since when no pod of the class has ceased to wait.
    since: DateTime<Utc>,
    /// Until when placeholders do not yield to the pods, because they did so in vain.
    in_vain_until: Option<DateTime<Utc>>,
}

impl Yielding {
    /// Records the waiting pods, and returns what placeholders do for those that have waited for
    /// longer than `patience`.
    ///
    /// `preempts` is whether the scheduler of a class preempts placeholders: other schedulers may
    /// hold pods for other reasons. `nodes_for` returns the number of nodes that could still be
    /// launched for pods of these classes.
    pub(super) fn note(
        &mut self,
        index: &Index,
        preempts: &dyn Fn(&PodClass) -> bool,
        patience: TimeDelta,
        now: DateTime<Utc>,
        nodes_for: impl FnOnce(&[(&PodClass, u64)]) -> u64,
    ) -> Yield {
        self.follow(index, preempts, now);
        let mut stuck: Vec<(ClassId, u64)> = Vec::new();
        for (&id, waiting) in &self.waiting {
            let exempt = waiting.in_vain_until.is_some_and(|until| now < until);
            if !exempt && now - waiting.since > patience {
                stuck.push((id, index.waiting(id)[0]));
            }
        }
        let classes = stuck.iter().map(|(id, pods)| (&*self.waiting[id].class, *pods));
        let classes: Vec<(&PodClass, u64)> = classes.collect();
        let nodes = if classes.is_empty() { 0 } else { nodes_for(&classes) };
        if nodes == 0 {
            return self.rest(now);
        }
        let since = *self.since.get_or_insert(now);
        if now - since > IN_VAIN {
            for (id, _) in stuck {
                let until = Some(now + EXEMPT);
                self.waiting.entry(id).and_modify(|waiting| waiting.in_vain_until = until);
            }
            return self.rest(now);
        }
        let doublings = u32::try_from((now - since).num_minutes()).unwrap_or(0);
        Yield::Shed(nodes.saturating_mul(2_u64.saturating_pow(doublings)))
    }

    fn follow(&mut self, index: &Index, preempts: &dyn Fn(&PodClass) -> bool, now: DateTime<Utc>) {
        let mut before = std::mem::take(&mut self.waiting);
        for (id, class) in index.classes().iter() {
            let real = class.role == Role::Workload && class.priority >= PRIORITY_MIN;
            if !real || index.waiting(id)[0] == 0 || !preempts(class) {
                continue;
            }
            let left = index.ceased_to_wait(id);
            // The number of a class that is gone is used again.
            let known = before.remove(&id).filter(|known| Arc::ptr_eq(&known.class, class));
            let in_vain_until = known.as_ref().and_then(|known| known.in_vain_until);
            let since = known.filter(|known| known.left == left).map_or(now, |known| known.since);
            self.waiting
                .insert(id, Waiting { class: Arc::clone(class), left, since, in_vain_until });
        }
    }

    /// What placeholders do while no pods are stuck.
    fn rest(&mut self, now: DateTime<Utc>) -> Yield {
        if self.since.take().is_some() {
            let (first, most) = PAUSE_MINUTES;
            let calm = self.paused_until.is_none_or(|until| now - until > CALM);
            self.pause_minutes = if calm { first } else { (2 * self.pause_minutes).min(most) };
            self.paused_until = Some(now + TimeDelta::minutes(self.pause_minutes));
        }
        if self.paused_until.is_some_and(|until| now < until) { Yield::Hold } else { Yield::No }
    }
}

/// The number of nodes that pods of these classes need, of groups that are below their maximum.
pub(super) fn nodes_for(waiting: &[(&PodClass, u64)], index: &Index, offers: &Offers) -> u64 {
    let by_type = by_type(offers);
    let mut nodes: Vec<Vec<u64>> =
        offers.groups.iter().map(|groups| vec![0; groups.len()]).collect();
    for (_, _, facts) in index.nodes().iter() {
        if let Some((bucket, group)) = place(facts, offers, &by_type) {
            nodes[bucket][group] += 1;
        }
    }
    let buckets = offers.catalog.buckets();
    let open = |class: &PodClass, bucket: usize| {
        (0..nodes[bucket].len()).any(|group| {
            nodes[bucket][group] < buckets[bucket].groups[group].max
                && usable(&class.constraints, &class.devices, &offers.groups[bucket][group])
        })
    };
    let pending = waiting.iter().filter_map(|&(class, count)| {
        let shape = Shape {
            requests: class.requests,
            accelerator_kind: class.accelerator_kind.clone(),
            admits: BucketSet::only((0..buckets.len()).filter(|&bucket| open(class, bucket))),
        };
        offers.catalog.buckets_for(&shape).is_ok().then_some(PodRequest { shape, count })
    });
    let pending: Vec<PodRequest> = pending.collect();
    let cluster = Cluster { pending, occupied: vec![0; buckets.len()], ..Cluster::default() };
    let demand = embed(&cluster, &offers.catalog);
    demand.present.iter().fold(0, |sum, nodes| sum.saturating_add(*nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PATIENCE: TimeDelta = TimeDelta::seconds(100);

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    /// An index with pending pods of these names, all of one class.
    fn pending(names: &[&str]) -> Index {
        let mut index = Index::default();
        for name in names {
            index.apply_pod(&pod(name, ""));
        }
        index
    }

    fn pod(name: &str, node: &str) -> crate::observe::Pod {
        let pod = json!({
            "metadata": {"name": name, "namespace": "jobs"},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    /// The answer at a second, with a patience of 100 seconds and one node per waiting pod.
    #[track_caller]
    fn check(yielding: &mut Yielding, index: &Index, seconds: i64, expected: Yield) {
        let nodes = |stuck: &[(&PodClass, u64)]| stuck.iter().map(|(_, pods)| pods).sum();
        let answer = yielding.note(index, &|_| true, PATIENCE, at(seconds), nodes);
        assert_eq!(answer, expected, "{seconds}");
    }

    #[test]
    fn placeholders_yield_to_pods_that_wait_for_longer_than_a_launch() {
        let (mut yielding, mut index) = (Yielding::default(), pending(&["a", "b"]));
        check(&mut yielding, &index, 0, Yield::No);
        check(&mut yielding, &index, 100, Yield::No);
        check(&mut yielding, &index, 101, Yield::Shed(2));
        check(&mut yielding, &index, 161, Yield::Shed(4));
        check(&mut yielding, &index, 221, Yield::Shed(8));
        // A pod that starts shows that nodes come.
        index.apply_pod(&pod("a", "n"));
        check(&mut yielding, &index, 230, Yield::Hold);
        check(&mut yielding, &index, 330, Yield::Hold);
        check(&mut yielding, &index, 331, Yield::Shed(1));
        index.apply_pod(&pod("b", "n"));
        // The second pause is twice as long.
        check(&mut yielding, &index, 400, Yield::Hold);
        check(&mut yielding, &index, 999, Yield::Hold);
        check(&mut yielding, &index, 1_000, Yield::No);
    }

    #[test]
    fn placeholders_that_yield_in_vain_return() {
        let (mut yielding, index) = (Yielding::default(), pending(&["a"]));
        check(&mut yielding, &index, 0, Yield::No);
        check(&mut yielding, &index, 200, Yield::Shed(1));
        check(&mut yielding, &index, 2_000, Yield::Shed(1 << 30));
        check(&mut yielding, &index, 2_001, Yield::Hold);
        check(&mut yielding, &index, 2_301, Yield::No);
        check(&mut yielding, &index, 40_000, Yield::No);
    }

    #[test]
    fn pods_for_which_no_group_can_launch_a_node_change_nothing() {
        let (mut yielding, index) = (Yielding::default(), pending(&["a"]));
        for seconds in [0, 200, 2_000] {
            // Another scheduler may hold the pods for another reason.
            for (preempts, nodes) in [(true, 0), (false, 1)] {
                let preempts = |_: &PodClass| preempts;
                let answer = yielding.note(&index, &preempts, PATIENCE, at(seconds), |_| nodes);
                assert_eq!(answer, Yield::No);
            }
        }
    }
}
