//! A method whose quantile is exceeded as often as it says: online conformal calibration (Gibbs and Candès, 2021), of the level
//! at which its distribution is read.
//!
//! Asked for the quantile q, a bucket holds h = the quantile at the level p, with logit p = logit q + θ. Once D is known, L ticks
//! later, θ follows the misses:
//!
//! ```text
//! θ = θ + (η / L) (1{D > h} - (1 - q)),   p within [0.5, 0.9995]
//! ```
//!
//! so that over any long stretch P(D > h) is 1 - q, whatever the method believes. A window's misses count in L ticks, hence the L.
//! Where h is 0 and enough, nothing less could be held: then θ goes back to 0 at most, or many calm ticks would wind it down and
//! the next burst would find nothing. Levels are moved, not nodes: where D is 0 most of the time, a node more or less would be
//! held at all times, while a level still tells a calm moment from a busy one.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use embedder::Catalog;
use placeholders::Reason;

use super::hyperparameters::{CALIBRATION, CALIBRATION_LEVELS};
use super::needs::last_needs;
use super::onnx::ModelFault;
use super::shapes::Shapes;
use super::{Ahead, BucketOutlook, Forecaster, Lead, Outlook, Present};
use crate::record::History;

/// See the module.
pub struct Calibrated {
    method: Box<dyn Forecaster>,
    level: Level,
    ticks: usize,
    shapes: Shapes,
    /// θ, per bucket.
    shifts: Vec<f64>,
    /// What would have been held at the last ticks, the oldest first, per bucket; `None` where too little was known.
    open: VecDeque<Vec<Option<u64>>>,
    since: DateTime<Utc>,
}

/// How θ moves.
#[derive(Clone, Copy, Debug)]
struct Level {
    quantile: f64,
    /// η / L.
    gain: f64,
    /// Of θ.
    range: (f64, f64),
}

impl Calibrated {
    /// The `quantile` of `method`, judged from `since` on: before that a long log would only take time.
    pub fn new(
        method: Box<dyn Forecaster>,
        quantile: f64,
        catalog: &Catalog,
        lead: Lead,
        since: DateTime<Utc>,
    ) -> Self {
        let ticks = lead.ticks();
        Self {
            method,
            level: Level::new(quantile, ticks),
            ticks,
            shapes: Shapes::new(catalog),
            shifts: vec![0.0; catalog.len()],
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

impl Level {
    fn new(quantile: f64, ticks: usize) -> Self {
        let (low, high) = CALIBRATION_LEVELS;
        let of = |level: f64| logit(level) - logit(quantile);
        let range = (of(low).min(0.0), of(high).max(0.0));
        Self { quantile, gain: CALIBRATION / ticks as f64, range }
    }

    /// θ, once it is known what was needed where so much was held.
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
        self.shapes.note(tick);
        self.method.learn(history);
        if tick.time < self.since {
            return;
        }
        if self.open.len() == self.ticks
            && let Some(held) = self.open.pop_front()
        {
            self.judge(&held, history);
        }
        let demand = self.shapes.demand(tick);
        let outlook = self.forecast(history, &Present::at_tick(tick.time, &demand));
        let held = |bucket: &BucketOutlook| {
            (bucket.basis == Reason::Forecast).then(|| bucket.new_nodes.quantile(self.level.quantile))
        };
        self.open.push_back(outlook.buckets.iter().map(held).collect());
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        self.shifted(self.method.forecast(history, now))
    }

    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.method.demand_ahead(history, ticks)
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.method.faults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{Distribution, sample};
    use crate::record::BucketTick;

    /// Misses count q, others 1 - q: at q = .9, L = 1 and η = .05 those are steps of .045 and .005.
    #[test]
    fn the_level_follows_the_misses() {
        assert!((CALIBRATION - 0.05).abs() < 1e-12);
        let level = Level::new(0.9, 1);
        let check = |shift: f64, held, need, expected: f64| {
            let after = level.after(shift, held, need);
            assert!((after - expected).abs() < 1e-12, "{shift}, {held}, {need}: {after}");
        };
        check(0.0, 2, 3, 0.045);
        check(0.0, 2, 2, -0.005);
        check(0.0, 2, 0, -0.005);
        // Nothing was held, and nothing needed.
        check(0.002, 0, 0, 0.0);
        check(-0.3, 0, 0, -0.3);
        check(-0.3, 0, 1, -0.255);
        // Between the levels .5 and .9995.
        check(9.0, 0, 1, logit(0.9995) - logit(0.9));
        check(-9.0, 1, 1, -logit(0.9));
    }

    /// Says that a node is needed with a chance of 5 %, and knows nothing.
    struct Sanguine;

    impl Forecaster for Sanguine {
        fn learn(&mut self, _: &History) {}

        fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
            let new_nodes = Distribution::weighted([(0, 0.95), (1, 0.05)].into_iter());
            Outlook { buckets: vec![BucketOutlook::new(new_nodes, Reason::Forecast)] }
        }
    }

    /// A node is needed in the three ticks before each tenth: in 30 % of all windows.
    #[test]
    fn a_method_that_is_wrong_is_set_right() {
        let method = Box::new(Sanguine);
        let mut calibrated =
            Calibrated::new(method, 0.9, &sample::catalog(), sample::LEAD, DateTime::UNIX_EPOCH);
        let (mut history, mut misses) = (History::default(), 0);
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
