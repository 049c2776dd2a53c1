//! The launch latency of each group, and the groups whose launches failed recently, both learned
//! from the history.

use std::collections::{BTreeMap, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};
use history::{EndedLaunch, LaunchEnd};

/// The launches that are kept per group. Older launches would weigh about 1 % of the newest or
/// less, because of [`DECAY`].
const LAUNCHES_MAX: usize = 100;

/// The weight of a launch relative to the next one. The latest fifteen launches have half of the
/// total weight.
const DECAY: f64 = 0.955;

/// The quantile of past launch latencies that is used as a group's launch latency: nine of ten
/// launches take no longer.
const QUANTILE: f64 = 0.9;

/// The first and the longest backoff of a group after a failed launch, in minutes. Each consecutive
/// failure doubles the backoff, as in cluster-autoscaler.
const BACKOFF_MINUTES: (i64, i64) = (5, 30);

/// The launch latencies and backoffs of all groups, by the group's name.
#[derive(Clone, Debug, Default)]
pub struct LaunchLatencies {
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    all: Latencies,
    /// Of these, the launches of new instances.
    new: Latencies,
    /// Of these, the starts of instances of a warm pool.
    starts: Latencies,
    failures: u32,
    /// When a launch failed last.
    failed: Option<DateTime<Utc>>,
    backoff_until: Option<DateTime<Utc>>,
}

/// The latencies of launches, in seconds.
#[derive(Clone, Debug, Default)]
struct Latencies {
    /// Those of launches for placeholders, oldest first.
    seconds: VecDeque<i64>,
    /// Those of launches for which pods waited, oldest first, from the creation of the oldest pod
    /// on.
    waited: VecDeque<i64>,
}

impl LaunchLatencies {
    /// Learns from a launch that ended.
    pub fn learn(&mut self, launch: &EndedLaunch) {
        let group = self.groups.entry(launch.group.clone()).or_default();
        match launch.end {
            LaunchEnd::Ready(ready) => {
                for latencies in group.latencies(launch.from_warm_pool) {
                    push(&mut latencies.seconds, (ready - launch.requested).num_seconds());
                }
                group.failures = 0;
                (group.failed, group.backoff_until) = (None, None);
            }
            LaunchEnd::WaitedFor(at) => {
                for latencies in group.latencies(launch.from_warm_pool) {
                    push(&mut latencies.waited, (at - launch.requested).num_seconds());
                }
            }
            LaunchEnd::Failed(failed) => {
                // A launch that was in progress when another one failed has failed for the same
                // cause, so it is no further failure.
                if group.failed.is_none_or(|last| last <= launch.requested) {
                    group.failures = group.failures.saturating_add(1);
                }
                let (first, most) = BACKOFF_MINUTES;
                let doublings = group.failures.saturating_sub(1).min(8);
                let minutes = first.saturating_mul(1 << doublings).min(most);
                group.failed = Some(failed);
                group.backoff_until = Some(failed + TimeDelta::minutes(minutes));
            }
        }
    }

    /// The launch latency of a group in seconds: the decayed quantile of its past launches. `None`
    /// if no launch of it was observed.
    ///
    /// Launches for which pods waited count only until the first launch for a placeholder, because
    /// such a pod may have waited for another reason before the node was requested.
    pub fn latency_seconds(&self, group: &str) -> Option<i64> {
        self.groups.get(group)?.all.quantile()
    }

    /// Like [`Self::latency_seconds`], of new instances only: the time in which a warm pool
    /// prepares an instance.
    pub fn new_instance_seconds(&self, group: &str) -> Option<i64> {
        self.groups.get(group)?.new.quantile()
    }

    /// Like [`Self::latency_seconds`], of instances that started from a warm pool only.
    pub fn start_seconds(&self, group: &str) -> Option<i64> {
        self.groups.get(group)?.starts.quantile()
    }

    /// The end of the backoff in which a group is at `now` after a failed launch.
    pub fn backoff_until(&self, group: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.groups.get(group)?.backoff_until.filter(|until| now < *until)
    }
}

impl Group {
    /// Where the latency of a launch is added.
    fn latencies(&mut self, from_warm_pool: bool) -> [&mut Latencies; 2] {
        [&mut self.all, if from_warm_pool { &mut self.starts } else { &mut self.new }]
    }
}

impl Latencies {
    /// The decayed quantile. `None` without launches.
    fn quantile(&self) -> Option<i64> {
        let Self { seconds, waited } = self;
        let seconds = if seconds.is_empty() { waited } else { seconds };
        let mut weight = 1.0;
        let mut weighed: Vec<(i64, f64)> = Vec::with_capacity(seconds.len());
        for &latency in seconds.iter().rev() {
            weighed.push((latency, weight));
            weight *= DECAY;
        }
        weighed.sort_by_key(|(latency, _)| *latency);
        let total: f64 = weighed.iter().map(|(_, weight)| weight).sum();
        let mut below = 0.0;
        let enough = weighed.iter().find(|(_, weight)| {
            below += weight;
            below >= QUANTILE * total
        });
        enough.or(weighed.last()).map(|(latency, _)| *latency)
    }
}

/// Adds a latency. The oldest one is forgotten if there are too many.
fn push(latencies: &mut VecDeque<i64>, seconds: i64) {
    if latencies.len() == LAUNCHES_MAX {
        latencies.pop_front();
    }
    latencies.push_back(seconds.max(0));
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn launch(requested: i64, end: LaunchEnd) -> EndedLaunch {
        EndedLaunch {
            bucket: "b".into(),
            group: "g".into(),
            requested: at(requested),
            end,
            from_warm_pool: false,
            rest: Map::new(),
        }
    }

    fn backs_off(launches: &LaunchLatencies, group: &str, seconds: i64) -> bool {
        launches.backoff_until(group, at(seconds)).is_some()
    }

    #[test]
    fn nine_of_ten_launches_take_no_longer_than_the_latency() {
        let mut launches = LaunchLatencies::default();
        assert_eq!(launches.latency_seconds("g"), None);
        for latency in [100, 100, 100, 300, 100, 100, 100, 100, 100, 100] {
            launches.learn(&launch(0, LaunchEnd::Ready(at(latency))));
        }
        assert_eq!(launches.latency_seconds("g"), Some(100));
        launches.learn(&launch(0, LaunchEnd::Ready(at(200))));
        launches.learn(&launch(0, LaunchEnd::Ready(at(250))));
        assert_eq!(launches.latency_seconds("g"), Some(250));
    }

    #[test]
    fn the_waiting_of_pods_counts_until_a_placeholder_was_launched() {
        let mut launches = LaunchLatencies::default();
        launches.learn(&launch(0, LaunchEnd::WaitedFor(at(200))));
        assert_eq!(launches.latency_seconds("g"), Some(200));
        launches.learn(&launch(300, LaunchEnd::Ready(at(390))));
        launches.learn(&launch(400, LaunchEnd::WaitedFor(at(900))));
        assert_eq!(launches.latency_seconds("g"), Some(90));
    }

    #[test]
    fn starts_from_a_warm_pool_are_learnt_apart_from_new_instances() {
        let mut launches = LaunchLatencies::default();
        let ready = |seconds| launch(0, LaunchEnd::Ready(at(seconds)));
        launches.learn(&ready(300));
        let from_pool = EndedLaunch { from_warm_pool: true, ..ready(60) };
        for _ in 0..3 {
            launches.learn(&from_pool);
        }
        let seconds = |launches: &LaunchLatencies| {
            [
                launches.latency_seconds("g"),
                launches.new_instance_seconds("g"),
                launches.start_seconds("g"),
            ]
        };
        assert_eq!(seconds(&launches), [Some(300), Some(300), Some(60)]);
        // Once nine of ten launches come from the pool, forecasts look less far ahead.
        for _ in 0..60 {
            launches.learn(&from_pool);
        }
        assert_eq!(seconds(&launches), [Some(60), Some(300), Some(60)]);
    }

    #[test]
    fn each_failure_doubles_the_backoff_of_a_group() {
        let mut launches = LaunchLatencies::default();
        launches.learn(&launch(0, LaunchEnd::Failed(at(1_000))));
        assert!(backs_off(&launches, "g", 1_299) && !backs_off(&launches, "g", 1_300));
        launches.learn(&launch(1_300, LaunchEnd::Failed(at(2_000))));
        assert!(backs_off(&launches, "g", 2_599) && !backs_off(&launches, "g", 2_600));
        // One cause of several failures doubles it once.
        launches.learn(&launch(1_400, LaunchEnd::Failed(at(2_010))));
        assert!(backs_off(&launches, "g", 2_609) && !backs_off(&launches, "g", 2_610));
        launches.learn(&launch(2_600, LaunchEnd::Ready(at(2_700))));
        launches.learn(&launch(2_700, LaunchEnd::Failed(at(3_000))));
        assert!(!backs_off(&launches, "g", 3_300));
        assert!(!backs_off(&launches, "other", 3_000));
    }
}
