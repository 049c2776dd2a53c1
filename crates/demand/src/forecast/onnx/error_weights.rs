//! The weight of a model's forecasts of demand, from its past errors.
//!
//! A model forecasts the maximum of demand within one of its ticks, and may have been trained
//! without data of this cluster. So demand ahead is a weighted average of the model's forecast and
//! present demand. The weights follow the squared errors of both (`forecast/blend.rs`), at each
//! distance ahead separately. So the average is not worse than the better of the two for long.

use std::collections::VecDeque;

use embedder::BucketId;

use crate::forecast::hyperparameters::AHEAD_TICKS;
use crate::forecast::{blend::Blend, lead::Lead};

/// The weights of the model's forecasts, per bucket.
#[derive(Clone)]
pub(super) struct ErrorWeights {
    buckets: Vec<Bucket>,
}

#[derive(Clone)]
struct Bucket {
    /// The last ticks, newest first: demand, and the forecasts of demand 1, 2, ... ticks later, in
    /// nodes.
    open: VecDeque<(f64, Vec<f64>)>,
    /// The weights of demand unchanged and of the model's forecast, by distance ahead in ticks.
    blends: Vec<Blend>,
}

impl ErrorWeights {
    pub(super) fn new(buckets: usize, lead: Lead) -> Self {
        let blends = vec![Blend::new(2, lead.tick_seconds); AHEAD_TICKS];
        Self { buckets: vec![Bucket { open: VecDeque::new(), blends }; buckets] }
    }

    /// Learns from a tick of a bucket.
    ///
    /// `demand` is the demand at the tick, and `forecasts` are the model's forecasts of demand 1,
    /// 2, ... ticks later, in nodes; empty if the model has no forecast.
    pub(super) fn learn(&mut self, bucket: BucketId, demand: u64, forecasts: Vec<f64>) {
        let demand = demand as f64;
        let Bucket { open, blends } = &mut self.buckets[bucket];
        for (ahead, (blend, (then, forecasts))) in blends.iter_mut().zip(&*open).enumerate() {
            if let Some(forecast) = forecasts.get(ahead) {
                blend.learn(&[*then, *forecast], demand);
            }
        }
        open.push_front((demand, forecasts));
        open.truncate(AHEAD_TICKS);
    }

    /// Returns demand `ticks` ticks ahead in nodes: the weighted average of `present` demand and
    /// the model's `forecast`. Beyond `AHEAD_TICKS` there are no weights, so it is the forecast.
    pub(super) fn believed(
        &self,
        bucket: BucketId,
        ticks: usize,
        present: f64,
        forecast: f64,
    ) -> f64 {
        let blend = ticks.checked_sub(1).and_then(|ahead| self.buckets[bucket].blends.get(ahead));
        blend.map_or(forecast, |blend| {
            let weights = blend.weights();
            weights[0] * present + weights[1] * forecast
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// Demand increases by one per tick. The forecasts of the next tick are right, and those of the
    /// tick after it are far too high.
    #[test]
    fn each_distance_has_a_weight_from_its_own_errors() {
        let mut weights = ErrorWeights::new(1, sample::LEAD);
        let believed = |weights: &ErrorWeights, ticks| weights.believed(0, ticks, 100.0, 108.0);
        assert!((believed(&weights, 1) - 104.0).abs() < 1e-12);
        for tick in 0..50_u32 {
            weights.learn(0, tick.into(), vec![f64::from(tick) + 1.0, f64::from(tick) + 90.0]);
        }
        assert!((believed(&weights, 1) - 108.0).abs() < 1e-9, "{}", believed(&weights, 1));
        assert!(believed(&weights, 2) < 100.5, "{}", believed(&weights, 2));
        assert!((believed(&weights, AHEAD_TICKS + 1) - 108.0).abs() < 1e-12);
    }
}
