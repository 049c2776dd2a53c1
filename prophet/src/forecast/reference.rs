//! What a table of policies needs beside forecasts: constant, static maximum, oracle.

use chrono::{DateTime, Utc};

use super::{Forecaster, Outlook, Present, each};
use crate::record::History;

/// So many placeholders of each bucket at all times, as static overprovisioners hold.
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub u64);

impl Forecaster for Constant {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(now.demand.present.len(), |_| self.0)
    }
}

/// As many nodes as demand ever needed up to a moment, at all times after it.
#[derive(Clone, Debug)]
pub struct StaticMax {
    until: DateTime<Utc>,
    most: Vec<u64>,
}

impl StaticMax {
    /// Looks at demand before `until`.
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

/// Knows by how much offered demand will rise within the lead: a reference, not a bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Forecaster for Oracle {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(now.demand.present.len(), |id| now.rise.get(id).copied().unwrap_or(0))
    }
}
