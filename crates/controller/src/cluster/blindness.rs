//! How long watches that a policy needs have been failing, and how much headroom stays meanwhile.
//!
//! For a lead time, the standing placeholders stay as they are. Over the next lead time, headroom
//! shrinks evenly to 0, because forecasts become less reliable as the observed state ages.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

/// The time since which watches fail. Empty while all of them work.
#[derive(Clone, Debug, Default)]
pub(super) struct Blindness(Option<Began>);

#[derive(Clone, Debug)]
struct Began {
    at: DateTime<Utc>,
    /// The number of placeholders when watches began to fail, by the name of their bucket.
    stood: BTreeMap<String, u64>,
}

impl Blindness {
    /// Records whether watches fail now. `standing` gives the standing placeholders by the name of
    /// their bucket, and counts only when watches begin to fail.
    pub(super) fn note(
        &mut self,
        fails: bool,
        now: DateTime<Utc>,
        standing: impl FnOnce() -> BTreeMap<String, u64>,
    ) {
        if !fails {
            self.0 = None;
        } else if self.0.is_none() {
            self.0 = Some(Began { at: now, stood: standing() });
        }
    }

    /// How long watches have been failing, in seconds. 0 while all of them work.
    pub(super) fn seconds(&self, now: DateTime<Utc>) -> i64 {
        self.0.as_ref().map_or(0, |began| (now - began.at).num_seconds().max(0))
    }

    /// The headroom that stays for each of these buckets. `None` while all placeholders stay: while
    /// watches work, and during the first lead time.
    pub(super) fn headroom<'a>(
        &self,
        buckets: impl IntoIterator<Item = &'a str>,
        lead_seconds: i64,
        now: DateTime<Utc>,
    ) -> Option<Vec<u64>> {
        let Began { stood, .. } = self.0.as_ref()?;
        let lead = u64::try_from(lead_seconds).unwrap_or(0).max(1);
        let over = u64::try_from(self.seconds(now)).unwrap_or(0).checked_sub(lead)?;
        let left = lead.saturating_sub(over);
        let stays = |name| {
            let stood = stood.get(name).copied().unwrap_or(0);
            stood.saturating_mul(left).div_ceil(lead)
        };
        Some(buckets.into_iter().map(stays).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    /// The headroom of a bucket where ten placeholders stood at second 0, with a lead time of 100
    /// seconds.
    #[track_caller]
    fn check(seconds: i64, expected: Option<u64>) {
        let mut blindness = Blindness::default();
        blindness.note(true, at(0), || BTreeMap::from([("one".into(), 10)]));
        // What stands later does not count: it shrinks because of the headroom.
        blindness.note(true, at(seconds), BTreeMap::new);
        let headroom = blindness.headroom(["one", "unknown"], 100, at(seconds));
        assert_eq!(headroom, expected.map(|headroom| vec![headroom, 0]), "{seconds}");
    }

    #[test]
    fn headroom_stays_for_a_lead_time_and_shrinks_over_the_next_one() {
        check(0, None);
        check(99, None);
        check(100, Some(10));
        check(101, Some(10));
        check(150, Some(5));
        check(199, Some(1));
        check(200, Some(0));
        check(10_000, Some(0));
        // The clock went back.
        check(-50, None);
    }

    #[test]
    fn watches_that_work_again_end_it() {
        let mut blindness = Blindness::default();
        blindness.note(true, at(0), BTreeMap::new);
        assert_eq!(blindness.seconds(at(300)), 300);
        blindness.note(false, at(300), BTreeMap::new);
        assert_eq!(blindness.seconds(at(300)), 0);
        assert_eq!(blindness.headroom(["one"], 100, at(300)), None);
    }
}
