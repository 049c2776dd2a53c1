//! The ensemble's demand ahead: what several methods say, by weights that follow their squared errors.

use std::collections::VecDeque;

use super::answer::Answer;
use super::horizon::Horizon;
use super::moments::Moments;
use super::pass::Said;
use crate::forecast::Blend;

/// See the module.
pub(super) struct Blended {
    /// By horizon of so many ticks, then by bucket in use.
    blends: Vec<(usize, Vec<Blend>)>,
    /// By horizon, what was said and is not known to be right or wrong yet, oldest first: by bucket, then by method.
    open: Vec<VecDeque<Vec<Vec<f64>>>>,
}

impl Blended {
    pub(super) fn new(methods: usize, buckets: usize, tick_seconds: i64) -> Self {
        let ticks = Horizon::ALL.into_iter().filter_map(|horizon| match horizon {
            Horizon::Ticks(ticks) => Some(ticks),
            Horizon::Lead => None,
        });
        let blends = |ticks| (ticks, vec![Blend::new(methods, tick_seconds); buckets]);
        let blends: Vec<_> = ticks.map(blends).collect();
        let open = vec![VecDeque::new(); blends.len()];
        Self { blends, open }
    }

    /// Learns what demand came to at a tick, and says what follows it, by horizon and bucket. `said` is what the methods
    /// said at that tick; all ticks come one after the other.
    pub(super) fn say(&mut self, moments: &Moments, said: &[&Said]) -> Vec<Vec<Answer>> {
        let Some(at) = said.first().map(|said| said.at) else { return Vec::new() };
        let horizons = self.blends.iter_mut().zip(&mut self.open).enumerate();
        let say =
            |(place, ((ticks, blends), open)): (usize, (&mut (usize, Vec<Blend>), &mut VecDeque<_>))| {
                if open.len() == *ticks {
                    let due: Vec<Vec<f64>> = open.pop_front().unwrap_or_default();
                    for ((blend, said), &id) in blends.iter_mut().zip(&due).zip(&moments.used) {
                        blend.learn(said, moments.tick(at).buckets[id].demand as f64);
                    }
                }
                let of = |bucket: usize| said.iter().map(move |said| &said.answers[place][bucket]);
                open.push_back(
                    (0..blends.len()).map(|bucket| of(bucket).map(|a| a.mean).collect()).collect(),
                );
                let mixed = |(bucket, blend): (usize, &Blend)| {
                    Answer::mixed(of(bucket).zip(blend.weights().iter().copied()))
                };
                blends.iter().enumerate().map(mixed).collect()
            };
        horizons.map(say).collect()
    }
}
