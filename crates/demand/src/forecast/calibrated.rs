//! Calibrates a method, so that D exceeds its quantile q in a fraction 1 - q of all ticks.
//!
//! This is online conformal calibration (Gibbs and Candès, 2021) of the level at which a
//! distribution is evaluated. For the quantile q, the headroom h of a bucket is the quantile at the
//! level p, with logit p = logit q + θ. D is known L ticks later, where L is the lead time in
//! ticks. Then θ follows the misses:
//!
//! ```text
//! θ = θ + (η / L) (1{D > h} - (1 - q)),   p within [0.5, 0.9995]
//! ```
//!
//! Over any long period P(D > h) is therefore 1 - q, even where the distribution of the method is
//! wrong. The step is divided by L because one burst causes a miss in up to L successive windows.
//!
//! Where h = 0 and D = 0, no smaller headroom is possible, so θ then falls no further than 0.
//! Otherwise many calm ticks would wind θ down, and the next burst would find no placeholders.
//!
//! The correction moves the level and not the number of nodes. Where D is mostly 0, a correction in
//! nodes would apply at all times, but a corrected level still distinguishes calm moments from busy
//! ones.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use placeholders::Reason;

use super::cache::Copied;
use super::demand_ahead::Ahead;
use super::hyperparameters::{CALIBRATION, CALIBRATION_LEVELS};
use super::lead::Lead;
use super::model_fault::ModelFault;
use super::question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present};
use super::windows::last_needs;
use crate::record::History;

/// A method with a calibrated quantile.
///
/// Ticks at which the method has too little history do not change θ.
pub struct Calibrated {
    method: Box<dyn DemandForecaster>,
    level: CalibratedLevel,
    /// L, the lead time in ticks.
    ticks: usize,
    /// θ per bucket, in log-odds of the level.
    shifts: Vec<f64>,
    /// The headroom h of the last L ticks, oldest first, in nodes per bucket. `None` where the
    /// history was too short.
    open: VecDeque<Vec<Option<u64>>>,
    /// Earlier ticks train the method and do not change θ.
    since: DateTime<Utc>,
}

/// The update rule of θ.
#[derive(Clone, Copy, Debug)]
struct CalibratedLevel {
    quantile: f64,
    /// η / L.
    gain: f64,
    /// The smallest and the largest θ, in log-odds.
    range: (f64, f64),
}

impl Calibrated {
    /// Calibrates the `quantile`, in (0, 1), of `method` from `since` on.
    ///
    /// Earlier ticks train the method only, because forecasting at every tick of a long log is
    /// slow.
    pub fn new(
        method: Box<dyn DemandForecaster>,
        quantile: f64,
        buckets: usize,
        lead: Lead,
        since: DateTime<Utc>,
    ) -> Self {
        let ticks = lead.ticks();
        Self {
            method,
            level: CalibratedLevel::new(quantile, ticks),
            ticks,
            shifts: vec![0.0; buckets],
            open: VecDeque::new(),
            since,
        }
    }

    fn shifted(&self, mut outlook: Outlook) -> Outlook {
        for (bucket, shift) in outlook.buckets.iter_mut().zip(&self.shifts) {
            bucket.new_nodes = bucket.new_nodes.shifted(*shift);
        }
        outlook
    }

    fn judge(&mut self, held: &[Option<u64>], history: &History) {
        let needs = last_needs(history, self.ticks, self.shifts.len());
        for ((shift, held), need) in self.shifts.iter_mut().zip(held).zip(&*needs) {
            if let Some(held) = held {
                *shift = self.level.after(*shift, *held, *need);
            }
        }
    }
}

impl CalibratedLevel {
    fn new(quantile: f64, ticks: usize) -> Self {
        let (low, high) = CALIBRATION_LEVELS;
        let of = |level: f64| logit(level) - logit(quantile);
        let range = (of(low).min(0.0), of(high).max(0.0));
        Self { quantile, gain: CALIBRATION / ticks as f64, range }
    }

    /// Returns θ after a window with the headroom `held` and the need `need`, both in nodes.
    fn after(self, shift: f64, held: u64, need: u64) -> f64 {
        let Self { quantile, gain, range: (low, high) } = self;
        let missed = f64::from(u8::from(need > held));
        let moved = shift + gain * (missed - (1.0 - quantile));
        let least = if held == 0 && need == 0 { shift.min(0.0) } else { low };
        moved.clamp(least, high)
    }
}

fn logit(chance: f64) -> f64 {
    (chance / (1.0 - chance)).ln()
}

impl Forecaster for Calibrated {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.method.learn(history);
        if tick.time < self.since {
            return;
        }
        if self.open.len() == self.ticks
            && let Some(held) = self.open.pop_front()
        {
            self.judge(&held, history);
        }
        let demand = history.shapes().demand(tick);
        let outlook = self.forecast(history, &Present::at_tick(tick.time, &demand));
        let held = |bucket: &BucketOutlook| {
            (bucket.reason == Reason::Forecast)
                .then(|| bucket.new_nodes.quantile(self.level.quantile))
        };
        self.open.push_back(outlook.buckets.iter().map(held).collect());
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        self.shifted(self.method.forecast(history, now))
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.method.faults()
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let method = self.method.copy(copied)?;
        let (shifts, open) = (self.shifts.clone(), self.open.clone());
        Some(Box::new(Self { method, shifts, open, ..*self }))
    }
}

impl DemandForecaster for Calibrated {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.method.demand_ahead(history, ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{distribution::Distribution, sample};
    use crate::record::BucketTick;

    /// A miss moves θ up by η q and any other tick moves it down by η (1 - q). At q = .9, L = 1 and
    /// η = .05 the steps are .045 and .005.
    #[test]
    fn the_level_follows_the_misses() {
        assert!((CALIBRATION - 0.05).abs() < 1e-12);
        let level = CalibratedLevel::new(0.9, 1);
        let check = |shift: f64, held, need, expected: f64| {
            let after = level.after(shift, held, need);
            assert!((after - expected).abs() < 1e-12, "{shift}, {held}, {need}: {after}");
        };
        check(0.0, 2, 3, 0.045);
        check(0.0, 2, 2, -0.005);
        check(0.0, 2, 0, -0.005);
        // No headroom was held and no node was needed.
        check(0.002, 0, 0, 0.0);
        check(-0.3, 0, 0, -0.3);
        check(-0.3, 0, 1, -0.255);
        // The level stays between .5 and .9995.
        check(9.0, 0, 1, logit(0.9995) - logit(0.9));
        check(-9.0, 1, 1, -logit(0.9));
    }

    /// Forecasts at all times that one node is needed with probability 5 %, and learns nothing.
    struct Sanguine;

    impl Forecaster for Sanguine {
        fn learn(&mut self, _: &History) {}

        fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
            let new_nodes = Distribution::weighted([(0, 0.95), (1, 0.05)].into_iter());
            Outlook { buckets: vec![BucketOutlook::new(new_nodes, Reason::Forecast)] }
        }
    }

    impl DemandForecaster for Sanguine {}

    /// One node is needed in each window that contains a tenth minute: in 30 % of all windows of
    /// three ticks.
    #[test]
    fn calibration_corrects_a_method_that_is_wrong() {
        let method = Box::new(Sanguine);
        let mut calibrated = Calibrated::new(method, 0.9, 1, sample::LEAD, DateTime::UNIX_EPOCH);
        let (mut history, mut misses) = (History::new(&sample::catalog()), 0);
        for minute in 0..4_000 {
            let demand_max = u64::from(minute % 10 == 0);
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand: 0, demand_max, ..BucketTick::default() }],
            ));
            calibrated.learn(&history);
            let held = calibrated.open.back().unwrap()[0].unwrap();
            misses += u32::from(minute > 2_000 && minute % 10 >= 7 && held == 0);
        }
        assert!((160..240).contains(&misses), "{misses} of 2000");
    }
}
