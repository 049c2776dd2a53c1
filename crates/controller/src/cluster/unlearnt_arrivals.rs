//! Pods and gangs that arrived and that no control could learn yet.
//!
//! Nothing is learnt while watches fail, nor while no control has the buckets on offer, because the
//! history is being replayed into a new one.

use chrono::{DateTime, Utc};

use crate::observe::PodClass;

/// What arrived since a control last learnt.
#[derive(Default)]
pub(super) struct UnlearntArrivals {
    /// The first turn in which nothing could be learnt. `None` after a turn that learnt.
    since: Option<DateTime<Utc>>,
    arrived: Arrived,
}

/// The pods that arrived, by class, and the gangs, each with its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) pods: Vec<(PodClass, u64)>,
    pub(super) gangs: Vec<Vec<(PodClass, u64)>>,
}

/// What a turn does with the pods and gangs that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// It learns them, with those of earlier turns.
    Learn(Arrived),
    /// It keeps them, because nothing can be learnt now.
    Later,
    /// It drops them. Arrivals of more than a tick would be learnt as one burst.
    Drop,
}

impl UnlearntArrivals {
    /// Adds the arrivals of a turn, and returns what to do with all of them. `can_learn` is whether
    /// a control can learn now.
    pub(super) fn turn(
        &mut self,
        pods: &[(PodClass, u64)],
        gangs: &[Vec<(PodClass, u64)>],
        can_learn: bool,
        tick_seconds: i64,
        now: DateTime<Utc>,
    ) -> Lesson {
        let missed = self.since.is_some_and(|since| (now - since).num_seconds() > tick_seconds);
        self.since = if can_learn { None } else { self.since.or(Some(now)) };
        if missed {
            self.arrived = Arrived::default();
            return Lesson::Drop;
        }
        self.arrived.pods.extend_from_slice(pods);
        self.arrived.gangs.extend_from_slice(gangs);
        if can_learn { Lesson::Learn(std::mem::take(&mut self.arrived)) } else { Lesson::Later }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// Each turn has the second, whether a control can learn, and the number of pods that arrive;
    /// then what happens: the numbers of pods that are learnt.
    #[track_caller]
    fn check(turns: &[(i64, bool, u64, Option<&[u64]>)]) {
        let mut unlearnt = UnlearntArrivals::default();
        let pod = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
        let class = PodClass::of(&pod, &BTreeSet::new());
        for &(second, can_learn, count, expected) in turns {
            let now = DateTime::from_timestamp(second, 0).unwrap();
            let pods = [(class.clone(), count)];
            let gangs = [pods.to_vec()];
            let learnt = match unlearnt.turn(&pods, &gangs, can_learn, 10, now) {
                Lesson::Learn(arrived) => {
                    assert_eq!(arrived.gangs.concat(), arrived.pods);
                    Some(arrived.pods.iter().map(|(_, count)| *count).collect::<Vec<_>>())
                }
                Lesson::Later => None,
                Lesson::Drop => Some(Vec::new()),
            };
            assert_eq!(learnt.as_deref(), expected, "second {second}");
        }
    }

    #[test]
    fn arrivals_wait_for_a_control_that_can_learn() {
        check(&[
            (0, true, 1, Some(&[1])),
            (1, false, 2, None),
            (9, false, 3, None),
            (11, true, 4, Some(&[2, 3, 4])),
            (12, true, 5, Some(&[5])),
        ]);
    }

    #[test]
    fn arrivals_of_more_than_a_tick_are_dropped() {
        check(&[
            (0, false, 1, None),
            (11, false, 2, Some(&[])),
            (12, true, 3, Some(&[])),
            (13, true, 4, Some(&[4])),
        ]);
    }
}
