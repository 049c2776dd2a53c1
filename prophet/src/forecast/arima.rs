//! ARIMA(7, 1, 7) with a constant, the paper's baseline (Box and Jenkins, 1970), fitted as Hannan and Rissanen do (1982).
//!
//! Changes of demand w = y - y' depend on the last seven changes and the last seven shocks e, of which each is what came
//! less what was forecast:
//!
//! ```text
//! w(t) = c + φ₁ w(t-1) + ... + φ₇ w(t-7) + θ₁ e(t-1) + ... + θ₇ e(t-7) + e(t)
//! ```
//!
//! Once a day, over the last week: a long autoregression, by least squares, tells the shocks; then w is regressed on both. A
//! fit that would explode, or whose shocks could not be told from demand, has a root inside the unit circle and is thrown
//! away: the last value stands in. So it does before the first fit.

use embedder::BucketId;

use super::Lead;
use super::hyperparameters::{ARIMA_LONG_LAGS, ARIMA_RIDGE, ARIMA_TICKS, ARIMA_TICKS_MIN};
use super::least_squares::LeastSquares;
use super::paths::{Path, refit_day};
use crate::record::History;

/// Lags of changes, and of shocks.
const LAGS: usize = 7;

/// See the module.
pub struct Arima {
    day: Option<i64>,
    fit: Option<Fit>,
    demand: f64,
    recent: Recent,
}

/// c, φ and θ.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    constant: f64,
    changes: [f64; LAGS],
    shocks: [f64; LAGS],
}

/// The last changes and shocks, the latest first.
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

/// The changes of demand from tick to tick, over the last week.
fn changes(history: &History, bucket: BucketId) -> Vec<f64> {
    let demand = history.latest(ARIMA_TICKS + 1).map(|tick| tick.buckets.get(bucket).map_or(0, |b| b.demand));
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
    /// The change that is expected next.
    fn next(&self, recent: &Recent) -> f64 {
        self.constant + dot(&self.changes, &recent.changes) + dot(&self.shocks, &recent.shocks)
    }

    /// Whether what is forecast stays bounded, and old shocks fade.
    fn is_stable(&self) -> bool {
        is_stable(&self.changes) && is_stable(&self.shocks.map(|theta| -theta))
    }
}

/// See the module: both steps of Hannan and Rissanen.
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

/// What a change is regressed on: 1, the changes and the shocks before it, the latest first.
fn row(changes: &[f64], shocks: &[f64], now: usize) -> [f64; 1 + 2 * LAGS] {
    let mut row = [1.0; 1 + 2 * LAGS];
    for lag in 1..=LAGS {
        row[lag] = changes[now - lag];
        row[LAGS + lag] = shocks[now - lag];
    }
    row
}

/// What a long autoregression leaves over.
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

/// Whether all roots of 1 - φ₁ z - ... - φₚ zᵖ lie outside the unit circle: stepping down through the orders, no partial
/// autocorrelation k = φₚ may reach 1, and φᵢ becomes (φᵢ + k φₚ₋ᵢ) / (1 - k²) (Durbin and Levinson).
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

    /// With c = .5, φ = (.5, .25), θ = (.5): after the changes 1, 2 (the later first: 2, 1) and the shock 1, the next are
    /// .5 + 1 + .25 + .5 = 2.25, then .5 + 1.125 + .5 = 2.125, as its own shock is not known.
    #[test]
    fn a_path_adds_expected_changes() {
        let fit = Fit { constant: 0.5, changes: lags(&[0.5, 0.25]), shocks: lags(&[0.5]) };
        let recent = Recent { changes: lags(&[2.0, 1.0]), shocks: lags(&[1.0]) };
        let arima = Arima { day: None, fit: Some(fit), demand: 10.0, recent };
        assert_eq!(arima.ahead(2), [12.25, 14.375]);
    }

    #[track_caller]
    fn check_stable(phi: &[f64], expected: bool) {
        assert_eq!(is_stable(phi), expected, "{phi:?}");
    }

    /// (1 - .7 z)(1 - .8 z) = 1 - 1.5 z + .56 z²; where φ₁ + φ₂ is 1 or more, a root is 1 or less.
    #[test]
    fn roots_lie_outside_the_unit_circle() {
        check_stable(&[0.5], true);
        check_stable(&[-1.1], false);
        check_stable(&[1.5, -0.56], true);
        check_stable(&[0.5, 0.5], false);
        check_stable(&[0.5, 0.6], false);
        check_stable(&lags(&[0.9]), true);
        check_stable(&[f64::NAN], false);
    }

    /// w = .6 w' + e + .3 e', with e that no one can foresee.
    #[test]
    fn a_fit_finds_what_made_the_changes() {
        let mut seed = 1_u64;
        let mut shock = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let (mut changes, mut before) = (vec![0.0], 0.0);
        for now in 0..10_000 {
            let e = shock();
            changes.push(0.6 * changes[now] + e + 0.3 * before);
            before = e;
        }
        let fit = fit(&changes).filter(Fit::is_stable).unwrap();
        // Lags can stand in for each other: what counts is the forecast after a shock of 1.
        let after = Recent { changes: lags(&[1.0]), shocks: lags(&[1.0]) };
        let next = fit.next(&after);
        assert!((next - 0.9).abs() < 0.08, "{next}");
    }

    /// Each fourth minute demand is 4 above: once fitted, that is foreseen.
    #[test]
    fn what_comes_again_and_again_is_foreseen() {
        let (mut arima, mut history) = (Arima::new(sample::LEAD), History::default());
        for minute in 0..2_000 {
            let demand = if minute % 4 == 0 { 9 } else { 5 };
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }],
            ));
            arima.learn(&history, 0);
            assert!(minute > 100 || arima.ahead(2) == [demand as f64; 2]);
        }
        // The last minute was 1999, three after a rise.
        let ahead = arima.ahead(4);
        let near = ahead.iter().zip([9.0, 5.0, 5.0, 5.0]).all(|(a, b)| (a - b).abs() < 0.5);
        assert!(arima.fit.is_none() || near, "{ahead:?}");
        assert!(arima.fit.is_some());
    }
}
