//! The demand forecast of the ensemble: a weighted average of several methods.
//!
//! The weights are learnt from the squared errors of the methods.

use std::collections::VecDeque;

use demand::forecast::Blend;

use super::answer::JudgedForecast;
use super::horizon::Horizon;
use super::moments::Moments;
use super::pass::TickForecasts;

/// The weights of the methods, for each horizon.
pub(super) struct Blended {
    /// By horizon, without [`Horizon::Lead`].
    horizons: Vec<Ahead>,
}

/// The weighted averages of demand `ticks` ticks ahead.
struct Ahead {
    ticks: usize,
    /// The weights, by bucket in use.
    blends: Vec<Blend>,
    /// The means whose actual demand is still in the future, oldest first: by bucket, then by
    /// method.
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

    /// Learns from the actual demand at a tick, and returns the averaged forecasts made at that
    /// tick, by horizon and bucket.
    ///
    /// `forecasts` holds the forecasts of the methods at that tick. The method must be called for
    /// every tick, in order.
    pub(super) fn say(
        &mut self,
        moments: &Moments,
        forecasts: &[&TickForecasts],
    ) -> Vec<Vec<JudgedForecast>> {
        let Some(at) = forecasts.first().map(|forecasts| forecasts.at) else { return Vec::new() };
        let horizons = self.horizons.iter_mut().enumerate();
        let forecast = |(place, ahead): (usize, &mut Ahead)| {
            ahead.learn(moments, at);
            ahead.average(
                &forecasts
                    .iter()
                    .map(|forecasts| forecasts.answers[place].as_slice())
                    .collect::<Vec<_>>(),
            )
        };
        horizons.map(forecast).collect()
    }
}

impl Ahead {
    /// Learns from the forecasts made `ticks` ticks ago, whose actual demand is that of tick `at`.
    fn learn(&mut self, moments: &Moments, at: usize) {
        if self.open.len() < self.ticks {
            return;
        }
        let due = self.open.pop_front().unwrap_or_default();
        for ((blend, means), &id) in self.blends.iter_mut().zip(&due).zip(&moments.used) {
            blend.learn(means, moments.tick(at).buckets[id].demand as f64);
        }
    }

    /// Returns the averaged forecasts by bucket, and keeps the means of the methods until their
    /// actual demand is available. `forecasts` is by method, then by bucket.
    fn average(&mut self, forecasts: &[&[JudgedForecast]]) -> Vec<JudgedForecast> {
        let means = |bucket: usize| forecasts.iter().map(|answers| answers[bucket].mean).collect();
        self.open.push_back((0..self.blends.len()).map(means).collect());
        let mixed = |(bucket, blend): (usize, &Blend)| {
            let weights = blend.weights().iter().copied();
            JudgedForecast::mixed(forecasts.iter().map(|answers| &answers[bucket]).zip(weights))
        };
        self.blends.iter().enumerate().map(mixed).collect()
    }
}
