//! The days of one bucket that a plot shows: those in which the most new nodes were needed.

use std::ops::Range;

use base::days::DAY_SECONDS;

use super::answer::{JudgedForecast, LEVELS};
use super::horizon::Horizon;
use super::moments::Moments;
use super::named_forecaster::NamedForecaster;

/// The number of consecutive days that a plot shows.
const DAYS: i64 = 2;

/// The shown days of one bucket, under one forecaster.
#[derive(Clone, Debug)]
pub(super) struct PlottedDays {
    /// The forecaster that is shown.
    pub(super) named_forecaster: NamedForecaster,
    /// The bucket that is shown.
    pub(super) bucket: usize,
    /// The index of the bucket among the buckets in use.
    place: usize,
    ticks: Range<usize>,
    pub(super) points: Vec<Point>,
}

/// The values at a tick: counts in nodes, times in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) time: i64,
    pub(super) demand: f64,
    /// The largest demand within the lead time.
    pub(super) peak: f64,
    /// The headroom that was held.
    pub(super) held: f64,
    /// The time of the tick at the longest horizon.
    pub(super) later: i64,
    /// The forecast quantiles 0.1 and 0.9 of demand at `later`; `None` if the forecaster does not
    /// forecast demand.
    pub(super) tenths: Option<(f64, f64)>,
    /// The actual demand at that time.
    pub(super) then: f64,
}

impl Point {
    /// Returns the new nodes that were needed within the lead time.
    pub(super) fn needed(&self) -> f64 {
        self.peak - self.demand
    }
}

impl PlottedDays {
    /// Chooses the days in which the most new nodes were needed, and the bucket that needed the
    /// most of them.
    pub(super) fn choose(
        moments: &Moments,
        named_forecaster: NamedForecaster,
        tick_seconds: i64,
    ) -> Self {
        let judged = moments.judged.clone();
        let len = usize::try_from(DAYS * DAY_SECONDS / tick_seconds.max(1))
            .unwrap_or(1)
            .min(judged.len());
        let needed = |at: usize| moments.rise(at).iter().sum::<u64>();
        let (mut sum, mut best) = (0, (0, judged.start));
        for at in judged.clone() {
            sum += needed(at);
            if at >= judged.start + len {
                sum -= needed(at - len);
            }
            if at + 1 >= judged.start + len && sum > best.0 {
                best = (sum, at + 1 - len);
            }
        }
        let ticks = best.1..best.1 + len;
        let total = |bucket: usize| ticks.clone().map(|at| moments.rise(at)[bucket]).sum::<u64>();
        let buckets = moments.used.iter().enumerate();
        let (place, bucket) =
            buckets.max_by_key(|(_, id)| total(**id)).map_or((0, 0), |(place, id)| (place, *id));
        Self { named_forecaster, bucket, place, ticks, points: Vec::new() }
    }

    /// Keeps the forecasts of a tick, if the tick is shown.
    pub(super) fn note(&mut self, moments: &Moments, at: usize, answers: &[Vec<JudgedForecast>]) {
        let forecast = |horizon: Horizon| {
            let place = Horizon::ALL.iter().position(|known| *known == horizon)?;
            answers.get(place)?.get(self.place)
        };
        if !self.ticks.contains(&at) {
            return;
        }
        let far = Horizon::Ticks(Horizon::TICKS_MAX);
        let demand = moments.tick(at).buckets[self.bucket].demand;
        let point = Point {
            time: moments.tick_time(at),
            demand: demand as f64,
            peak: (demand + moments.actual(at, Horizon::Lead, self.bucket)) as f64,
            held: forecast(Horizon::Lead).map_or(0.0, |answer| answer.held),
            later: moments.tick_time(at + Horizon::TICKS_MAX),
            tenths: forecast(far).map(|answer| (answer.quantiles[LOW], answer.quantiles[HIGH])),
            then: moments.actual(at, far, self.bucket) as f64,
        };
        self.points.push(point);
    }
}

/// The indices of the levels 0.1 and 0.9 in [`LEVELS`].
const LOW: usize = 0;
const HIGH: usize = 8;
const _: () = assert!(LEVELS[LOW] < 0.11 && LEVELS[HIGH] > 0.89 && LEVELS[HIGH] < 0.91);
