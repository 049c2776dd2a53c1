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
use placeholders::{BucketPlan, Reason};

/// How long after new demand no placeholder of the bucket is removed: 15 seconds. The Job
/// controller creates the pods within seconds, and the scheduler preempts within one.
const HOLD: TimeDelta = TimeDelta::seconds(15);

/// The demand of each bucket at the last turn, and when pods last came that need nodes.
#[derive(Debug, Default)]
pub(super) struct Preempting {
    buckets: BTreeMap<String, Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    present: u64,
    announced: u64,
    since: Option<DateTime<Utc>>,
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
            let since = if came { Some(now) } else { last.since };
            preempting.push(since.is_some_and(|since| now - since < HOLD));
            self.buckets.insert(name.to_owned(), Bucket { present, announced, since });
        }
        preempting
    }

    /// When the next of the buckets ceases to hold its placeholders.
    pub(super) fn ends(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ends = self.buckets.values().filter_map(|bucket| Some(bucket.since? + HOLD));
        ends.filter(|end| now < *end).min()
    }
}

/// Whether a limit determined the target of a bucket. A limit takes effect at once.
pub(super) fn is_limited(bucket: &BucketPlan) -> bool {
    bucket.why.last().is_some_and(|step| {
        matches!(
            step.reason,
            Reason::Rollout
                | Reason::BucketLimit
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
