//! How far a network's word on demand ahead is believed: as far as its past ones came true.
//!
//! A network speaks of the maximum within a tick of its own, and may never have seen this cluster. What is forecast is a mean of
//! its word and of demand as it is, by weights that follow their squared errors (`ensemble/blend.rs`): at each distance
//! ahead it is no worse than the better of both for long.

use std::collections::VecDeque;

use embedder::BucketId;

use crate::forecast::hyperparameters::AHEAD_TICKS;
use crate::forecast::{Blend, Lead};

/// See the module.
pub(super) struct Trust {
    buckets: Vec<Bucket>,
}

#[derive(Clone)]
struct Bucket {
    /// Demand at the last ticks, and what was said of it 1, 2, ... ticks later; the newest first.
    open: VecDeque<(f64, Vec<f64>)>,
    /// By distance ahead: of demand as it was, and of the network.
    blends: Vec<Blend>,
}

impl Trust {
    pub(super) fn new(buckets: usize, lead: Lead) -> Self {
        let blends = vec![Blend::new(2, lead.tick_seconds); AHEAD_TICKS];
        Self { buckets: vec![Bucket { open: VecDeque::new(), blends }; buckets] }
    }

    /// A tick, with the demand at it, and what the network said of the ticks that follow: nothing where it has no opinion.
    pub(super) fn learn(&mut self, bucket: BucketId, demand: u64, said: Vec<f64>) {
        let demand = demand as f64;
        let Bucket { open, blends } = &mut self.buckets[bucket];
        for (ahead, (blend, (then, said))) in blends.iter_mut().zip(&*open).enumerate() {
            if let Some(said) = said.get(ahead) {
                blend.learn(&[*then, *said], demand);
            }
        }
        open.push_front((demand, said));
        open.truncate(AHEAD_TICKS);
    }

    /// Demand so many ticks ahead, where it is `present` and the network says `said`.
    pub(super) fn believed(&self, bucket: BucketId, ticks: usize, present: f64, said: f64) -> f64 {
        let blend = ticks.checked_sub(1).and_then(|ahead| self.buckets[bucket].blends.get(ahead));
        blend.map_or(said, |blend| {
            let weights = blend.weights();
            weights[0] * present + weights[1] * said
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// Demand rises by one a tick. What is said of the next tick is right, of the one after it far too much.
    #[test]
    fn each_distance_is_believed_as_far_as_it_came_true() {
        let mut trust = Trust::new(1, sample::LEAD);
        let believed = |trust: &Trust, ticks| trust.believed(0, ticks, 100.0, 108.0);
        assert!((believed(&trust, 1) - 104.0).abs() < 1e-12);
        for tick in 0..50_u32 {
            trust.learn(0, tick.into(), vec![f64::from(tick) + 1.0, f64::from(tick) + 90.0]);
        }
        assert!((believed(&trust, 1) - 108.0).abs() < 1e-9, "{}", believed(&trust, 1));
        assert!(believed(&trust, 2) < 100.5, "{}", believed(&trust, 2));
        assert!((believed(&trust, AHEAD_TICKS + 1) - 108.0).abs() < 1e-12);
    }
}
