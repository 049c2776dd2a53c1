//! The oracle forecasts the exact rise of offered demand within the lead time.
//!
//! It is a reference, not a bound.

use std::cell::RefCell;

use crate::forecast::{Forecaster, Outlook, Present, each};
use crate::record::History;
use crate::replay::{LookAhead, Series};

/// A forecaster that reads future offered demand.
pub(super) struct Oracle {
    lead_seconds: i64,
    /// By bucket. A `LookAhead` requires that forecasts are made in the order of time.
    ahead: RefCell<Vec<LookAhead>>,
}

impl Oracle {
    pub(super) fn new(series: &Series, lead_seconds: i64) -> Self {
        let ahead = series.buckets.iter().map(|steps| LookAhead::new(steps)).collect();
        Self { lead_seconds, ahead: RefCell::new(ahead) }
    }
}

impl Forecaster for Oracle {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        let mut ahead = self.ahead.borrow_mut();
        let at = now.time.timestamp();
        each(now.demand.present.len(), |id| ahead[id].rise(at, self.lead_seconds))
    }
}
