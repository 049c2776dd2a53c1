//! Which writes to the API server may be sent now: refused writes are repeated seldom, and all
//! writes together have a budget.
//!
//! A turn runs at every change of the cluster, and decides anew which writes are due. Without these
//! limits, a write that the API server refuses would be repeated several times a second.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::clock::Stopwatch;

/// What a write is for. Each kind has a budget of its own, so that neither can delay the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteKind {
    /// A placeholder: a ReplicaSet, a gate of a pod, or a CapacityBuffer.
    Placeholders,
    /// The status or an Event of a policy.
    Reports,
}

impl WriteKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Placeholders, Self::Reports];

    /// The kind's spelling in metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Placeholders => "placeholders",
            Self::Reports => "reports",
        }
    }
}

/// Whether a write may be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The write may be sent. [`Writes::note`] must be called with its result.
    Granted,
    /// The object's last write was refused a short time ago, with this error. `None` if the object
    /// had changed since it was read, which is no fault.
    BackedOff(Option<String>),
    /// The budget is used up.
    Spent,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The API server accepted it.
    Accepted,
    /// The object was changed or deleted since it was read.
    Outdated,
    /// The API server refused it or did not respond, with this error.
    Refused(String),
}

/// The events of a write that was sent.
pub(crate) const SENT: [&str; 3] = ["written", "outdated", "refused"];

/// The events of a write that was deferred.
pub(crate) const DEFERRED: [&str; 2] = ["backoff", "budget"];

/// How often each event of [`SENT`] and [`DEFERRED`] occurred, by the kind of the writes.
pub(crate) type WriteCounts = BTreeMap<(WriteKind, &'static str), u64>;

/// The writes of status and Events a minute: five a second, so that the status of a policy follows
/// each turn, and a hundred policies do not burden the API server.
const REPORTS_PER_MINUTE: u32 = 300;

/// The time limit of one write.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);

/// The window of the budgets. As many writes as a window allows may be sent at once.
const WINDOW: Duration = Duration::from_mins(1);

/// The first pause after a refused write, and the longest one. The longest pause is short enough
/// that headroom is renewed within a minute after the cause is gone.
const REFUSED: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// As [`REFUSED`], after a write of an outdated object. The first pause is short because the watch
/// usually delivers the object's change at once.
const OUTDATED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// While less than half of the budget for reports is left, how long a policy's status waits after
/// it was written, so that one policy does not use up the budget of the others.
const SPACING: Duration = Duration::from_secs(10);

/// The time after which an object that no write is due for is forgotten.
const FORGOTTEN: Duration = Duration::from_mins(2);

/// The shortest time until deferred writes are tried again.
const SOONEST: Duration = Duration::from_secs(1);

/// The writes of all policies.
pub(crate) struct Writes {
    started: Stopwatch,
    state: Mutex<State>,
}

impl Writes {
    /// Creates the budget, of which nothing is used. `per_minute` is that of placeholders.
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { started: Stopwatch::now(), state: Mutex::new(State::new(per_minute)) }
    }

    /// Whether a write of `object` that takes this number of requests may be sent now.
    pub(crate) fn admit(&self, kind: WriteKind, object: &str, requests: u32) -> Admission {
        self.with(|state, now| state.admit(kind, object, requests, now))
    }

    /// Notes that a write was not tried, because others of its turn got no response.
    pub(crate) fn postpone(&self, kind: WriteKind) {
        self.with(|state, now| state.defer(kind, "backoff", now));
    }

    /// Notes the result of an admitted write.
    pub(crate) fn note(&self, kind: WriteKind, object: &str, written: Written) {
        self.with(|state, now| state.note(kind, object, written, now));
    }

    /// The time until a write that was deferred since the last call may be sent. `None` if none was
    /// deferred.
    pub(crate) fn until_due(&self) -> Option<Duration> {
        self.with(|state, now| Some(state.due.take()?.saturating_sub(now).max(SOONEST)))
    }

    /// The counts since the last call.
    pub(crate) fn take_counts(&self) -> WriteCounts {
        self.with(|state, now| {
            state.forget(now);
            std::mem::take(&mut state.counts)
        })
    }

    fn with<T>(&self, run: impl FnOnce(&mut State, Duration) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        run(&mut state, self.started.elapsed())
    }
}

/// The state of [`Writes`]. Times are since its creation.
struct State {
    placeholders: Budget,
    reports: Budget,
    /// By kind and object, why its next write waits.
    waiting: BTreeMap<(WriteKind, String), Waiting>,
    /// The earliest time at which a deferred write may be sent.
    due: Option<Duration>,
    counts: WriteCounts,
}

/// Why the next write of an object waits.
struct Waiting {
    until: Duration,
    /// The number of writes in a row that failed. 0 after a write that was accepted.
    failures: u32,
    /// The error of the last one.
    error: Option<String>,
}

impl State {
    fn new(per_minute: u32) -> Self {
        Self {
            placeholders: Budget::new(per_minute),
            reports: Budget::new(REPORTS_PER_MINUTE),
            waiting: BTreeMap::new(),
            due: None,
            counts: BTreeMap::new(),
        }
    }

    fn admit(&mut self, kind: WriteKind, object: &str, requests: u32, now: Duration) -> Admission {
        let low = self.budget(kind).is_low(now);
        let key = (kind, object.to_owned());
        if let Some(waiting) = self.waiting.get(&key).filter(|waiting| now < waiting.until)
            && (waiting.failures > 0 || low)
        {
            let (until, error, failed) = (waiting.until, waiting.error.clone(), waiting.failures);
            let reason = if failed > 0 { "backoff" } else { "budget" };
            self.defer(kind, reason, until);
            return if failed > 0 { Admission::BackedOff(error) } else { Admission::Spent };
        }
        match self.budget(kind).take(requests, now) {
            Ok(()) => Admission::Granted,
            Err(free) => {
                self.defer(kind, "budget", free);
                Admission::Spent
            }
        }
    }

    fn defer(&mut self, kind: WriteKind, reason: &'static str, until: Duration) {
        *self.counts.entry((kind, reason)).or_default() += 1;
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }

    fn note(&mut self, kind: WriteKind, object: &str, written: Written, now: Duration) {
        let key = (kind, object.to_owned());
        let failures = self.waiting.get(&key).map_or(0, |waiting| waiting.failures) + 1;
        let (label, waiting) = match written {
            Written::Accepted => {
                let until = now + SPACING;
                ("written", Waiting { until, failures: 0, error: None })
            }
            Written::Outdated => {
                let until = now + pause(OUTDATED, failures, object);
                ("outdated", Waiting { until, failures, error: None })
            }
            Written::Refused(error) => {
                let until = now + pause(REFUSED, failures, object);
                ("refused", Waiting { until, failures, error: Some(error) })
            }
        };
        *self.counts.entry((kind, label)).or_default() += 1;
        // A placeholder that was written is not written again for the same reason.
        if waiting.failures == 0 && kind == WriteKind::Placeholders {
            self.waiting.remove(&key);
        } else {
            self.waiting.insert(key, waiting);
        }
    }

    fn forget(&mut self, now: Duration) {
        self.waiting.retain(|_, waiting| now < waiting.until + FORGOTTEN);
    }

    fn budget(&mut self, kind: WriteKind) -> &mut Budget {
        match kind {
            WriteKind::Placeholders => &mut self.placeholders,
            WriteKind::Reports => &mut self.reports,
        }
    }
}

/// The pause after a number of failures in a row: it doubles from the first to the longest one, and
/// between a half and the whole of it is taken, so that objects that failed together are not
/// written together again. The share depends on the object and the number alone.
fn pause((first, longest): (Duration, Duration), failures: u32, object: &str) -> Duration {
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest);
    let mut hasher = DefaultHasher::new();
    (object, failures).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 1_000).unwrap_or(0);
    doubled / 2 + doubled / 2 * share / 1_000
}

/// A budget of requests: as many as a window allows at once, and then as they become free.
struct Budget {
    /// The time in which one request becomes free.
    interval: Duration,
    /// When the whole budget is free again.
    full: Duration,
}

impl Budget {
    fn new(per_minute: u32) -> Self {
        Self { interval: WINDOW / per_minute.max(1), full: Duration::ZERO }
    }

    /// Takes a number of requests. Returns the time at which they are free, if they are not now.
    fn take(&mut self, requests: u32, now: Duration) -> Result<(), Duration> {
        let full = self.full.max(now) + self.interval * requests;
        if full > now + WINDOW {
            return Err(full.saturating_sub(WINDOW));
        }
        self.full = full;
        Ok(())
    }

    fn is_low(&self, now: Duration) -> bool {
        self.full.saturating_sub(now) > WINDOW / 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POD: WriteKind = WriteKind::Placeholders;
    const STATUS: WriteKind = WriteKind::Reports;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// The times within ten minutes at which a write is sent, if it is tried every 100 ms and
    /// always fails alike.
    fn attempts(failure: &Written) -> Vec<f64> {
        let mut state = State::new(1_200);
        let mut sent = Vec::new();
        for step in 0..6_000_u32 {
            let now = seconds(f64::from(step) / 10.0);
            if state.admit(POD, "Pod a/b", 1, now) == Admission::Granted {
                sent.push(now.as_secs_f64());
                state.note(POD, "Pod a/b", failure.clone(), now);
            }
        }
        sent
    }

    #[test]
    fn the_pauses_of_a_failing_write_double_up_to_a_limit() {
        for (failure, (first, longest)) in
            [(Written::Refused("no".into()), REFUSED), (Written::Outdated, OUTDATED)]
        {
            let sent = attempts(&failure);
            let pauses: Vec<f64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
            for (at, pause) in pauses.iter().enumerate() {
                let doubled = first * (1_u32 << at.min(16));
                let whole = doubled.min(longest).as_secs_f64();
                let range = whole / 2.0 - 0.01..=whole + 0.11;
                assert!(range.contains(pause), "pause {at} of {failure:?}: {pause}");
            }
            assert!(pauses.len() > 10, "{failure:?}: {pauses:?}");
        }
    }

    #[test]
    fn objects_that_fail_together_are_tried_at_different_times() {
        let pauses: std::collections::BTreeSet<Duration> =
            (0..100).map(|n| pause(REFUSED, 5, &format!("Pod a/{n}"))).collect();
        assert!(pauses.len() > 80, "{pauses:?}");
    }

    #[test]
    fn the_error_stays_known_until_a_write_succeeds() {
        let mut state = State::new(60);
        let now = seconds(0.0);
        assert_eq!(state.admit(POD, "Pod a/b", 1, now), Admission::Granted);
        state.note(POD, "Pod a/b", Written::Refused("no".into()), now);
        let error = Some("no".to_owned());
        assert_eq!(state.admit(POD, "Pod a/b", 1, seconds(0.5)), Admission::BackedOff(error));
        assert_eq!(state.admit(POD, "Pod a/c", 1, seconds(0.5)), Admission::Granted);
        assert!(state.due.is_some_and(|due| due <= seconds(2.0)));
        assert_eq!(state.admit(POD, "Pod a/b", 1, seconds(2.0)), Admission::Granted);
        state.note(POD, "Pod a/b", Written::Accepted, seconds(2.0));
        assert_eq!(state.admit(POD, "Pod a/b", 1, seconds(2.0)), Admission::Granted);
    }

    #[test]
    fn one_policy_does_not_use_up_the_budget_for_the_status_of_others() {
        let mut state = State::new(60);
        let mut sent = BTreeMap::<&str, u32>::new();
        for step in 0..2_400_u32 {
            let now = seconds(f64::from(step) / 8.0);
            for policy in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
                if state.admit(STATUS, policy, 1, now) == Admission::Granted {
                    state.note(STATUS, policy, Written::Accepted, now);
                    *sent.entry(policy).or_default() += 1;
                }
            }
        }
        // Five minutes have 30 times ten seconds.
        assert!(sent.len() == 10 && sent.values().all(|count| *count >= 29), "{sent:?}");
    }

    #[test]
    fn what_no_write_is_due_for_is_forgotten() {
        let mut state = State::new(60_000);
        for n in 0..10_000_u32 {
            let now = seconds(f64::from(n));
            state.note(POD, &format!("Pod a/{n}"), Written::Refused("no".into()), now);
            state.forget(now);
            assert!(state.waiting.len() <= 200, "{}", state.waiting.len());
        }
    }

    proptest! {
        /// Whatever is tried, no minute has more than twice the budget, and no long time has more
        /// than the budget on average.
        #[test]
        fn no_sequence_of_writes_exceeds_the_budget(
            per_minute in 1..2_000_u32,
            tries in prop::collection::vec((0..5_000_u64, 0..20_u8, 1..3_u32, 0..3_u8), 1..400),
        ) {
            let mut state = State::new(per_minute);
            let (mut now, mut sent) = (Duration::ZERO, Vec::new());
            for (pause, object, requests, result) in tries {
                now += Duration::from_millis(pause);
                let object = object.to_string();
                if state.admit(POD, &object, requests, now) == Admission::Granted {
                    sent.push((now, requests));
                    state.note(POD, &object, match result {
                        0 => Written::Accepted,
                        1 => Written::Outdated,
                        _ => Written::Refused("no".into()),
                    }, now);
                }
            }
            for (at, (from, _)) in sent.iter().enumerate() {
                let mut total = 0;
                for (time, requests) in &sent[at..] {
                    total += requests;
                    let minutes = time.saturating_sub(*from).as_secs_f64() / 60.0;
                    let most = f64::from(per_minute) * (1.0 + minutes) + 1e-6;
                    prop_assert!(f64::from(total) <= most, "{total} in {minutes} minutes");
                }
            }
        }
    }
}
