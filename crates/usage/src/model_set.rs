//! Autopilot's choice among models, each of which minimises a cost (section 3.2.3).
//!
//! Numbers in parentheses are the paper's equations. Each model has a decay rate d and a margin M.
//! For every limit L the model smooths the cost of samples above L, o(L) (4), and that of samples
//! below it, u(L) (5). Its limit L' minimises `w_o` o + `w_u` u, plus `w_L` where the limit changes
//! (6), and the margin M is added (7). The cost c of a model is its smoothed cost on the last
//! sample (8). The chosen model minimises c, plus `w_m` where the model changes and `w_L` where the
//! limit changes (9).
//!
//! The caller gives both costs of a limit, because they depend on what is limited. As printed, (4)
//! and (5) count samples, so all limits above all samples cost the same. Then a limit never comes
//! down after a peak, because the gain is smaller than the penalty of a change. So the cost of an
//! underrun must rise with the limit.

use serde::Serialize;

/// The weights of the costs of a set of models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelWeights {
    /// The weight of the cost of samples above the limit.
    pub overrun: f64,
    /// The weight of the cost of samples below the limit.
    pub underrun: f64,
    /// The cost of a change of the limit.
    pub limit_change: f64,
    /// The cost of a change of the model.
    pub model_change: f64,
    /// The decay rate of a model's cost: a fraction of the time that its owner counts in.
    pub cost_decay: f64,
}

/// Converts a decay rate over one time to the rate over `times` such times.
pub fn decay_over(decay: f64, times: f64) -> f64 {
    1.0 - (1.0 - decay).powf(times)
}

/// The models of one limit.
#[derive(Clone, Debug)]
pub struct ModelSet {
    models: Vec<LimitModel>,
    followed: usize,
    limit: u64,
    /// A limit with a margin.
    with_margin: fn(u64, u64) -> u64,
}

#[derive(Clone, Debug)]
struct LimitModel {
    /// The decay rate, as a fraction a sample.
    decay: f64,
    margin: u64,
    /// The smoothed costs above and below, per candidate limit.
    runs: Vec<(f64, f64)>,
    /// The position of the limit without the margin.
    at: usize,
    limit: u64,
    cost: f64,
}

fn one_if(changed: bool) -> f64 {
    f64::from(u8::from(changed))
}

impl ModelSet {
    /// A model for each decay rate, as a fraction a sample, and each margin. The smallest of the
    /// candidate limits is 0.
    pub fn new(
        candidates: usize,
        decays: &[f64],
        margins: &[u64],
        with_margin: fn(u64, u64) -> u64,
    ) -> Self {
        let model = |decay, margin| LimitModel {
            decay,
            margin,
            runs: vec![(0.0, 0.0); candidates],
            at: 0,
            limit: with_margin(0, margin),
            cost: 0.0,
        };
        let models = decays.iter().flat_map(|&decay| margins.iter().map(move |&m| (decay, m)));
        let models = models.map(|(decay, margin)| model(decay, margin)).collect();
        Self { models, followed: 0, limit: 0, with_margin }
    }

    /// Replaces all that was smoothed by the costs of a sample, and moves every limit without a
    /// penalty. After zeros, a model with a long memory would take as long to find its first limit.
    pub fn start(
        &mut self,
        candidates: &[u64],
        costs: &dyn Fn(u64) -> (f64, f64),
        weights: &ModelWeights,
    ) {
        let of_candidates: Vec<(f64, f64)> = candidates.iter().map(|&limit| costs(limit)).collect();
        let free = ModelWeights { limit_change: 0.0, ..*weights };
        for model in &mut self.models {
            model.runs.clone_from(&of_candidates);
            model.move_to_least(candidates, &free, self.with_margin);
        }
        self.limit = self.models.first().map_or(0, |model| model.limit);
    }

    /// Learns from a sample. `costs` has the costs of a limit above and below the sample.
    pub fn learn(
        &mut self,
        candidates: &[u64],
        costs: &dyn Fn(u64) -> (f64, f64),
        weights: &ModelWeights,
    ) {
        let of_candidates: Vec<(f64, f64)> = candidates.iter().map(|&limit| costs(limit)).collect();
        for model in &mut self.models {
            model.learn(candidates, &of_candidates, costs, weights, self.with_margin);
        }
        let cost = |at: usize| {
            let LimitModel { cost, limit, .. } = self.models[at];
            cost + weights.model_change * one_if(at != self.followed)
                + weights.limit_change * one_if(limit != self.limit)
        };
        let least = (0..self.models.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        self.followed = least.unwrap_or(0);
        self.limit = self.models.get(self.followed).map_or(0, |model| model.limit);
    }

    /// The limit of the chosen model.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl LimitModel {
    fn learn(
        &mut self,
        candidates: &[u64],
        of_candidates: &[(f64, f64)],
        costs: &dyn Fn(u64) -> (f64, f64),
        weights: &ModelWeights,
        with_margin: fn(u64, u64) -> u64,
    ) {
        let (over, under) = costs(self.limit);
        let before = self.limit;
        let d = self.decay;
        for ((o, u), (over, under)) in self.runs.iter_mut().zip(of_candidates) {
            *o = (1.0 - d) * *o + d * over;
            *u = (1.0 - d) * *u + d * under;
        }
        self.move_to_least(candidates, weights, with_margin);
        let ModelWeights { overrun, underrun, limit_change, cost_decay, .. } = *weights;
        let now = overrun * over + underrun * under + limit_change * one_if(before != self.limit);
        self.cost = cost_decay * now + (1.0 - cost_decay) * self.cost;
    }

    fn move_to_least(
        &mut self,
        candidates: &[u64],
        weights: &ModelWeights,
        with_margin: fn(u64, u64) -> u64,
    ) {
        let cost = |at: usize| {
            let (o, u) = self.runs[at];
            weights.overrun * o
                + weights.underrun * u
                + weights.limit_change * one_if(at != self.at)
        };
        let least = (0..candidates.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        self.at = least.unwrap_or(0);
        self.limit = with_margin(candidates.get(self.at).copied().unwrap_or(0), self.margin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: ModelWeights = ModelWeights {
        overrun: 9.0,
        underrun: 1.0,
        limit_change: 0.1,
        model_change: 0.1,
        cost_decay: 0.008,
    };

    fn distances(sample: u64) -> impl Fn(u64) -> (f64, f64) {
        move |limit| (sample.saturating_sub(limit) as f64, limit.saturating_sub(sample) as f64)
    }

    /// With d = 1/2 and the samples 2 and 0, limit 0 has o = .5 and u = 0. Limit 1 has o = .25 and
    /// u = .5, and limit 2 has o = 0 and u = 1.
    #[test]
    fn overruns_and_underruns_are_smoothed() {
        let mut set = ModelSet::new(4, &[0.5], &[1], |limit, margin| limit + margin);
        let candidates = [0, 1, 2, 3];
        set.learn(&candidates, &distances(2), &WEIGHTS);
        // An overrun costs far more than a change, so the limit moves to the sample plus the
        // margin.
        assert_eq!((set.models[0].at, set.limit()), (2, 3));
        set.learn(&candidates, &distances(0), &WEIGHTS);
        assert_eq!(set.models[0].runs, [(0.5, 0.0), (0.25, 0.5), (0.0, 1.0), (0.0, 1.75)]);
    }

    /// The first model has no margin, and the second one has 1. Samples are 2 and 3 in turn, so a
    /// model without memory follows the last sample. At a sample of 3, the first model has a limit
    /// of 2 and costs 9 and a change. The second one has a limit of 3, and costs a change.
    #[test]
    fn the_model_with_the_smallest_past_cost_is_followed() {
        let weights = ModelWeights { cost_decay: 0.5, ..WEIGHTS };
        let mut set = ModelSet::new(5, &[1.0], &[0, 1], |limit, margin| limit + margin);
        let candidates = [0, 1, 2, 3, 4];
        set.start(&candidates, &distances(2), &weights);
        assert_eq!((set.limit(), set.followed), (2, 0));
        set.learn(&candidates, &distances(3), &weights);
        let costs: Vec<f64> = set.models.iter().map(|model| model.cost).collect();
        assert_eq!(costs, [0.5 * 9.1, 0.5 * 0.1]);
        assert_eq!((set.limit(), set.followed), (4, 1));
    }
}
