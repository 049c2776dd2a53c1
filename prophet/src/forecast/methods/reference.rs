//! Reference methods for tables of policies: a constant and the static maximum.

use crate::forecast::demand_ahead::DemandForecaster;

use chrono::{DateTime, Utc};

use crate::forecast::question::{Forecaster, Outlook, Present, each};
use crate::record::History;

/// A constant number of placeholders of each bucket at all times, as static overprovisioners hold.
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub u64);

impl Forecaster for Constant {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(now.demand.present.len(), |_| self.0)
    }
}

impl DemandForecaster for Constant {}

/// Placeholders up to the largest demand, in nodes, that was observed before a given time.
#[derive(Clone, Debug)]
pub struct StaticMax {
    until: DateTime<Utc>,
    most: Vec<u64>,
}

impl StaticMax {
    /// Uses the demand of ticks before `until`.
    pub fn new(buckets: usize, until: DateTime<Utc>) -> Self {
        Self { until, most: vec![0; buckets] }
    }
}

impl Forecaster for StaticMax {
    fn learn(&mut self, history: &History) {
        if let Some(tick) = history.last().filter(|tick| tick.time < self.until) {
            self.most
                .iter_mut()
                .zip(&tick.buckets)
                .for_each(|(most, bucket)| *most = bucket.demand_max.max(*most));
        }
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(self.most.len(), |id| self.most[id].saturating_sub(now.demand.present[id]))
    }
}

impl DemandForecaster for StaticMax {}
