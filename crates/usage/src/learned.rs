//! Autopilot's recommender by models, for what a container uses (section 3.2.3).
//!
//! The candidate limits are the boundaries of the histogram. An overrun costs the share of a
//! sample's measurements above the limit: equation 4, divided by their number, so that weights do
//! not depend on the number of pods. An underrun costs the share of the limit that measurements
//! below it leave unused, which is the paper's relative slack. Equation 5 counts them instead, and
//! `model_set.rs` has the reason against it. Both costs are in \[0, 1\] and have no unit, so a
//! container of any size has the same weights.

use super::ladder::{LADDER, rung};
use super::model_set::{ModelSet, ModelWeights};
use super::moving_window::{CPU_HALF_LIFE_SECONDS, MEMORY_HALF_LIFE_SECONDS};
use super::sample::SAMPLE_SECONDS;
use super::spread::Spread;

/// The half-lives of the models, in seconds: one hour, and those of the moving window. So models
/// differ widely in memory.
const HALF_LIVES_SECONDS: [f64; 3] = [3_600.0, CPU_HALF_LIFE_SECONDS, MEMORY_HALF_LIFE_SECONDS];

/// The margins of the models, in percent: none, those of the moving window, and twice as much.
const MARGINS_PERCENT: [u64; 4] = [0, 10, 15, 30];

/// The weights of the costs, which `prophet rightsize --sweep` varies.
///
/// An overrun of one sample costs as much as 30 samples of an unused container, so a limit that is
/// exceeded once in half an hour is as good as one of twice the size. A change costs as much as a
/// sample that leaves a tenth of the limit unused. The cost of a model decays by half in 12 hours.
pub const USAGE_WEIGHTS: ModelWeights = ModelWeights {
    overrun: 30.0,
    underrun: 1.0,
    limit_change: 0.1,
    model_change: 0.05,
    cost_decay: 0.0048,
};

/// The recommender of one resource of a container.
#[derive(Clone, Debug)]
pub(super) struct LearnedRecommender {
    models: ModelSet,
    weights: ModelWeights,
    /// Whether a sample was learned.
    started: bool,
}

impl LearnedRecommender {
    pub(super) fn new(weights: ModelWeights) -> Self {
        let sample = SAMPLE_SECONDS as f64;
        let decays = HALF_LIVES_SECONDS.map(|half_life| 1.0 - (-sample / half_life).exp2());
        let with_margin = |limit: u64, percent: u64| {
            LADDER[rung(limit.saturating_add(limit.saturating_mul(percent).div_ceil(100)))]
        };
        let models = ModelSet::new(LADDER.len(), &decays, &MARGINS_PERCENT, with_margin);
        Self { models, weights, started: false }
    }

    /// Adds a sample, and returns the limit.
    pub(super) fn learn(&mut self, spread: &Spread) -> u64 {
        let costs = spread.cumulated();
        let costs = |limit: u64| costs.over_and_under(limit);
        if !std::mem::replace(&mut self.started, true) {
            self.models.start(&LADDER, &costs, &self.weights);
        }
        self.models.learn(&LADDER, &costs, &self.weights);
        self.models.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(
        recommender: &mut LearnedRecommender,
        samples: usize,
        usage: &dyn Fn(usize) -> u64,
    ) -> u64 {
        let mut limit = 0;
        for at in 0..samples {
            let mut spread = Spread::default();
            spread.add(usage(at), 1.0);
            limit = recommender.learn(&spread);
        }
        limit
    }

    #[test]
    fn the_limit_of_a_steady_usage_is_the_usage() {
        let mut recommender = LearnedRecommender::new(USAGE_WEIGHTS);
        assert_eq!(learned(&mut recommender, 300, &|_| 1_034), LADDER[rung(1_034)]);
    }

    /// Usage rises from 200 to 400 every 20th sample, so a limit below 400 is exceeded in 5 % of
    /// samples, at a cost of 1.5 a sample. Half of the limit unused costs 0.5.
    #[test]
    fn a_limit_covers_peaks_that_cost_more_than_slack() {
        let mut recommender = LearnedRecommender::new(USAGE_WEIGHTS);
        let usage = |at: usize| if at % 20 == 19 { 400 } else { 200 };
        let limit = learned(&mut recommender, 600, &usage);
        assert!((400..=560).contains(&limit), "{limit}");
    }

    /// Six days after a peak of one day, the limit follows usage again.
    #[test]
    fn the_limit_comes_down_after_a_peak() {
        let mut recommender = LearnedRecommender::new(USAGE_WEIGHTS);
        let usual = |at: usize| 200 + 10 * (at as u64 % 4);
        assert!(learned(&mut recommender, 288, &usual) < 320);
        assert!(learned(&mut recommender, 288, &|_| 2_000) >= 2_000);
        let after = learned(&mut recommender, 6 * 288, &usual);
        assert!((230..320).contains(&after), "{after}");
    }
}
