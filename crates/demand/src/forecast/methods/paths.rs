//! Turns forecasts of demand into forecasts of new nodes.
//!
//! A model forecasts the path y(1), y(2), ... of a bucket's demand, where y(h) is demand h ticks
//! ahead. The path rises by R = max y(h) - y(0) over the L ticks of the lead time. The need D is
//! known L ticks later. The distribution of D is the present R plus the past errors D - R
//! (`errors.rs`), so a bad model yields wide quantiles. The distribution of demand ahead is built
//! likewise from the errors at each distance. A bucket that was never in use has no model, which
//! saves time.

use std::collections::VecDeque;

use embedder::BucketId;
use placeholders::Reason;

use super::errors::ErrorHistogram;
use crate::forecast::hyperparameters::{AHEAD_TICKS, WINDOWS_MIN};
use crate::forecast::windows::last_needs;
use crate::forecast::{
    demand_ahead::Ahead,
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{BucketTick, History, Tick};

/// A model of one bucket's demand.
pub(crate) trait Path: Send {
    /// A model that has learnt nothing yet.
    fn new(lead: Lead) -> Self;

    /// Learns from the last tick of `history`, which is new.
    fn learn(&mut self, history: &History, bucket: BucketId);

    /// Forecasts demand 1, 2, ..., `ticks` ticks after the last learnt tick, in nodes.
    fn ahead(&self, ticks: usize) -> Vec<f64>;
}

/// Forecasts D with one demand model `P` for each bucket in use.
pub struct Paths<P> {
    lead: Lead,
    buckets: Vec<Option<Bucket<P>>>,
}

struct Bucket<P> {
    model: P,
    /// The paths that were forecast at the last ticks, newest first.
    open: VecDeque<Vec<f64>>,
    /// The errors of the rise within the lead time.
    rises: ErrorHistogram,
    /// The errors of demand 1, 2, ... ticks ahead.
    ahead: Vec<ErrorHistogram>,
    outlook: BucketOutlook,
}

impl<P> Paths<P> {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self { lead, buckets: std::iter::repeat_with(|| None).take(buckets).collect() }
    }
}

impl<P: Path> Bucket<P> {
    fn new(lead: Lead) -> Self {
        Self {
            model: P::new(lead),
            open: VecDeque::new(),
            rises: ErrorHistogram::new(lead),
            ahead: vec![ErrorHistogram::new(lead); AHEAD_TICKS],
            outlook: BucketOutlook::nothing(),
        }
    }

    /// Learns from the last tick of `history`. `need` is the need in nodes of the window that ends
    /// with it, and `lead` the length of the window in ticks.
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
        let reason = if enough { Reason::Forecast } else { Reason::TooLittleHistory };
        let rise = rise(&self.open[0], lead, demand);
        self.outlook = BucketOutlook::new(self.rises.around(rise), reason);
    }

    fn demand_ahead(&self, ticks: usize) -> Option<Ahead> {
        let far = ticks.checked_sub(1)?;
        let mean = self.model.ahead(ticks).last()?.max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 0 and whole"
        )]
        let certain = || Distribution::certain(mean.round() as u64);
        let errors = self.ahead.get(far).filter(|errors| errors.added() > 0);
        Some(Ahead { mean, demand: errors.map_or_else(certain, |errors| errors.around(mean)) })
    }
}

fn seen(tick: Option<&Tick>, id: BucketId) -> BucketTick {
    tick.and_then(|tick| tick.buckets.get(id)).copied().unwrap_or_default()
}

/// Returns the largest rise of a path above demand at its start, in nodes. It is negative where the
/// path falls.
fn rise(path: &[f64], lead: usize, start: f64) -> f64 {
    path.iter().take(lead).copied().fold(f64::NEG_INFINITY, f64::max) - start
}

/// Returns the number of the day, in UTC, for which a bucket's model is fitted at `time`, in Unix
/// seconds.
///
/// The day of each bucket begins a minute after that of the bucket before it, so that no tick
/// refits all models.
pub(crate) fn refit_day(time: i64, bucket: BucketId) -> i64 {
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
}

impl<P: Path> DemandForecaster for Paths<P> {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let known = self.buckets.iter().map(|bucket| bucket.as_ref()?.demand_ahead(ticks));
        known
            .zip(crate::forecast::demand_ahead::unchanged(history))
            .map(|(known, unchanged)| known.unwrap_or(unchanged))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::sample;

    /// Forecasts that demand rises by half a node each tick.
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
        let (mut paths, mut history) =
            (Paths::new(2, sample::LEAD), History::new(&sample::catalog()));
        for minute in 0..minutes {
            // The largest demand within each tick exceeds the demand at its end by one.
            let bucket = BucketTick { demand: 3, demand_max: 4, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket, BucketTick::default()]));
            paths.learn(&history);
        }
        (paths, history)
    }

    /// The path rises by 1.5 within three ticks, and the need was 1. The error is -0.5, so the
    /// forecast is 1.
    #[test]
    fn past_errors_correct_the_path() {
        let (paths, history) = learnt(200);
        let now = history.last().unwrap().time;
        let outlook = paths.forecast(&history, &Present::at_tick(now, &Demand::default()));
        assert_eq!(
            outlook.buckets[0],
            BucketOutlook::new(Distribution::certain(1), Reason::Forecast)
        );
        assert_eq!(outlook.buckets[1], BucketOutlook::nothing());
        let few = learnt(50).0.buckets[0].as_ref().unwrap().outlook.clone();
        assert_eq!((few.new_nodes.most(), few.reason), (1, Reason::TooLittleHistory));
    }

    #[test]
    fn demand_ahead_is_the_path_plus_the_errors_at_its_distance() {
        let (paths, history) = learnt(200);
        let ahead = paths.demand_ahead(&history, 4);
        assert_eq!(ahead[0], Ahead { mean: 5.0, demand: Distribution::certain(3) });
        assert_eq!(ahead[1], Ahead { mean: 0.0, demand: Distribution::certain(0) });
        // No errors are recorded at this distance.
        assert_eq!(paths.demand_ahead(&history, 100)[0].demand, Distribution::certain(53));
    }

    #[test]
    fn buckets_are_refitted_one_after_the_other() {
        assert_eq!([0, 86_399, 86_400].map(|time| refit_day(time, 0)), [0, 0, 1]);
        assert_eq!([86_400, 86_459, 86_460].map(|time| refit_day(time, 1)), [0, 0, 1]);
    }
}
