//! What a policy's placeholders achieved and cost since a date: the launches that they hid, and the
//! time for which they held nodes.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::record::store::{EndedLaunch, LaunchEnd, Line};

/// The account of a policy. It begins with the first line of the history that is recalled, or with
/// the start of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The time from which on launches and placeholders count.
    pub since: Option<DateTime<Utc>>,
    /// The launches of placeholders whose nodes became ready.
    pub hidden: u64,
    /// The launches that a pod waited for.
    pub waited_for: u64,
    /// The launches that failed.
    pub failed: u64,
    /// The sum of the launch latencies of the hidden launches, in seconds.
    pub hidden_seconds: i64,
    /// By bucket, the time for which placeholders held nodes, in node-seconds.
    pub held_seconds: BTreeMap<String, f64>,
    /// The time until which placeholders are counted.
    until: Option<DateTime<Utc>>,
}

/// The longest time between two ticks or turns that counts, in seconds. During a longer gap, the
/// controller did not run, and the number of placeholders is unknown.
const GAP: TimeDelta = TimeDelta::minutes(15);

impl Account {
    /// Adds a line of the history.
    pub fn recall(&mut self, line: &Line) {
        let ready = line.buckets.iter().map(|(name, bucket)| (name.as_str(), bucket.ready));
        self.add(line.time, ready, &line.launches);
    }

    /// Adds a moment: the placeholders on nodes by bucket, which count since the moment before, and
    /// the launches that ended since then.
    pub fn add<'a>(
        &mut self,
        time: DateTime<Utc>,
        ready: impl Iterator<Item = (&'a str, u64)>,
        launches: &[EndedLaunch],
    ) {
        self.since.get_or_insert(time);
        let passed = self.until.map_or(TimeDelta::zero(), |until| time - until);
        let counts = (TimeDelta::zero()..=GAP).contains(&passed);
        for (bucket, nodes) in ready.filter(|(_, nodes)| counts && *nodes > 0) {
            let held = passed.as_seconds_f64() * nodes as f64;
            *self.held_seconds.entry(bucket.into()).or_default() += held;
        }
        self.until = self.until.max(Some(time));
        for launch in launches {
            match launch.end {
                LaunchEnd::Ready(ready) => {
                    self.hidden += 1;
                    self.hidden_seconds += (ready - launch.requested).num_seconds().max(0);
                }
                LaunchEnd::WaitedFor(_) => self.waited_for += 1,
                LaunchEnd::Failed(_) => self.failed += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn launches_and_held_nodes_count_and_gaps_do_not() {
        let at = |seconds: i64| DateTime::from_timestamp(seconds, 0).unwrap();
        let launch = |end| EndedLaunch {
            bucket: "small".into(),
            group: "g".into(),
            requested: at(0),
            end,
            rest: Map::new(),
        };
        let mut account = Account::default();
        let ready = launch(LaunchEnd::Ready(at(90)));
        account.add(at(100), [("small", 9)].into_iter(), &[ready]);
        account.add(at(160), [("small", 2), ("large", 0)].into_iter(), &[]);
        // The clock goes back by a minute, and then there is a gap of an hour.
        account.add(at(100), [("small", 2)].into_iter(), &[]);
        let failed = [LaunchEnd::Failed(at(0)), LaunchEnd::WaitedFor(at(0))].map(launch);
        account.add(at(3_760), [("small", 5)].into_iter(), &failed);
        let expected = Account {
            since: Some(at(100)),
            hidden: 1,
            waited_for: 1,
            failed: 1,
            hidden_seconds: 90,
            held_seconds: BTreeMap::from([("small".into(), 120.0)]),
            until: Some(at(3_760)),
        };
        assert_eq!(account, expected);
    }
}
