//! Persistence: demand stays what it is, so nothing new is needed. The paper's rule with it is the on-demand
//! autoscaler.

use chrono::{DateTime, Utc};
use embedder::Demand;

use super::{Forecaster, KnownFuture, Outlook, each};
use crate::record::History;

/// Expects no new node, ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastValue;

impl Forecaster for LastValue {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, demand: &Demand, _: &KnownFuture, _: DateTime<Utc>) -> Outlook {
        each(demand.present.len(), |_| 0)
    }
}
