//! Forecasts with a lead time of its own for each bucket.
//!
//! Instances of different buckets take different times to launch. A window that covers the slowest
//! launch would hold nodes of the fast buckets for arrivals that the next nodes will serve. So
//! there is one forecaster for each lead time, and each bucket has the forecast of its lead time.

use embedder::BucketId;

use super::cache::Copied;
use super::demand_ahead::Ahead;
use super::model_fault::ModelFault;
use super::question::{DemandForecaster, Forecaster, Outlook, Present};
use crate::record::History;

/// One forecaster for each lead time.
pub(super) struct PerLead {
    forecasters: Vec<Box<dyn DemandForecaster>>,
    /// By bucket: the index in `forecasters` of the forecaster of its lead time.
    of: Vec<usize>,
}

impl PerLead {
    /// `of` has, by bucket, the index of its forecaster.
    pub(super) fn new(forecasters: Vec<Box<dyn DemandForecaster>>, of: Vec<usize>) -> Self {
        Self { forecasters, of }
    }

    /// Returns a value for each bucket: that of its own forecaster, among the values that `all`
    /// returns for all buckets.
    fn each<T: Clone>(&self, all: impl Fn(&dyn DemandForecaster) -> Vec<T>) -> Vec<T> {
        let all: Vec<Vec<T>> = self.forecasters.iter().map(|one| all(&**one)).collect();
        let of_bucket = |(bucket, of): (usize, &usize)| all.get(*of)?.get(bucket).cloned();
        self.of.iter().enumerate().filter_map(of_bucket).collect()
    }
}

impl Forecaster for PerLead {
    fn learn(&mut self, history: &History) {
        self.forecasters.iter_mut().for_each(|one| one.learn(history));
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        Outlook { buckets: self.each(|one| one.forecast(history, now).buckets) }
    }

    /// All forecasters have the same model, but its horizon may suffice only for some lead times.
    fn faults(&self) -> Vec<ModelFault> {
        let mut faults = Vec::new();
        for fault in self.forecasters.iter().flat_map(|one| one.faults()) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults
    }

    fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        let of = self.of.get(bucket).and_then(|of| self.forecasters.get(*of));
        of.map(|one| one.weights(bucket)).unwrap_or_default()
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let each = self.forecasters.iter().map(|one| one.copy(copied)).collect::<Option<_>>()?;
        Some(Box::new(Self::new(each, self.of.clone())))
    }
}

impl DemandForecaster for PerLead {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.each(|one| one.demand_ahead(history, ticks))
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;
    use placeholders::Objective;

    use crate::forecast::lead::Lead;
    use crate::forecast::method::Method;
    use crate::forecast::question::{BucketOutlook, Present};
    use crate::forecast::{ForecasterConfig, sample};
    use crate::record::{BucketTick, History};

    /// For two days, demand of both buckets rises by a node every four minutes and falls after an
    /// hour.
    fn outlooks(leads: [Lead; 2]) -> Vec<BucketOutlook> {
        let config = ForecasterConfig {
            catalog: testkit::catalog([("one", 8_000, 0.0), ("two", 8_000, 0.0)]),
            leads: leads.into(),
            ..sample::config(Method::Increments, Objective::Quantile(0.9))
        };
        let mut forecaster = config.demand_forecaster(sample::tick(2_880, vec![]).time);
        let mut history = History::new(&config.catalog);
        for minute in 0..2_880_i64 {
            let demand = minute.unsigned_abs() % 60 / 4;
            let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket; 2]));
            forecaster.learn(&history);
        }
        let demand = Demand { present: vec![9, 9], ..Demand::default() };
        let now = Present::at_tick(history.last().unwrap().time, &demand);
        forecaster.forecast(&history, &now).buckets
    }

    #[test]
    fn each_bucket_has_the_forecast_of_its_lead_time() {
        let long = Lead { seconds: 1_200, ..sample::LEAD };
        let (both_short, both_long) = (outlooks([sample::LEAD; 2]), outlooks([long; 2]));
        assert!(both_short[0].headroom(0.9) < both_long[0].headroom(0.9));
        let mixed = outlooks([sample::LEAD, long]);
        assert_eq!(mixed, [both_short[0].clone(), both_long[1].clone()]);
    }
}
