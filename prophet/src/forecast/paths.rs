//! From a forecast of demand itself to one of new nodes.
//!
//! A method forecasts the path of a bucket's demand, y(1), y(2), ... ticks ahead. It rises by R = max y(h) - y(0) over the lead,
//! h up to L; what was needed, D, is known L ticks later. The past errors D - R (`errors.rs`) around the rise of now are the
//! distribution of D: however bad the path, the quantiles are as wide as its errors were. Demand ahead is judged likewise, by
//! the errors at each distance. A bucket that was never in use has no model and costs nothing.

use std::collections::VecDeque;

use embedder::BucketId;
use placeholders::Reason;

use super::errors::Errors;
use super::hyperparameters::{AHEAD_TICKS, WINDOWS_MIN};
use super::needs::last_needs;
use super::{Ahead, BucketOutlook, Distribution, Forecaster, Lead, Outlook, Present};
use crate::record::{BucketTick, History, Tick};

/// A model of one bucket's demand.
pub(super) trait Path: Send {
    /// Knows nothing yet.
    fn new(lead: Lead) -> Self;

    /// Learns from the last tick of `history`, which is new.
    fn learn(&mut self, history: &History, bucket: BucketId);

    /// Demand 1, 2, ... ticks after the last that was learnt.
    fn ahead(&self, ticks: usize) -> Vec<f64>;
}

/// See the module.
pub struct Paths<P> {
    lead: Lead,
    buckets: Vec<Option<Bucket<P>>>,
}

struct Bucket<P> {
    model: P,
    /// Paths from the last ticks on, the newest first.
    open: VecDeque<Vec<f64>>,
    /// Of the rise within the lead.
    rises: Errors,
    /// Of demand 1, 2, ... ticks ahead.
    ahead: Vec<Errors>,
    outlook: BucketOutlook,
}

impl<P> Paths<P> {
    /// For so many buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self { lead, buckets: std::iter::repeat_with(|| None).take(buckets).collect() }
    }
}

impl<P: Path> Bucket<P> {
    fn new(lead: Lead) -> Self {
        Self {
            model: P::new(lead),
            open: VecDeque::new(),
            rises: Errors::new(lead),
            ahead: vec![Errors::new(lead); AHEAD_TICKS],
            outlook: BucketOutlook::nothing(),
        }
    }

    /// Learns from the last tick of `history`; `need` is that of the window that ends with it.
    fn learn(&mut self, history: &History, id: BucketId, need: u64, lead: usize) {
        let demand = seen(history.last(), id).demand as f64;
        let due = self.open.iter().enumerate().filter_map(|(ago, path)| path.get(ago));
        self.ahead.iter_mut().zip(due).for_each(|(errors, forecast)| errors.add(demand - forecast));
        if let Some(path) = self.open.get(lead - 1) {
            let start = seen(history.latest(lead + 1).next(), id).demand as f64;
            self.rises.add(need as f64 - rise(path, lead, start));
        }
        self.model.learn(history, id);
        let reach = lead.max(AHEAD_TICKS);
        self.open.push_front(self.model.ahead(reach));
        self.open.truncate(reach);
        let enough = self.rises.added() >= WINDOWS_MIN;
        let basis = if enough { Reason::Forecast } else { Reason::TooLittleHistory };
        let rise = rise(&self.open[0], lead, demand);
        self.outlook = BucketOutlook::new(self.rises.around(rise), basis);
    }

    fn demand_ahead(&self, ticks: usize) -> Option<Ahead> {
        let far = ticks.checked_sub(1)?;
        let mean = self.model.ahead(ticks).last()?.max(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and whole")]
        let certain = || Distribution::certain(mean.round() as u64);
        let errors = self.ahead.get(far).filter(|errors| errors.added() > 0);
        Some(Ahead { mean, demand: errors.map_or_else(certain, |errors| errors.around(mean)) })
    }
}

fn seen(tick: Option<&Tick>, id: BucketId) -> BucketTick {
    tick.and_then(|tick| tick.buckets.get(id)).copied().unwrap_or_default()
}

/// By how much a path is above demand at its start, at most; below 0 where it falls.
fn rise(path: &[f64], lead: usize, start: f64) -> f64 {
    path.iter().take(lead).copied().fold(f64::NEG_INFINITY, f64::max) - start
}

/// The day on which a bucket's model is refitted, in UTC: each bucket a minute after the one before it, so that no tick has
/// to wait for all of them.
pub(super) fn refit_day(time: i64, bucket: BucketId) -> i64 {
    let minutes = i64::try_from(bucket).unwrap_or(0) % 1_440;
    (time - 60 * minutes).div_euclid(86_400)
}

impl<P: Path> Forecaster for Paths<P> {
    fn learn(&mut self, history: &History) {
        let (lead, ticks) = (self.lead, self.lead.ticks());
        let needs = last_needs(history, ticks, self.buckets.len());
        for (id, bucket) in self.buckets.iter_mut().enumerate() {
            if bucket.is_none() && seen(history.last(), id).demand_max > 0 {
                *bucket = Some(Bucket::new(lead));
            }
            if let Some(bucket) = bucket {
                bucket.learn(history, id, needs[id], ticks);
            }
        }
    }

    fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
        let outlook = |bucket: &Option<Bucket<P>>| {
            bucket.as_ref().map_or_else(BucketOutlook::nothing, |bucket| bucket.outlook.clone())
        };
        Outlook { buckets: self.buckets.iter().map(outlook).collect() }
    }

    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let known = self.buckets.iter().map(|bucket| bucket.as_ref()?.demand_ahead(ticks));
        known.zip(super::unchanged(history)).map(|(known, unchanged)| known.unwrap_or(unchanged)).collect()
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::sample;

    /// Expects that demand rises by a half each tick.
    struct Rising(f64);

    impl Path for Rising {
        fn new(_: Lead) -> Self {
            Self(0.0)
        }

        fn learn(&mut self, history: &History, bucket: BucketId) {
            self.0 = seen(history.last(), bucket).demand as f64;
        }

        fn ahead(&self, ticks: usize) -> Vec<f64> {
            (1..=ticks).map(|h| self.0 + h as f64 / 2.0).collect()
        }
    }

    fn learnt(minutes: i64) -> (Paths<Rising>, History) {
        let (mut paths, mut history) = (Paths::new(2, sample::LEAD), History::default());
        for minute in 0..minutes {
            // Within each tick demand is one more than at its end.
            let bucket = BucketTick { demand: 3, demand_max: 4, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket, BucketTick::default()]));
            paths.learn(&history);
        }
        (paths, history)
    }

    /// Three ticks ahead the path is 1.5 above, and 1 was needed: the error is -0.5, and 1 is expected.
    #[test]
    fn errors_make_good_for_the_path() {
        let (paths, history) = learnt(200);
        let now = history.last().unwrap().time;
        let outlook = paths.forecast(&history, &Present::at_tick(now, &Demand::default()));
        assert_eq!(outlook.buckets[0], BucketOutlook::new(Distribution::certain(1), Reason::Forecast));
        assert_eq!(outlook.buckets[1], BucketOutlook::nothing());
        let few = learnt(50).0.buckets[0].as_ref().unwrap().outlook.clone();
        assert_eq!((few.new_nodes.most(), few.basis), (1, Reason::TooLittleHistory));
    }

    #[test]
    fn demand_ahead_is_the_path_with_the_errors_of_its_distance() {
        let (paths, history) = learnt(200);
        let ahead = paths.demand_ahead(&history, 4);
        assert_eq!(ahead[0], Ahead { mean: 5.0, demand: Distribution::certain(3) });
        assert_eq!(ahead[1], Ahead { mean: 0.0, demand: Distribution::certain(0) });
        // Farther than errors are followed.
        assert_eq!(paths.demand_ahead(&history, 100)[0].demand, Distribution::certain(53));
    }

    #[test]
    fn buckets_are_refitted_one_after_the_other() {
        assert_eq!([0, 86_399, 86_400].map(|time| refit_day(time, 0)), [0, 0, 1]);
        assert_eq!([86_400, 86_459, 86_460].map(|time| refit_day(time, 1)), [0, 0, 1]);
    }
}
