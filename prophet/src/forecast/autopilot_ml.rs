//! Autopilot's machine-learning recommender over demand (Rzadca et al., Autopilot, 2020, section 3.2.3).
//!
//! Each model m has a decay rate d and a margin M. For every limit L it smooths the samples above it, o(L) (4), and below it,
//! u(L) (5); its limit L' is the one with the least `w_o` o + `w_u` u + `w_L` where L changes (6), plus M (7). Its cost is
//! smoothed alike, c (8), of the last sample alone; the model with the least c, and `w_m` where the model changes and `w_L`
//! where the limit does, is followed (9). A sample is a tick's largest demand. What the limit exceeds present demand by is held: a
//! point, whatever quantile is asked for.

use super::hyperparameters::{
    MODEL_CHANGE, MODEL_COST_DECAY, MODEL_DECAYS, MODEL_LIMIT_CHANGE, MODEL_MARGINS, MODEL_OVERRUN,
    MODEL_UNDERRUN,
};
use super::{Ahead, Forecaster, Outlook, Present, each};
use crate::record::History;

/// See the module.
pub struct AutopilotMl {
    /// The limits that are tried, rising.
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
    /// By limit: smoothed overruns and underruns.
    runs: Vec<(f64, f64)>,
    /// The place of the limit without margin.
    at: usize,
    limit: u64,
    cost: f64,
}

impl AutopilotMl {
    /// For so many buckets.
    pub fn new(buckets: usize) -> Self {
        let limits = limits();
        let bucket = |_| Bucket { models: models(limits.len()), followed: 0, limit: 0 };
        Self { buckets: (0..buckets).map(bucket).collect(), limits }
    }
}

/// Every count up to 100, then each 5 % above the last, up to 100,000 nodes: about as many as the paper's 400.
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
    MODEL_DECAYS.iter().flat_map(|&decay| MODEL_MARGINS.map(|margin| model(decay, margin))).collect()
}

fn one_if(changed: bool) -> f64 {
    f64::from(u8::from(changed))
}

/// What a limit costs with a sample: overrun and underrun.
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
        let now =
            MODEL_OVERRUN * over + MODEL_UNDERRUN * under + MODEL_LIMIT_CHANGE * one_if(before != self.limit);
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

    fn demand_ahead(&self, _: &History, _: usize) -> Vec<Ahead> {
        self.buckets.iter().map(|bucket| Ahead::certain(bucket.limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With d = 1/2 and samples 2, 0: at limit 0, o = .5 then .25 and u = 0; at 1, o = .25, u = .5; at 2, o = 0, u = .5.
    #[test]
    fn overruns_and_underruns_are_smoothed() {
        let mut model =
            Model { decay: 0.5, margin: 1, runs: vec![(0.0, 0.0); 4], at: 0, limit: 1, cost: 0.0 };
        model.learn(2, &[0, 1, 2, 3]);
        // An overrun costs far more than a change: the limit moves to the sample, plus the margin.
        assert_eq!((model.at, model.limit), (2, 3));
        model.learn(0, &[0, 1, 2, 3]);
        assert_eq!(model.runs, [(0.25, 0.0), (0.25, 0.5), (0.0, 0.5), (0.0, 0.75)]);
    }

    #[test]
    fn a_steady_demand_is_the_limit_of_the_model_without_margin() {
        let mut bucket = Bucket { models: models(limits().len()), followed: 0, limit: 0 };
        (0..500).for_each(|_| bucket.learn(7, &limits()));
        assert_eq!(bucket.limit, 7);
    }

    #[test]
    fn limits_are_few() {
        assert!(limits().is_sorted() && limits().len() < 400, "{}", limits().len());
    }
}
