//! Seasons and trend taken apart, the trend forecast by exponential smoothing: MSTL (Bandara, Hyndman and Bergmeir, 2021) with
//! automatic ETS (Hyndman and Khandakar, 2008), by the crate `augurs`.
//!
//! ```text
//! y(t) = trend(t) + season(t) + remainder(t)
//! F(t) = ETS(trend + remainder)(t) + the last day's season(t)
//! ŷ(h) = y + F(t + h) - F(t)
//! ```
//!
//! Once a day F is fitted to the maxima of half hours of two weeks, for the day to come; where the daily means changed for good
//! (`changepoint.rs`), only to what came after. Between fits demand goes from where it is as F does, along a line through the
//! middles of half hours. Where there is no fit, or its day is over, the last value stands in.

use augurs::ets::AutoETS;
use augurs::mstl::MSTLModel;
use augurs::{Fit as _, Predict as _};
use embedder::BucketId;

use super::changepoint::changepoint;
use super::paths::{Path, refit_day};
use crate::forecast::lead::Lead;
use crate::record::History;

/// Half an hour: a fit of two weeks of them takes tens of milliseconds.
const BIN_SECONDS: i64 = 1_800;

/// Half hours of a day.
const DAY: usize = 48;

/// A season that was seen less than twice is none.
const DAYS_MIN: usize = 2;

/// A day until the next fit, and two hours in which it may be late.
const FORECAST: usize = DAY + 4;

/// See the module.
pub struct Mstl {
    tick_seconds: i64,
    day: Option<i64>,
    fit: Fitted,
    now: i64,
    demand: f64,
}

/// F, half hour by half hour; empty where there is none.
#[derive(Debug, Default, PartialEq)]
struct Fitted {
    /// Where the first begins.
    from: i64,
    maxima: Vec<f64>,
}

impl Path for Mstl {
    fn new(lead: Lead) -> Self {
        Self {
            tick_seconds: lead.tick_seconds,
            day: None,
            fit: Fitted::default(),
            now: 0,
            demand: 0.0,
        }
    }

    fn learn(&mut self, history: &History, bucket: BucketId) {
        let Some(tick) = history.last() else { return };
        self.now = tick.time.timestamp();
        self.demand = tick.buckets.get(bucket).map_or(0, |tick| tick.demand) as f64;
        let day = Some(refit_day(self.now, bucket));
        if day != self.day {
            self.day = day;
            let (maxima, from) = maxima(history, bucket);
            self.fit = fit(&maxima).map_or_else(Fitted::default, |maxima| Fitted { from, maxima });
        }
    }

    fn ahead(&self, ticks: usize) -> Vec<f64> {
        let from = self.fit.at(self.now);
        let times = (1..).map(|h| self.now + h * self.tick_seconds);
        times.take(ticks).map(|time| self.demand + self.fit.at(time) - from).collect()
    }
}

impl Fitted {
    /// On the line through the middles; beyond its ends nothing changes.
    fn at(&self, time: i64) -> f64 {
        let Some(last) = self.maxima.len().checked_sub(1) else { return 0.0 };
        let since = time - self.from - BIN_SECONDS / 2;
        let before =
            usize::try_from(since.div_euclid(BIN_SECONDS)).ok().filter(|before| *before < last);
        let Some(before) = before else { return self.maxima[if since < 0 { 0 } else { last }] };
        let share = since.rem_euclid(BIN_SECONDS) as f64 / BIN_SECONDS as f64;
        (1.0 - share) * self.maxima[before] + share * self.maxima[before + 1]
    }
}

/// The largest demand of each whole half hour of the history, and when they end. One without ticks is as the one before.
fn maxima(history: &History, bucket: BucketId) -> (Vec<f64>, i64) {
    let of = |time: i64| time.div_euclid(BIN_SECONDS);
    let time = |at: Option<&crate::record::Tick>| at.map_or(0, |tick| tick.time.timestamp());
    // A tick tells of what precedes it: one at the end of a half hour is its last.
    let (first, end) = (of(time(history.get(0)) - 1) + 1, of(time(history.last())));
    let mut maxima = vec![f64::NAN; usize::try_from(end - first).unwrap_or(0)];
    for tick in history.latest(history.len()) {
        let at = usize::try_from(of(tick.time.timestamp() - 1) - first).ok();
        let demand = tick.buckets.get(bucket).map_or(0, |tick| tick.demand_max) as f64;
        at.and_then(|at| maxima.get_mut(at)).into_iter().for_each(|most| *most = most.max(demand));
    }
    let mut last = 0.0;
    for most in &mut maxima {
        last = if most.is_nan() { last } else { *most };
        *most = last;
    }
    (maxima, end * BIN_SECONDS)
}

/// F for the half hours that follow; `None` where there are too few, or no model was found.
fn fit(maxima: &[f64]) -> Option<Vec<f64>> {
    let whole_days = &maxima[maxima.len() % DAY..];
    let means: Vec<f64> =
        whole_days.chunks_exact(DAY).map(|day| day.iter().sum::<f64>() / DAY as f64).collect();
    let since = &whole_days[DAY * changepoint(&means).unwrap_or(0)..];
    if since.len() < DAYS_MIN * DAY {
        return None;
    }
    let trend = AutoETS::new(1, "AZN").ok()?.into_trend_model();
    let fitted = MSTLModel::new(vec![DAY], trend).fit(since).ok()?;
    let forecast = fitted.predict(FORECAST, None).ok()?.point;
    forecast.iter().all(|nodes| nodes.is_finite()).then_some(forecast)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// From 8 to 16 o'clock 10 nodes more are needed, by a node every half hour at either end.
    fn season(bin: usize) -> f64 {
        let of_day = bin % DAY;
        of_day.saturating_sub(16).min(10).min(42_usize.saturating_sub(of_day)) as f64
    }

    #[track_caller]
    fn check(maxima: impl IntoIterator<Item = f64>, expected: Option<fn(usize) -> f64>) {
        let maxima: Vec<f64> = maxima.into_iter().collect();
        let forecast = fit(&maxima);
        assert_eq!(forecast.is_some(), expected.is_some());
        let expected = expected.into_iter().flat_map(|expected| (0..FORECAST).map(expected));
        for (at, (f, expected)) in forecast.iter().flatten().zip(expected).enumerate() {
            assert!((f - expected).abs() < 0.3, "{at}: {f}, expected {expected}");
        }
    }

    #[test]
    fn a_season_comes_again() {
        check((0..14 * DAY).map(|bin| 5.0 + season(bin)), Some(|bin| 5.0 + season(bin)));
        check((0..DAY).map(|bin| 5.0 + season(bin)), None);
        check([], None);
        check([7.0; 4 * DAY], Some(|_| 7.0));
        check([0.0; 4 * DAY], Some(|_| 0.0));
    }

    /// Ten days of a tenth, four of the whole: the season is that of the four.
    #[test]
    fn a_change_cuts_the_past_off() {
        let level = |bin: usize| if bin < 10 * DAY { 0.1 } else { 1.0 };
        check(
            (0..14 * DAY).map(|bin| level(bin) * (40.0 + season(bin))),
            Some(|bin| 40.0 + season(bin)),
        );
        // A day after a change there is no season yet.
        let level = |bin: usize| if bin < 13 * DAY { 0.1 } else { 1.0 };
        check((0..14 * DAY).map(|bin| level(bin) * (40.0 + season(bin))), None);
    }

    /// Through 2 at 900 s, 4 at 2700 s and 3 at 4500 s.
    #[test]
    fn demand_goes_as_the_fit_does() {
        let fit = Fitted { from: 0, maxima: vec![2.0, 4.0, 3.0] };
        let at = |now| Mstl {
            tick_seconds: 900,
            day: None,
            fit: Fitted { ..clone(&fit) },
            now,
            demand: 7.0,
        };
        assert_eq!(at(900).ahead(4), [8.0, 9.0, 8.5, 8.0]);
        assert_eq!(at(-5_000).ahead(2), [7.0, 7.0]);
        assert_eq!(at(9_000).ahead(2), [7.0, 7.0]);
    }

    fn clone(fit: &Fitted) -> Fitted {
        Fitted { from: fit.from, maxima: fit.maxima.clone() }
    }

    #[test]
    fn half_hours_have_maxima() {
        let mut history = History::new(&sample::catalog());
        for minute in [1, 29, 30, 31, 150, 151] {
            let demand_max = u64::try_from(minute).unwrap();
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand: 0, demand_max, ..BucketTick::default() }],
            ));
        }
        assert_eq!(maxima(&history, 0), (vec![31.0, 31.0, 31.0, 150.0], 5 * BIN_SECONDS));
    }
}
