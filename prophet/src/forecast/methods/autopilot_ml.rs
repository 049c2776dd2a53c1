//! Autopilot's machine-learning recommender over demand (Rzadca et al., Autopilot, 2020, section
//! 3.2.3).
//!
//! Numbers in parentheses are the paper's equations. Each model m has a decay rate d and a margin
//! M. For every limit L the model smooths the nodes by which samples exceed L, o(L) (4), and by
//! which L exceeds samples, u(L) (5). Its limit L' minimises `w_o` o + `w_u` u, plus `w_L` where
//! the limit changes (6), and the margin M is added (7). The cost c of a model is its smoothed cost
//! on the last sample (8). The chosen model minimises c, plus `w_m` where the model changes and
//! `w_L` where the limit changes (9).
//!
//! As printed, (4) and (5) count samples, so all limits above all samples cost the same. Then a
//! limit never comes down after a peak, because the gain is smaller than the penalty of a change.
//! The paper compares the weights with dollars of opportunity and of infrastructure, which are
//! proportional to the distance, so distances are smoothed here.
//!
//! A sample is the largest demand of a tick. Decay rates are given per minute, so the length of a
//! tick does not change a model's memory. The headroom is the limit less present demand. It is a
//! single count, so a quantile in the policy has no effect.

use crate::forecast::hyperparameters::{MODEL_DECAYS, MODEL_MARGINS, MODEL_WEIGHTS, ModelWeights};
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    lead::Lead,
    question::{Forecaster, Outlook, Present, each},
};
use crate::record::History;

/// Autopilot's recommender, with a set of models for each bucket.
pub struct AutopilotMl {
    /// The candidate limits in nodes, in rising order.
    limits: Vec<u64>,
    /// The weights, with a decay rate per tick.
    weights: ModelWeights,
    buckets: Vec<Bucket>,
}

struct Bucket {
    models: Vec<Model>,
    followed: usize,
    limit: u64,
}

struct Model {
    /// The decay rate, as a fraction a tick.
    decay: f64,
    margin: u64,
    /// The smoothed overruns and underruns in nodes, per limit.
    runs: Vec<(f64, f64)>,
    /// The position of the limit without the margin.
    at: usize,
    limit: u64,
    cost: f64,
}

impl AutopilotMl {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self::weighted(buckets, lead.tick_seconds, MODEL_WEIGHTS)
    }

    fn weighted(buckets: usize, tick_seconds: i64, weights: ModelWeights) -> Self {
        let limits = limits();
        let cost_decay = per_tick(weights.cost_decay, tick_seconds);
        let models = || models(limits.len(), tick_seconds);
        let bucket = |_| Bucket { models: models(), followed: 0, limit: 0 };
        Self {
            buckets: (0..buckets).map(bucket).collect(),
            weights: ModelWeights { cost_decay, ..weights },
            limits,
        }
    }
}

/// Converts a decay rate per minute to a rate per tick.
fn per_tick(decay: f64, tick_seconds: i64) -> f64 {
    1.0 - (1.0 - decay).powf(tick_seconds as f64 / 60.0)
}

/// Returns the candidate limits: every count up to 100, then steps of 5 % up to 100,000 nodes.
///
/// There are fewer than 400 of them, about as many as in the paper.
fn limits() -> Vec<u64> {
    let next = |limit: &u64| Some(if *limit < 100 { limit + 1 } else { limit + limit / 20 });
    std::iter::successors(Some(0), next).take_while(|limit| *limit < 100_000).collect()
}

fn models(limits: usize, tick_seconds: i64) -> Vec<Model> {
    let model = |decay, margin| Model {
        decay: per_tick(decay, tick_seconds),
        margin,
        runs: vec![(0.0, 0.0); limits],
        at: 0,
        limit: margin,
        cost: 0.0,
    };
    MODEL_DECAYS
        .iter()
        .flat_map(|&decay| MODEL_MARGINS.map(|margin| model(decay, margin)))
        .collect()
}

fn one_if(changed: bool) -> f64 {
    f64::from(u8::from(changed))
}

/// Returns the nodes by which a sample exceeds a limit, and by which the limit exceeds the sample.
fn runs(sample: u64, limit: u64) -> (f64, f64) {
    (sample.saturating_sub(limit) as f64, limit.saturating_sub(sample) as f64)
}

impl Model {
    fn learn(&mut self, sample: u64, limits: &[u64], weights: &ModelWeights) {
        let ModelWeights { overrun, underrun, limit_change, cost_decay, .. } = *weights;
        let (over, under) = runs(sample, self.limit);
        let before = self.limit;
        let d = self.decay;
        for ((o, u), limit) in self.runs.iter_mut().zip(limits) {
            let (over, under) = runs(sample, *limit);
            *o = (1.0 - d) * *o + d * over;
            *u = (1.0 - d) * *u + d * under;
        }
        let cost = |at: usize| {
            let (o, u) = self.runs[at];
            overrun * o + underrun * u + limit_change * one_if(at != self.at)
        };
        let least = (0..limits.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        self.at = least.unwrap_or(0);
        self.limit = limits[self.at] + self.margin;
        let now = overrun * over + underrun * under + limit_change * one_if(before != self.limit);
        self.cost = cost_decay * now + (1.0 - cost_decay) * self.cost;
    }
}

impl Bucket {
    fn learn(&mut self, sample: u64, limits: &[u64], weights: &ModelWeights) {
        self.models.iter_mut().for_each(|model| model.learn(sample, limits, weights));
        let cost = |at: usize| {
            let Model { cost, limit, .. } = self.models[at];
            cost + weights.model_change * one_if(at != self.followed)
                + weights.limit_change * one_if(limit != self.limit)
        };
        let least = (0..self.models.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        self.followed = least.unwrap_or(0);
        self.limit = self.models[self.followed].limit;
    }
}

impl Forecaster for AutopilotMl {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let pairs = self.buckets.iter_mut().zip(&tick.buckets);
        pairs.for_each(|(bucket, seen)| bucket.learn(seen.demand_max, &self.limits, &self.weights));
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(self.buckets.len(), |id| {
            self.buckets[id].limit.saturating_sub(now.demand.present.get(id).copied().unwrap_or(0))
        })
    }
}

impl DemandForecaster for AutopilotMl {
    fn demand_ahead(&self, _: &History, _: usize) -> Vec<Ahead> {
        self.buckets.iter().map(|bucket| Ahead::certain(bucket.limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With d = 1/2 and the samples 2 and 0, limit 0 has o = .5 and u = 0. Limit 1 has o = .25 and
    /// u = .5, and limit 2 has o = 0 and u = 1.
    #[test]
    fn overruns_and_underruns_are_smoothed() {
        let mut model =
            Model { decay: 0.5, margin: 1, runs: vec![(0.0, 0.0); 4], at: 0, limit: 1, cost: 0.0 };
        model.learn(2, &[0, 1, 2, 3], &MODEL_WEIGHTS);
        // An overrun costs far more than a change, so the limit moves to the sample plus the
        // margin.
        assert_eq!((model.at, model.limit), (2, 3));
        model.learn(0, &[0, 1, 2, 3], &MODEL_WEIGHTS);
        assert_eq!(model.runs, [(0.5, 0.0), (0.25, 0.5), (0.0, 1.0), (0.0, 1.75)]);
    }

    #[test]
    fn the_limit_of_a_steady_demand_is_the_demand() {
        let mut bucket = Bucket { models: models(limits().len(), 60), followed: 0, limit: 0 };
        (0..500).for_each(|_| bucket.learn(7, &limits(), &MODEL_WEIGHTS));
        assert_eq!(bucket.limit, 7);
    }

    /// Six days after a peak of one day, the limit follows demand again, at any length of a tick.
    #[test]
    fn the_limit_comes_down_after_a_peak() {
        let day = |tick_seconds: i64| usize::try_from(86_400 / tick_seconds).unwrap();
        for tick_seconds in [60, 300, 600] {
            let mut forecaster = AutopilotMl::weighted(1, tick_seconds, MODEL_WEIGHTS);
            let mut learn = |demand: &dyn Fn(usize) -> u64, days: usize| {
                for at in 0..days * day(tick_seconds) {
                    let AutopilotMl { limits, weights, buckets } = &mut forecaster;
                    buckets[0].learn(demand(at), limits, weights);
                }
                forecaster.buckets[0].limit
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

    /// The demand of a log at every five minutes, the largest bucket alone.
    fn demand(path: &str) -> Vec<u64> {
        use crate::catalog::{CatalogFile, default_types};
        use crate::replay::{SchedulerKind, Workload, ticks};

        let jobs = crate::trace::read(std::path::Path::new(path), true).unwrap().jobs;
        let types = CatalogFile { instance_types: default_types(&jobs) };
        let catalog = types.catalog().unwrap();
        let mut samples = vec![Vec::new(); catalog.len()];
        let workload = Workload::new(&jobs, &catalog);
        ticks(&workload, &catalog, SchedulerKind::Pack, 300, &mut |tick, _| {
            let pairs = samples.iter_mut().zip(&tick.buckets);
            pairs.for_each(|(samples, seen)| samples.push(seen.demand_max));
        });
        samples.into_iter().max_by_key(|samples| samples.iter().sum::<u64>()).unwrap()
    }

    /// Run it with:
    ///
    /// ```text
    /// PROPHET_TRACES=FILE[,FILE] cargo test -p prophet --lib --release -- \
    ///     --ignored --nocapture sweep
    /// ```
    ///
    /// The cost of a tick is nine for a node of the next sample above the limit, and one for a node
    /// of the limit above it. The paper sweeps its weights over saved samples of usage in the same
    /// way.
    #[test]
    #[ignore = "a measurement that needs job logs"]
    fn the_sweep_of_the_weights_is_printed() {
        let traces = std::env::var("PROPHET_TRACES").expect("PROPHET_TRACES must name job logs");
        let logs: Vec<Vec<u64>> = traces.split(',').map(demand).collect();
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
            let before = forecaster.buckets[0].limit;
            let run = runs(*sample, before);
            let AutopilotMl { limits, weights, buckets } = &mut forecaster;
            buckets[0].learn(*sample, limits, weights);
            if 2 * at >= log.len() {
                over += run.0;
                under += run.1;
                changes += one_if(before != buckets[0].limit);
            }
        }
        let half = log.len() as f64 / 2.0;
        [over / half, under / half, 288.0 * changes / half, (9.0 * over + under) / half]
    }
}
