//! What a policy's placeholders achieved and cost since a date: the launches that they hid from
//! pods, and the time for which they held nodes. A launch that no pod used saved nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use history::{EndedLaunch, LaunchEnd, Line, UsedLaunch};

/// The account of a policy. It begins with the first line of the history that is recalled, or with
/// the start of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The time from which on launches and placeholders count.
    pub since: Option<DateTime<Utc>>,
    /// The launches for placeholders whose nodes became ready.
    pub launched: u64,
    /// Of these, those to whose nodes a batch pod came.
    pub used: u64,
    /// Of these, those that no pod waited for.
    pub hidden: u64,
    /// The launches that a pod waited for.
    pub waited_for: u64,
    /// The launches that failed.
    pub failed: u64,
    /// The waiting that the used launches saved, in seconds.
    pub saved_seconds: i64,
    /// By bucket, the time for which placeholders held nodes, in node-seconds. Nodes that are paid
    /// whether they run or not are left out.
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
        let paid = line
            .buckets
            .iter()
            .map(|(name, bucket)| (name.as_str(), bucket.ready.saturating_sub(bucket.prepaid)));
        self.add(line.time, paid, &line.launches, &line.used);
    }

    /// Adds a moment: by bucket the placeholders on nodes that are paid for them, which count since
    /// the moment before, and the launches that ended and that were used since then.
    pub fn add<'a>(
        &mut self,
        time: DateTime<Utc>,
        paid: impl Iterator<Item = (&'a str, u64)>,
        launches: &[EndedLaunch],
        used: &[UsedLaunch],
    ) {
        self.since.get_or_insert(time);
        let passed = self.until.map_or(TimeDelta::zero(), |until| time - until);
        let counts = (TimeDelta::zero()..=GAP).contains(&passed);
        for (bucket, nodes) in paid.filter(|(_, nodes)| counts && *nodes > 0) {
            let held = passed.as_seconds_f64() * nodes as f64;
            *self.held_seconds.entry(bucket.into()).or_default() += held;
        }
        self.until = self.until.max(Some(time));
        for launch in launches {
            match launch.end {
                LaunchEnd::Ready(_) => self.launched += 1,
                LaunchEnd::WaitedFor(_) => self.waited_for += 1,
                LaunchEnd::Failed(_) => self.failed += 1,
            }
        }
        for launch in used {
            self.used += 1;
            let waited = launch.submitted < launch.ready;
            *(if waited { &mut self.waited_for } else { &mut self.hidden }) += 1;
            self.saved_seconds += launch.saved_seconds();
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
            from_warm_pool: false,
            rest: Map::new(),
        };
        let mut account = Account::default();
        let used = |submitted: i64| UsedLaunch {
            bucket: "small".into(),
            group: "g".into(),
            requested: at(0),
            ready: at(90),
            submitted: at(submitted),
            rest: Map::new(),
        };
        let ready = [90, 90, 90].map(|end| launch(LaunchEnd::Ready(at(end))));
        account.add(at(100), [("small", 9)].into_iter(), &ready, &[]);
        // A pod comes to a ready node, and another one to a node that it waited a minute for.
        let used = [used(150), used(30)];
        account.add(at(160), [("small", 2), ("large", 0)].into_iter(), &[], &used);
        // The clock goes back by a minute, and then there is a gap of an hour.
        account.add(at(100), [("small", 2)].into_iter(), &[], &[]);
        let failed = [LaunchEnd::Failed(at(0)), LaunchEnd::WaitedFor(at(0))].map(launch);
        account.add(at(3_760), [("small", 5)].into_iter(), &failed, &[]);
        let expected = Account {
            since: Some(at(100)),
            launched: 3,
            used: 2,
            hidden: 1,
            waited_for: 2,
            failed: 1,
            saved_seconds: 90 + 30,
            held_seconds: BTreeMap::from([("small".into(), 120.0)]),
            until: Some(at(3_760)),
        };
        assert_eq!(account, expected);
    }
}
