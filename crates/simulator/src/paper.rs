//! The paper's autoscaler: bucket counts by Algorithm 2, a point forecast of the counts, and
//! placeholders for the difference to the present counts.
//!
//! Every five minutes the counts of all pods that run or are pending are recorded, and the counts
//! of the next ticks are forecast, as many as a launch needs. Until the next forecast, the headroom
//! of a bucket is the largest forecast count less the present count, at least 0. Counts are rounded
//! up, as in the paper. Until a day was recorded, and where the forecast is missing, the headroom
//! is that of the ladder, the paper's initial stage.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use demand::forecast::onnx::Onnx;
use demand::forecast::{
    DemandForecaster, Forecaster, HoltWinters, LadderForecaster, Lead, Learners, Outlook, Paths,
    Present,
};
use demand::record::History;
use embedder::Catalog;

use super::named_policy::PaperForecast;
use super::settings::SimulationSettings;
use crate::replay::snapshot;

/// Seconds between two forecasts: the paper's tick, in which a launch usually ends.
const TICK_SECONDS: i64 = 300;

/// The recorded ticks from which on forecasts replace the ladder: a day, the shortest season.
const SEASON_TICKS: usize = 288;

/// The part of a node that is not rounded up, because it is noise of the arithmetic.
const NOISE: f64 = 0.01;

/// The present counts by bucket. The event loop writes them, and the forecaster reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Mutex<Vec<u64>>>);

impl Counts {
    /// The present counts.
    pub(super) fn get(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the present counts.
    pub(super) fn set(&self, counts: Vec<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}

/// The forecaster of the policy.
pub(super) struct PaperRule {
    counts: Counts,
    /// The forecaster of the counts, and their history.
    learners: Learners<dyn DemandForecaster>,
    ladder: LadderForecaster,
    lead: Lead,
    /// The number of the last recorded tick, since 1970.
    last: Option<i64>,
    /// The number of recorded ticks.
    recorded: usize,
    /// The largest forecast counts since the last tick, by bucket, computed when first read.
    /// `None` while there is no forecast.
    forecast: OnceLock<Option<Vec<u64>>>,
}

impl PaperRule {
    /// The rule with the forecast `of`, which reads the counts in `counts`.
    pub(super) fn new(
        of: PaperForecast,
        settings: &SimulationSettings,
        catalog: &Catalog,
        counts: Counts,
    ) -> Self {
        let lead = lead(settings);
        let forecaster: Box<dyn DemandForecaster> = match settings.paper_network(of) {
            Some(source) => Box::new(Onnx::patient(source, catalog, lead).verbatim()),
            None => Box::new(Paths::<HoltWinters>::new(catalog.len(), lead)),
        };
        let ladder = LadderForecaster::new(settings.ladder.clone(), catalog);
        Self::with(forecaster, ladder, lead, catalog, counts)
    }

    fn with(
        forecaster: Box<dyn DemandForecaster>,
        ladder: LadderForecaster,
        lead: Lead,
        catalog: &Catalog,
        counts: Counts,
    ) -> Self {
        let learners = Learners::new(forecaster, catalog);
        let forecast = OnceLock::new();
        Self { counts, learners, ladder, lead, last: None, recorded: 0, forecast }
    }

    /// Returns the largest count of each bucket within the lead time, rounded up. A horizon that is
    /// shorter than the lead time is used as far as it goes.
    fn predict(&self) -> Option<Vec<u64>> {
        if self.recorded < SEASON_TICKS {
            return None;
        }
        let mut most: Option<Vec<f64>> = None;
        for ticks in 1..=self.lead.ticks() {
            let ahead = self.learners.demand_ahead(ticks);
            if ahead.is_empty() {
                break;
            }
            let sums = most.get_or_insert_with(|| vec![0.0; ahead.len()]);
            sums.iter_mut().zip(ahead).for_each(|(most, ahead)| *most = most.max(ahead.mean));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 0 and whole"
        )]
        let up = |count: f64| (count - NOISE).ceil().max(0.0) as u64;
        most.map(|counts| counts.into_iter().map(up).collect())
    }
}

/// The lead time of a forecast that is used until the next one.
fn lead(settings: &SimulationSettings) -> Lead {
    let tick = settings.tick.as_seconds().max(TICK_SECONDS);
    Lead::covering(settings.launch_latency.typical(), tick, settings.scan.as_seconds())
}

impl Forecaster for PaperRule {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let seconds = self.lead.tick_seconds;
        let number = tick.time.timestamp().div_euclid(seconds);
        if self.last.replace(number) == Some(number) {
            return;
        }
        self.learners.learn(snapshot(number.saturating_mul(seconds), &self.counts.get()));
        self.recorded += 1;
        self.forecast = OnceLock::new();
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let Some(forecast) = self.forecast.get_or_init(|| self.predict()) else {
            return self.ladder.forecast(history, now);
        };
        let present = self.counts.get();
        Outlook::certain(present.len(), |id| forecast[id].saturating_sub(present[id]))
    }
}

impl DemandForecaster for PaperRule {}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use demand::forecast::{Ahead, Distribution, Ladder};
    use demand::record::BucketTick;
    use embedder::Demand;

    use super::*;

    /// Forecasts that each count rises by 1.2 a tick, two ticks ahead and not farther.
    struct Rising;

    impl Forecaster for Rising {
        fn learn(&mut self, _: &History) {}

        fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
            Outlook::certain(now.demand.present.len(), |_| 0)
        }
    }

    impl DemandForecaster for Rising {
        fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
            let buckets = history.last().map_or(&[][..], |tick| &tick.buckets);
            let buckets = buckets.iter().filter(|_| ticks <= 2);
            let mean = |bucket: &BucketTick| bucket.demand as f64 + 1.2 * ticks as f64;
            buckets.map(|b| Ahead { mean: mean(b), demand: Distribution::certain(0) }).collect()
        }
    }

    /// The headroom after `ticks` recorded ticks of ten nodes each, of which `present` are left.
    fn headroom(ticks: usize, present: u64) -> u64 {
        let (catalog, counts) = (testkit::catalog([("one", 8_000, 0.0)]), Counts::default());
        let lead = Lead { seconds: 900, tick_seconds: TICK_SECONDS };
        let ladder = LadderForecaster::new(Ladder::default(), &catalog);
        let mut rule = PaperRule::with(Box::new(Rising), ladder, lead, &catalog, counts.clone());
        counts.set(vec![10]);
        let mut history = History::new(&catalog);
        // The control has ticks of a minute, and every fifth is recorded.
        for minute in 0..5 * i64::try_from(ticks).unwrap() {
            history.record(snapshot(60 * minute, &[0]));
            rule.learn(&history);
        }
        assert_eq!(rule.recorded, ticks);
        counts.set(vec![present]);
        let demand = Demand { present: vec![7], ..Demand::default() };
        let now = Present::at_tick(DateTime::UNIX_EPOCH, &demand);
        rule.forecast(&history, &now).buckets[0].headroom(0.5)
    }

    /// Ten nodes rise to 12.4, which is 13 nodes.
    #[test]
    fn the_headroom_is_the_forecast_count_less_the_present_count() {
        assert_eq!(headroom(SEASON_TICKS, 10), 3);
        assert_eq!(headroom(SEASON_TICKS, 12), 1);
        assert_eq!(headroom(SEASON_TICKS, 20), 0);
    }

    /// At seven nodes the ladder holds one placeholder.
    #[test]
    fn until_a_day_was_recorded_the_ladder_decides() {
        assert_eq!(headroom(SEASON_TICKS - 1, 10), 1);
    }

    #[test]
    fn the_forecast_covers_a_launch_and_the_next_forecast() {
        assert_eq!(lead(&SimulationSettings::default()).ticks(), 3);
        let latency = "20m".parse().unwrap();
        let settings = SimulationSettings { launch_latency: latency, ..Default::default() };
        assert_eq!(lead(&settings).ticks(), 6);
    }
}
