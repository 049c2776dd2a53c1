//! Autopilot's machine-learning recommender over demand (Rzadca et al., Autopilot, 2020, section
//! 3.2.3).
//!
//! `usage/model_set.rs` has the choice among models, and the paper's equations. The cost of a limit
//! is the number of nodes by which a sample exceeds it, or by which it exceeds the sample: the
//! paper compares the weights with dollars of opportunity and of infrastructure, which are
//! proportional to the distance.
//!
//! A sample is the largest demand of a tick. Decay rates are given per minute, so the length of a
//! tick does not change a model's memory. The headroom is the limit less present demand. It is a
//! single count, so a quantile in the policy has no effect.

use usage::{ModelSet, ModelWeights, decay_over};

use crate::forecast::hyperparameters::{MODEL_DECAYS, MODEL_MARGINS, MODEL_WEIGHTS};
use crate::forecast::{
    demand_ahead::Ahead,
    lead::Lead,
    question::{DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::History;

/// Autopilot's recommender, with a set of models for each bucket.
pub struct AutopilotMl {
    /// The candidate limits in nodes, in rising order.
    limits: Vec<u64>,
    /// The weights, with a decay rate per tick.
    weights: ModelWeights,
    buckets: Vec<ModelSet>,
}

impl AutopilotMl {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self::weighted(buckets, lead.tick_seconds, MODEL_WEIGHTS)
    }

    fn weighted(buckets: usize, tick_seconds: i64, weights: ModelWeights) -> Self {
        let limits = limits();
        let minutes = tick_seconds as f64 / 60.0;
        let cost_decay = decay_over(weights.cost_decay, minutes);
        let decays = MODEL_DECAYS.map(|decay| decay_over(decay, minutes));
        let models =
            ModelSet::new(limits.len(), &decays, &MODEL_MARGINS, |limit, nodes| limit + nodes);
        Self {
            buckets: vec![models; buckets],
            weights: ModelWeights { cost_decay, ..weights },
            limits,
        }
    }
}

/// Returns the candidate limits: every count up to 100, then steps of 5 % up to 100,000 nodes.
///
/// There are fewer than 400 of them, about as many as in the paper.
fn limits() -> Vec<u64> {
    let next = |limit: &u64| Some(if *limit < 100 { limit + 1 } else { limit + limit / 20 });
    std::iter::successors(Some(0), next).take_while(|limit| *limit < 100_000).collect()
}

/// Returns the nodes by which a sample exceeds a limit, and by which the limit exceeds the sample.
fn runs(sample: u64, limit: u64) -> (f64, f64) {
    (sample.saturating_sub(limit) as f64, limit.saturating_sub(sample) as f64)
}

impl AutopilotMl {
    fn learn_sample(&mut self, bucket: usize, sample: u64) {
        let Self { limits, weights, buckets } = self;
        if let Some(models) = buckets.get_mut(bucket) {
            models.learn(limits, &|limit| runs(sample, limit), weights);
        }
    }
}

impl Forecaster for AutopilotMl {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        for (bucket, seen) in tick.buckets.iter().enumerate() {
            self.learn_sample(bucket, seen.demand_max);
        }
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(self.buckets.len(), |id| {
            let present = now.demand.present.get(id).copied().unwrap_or(0);
            self.buckets[id].limit().saturating_sub(present)
        })
    }
}

impl DemandForecaster for AutopilotMl {
    fn demand_ahead(&self, _: &History, _: usize) -> Vec<Ahead> {
        self.buckets.iter().map(|bucket| Ahead::certain(bucket.limit())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_limit_of_a_steady_demand_is_the_demand() {
        let mut forecaster = AutopilotMl::weighted(1, 60, MODEL_WEIGHTS);
        (0..500).for_each(|_| forecaster.learn_sample(0, 7));
        assert_eq!(forecaster.buckets[0].limit(), 7);
    }

    /// Six days after a peak of one day, the limit follows demand again, at any length of a tick.
    #[test]
    fn the_limit_comes_down_after_a_peak() {
        let day = |tick_seconds: i64| usize::try_from(86_400 / tick_seconds).unwrap();
        for tick_seconds in [60, 300, 600] {
            let mut forecaster = AutopilotMl::weighted(1, tick_seconds, MODEL_WEIGHTS);
            let mut learn = |demand: &dyn Fn(usize) -> u64, days: usize| {
                for at in 0..days * day(tick_seconds) {
                    forecaster.learn_sample(0, demand(at));
                }
                forecaster.buckets[0].limit()
            };
            // Demand changes at every tick, between 1 and 24 nodes.
            let usual = |at: usize| 1 + at as u64 * 7 % 24;
            assert!((12..=28).contains(&learn(&usual, 7)), "{tick_seconds}");
            assert!(learn(&|_| 150, 1) >= 150, "{tick_seconds}");
            let after = learn(&usual, 6);
            assert!(after <= 28, "{after} nodes six days later, with ticks of {tick_seconds} s");
        }
    }

    #[test]
    fn there_are_fewer_than_400_limits() {
        assert!(limits().is_sorted() && limits().len() < 400, "{}", limits().len());
    }

    /// The largest demand of each tick, of the largest bucket alone.
    fn demand(path: &str) -> Vec<u64> {
        let mut samples = BTreeMap::<String, Vec<u64>>::new();
        for line in std::fs::read_to_string(path).unwrap().lines().skip(1) {
            let columns: Vec<&str> = line.split(',').collect();
            samples.entry(columns[1].into()).or_default().push(columns[3].parse().unwrap());
        }
        samples.into_values().max_by_key(|samples| samples.iter().sum::<u64>()).unwrap()
    }

    /// Run it with files of `prophet trace ticks LOG --lenient --tick 5m --out FILE`:
    ///
    /// ```text
    /// PROPHET_TICKS=FILE[,FILE] cargo test -p demand --lib --release -- \
    ///     --ignored --nocapture sweep
    /// ```
    ///
    /// The cost of a tick is nine for a node of the next sample above the limit, and one for a node
    /// of the limit above it. The paper sweeps its weights over saved samples of usage in the same
    /// way.
    #[test]
    #[ignore = "a measurement that needs ticks of job logs"]
    fn the_sweep_of_the_weights_is_printed() {
        let files = std::env::var("PROPHET_TICKS").expect("PROPHET_TICKS must name files of ticks");
        let logs: Vec<Vec<u64>> = files.split(',').map(demand).collect();
        println!(
            "limit_change model_change cost_decay: per log nodes over, under, changes a day; cost"
        );
        for limit_change in [0.0, 0.1, 0.5, 2.0] {
            for model_change in [0.0, 0.1, 1.0] {
                for cost_decay in [0.03, 0.008, 0.0007] {
                    let weights =
                        ModelWeights { limit_change, model_change, cost_decay, ..MODEL_WEIGHTS };
                    let figures = logs.iter().map(|log| swept(log, weights));
                    let figures: Vec<[f64; 4]> = figures.collect();
                    println!("{limit_change} {model_change} {cost_decay}: {figures:.2?}");
                }
            }
        }
        for log in &logs {
            let last = log
                .windows(2)
                .map(|pair| runs(pair[1], pair[0]))
                .fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
            println!("last value: {:.2}", (9.0 * last.0 + last.1) / log.len() as f64);
        }
    }

    /// The mean nodes by which samples exceed the limit and the limit exceeds samples, the changes
    /// of the limit a day, and the cost of a tick, over the second half of a log.
    fn swept(log: &[u64], weights: ModelWeights) -> [f64; 4] {
        let mut forecaster = AutopilotMl::weighted(1, 300, weights);
        let (mut over, mut under, mut changes) = (0.0, 0.0, 0.0);
        for (at, sample) in log.iter().enumerate() {
            let before = forecaster.buckets[0].limit();
            let run = runs(*sample, before);
            forecaster.learn_sample(0, *sample);
            if 2 * at >= log.len() {
                over += run.0;
                under += run.1;
                changes += f64::from(u8::from(before != forecaster.buckets[0].limit()));
            }
        }
        let half = log.len() as f64 / 2.0;
        [over / half, under / half, 288.0 * changes / half, (9.0 * over + under) / half]
    }
}
