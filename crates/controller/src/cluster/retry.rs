//! When the history is read again after a failure.

use chrono::{DateTime, TimeDelta, Utc};

/// The seconds until the next attempt after a first failure, and at most. A replay reads up to 14
/// days, so it is not repeated at every turn.
const SECONDS: (i64, i64) = (10, 600);

/// The last failure to read the history, if it was not read since.
#[derive(Default)]
pub(super) struct Retry(Option<Failure>);

struct Failure {
    error: String,
    next: DateTime<Utc>,
    /// The seconds from the failure to the next attempt.
    seconds: i64,
}

impl Retry {
    /// Returns the last error if no attempt is due at `now`.
    pub(super) fn error(&self, now: DateTime<Utc>) -> Option<&str> {
        self.0.as_ref().filter(|failure| now < failure.next).map(|failure| failure.error.as_str())
    }

    /// Records an attempt at `now`: its error, or `None` if it succeeded.
    pub(super) fn note(&mut self, error: Option<String>, now: DateTime<Utc>) {
        let (first, most) = SECONDS;
        let seconds = self.0.as_ref().map_or(first, |last| (2 * last.seconds).min(most));
        let next = now + TimeDelta::seconds(seconds);
        self.0 = error.map(|error| Failure { error, next, seconds });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_further_apart_after_each_failure_until_one_succeeds() {
        let mut retry = Retry::default();
        let mut now = DateTime::UNIX_EPOCH;
        let mut fail_until_due = |retry: &mut Retry| {
            retry.note(Some("gone".into()), now);
            let waits = (1..=600).find(|s| retry.error(now + TimeDelta::seconds(*s)).is_none());
            now += TimeDelta::seconds(waits.unwrap());
            waits.unwrap()
        };
        let waits: Vec<i64> = (0..8).map(|_| fail_until_due(&mut retry)).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
        retry.note(None, DateTime::UNIX_EPOCH);
        assert_eq!(retry.error(DateTime::UNIX_EPOCH), None);
        assert_eq!(fail_until_due(&mut retry), 10);
    }
}
