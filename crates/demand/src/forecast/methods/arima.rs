//! ARIMA(7, 1, 7) with a constant, the paper's baseline (Box and Jenkins, 1970), with the fit of
//! Hannan and Rissanen (1982).
//!
//! The change of demand from tick to tick, w(t) = y(t) - y(t-1), depends on the last seven changes
//! and the last seven shocks e. A shock is the observed change less the forecast change:
//!
//! ```text
//! w(t) = c + φ₁ w(t-1) + ... + φ₇ w(t-7) + θ₁ e(t-1) + ... + θ₇ e(t-7) + e(t)
//! ```
//!
//! The model is fitted once a day to the last week. First a long autoregression, by least squares,
//! estimates the shocks. Then w is regressed on past changes and shocks. A fit with a root inside
//! the unit circle is rejected, because its forecasts would diverge or its shocks could not be
//! recovered from demand. Without a fit, the forecast is the last value.

use embedder::BucketId;

use super::least_squares::LeastSquares;
use super::paths::{Path, refit_day};
use crate::forecast::hyperparameters::{
    ARIMA_LONG_LAGS, ARIMA_RIDGE, ARIMA_TICKS, ARIMA_TICKS_MIN,
};
use crate::forecast::lead::Lead;
use crate::record::History;

/// The number of lags of changes and of shocks: 7 each, as in the paper's baseline.
const LAGS: usize = 7;

/// ARIMA(7, 1, 7) over the demand of one bucket.
pub struct Arima {
    /// The day of the last fit, as [`refit_day`] counts days.
    day: Option<i64>,
    fit: Option<Fit>,
    demand: f64,
    recent: Recent,
}

/// The coefficients c, φ and θ.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    constant: f64,
    changes: [f64; LAGS],
    shocks: [f64; LAGS],
}

/// The last changes and shocks in nodes, latest first.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    changes: [f64; LAGS],
    shocks: [f64; LAGS],
}

impl Path for Arima {
    fn new(_: Lead) -> Self {
        Self { day: None, fit: None, demand: 0.0, recent: Recent::default() }
    }

    fn learn(&mut self, history: &History, bucket: BucketId) {
        let Some(tick) = history.last() else { return };
        let day = Some(refit_day(tick.time.timestamp(), bucket));
        let demand = tick.buckets.get(bucket).map_or(0, |tick| tick.demand) as f64;
        let change = demand - std::mem::replace(&mut self.demand, demand);
        if day == self.day || history.len() < ARIMA_TICKS_MIN {
            self.recent.add(change, self.fit.as_ref());
            return;
        }
        self.day = day;
        let changes = changes(history, bucket);
        self.fit = fit(&changes).filter(Fit::is_stable);
        self.recent = Recent::default();
        for change in changes {
            self.recent.add(change, self.fit.as_ref());
        }
    }

    fn ahead(&self, ticks: usize) -> Vec<f64> {
        let Some(fit) = &self.fit else { return vec![self.demand; ticks] };
        let (mut recent, mut demand) = (self.recent, self.demand);
        let mut next = || {
            let change = fit.next(&recent);
            recent.push(change, 0.0);
            demand += change;
            demand
        };
        (0..ticks).map(|_| next()).collect()
    }
}

/// Returns the changes of demand from tick to tick over the last week, in nodes.
fn changes(history: &History, bucket: BucketId) -> Vec<f64> {
    let demand = history
        .latest(ARIMA_TICKS + 1)
        .map(|tick| tick.buckets.get(bucket).map_or(0, |b| b.demand));
    let demand: Vec<u64> = demand.collect();
    demand.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64).collect()
}

impl Recent {
    fn add(&mut self, change: f64, fit: Option<&Fit>) {
        let forecast = fit.map_or(0.0, |fit| fit.next(self));
        self.push(change, change - forecast);
    }

    fn push(&mut self, change: f64, shock: f64) {
        for (lags, last) in [(&mut self.changes, change), (&mut self.shocks, shock)] {
            lags.rotate_right(1);
            lags[0] = last;
        }
    }
}

impl Fit {
    /// Returns the forecast of the next change, in nodes.
    fn next(&self, recent: &Recent) -> f64 {
        self.constant + dot(&self.changes, &recent.changes) + dot(&self.shocks, &recent.shocks)
    }

    /// Returns whether forecasts stay bounded and the effect of old shocks fades.
    fn is_stable(&self) -> bool {
        is_stable(&self.changes) && is_stable(&self.shocks.map(|theta| -theta))
    }
}

/// Fits the coefficients with both steps of Hannan and Rissanen. `None` where a regression has no
/// solution.
fn fit(changes: &[f64]) -> Option<Fit> {
    let shocks = shocks(changes)?;
    let mut sums = LeastSquares::new(1 + 2 * LAGS);
    for now in ARIMA_LONG_LAGS + LAGS..changes.len() {
        sums.add(&row(changes, &shocks, now), changes[now]);
    }
    let solved = sums.solve(ARIMA_RIDGE)?;
    let part = |from: usize| solved.get(from..from + LAGS)?.try_into().ok();
    Some(Fit { constant: solved[0], changes: part(1)?, shocks: part(1 + LAGS)? })
}

/// Returns the regressors of the change at `now`: 1, the changes and the shocks before it, latest
/// first.
fn row(changes: &[f64], shocks: &[f64], now: usize) -> [f64; 1 + 2 * LAGS] {
    let mut row = [1.0; 1 + 2 * LAGS];
    for lag in 1..=LAGS {
        row[lag] = changes[now - lag];
        row[LAGS + lag] = shocks[now - lag];
    }
    row
}

/// Estimates the shocks as the residuals of a long autoregression.
fn shocks(changes: &[f64]) -> Option<Vec<f64>> {
    let mut sums = LeastSquares::new(ARIMA_LONG_LAGS);
    let ended = || changes.windows(ARIMA_LONG_LAGS + 1).filter_map(|window| window.split_last());
    ended().for_each(|(now, before)| sums.add(before, *now));
    let fit = sums.solve(ARIMA_RIDGE)?;
    let unknown = std::iter::repeat_n(0.0, ARIMA_LONG_LAGS);
    Some(unknown.chain(ended().map(|(now, before)| now - dot(before, &fit))).collect())
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Returns whether all roots of 1 - φ₁ z - ... - φₚ zᵖ lie outside the unit circle.
///
/// The recursion of Durbin and Levinson steps down through the orders. At each order the partial
/// autocorrelation k = φₚ must have |k| < 1. Then φᵢ becomes (φᵢ + k φₚ₋ᵢ) / (1 - k²).
fn is_stable(phi: &[f64]) -> bool {
    let Some((&last, rest)) = phi.split_last() else { return true };
    if last.is_nan() || last.abs() >= 1.0 {
        return false;
    }
    let below = rest.iter().zip(rest.iter().rev()).map(|(one, mirrored)| one + last * mirrored);
    is_stable(&below.map(|sum| sum / (1.0 - last * last)).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    fn lags(of: &[f64]) -> [f64; LAGS] {
        let mut lags = [0.0; LAGS];
        lags[..of.len()].copy_from_slice(of);
        lags
    }

    /// Let c = .5, φ = (.5, .25) and θ = (.5). After the changes 1 and 2 and the shock 1, the next
    /// change is .5 + 1 + .25 + .5 = 2.25. The one after is .5 + 1.125 + .5 = 2.125, because future
    /// shocks are 0.
    #[test]
    fn a_path_adds_the_forecast_changes_to_demand() {
        let fit = Fit { constant: 0.5, changes: lags(&[0.5, 0.25]), shocks: lags(&[0.5]) };
        let recent = Recent { changes: lags(&[2.0, 1.0]), shocks: lags(&[1.0]) };
        let arima = Arima { day: None, fit: Some(fit), demand: 10.0, recent };
        assert_eq!(arima.ahead(2), [12.25, 14.375]);
    }

    #[track_caller]
    fn check_stable(phi: &[f64], expected: bool) {
        assert_eq!(is_stable(phi), expected, "{phi:?}");
    }

    /// (1 - .7 z)(1 - .8 z) = 1 - 1.5 z + .56 z² is stable. Where φ₁ + φ₂ is at least 1, one root
    /// is at most 1.
    #[test]
    fn a_fit_is_stable_where_all_roots_lie_outside_the_unit_circle() {
        check_stable(&[0.5], true);
        check_stable(&[-1.1], false);
        check_stable(&[1.5, -0.56], true);
        check_stable(&[0.5, 0.5], false);
        check_stable(&[0.5, 0.6], false);
        check_stable(&lags(&[0.9]), true);
        check_stable(&[f64::NAN], false);
    }

    /// w(t) = .6 w(t-1) + e(t) + .3 e(t-1), with pseudorandom e.
    #[test]
    fn a_fit_recovers_the_process_of_the_changes() {
        let mut seed = 1_u64;
        let mut shock = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let (mut changes, mut before) = (vec![0.0], 0.0);
        for now in 0..10_000 {
            let e = shock();
            changes.push(0.6 * changes[now] + e + 0.3 * before);
            before = e;
        }
        let fit = fit(&changes).filter(Fit::is_stable).unwrap();
        // Different coefficients can describe the same process, so the test compares the forecast
        // after a shock of 1.
        let after = Recent { changes: lags(&[1.0]), shocks: lags(&[1.0]) };
        let next = fit.next(&after);
        assert!((next - 0.9).abs() < 0.08, "{next}");
    }

    /// Demand is 9 in every fourth minute and 5 otherwise. After the fit, the forecast repeats the
    /// pattern.
    #[test]
    fn a_repeating_pattern_is_forecast() {
        let (mut arima, mut history) = (Arima::new(sample::LEAD), History::new(&sample::catalog()));
        for minute in 0..2_000 {
            let demand = if minute % 4 == 0 { 9 } else { 5 };
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }],
            ));
            arima.learn(&history, 0);
            assert!(minute > 100 || arima.ahead(2) == [demand as f64; 2]);
        }
        // The last minute was 1999, three minutes after a rise.
        let ahead = arima.ahead(4);
        let near = ahead.iter().zip([9.0, 5.0, 5.0, 5.0]).all(|(a, b)| (a - b).abs() < 0.5);
        assert!(arima.fit.is_none() || near, "{ahead:?}");
        assert!(arima.fit.is_some());
    }
}
