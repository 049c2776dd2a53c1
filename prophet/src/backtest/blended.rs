//! The ensemble's demand ahead: what several methods say, by weights that follow their squared errors.

use std::collections::VecDeque;

use super::answer::JudgedForecast;
use super::horizon::Horizon;
use super::moments::Moments;
use super::pass::Said;
use crate::forecast::Blend;

/// See the module.
pub(super) struct Blended {
    /// By horizon of so many ticks.
    horizons: Vec<Ahead>,
}

/// Demand so many ticks ahead.
struct Ahead {
    ticks: usize,
    /// By bucket in use.
    blends: Vec<Blend>,
    /// What was said and is not known to be right or wrong yet, oldest first: by bucket, then by method.
    open: VecDeque<Vec<Vec<f64>>>,
}

impl Blended {
    pub(super) fn new(methods: usize, buckets: usize, tick_seconds: i64) -> Self {
        let ahead = |horizon| match horizon {
            Horizon::Ticks(ticks) => {
                let blends = vec![Blend::new(methods, tick_seconds); buckets];
                Some(Ahead { ticks, blends, open: VecDeque::new() })
            }
            Horizon::Lead => None,
        };
        Self { horizons: Horizon::ALL.into_iter().filter_map(ahead).collect() }
    }

    /// Learns what demand came to at a tick, and says what follows it, by horizon and bucket. `said` is what the methods
    /// said at that tick; all ticks come one after the other.
    pub(super) fn say(&mut self, moments: &Moments, said: &[&Said]) -> Vec<Vec<JudgedForecast>> {
        let Some(at) = said.first().map(|said| said.at) else { return Vec::new() };
        let horizons = self.horizons.iter_mut().enumerate();
        let say = |(place, ahead): (usize, &mut Ahead)| {
            ahead.learn(moments, at);
            ahead.say(&said.iter().map(|said| said.answers[place].as_slice()).collect::<Vec<_>>())
        };
        horizons.map(say).collect()
    }
}

impl Ahead {
    /// What was said so many ticks ago was of this one.
    fn learn(&mut self, moments: &Moments, at: usize) {
        if self.open.len() < self.ticks {
            return;
        }
        let due = self.open.pop_front().unwrap_or_default();
        for ((blend, said), &id) in self.blends.iter_mut().zip(&due).zip(&moments.used) {
            blend.learn(said, moments.tick(at).buckets[id].demand as f64);
        }
    }

    /// `said` is by method, then by bucket.
    fn say(&mut self, said: &[&[JudgedForecast]]) -> Vec<JudgedForecast> {
        let means = |bucket: usize| said.iter().map(|answers| answers[bucket].mean).collect();
        self.open.push_back((0..self.blends.len()).map(means).collect());
        let mixed = |(bucket, blend): (usize, &Blend)| {
            let weights = blend.weights().iter().copied();
            JudgedForecast::mixed(said.iter().map(|answers| &answers[bucket]).zip(weights))
        };
        self.blends.iter().enumerate().map(mixed).collect()
    }
}
