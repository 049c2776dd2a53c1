//! A decomposition of demand into season and trend, whose trend is forecast by exponential
//! smoothing.
//!
//! This is MSTL (Bandara, Hyndman and Bergmeir, 2021) with automatic ETS (Hyndman and Khandakar,
//! 2008), from the crate `augurs`.
//!
//! ```text
//! y(t) = trend(t) + season(t) + remainder(t)
//! F(t) = ETS(trend + remainder)(t) + the last day's season(t)
//! ŷ(h) = y + F(t + h) - F(t)
//! ```
//!
//! Once a day F is fitted to the half-hourly maxima of the history of two weeks, for the day ahead.
//! Where the daily means have shifted permanently (`changepoint.rs`), F is fitted only to the days
//! after the shift. Between fits the forecast is present demand plus the change of F, with F
//! interpolated linearly between the middles of half hours. Without a fit, or after its day has
//! ended, the forecast is the last value.

use augurs::ets::AutoETS;
use augurs::mstl::MSTLModel;
use augurs::{Fit as _, Predict as _};
use embedder::BucketId;

use super::changepoint::changepoint;
use super::paths::{Path, refit_day};
use crate::forecast::lead::Lead;
use crate::record::History;

/// Length of a bin, in seconds: half an hour. A fit of two weeks of such bins takes tens of
/// milliseconds.
const BIN_SECONDS: i64 = 1_800;

/// Number of bins in a day, which is the length of the season.
const DAY: usize = 48;

/// Fewest days for a fit. A season that was observed less than twice cannot be distinguished from
/// noise.
const DAYS_MIN: usize = 2;

/// Length of a forecast, in bins: one day until the next fit and two hours in case the fit is late.
const FORECAST: usize = DAY + 4;

/// MSTL over the demand of one bucket.
pub struct Mstl {
    tick_seconds: i64,
    /// The day of the last fit, as [`refit_day`] counts days.
    day: Option<i64>,
    fit: Fitted,
    /// The time of the last tick in Unix seconds.
    now: i64,
    /// The demand at the last tick, in nodes.
    demand: f64,
}

/// The forecast F for each half hour. Empty where there is no fit.
#[derive(Debug, Default, PartialEq)]
struct Fitted {
    /// The start of the first half hour in Unix seconds.
    from: i64,
    /// The forecast maximum of each half hour, in nodes.
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
    /// Returns F at a time in Unix seconds, interpolated between the middles of half hours. F is
    /// constant beyond its ends.
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

/// Returns the largest demand of each whole half hour of the history, and the end of the last one
/// in Unix seconds.
///
/// A half hour without ticks repeats the one before it.
fn maxima(history: &History, bucket: BucketId) -> (Vec<f64>, i64) {
    let of = |time: i64| time.div_euclid(BIN_SECONDS);
    let time = |at: Option<&crate::record::Tick>| at.map_or(0, |tick| tick.time.timestamp());
    // A tick records the largest demand since the previous tick, so a tick at the end of a half
    // hour belongs to that half hour.
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

/// Returns F for the half hours that follow. `None` where there are too few days or no model fits.
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

    /// From 8:00 demand rises by one node every half hour up to 10 nodes. It falls likewise from
    /// 16:00 to 21:00.
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
    fn a_daily_season_is_forecast() {
        check((0..14 * DAY).map(|bin| 5.0 + season(bin)), Some(|bin| 5.0 + season(bin)));
        check((0..DAY).map(|bin| 5.0 + season(bin)), None);
        check([], None);
        check([7.0; 4 * DAY], Some(|_| 7.0));
        check([0.0; 4 * DAY], Some(|_| 0.0));
    }

    /// Demand is at a tenth for ten days and at its full level for four. The fit uses the four days
    /// only.
    #[test]
    fn a_level_shift_excludes_the_days_before_it() {
        let level = |bin: usize| if bin < 10 * DAY { 0.1 } else { 1.0 };
        check(
            (0..14 * DAY).map(|bin| level(bin) * (40.0 + season(bin))),
            Some(|bin| 40.0 + season(bin)),
        );
        // One day after a shift there is no fit, because a fit needs two days.
        let level = |bin: usize| if bin < 13 * DAY { 0.1 } else { 1.0 };
        check((0..14 * DAY).map(|bin| level(bin) * (40.0 + season(bin))), None);
    }

    /// F is 2 at 900 s, 4 at 2700 s and 3 at 4500 s.
    #[test]
    fn the_forecast_changes_as_the_fit_does() {
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
    fn maxima_are_taken_over_half_hours() {
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
