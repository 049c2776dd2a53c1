//! The prices of waiting and of idling that an objective implies for the buckets of a catalog.

use embedder::{BucketId, Catalog};

use crate::policy::Objective;

/// The prices of waiting and of idling, in dollars per hour.
///
/// Idling costs the price of the bucket's instances, so idle time of a dear instance weighs more
/// than that of a cheap one. If a bucket has no price, the mean of the others applies, and 1 if no
/// bucket has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// The quantile of the objective, in (0, 1), if it has one.
    quantile: Option<f64>,
    wait: f64,
    idle: Vec<f64>,
}

impl Prices {
    /// Returns the prices for the buckets of `catalog`.
    ///
    /// An objective with a quantile has the prices of the default objective.
    pub fn new(objective: Objective, catalog: &Catalog) -> Self {
        let hourly = || catalog.buckets().iter().map(|bucket| bucket.hourly.dollars());
        let known = hourly().filter(|price| *price > 0.0).count();
        let mean = if known > 0 { hourly().sum::<f64>() / known as f64 } else { 1.0 };
        let idle = hourly().map(|price| if price > 0.0 { price } else { mean }).collect();
        let (quantile, wait) = match objective {
            Objective::Quantile(quantile) => (Some(quantile), Objective::WAIT_RATIO * mean),
            Objective::WaitCost(cost) => (None, cost),
            Objective::WaitRatio(ratio) => (None, ratio * mean),
        };
        Self { quantile, wait, idle }
    }

    /// The price of a pending pod-hour, in dollars.
    pub fn wait(&self) -> f64 {
        self.wait
    }

    /// The price of an idle instance-hour of a bucket, in dollars.
    pub fn idle(&self, bucket: BucketId) -> f64 {
        self.idle.get(bucket).copied().unwrap_or(1.0)
    }

    /// Returns the quantile of the new nodes needed that a method without experts holds, in (0, 1).
    ///
    /// It is the quantile of the objective, or the quantile at which one more node costs as much
    /// idle as it saves in waiting: the newsvendor's ratio, wait / (wait + idle).
    pub fn quantile(&self, bucket: BucketId) -> f64 {
        self.quantile.unwrap_or_else(|| self.wait / (self.wait + self.idle(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use testkit::{bucket, catalog_of};

    use super::*;

    /// Checks the price of waiting, the prices of idling and the quantiles, for buckets with these
    /// prices.
    #[track_caller]
    fn check(objective: Objective, hourly: &[f64], wait: f64, idle: &[f64], quantiles: &[f64]) {
        let bucket = |(at, price): (u64, &f64)| bucket(&format!("bucket-{at}"), 1_000 * at, *price);
        let catalog = catalog_of((1..).zip(hourly).map(bucket));
        let prices = Prices::new(objective, &catalog);
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
        };
        near(prices.wait(), wait);
        for (id, (idle, quantile)) in idle.iter().zip(quantiles).enumerate() {
            near(prices.idle(id), *idle);
            near(prices.quantile(id), *quantile);
        }
    }

    #[test]
    fn idling_costs_the_price_of_the_instances() {
        let hourly = [1.0, 3.0];
        check(Objective::WaitCost(9.0), &hourly, 9.0, &hourly, &[0.9, 0.75]);
        check(Objective::WaitRatio(1.5), &hourly, 3.0, &hourly, &[0.75, 0.5]);
        check(Objective::Quantile(0.95), &hourly, 18.0, &hourly, &[0.95, 0.95]);
    }

    #[test]
    fn a_bucket_without_a_price_has_the_mean_of_the_others() {
        check(Objective::WaitRatio(9.0), &[2.0, 0.0, 4.0], 27.0, &[2.0, 3.0, 4.0], &[]);
        check(Objective::default(), &[0.0, 0.0], 9.0, &[1.0, 1.0], &[0.9, 0.9]);
        check(Objective::WaitCost(3.0), &[0.0], 3.0, &[1.0], &[0.75]);
    }
}
