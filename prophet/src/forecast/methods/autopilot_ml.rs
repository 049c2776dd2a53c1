//! Autopilot's machine-learning recommender over demand (Rzadca et al., Autopilot, 2020, section
//! 3.2.3).
//!
//! Numbers in parentheses are the paper's equations. Each model m has a decay rate d and a margin
//! M. For every limit L the model smooths the fraction of samples above L, o(L) (4), and below L,
//! u(L) (5). Its limit L' minimises `w_o` o + `w_u` u, plus `w_L` where the limit changes (6), and
//! the margin M is added (7). The cost c of a model is its smoothed cost on the last sample (8).
//! The chosen model minimises c, plus `w_m` where the model changes and `w_L` where the limit
//! changes (9).
//!
//! A sample is the largest demand of a tick. The headroom is the limit less present demand. It is a
//! single count, so a quantile in the policy has no effect.

use crate::forecast::hyperparameters::{
    MODEL_CHANGE, MODEL_COST_DECAY, MODEL_DECAYS, MODEL_LIMIT_CHANGE, MODEL_MARGINS, MODEL_OVERRUN,
    MODEL_UNDERRUN,
};
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    question::{Forecaster, Outlook, Present, each},
};
use crate::record::History;

/// Autopilot's recommender, with a set of models for each bucket.
pub struct AutopilotMl {
    /// The candidate limits in nodes, in rising order.
    limits: Vec<u64>,
    buckets: Vec<Bucket>,
}

struct Bucket {
    models: Vec<Model>,
    followed: usize,
    limit: u64,
}

struct Model {
    decay: f64,
    margin: u64,
    /// The smoothed overruns and underruns, per limit.
    runs: Vec<(f64, f64)>,
    /// The position of the limit without the margin.
    at: usize,
    limit: u64,
    cost: f64,
}

impl AutopilotMl {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize) -> Self {
        let limits = limits();
        let bucket = |_| Bucket { models: models(limits.len()), followed: 0, limit: 0 };
        Self { buckets: (0..buckets).map(bucket).collect(), limits }
    }
}

/// Returns the candidate limits: every count up to 100, then steps of 5 % up to 100,000 nodes.
///
/// There are fewer than 400 of them, about as many as in the paper.
fn limits() -> Vec<u64> {
    let next = |limit: &u64| Some(if *limit < 100 { limit + 1 } else { limit + limit / 20 });
    std::iter::successors(Some(0), next).take_while(|limit| *limit < 100_000).collect()
}

fn models(limits: usize) -> Vec<Model> {
    let model = |decay, margin| Model {
        decay,
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

/// Returns 1 or 0 for an overrun and for an underrun of a limit by a sample.
fn runs(sample: u64, limit: u64) -> (f64, f64) {
    (one_if(sample > limit), one_if(sample < limit))
}

impl Model {
    fn learn(&mut self, sample: u64, limits: &[u64]) {
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
            MODEL_OVERRUN * o + MODEL_UNDERRUN * u + MODEL_LIMIT_CHANGE * one_if(at != self.at)
        };
        let least = (0..limits.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        self.at = least.unwrap_or(0);
        self.limit = limits[self.at] + self.margin;
        let now = MODEL_OVERRUN * over
            + MODEL_UNDERRUN * under
            + MODEL_LIMIT_CHANGE * one_if(before != self.limit);
        self.cost = MODEL_COST_DECAY * now + (1.0 - MODEL_COST_DECAY) * self.cost;
    }
}

impl Bucket {
    fn learn(&mut self, sample: u64, limits: &[u64]) {
        self.models.iter_mut().for_each(|model| model.learn(sample, limits));
        let cost = |at: usize| {
            let Model { cost, limit, .. } = self.models[at];
            cost + MODEL_CHANGE * one_if(at != self.followed)
                + MODEL_LIMIT_CHANGE * one_if(limit != self.limit)
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
        pairs.for_each(|(bucket, seen)| bucket.learn(seen.demand_max, &self.limits));
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

    /// With d = 1/2 and the samples 2 and 0, limit 0 has o = .25 and u = 0. Limit 1 has o = .25 and
    /// u = .5, and limit 2 has o = 0 and u = .5.
    #[test]
    fn overruns_and_underruns_are_smoothed() {
        let mut model =
            Model { decay: 0.5, margin: 1, runs: vec![(0.0, 0.0); 4], at: 0, limit: 1, cost: 0.0 };
        model.learn(2, &[0, 1, 2, 3]);
        // An overrun costs far more than a change, so the limit moves to the sample plus the
        // margin.
        assert_eq!((model.at, model.limit), (2, 3));
        model.learn(0, &[0, 1, 2, 3]);
        assert_eq!(model.runs, [(0.25, 0.0), (0.25, 0.5), (0.0, 0.5), (0.0, 0.75)]);
    }

    #[test]
    fn the_limit_of_a_steady_demand_is_the_demand() {
        let mut bucket = Bucket { models: models(limits().len()), followed: 0, limit: 0 };
        (0..500).for_each(|_| bucket.learn(7, &limits()));
        assert_eq!(bucket.limit, 7);
    }

    #[test]
    fn there_are_fewer_than_400_limits() {
        assert!(limits().is_sorted() && limits().len() < 400, "{}", limits().len());
    }
}
