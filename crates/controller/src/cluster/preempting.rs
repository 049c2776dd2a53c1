//! The buckets in which pods may be preempting placeholders, so that none is removed there.
//!
//! A pod that preempts a placeholder stays pending for up to five minutes if the placeholder is
//! deleted by another client at that moment. kube-scheduler 1.36 does not queue the pod while its
//! preemption is in progress, and it counts a placeholder that is already gone as preempted, so the
//! deletion that it saw in between queues nothing
//! (`pkg/scheduler/framework/preemption/executor.go`, `isRunningPreemption` and `PreemptPod`). A
//! suspended Job that is released makes that likely, because its placeholders are no longer wanted
//! in the second in which its pods preempt them.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::Demand;
use placeholders::{BucketPlan, Plan, Reason};

/// How long after new demand no placeholder of the bucket is removed: 15 seconds. The Job
/// controller creates the pods within seconds, and the scheduler preempts within one.
const HOLD: TimeDelta = TimeDelta::seconds(15);

/// How long new demand that keeps coming holds the placeholders of a bucket: a minute.
const HOLD_MAX: TimeDelta = TimeDelta::seconds(60);

/// The demand of each bucket at the last turn, and when pods last came that need nodes.
#[derive(Debug, Default)]
pub(super) struct Preempting {
    buckets: BTreeMap<String, Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    present: u64,
    announced: u64,
    /// When the placeholders began to be held, and when new demand came last since then.
    held: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Bucket {
    /// When the placeholders cease to be held.
    fn end(&self) -> Option<DateTime<Utc>> {
        let (began, last) = self.held?;
        Some((last + HOLD).min(began + HOLD_MAX))
    }
}

impl Preempting {
    /// Records the demand, and returns by bucket whether pods may be preempting placeholders: pods
    /// came that need nodes, or announced pods ceased to be announced, because they are released.
    pub(super) fn note<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        demand: &Demand,
        now: DateTime<Utc>,
    ) -> Vec<bool> {
        let before = std::mem::take(&mut self.buckets);
        let mut preempting = Vec::new();
        for ((name, &present), &announced) in names.zip(&demand.present).zip(&demand.announced) {
            let last = before.get(name).copied().unwrap_or_default();
            let came = present > last.present || announced < last.announced;
            let held = match last.held {
                // A turn without it follows, also if demand keeps coming.
                Some(_) if last.end().is_none_or(|end| end <= now) => None,
                Some((began, _)) if came => Some((began, now)),
                None if came => Some((now, now)),
                held => held,
            };
            preempting.push(held.is_some());
            self.buckets.insert(name.to_owned(), Bucket { present, announced, held });
        }
        preempting
    }

    /// When the next of the buckets ceases to hold its placeholders.
    pub(super) fn ends(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ends = self.buckets.values().filter_map(Bucket::end);
        ends.filter(|end| now < *end).min()
    }
}

/// The plan with the placeholders on nodes that stay. `preempting` has, by bucket, whether pods may
/// be preempting placeholders, and `on_nodes` returns their number in a group.
pub(super) fn held(
    plan: &Plan,
    preempting: &[bool],
    on_nodes: impl Fn(usize, usize) -> u64,
) -> Plan {
    let mut held = plan.clone();
    for bucket in &mut held.buckets {
        let preempting = preempting.get(bucket.bucket).is_some_and(|&preempting| preempting);
        if !preempting || is_limited(bucket) {
            continue;
        }
        for (at, group) in bucket.groups.iter_mut().enumerate() {
            group.want = group.want.max(on_nodes(bucket.bucket, at));
        }
        let wants = bucket.groups.iter().map(|group| group.want);
        bucket.target = wants.fold(0, u64::saturating_add);
    }
    held
}

/// Whether a limit determined the target of a bucket. A limit takes effect at once. A rollout lets
/// stand what stood before, unless it lets nothing stand.
fn is_limited(bucket: &BucketPlan) -> bool {
    bucket.why.last().is_some_and(|step| {
        let stops = step.reason == Reason::Rollout && step.target == 0;
        stops
            || matches!(
                step.reason,
                Reason::BucketLimit
                    | Reason::TotalLimit
                    | Reason::SpendCap
                    | Reason::OperatorLimit
                    | Reason::PriceUnknown
                    | Reason::YieldsToRealPods
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_removed_for_15_seconds_after_pods_came_or_were_released() {
        // Seconds, nodes of present and of announced demand, and whether pods may be preempting.
        let turns = [
            (0, 0, 0, false),
            (10, 0, 3, false),
            (20, 0, 0, true),
            (21, 2, 0, true),
            (35, 2, 0, true),
            (36, 2, 0, false),
            (40, 1, 0, false),
            (50, 4, 0, true),
            (65, 0, 0, false),
            // Demand that keeps coming holds for a minute.
            (100, 1, 0, true),
            (110, 2, 0, true),
            (124, 3, 0, true),
            (138, 4, 0, true),
            (150, 5, 0, true),
            (160, 6, 0, false),
            (170, 7, 0, true),
        ];
        let mut preempting = Preempting::default();
        for (seconds, present, announced, expected) in turns {
            let now = DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
            let demand =
                Demand { present: vec![present], announced: vec![announced], ..Demand::default() };
            let noted = preempting.note(["m5.xlarge"].into_iter(), &demand, now);
            assert_eq!(noted, [expected], "{seconds}");
        }
    }
}
