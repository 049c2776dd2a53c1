//! A few days of one bucket, for a picture: those in which most new nodes were needed.

use std::ops::Range;

use super::answer::{JudgedForecast, LEVELS};
use super::entrant::NamedForecaster;
use super::horizon::Horizon;
use super::moments::Moments;
use crate::replay::DAY_SECONDS;

/// So many days are shown.
const DAYS: i64 = 2;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    /// Whose forecasts are shown.
    pub(super) entrant: NamedForecaster,
    /// The bucket that is shown.
    pub(super) bucket: usize,
    /// Its place among those in use.
    place: usize,
    ticks: Range<usize>,
    pub(super) points: Vec<Point>,
}

/// A tick: in nodes, times in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) time: i64,
    pub(super) demand: f64,
    /// The largest demand within the lead.
    pub(super) peak: f64,
    /// What was held beyond demand.
    pub(super) held: f64,
    /// When the farthest tick is that is looked ahead to.
    pub(super) later: i64,
    /// Demand then, as it was forecast: the lowest and the highest tenth, where there is such a forecast.
    pub(super) tenths: Option<(f64, f64)>,
    /// Demand then.
    pub(super) then: f64,
}

impl Point {
    /// The new nodes that were needed within the lead.
    pub(super) fn needed(&self) -> f64 {
        self.peak - self.demand
    }
}

impl Telling {
    /// The days in which most new nodes were needed.
    pub(super) fn choose(moments: &Moments, entrant: NamedForecaster, tick_seconds: i64) -> Self {
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
        Self { entrant, bucket, place, ticks, points: Vec::new() }
    }

    /// Keeps what was said at a tick, if it is shown.
    pub(super) fn note(&mut self, moments: &Moments, at: usize, answers: &[Vec<JudgedForecast>]) {
        let said = |horizon: Horizon| {
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
            held: said(Horizon::Lead).map_or(0.0, |answer| answer.held),
            later: moments.tick_time(at + Horizon::TICKS_MAX),
            tenths: said(far).map(|answer| (answer.quantiles[LOW], answer.quantiles[HIGH])),
            then: moments.actual(at, far, self.bucket) as f64,
        };
        self.points.push(point);
    }
}

/// The places of .1 and .9 in [`LEVELS`].
const LOW: usize = 0;
const HIGH: usize = 8;
const _: () = assert!(LEVELS[LOW] < 0.11 && LEVELS[HIGH] > 0.89 && LEVELS[HIGH] < 0.91);
