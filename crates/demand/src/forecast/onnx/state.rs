//! The inputs of a model: a window of demand, the features of the state and the covariates of the
//! horizon, from the history alone.
//!
//! `models/data.py` computes the same inputs from the ticks that models are trained with. A need is
//! defined as in [`Increments`](crate::forecast::methods::Increments): the largest demand within
//! the lead time, less the demand at its start, in nodes.

use std::collections::VecDeque;

use embedder::{BucketId, Catalog};

use super::covariate::Covariate;
use super::feature::{DAY_SECONDS, Feature};
use super::shares::{self, RoomNodes};
use super::spec::Spec;
use super::tensors::ModelInput;
use crate::forecast::lead::Lead;
use crate::forecast::windows::need;
use crate::record::{History, Tick};

/// Age in seconds up to which past needs are counted: a week, for the feature `need_week_ago`, and
/// a day to spare.
const REMEMBERED_SECONDS: i64 = 8 * DAY_SECONDS;

/// Half-width in seconds of the window around a past moment: half an hour either way counts as the
/// same time of day.
const AROUND_SECONDS: i64 = 1_800;

/// Thresholds in nodes. The fraction of past needs that reach each threshold is a feature.
const THRESHOLDS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The parts of the history that the features need, updated at each tick.
#[derive(Clone)]
pub(super) struct ModelState {
    lead: Lead,
    /// The times of the ticks of the history in Unix seconds, oldest first.
    times: VecDeque<i64>,
    /// The past of each bucket, in the order of the catalog. `room` has the same order.
    buckets: Vec<Past>,
    room: Vec<RoomNodes>,
}

/// The past of one bucket.
#[derive(Clone, Default)]
struct Past {
    /// Whether the bucket ever had demand.
    used: bool,
    /// The largest demand in nodes, by tick of the history, oldest first. A run reads a day of it,
    /// which takes less time than reading the ticks of the history.
    demand_max: VecDeque<f32>,
    /// The pods that arrived, in nodes, by tick of the last day, oldest first.
    arrivals: VecDeque<f64>,
    /// Needs by the tick at which their window began, oldest first. The newest window ends at the
    /// last tick.
    needs: VecDeque<u64>,
    /// The number of `needs` that reach each threshold.
    reached: [u32; THRESHOLDS.len()],
}

impl ModelState {
    pub(super) fn new(catalog: &Catalog, lead: Lead) -> Self {
        Self {
            lead,
            times: VecDeque::new(),
            buckets: vec![Past::default(); catalog.len()],
            room: vec![RoomNodes::default(); catalog.len()],
        }
    }

    /// Updates the state with the last tick of `history`.
    pub(super) fn note(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        push(&mut self.times, tick.time.timestamp(), history.len());
        self.room = shares::room(history, tick);
        let (day, remembered) = (self.ticks(DAY_SECONDS), self.ticks(REMEMBERED_SECONDS));
        let window: Vec<&Tick> = history.latest(self.lead.ticks() + 1).collect();
        let closed = window.len() > self.lead.ticks();
        let arrivals = shares::arrivals(history, tick);
        for (id, (past, arrived)) in self.buckets.iter_mut().zip(arrivals).enumerate() {
            let at = |tick: &Tick| tick.buckets.get(id).copied().unwrap_or_default();
            past.used |= at(tick).demand_max > 0;
            push(&mut past.demand_max, at(tick).demand_max as f32, history.len());
            push(&mut past.arrivals, arrived, day);
            if closed {
                past.add_need(need(&window, id), remembered);
            }
        }
    }

    /// The buckets that were ever in use.
    pub(super) fn used(&self) -> Vec<BucketId> {
        (0..self.buckets.len()).filter(|&id| self.buckets[id].used).collect()
    }

    /// Returns the inputs of a model for `buckets`, in their order, of batch 1.
    pub(super) fn inputs(
        &self,
        spec: &Spec,
        buckets: &[BucketId],
        history: &History,
    ) -> ModelInput {
        let (time, target) = self.window(spec, buckets);
        let features: Vec<Feature> =
            spec.state.iter().filter_map(|name| Feature::named(name)).collect();
        let state =
            buckets.iter().flat_map(|&id| features.iter().map(move |feature| (id, *feature)));
        #[expect(clippy::cast_possible_truncation, reason = "models compute in single precision")]
        let state = state.map(|(id, feature)| self.feature(id, feature, history) as f32).collect();
        let future = future(spec, buckets, history);
        ModelInput { batch: 1, buckets: buckets.len(), target, time, state, future }
    }

    /// Returns the times `[window]` and the maxima of demand `[window, buckets]` of the model's
    /// ticks, the last of which ends now. A maximum is NaN if the history has no tick within that
    /// tick of the model.
    fn window(&self, spec: &Spec, buckets: &[BucketId]) -> (Vec<i64>, Vec<f32>) {
        let now = self.times.back().copied().unwrap_or(0);
        let ticks = i64::try_from(spec.window).unwrap_or(0);
        let time = (1 - ticks..=0).map(|at| now + at * spec.tick_seconds).collect();
        // The number of ticks within each tick of the model, newest first. It is counted without a
        // division for each tick, because divisions took as long as the rest of the window.
        let mut begin = now;
        let mut older = self.times.len();
        let count = |_| {
            begin = begin.saturating_sub(spec.tick_seconds.max(1));
            let end = older;
            while older > 0 && self.times[older - 1] > begin {
                older -= 1;
            }
            end - older
        };
        let counts: Vec<usize> = (0..spec.window).map(count).collect();
        let mut target = vec![f32::NAN; spec.window * buckets.len()];
        for (at, &id) in buckets.iter().enumerate() {
            let mut demand = self.buckets[id].demand_max.iter().rev();
            for (row, count) in (0..spec.window).rev().zip(&counts) {
                let demand = demand.by_ref().take(*count);
                // `f32::max` of a number and NaN is the number.
                let most = demand.fold(f32::NAN, |most, demand| most.max(*demand));
                target[row * buckets.len() + at] = most;
            }
        }
        (time, target)
    }

    /// Returns the value of a feature; NaN if the history is too short for it.
    fn feature(&self, id: BucketId, feature: Feature, history: &History) -> f64 {
        let past = &self.buckets[id];
        match feature {
            Feature::Demand => history
                .last()
                .and_then(|tick| tick.buckets.get(id))
                .map_or(0.0, |bucket| bucket.demand as f64),
            Feature::LeadSeconds => self.lead.ticks() as f64 * self.lead.tick_seconds as f64,
            Feature::HistoryDays => {
                let ticks = history.len().min(self.ticks(REMEMBERED_SECONDS));
                ticks as f64 * self.lead.tick_seconds as f64 / DAY_SECONDS as f64
            }
            Feature::RoomMean => self.room[id].mean,
            Feature::RoomMost => self.room[id].most,
            Feature::Arrivals(seconds) => {
                past.arrivals.iter().rev().take(self.ticks(seconds)).sum()
            }
            Feature::NeedAgo(seconds) => self.need_ago(past, seconds),
            Feature::Need(at) => f64::from(past.reached[at]) / past.needs.len() as f64,
        }
    }

    /// Returns the mean need around the moment `seconds` ago; NaN if the history is too short.
    fn need_ago(&self, past: &Past, seconds: i64) -> f64 {
        let around = self.ticks(AROUND_SECONDS);
        // The newest closed window began one lead time ago.
        let middle = (self.ticks(seconds) + 1).saturating_sub(self.lead.ticks());
        let (newest, oldest) = (middle.saturating_sub(around), middle + around);
        if newest == 0 || past.needs.len() < oldest {
            return f64::NAN;
        }
        let needs = past.needs.range(past.needs.len() - oldest..=past.needs.len() - newest);
        needs.sum::<u64>() as f64 / (oldest - newest + 1) as f64
    }

    fn ticks(&self, seconds: i64) -> usize {
        usize::try_from(seconds / self.lead.tick_seconds.max(1)).unwrap_or(1).max(1)
    }
}

impl Past {
    fn add_need(&mut self, need: u64, remembered: usize) {
        for (reached, nodes) in self.reached.iter_mut().zip(THRESHOLDS) {
            *reached += u32::from(need >= nodes);
        }
        if let Some(old) = push(&mut self.needs, need, remembered) {
            for (reached, nodes) in self.reached.iter_mut().zip(THRESHOLDS) {
                *reached -= u32::from(old >= nodes);
            }
        }
    }
}

/// Appends `value`. If the ring then has more than `most` elements, removes and returns the first
/// one.
fn push<T>(ring: &mut VecDeque<T>, value: T, most: usize) -> Option<T> {
    ring.push_back(value);
    if ring.len() > most { ring.pop_front() } else { None }
}

/// Returns the covariates `[horizon, buckets, covariates]` of the model's ticks from now on.
fn future(spec: &Spec, buckets: &[BucketId], history: &History) -> Vec<f32> {
    let covariates: Vec<Covariate> =
        spec.covariates.iter().filter_map(|name| Covariate::named(name)).collect();
    let last = history.last();
    let announced = |id: &BucketId| {
        last.and_then(|tick| tick.buckets.get(*id)).map_or(0, |bucket| bucket.announced)
    };
    let mut values = Vec::with_capacity(spec.horizon * buckets.len() * covariates.len());
    let mut end = last.map_or(0, |tick| tick.time.timestamp());
    for _ in 0..spec.horizon {
        end = end.saturating_add(spec.tick_seconds);
        for announced in buckets.iter().map(announced) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "models compute in single precision"
            )]
            values.extend(covariates.iter().map(|known| known.value(end, announced) as f32));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use chrono::DateTime;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::forecast::onnx::worker::ModelSource;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// A synthetic tick: arrivals are pods of half a node. `models/tests/test_data.py` computes the
    /// same series.
    fn made_up(at: u64) -> Tick {
        let demand = 7_919 * at % 1_013 % 9;
        let demand_max =
            demand + u64::from(at.is_multiple_of(4)) + 6 * u64::from(at.is_multiple_of(97));
        let shape = (0, testkit::shape(testkit::cpus(4_000)));
        Tick {
            time: DateTime::from_timestamp(1_700_000_040 + 60 * at.cast_signed(), 0).unwrap(),
            buckets: vec![BucketTick { demand, demand_max, ..BucketTick::default() }],
            room: vec![(0, at % 7)],
            first_seen: if at == 0 { vec![shape] } else { vec![] },
            arrivals: vec![(0, at % 3)],
            gangs: vec![],
            tiers: vec![],
            namespaces: vec![],
            kept: Vec::new(),
            runs: Vec::new(),
            rollout_percent: None,
        }
    }

    static SPEC: LazyLock<Spec> = LazyLock::new(|| {
        let model = ModelSource::Pretrained.load();
        model.map_err(|faults| format!("{faults:?}")).unwrap().spec().as_ref().clone()
    });

    proptest! {
        /// Ticks are missing, as after a restart, and the others are not on a grid.
        #[test]
        fn the_window_has_the_maxima_within_each_tick_of_the_model(
            ticks in vec((prop_oneof![Just(60), Just(300), 1..900_i64], 0..9_u64, 0..9_u64), 1..60),
        ) {
            let spec = Spec { window: 12, tick_seconds: 300, ..SPEC.clone() };
            let catalog = testkit::catalog([("one", 8_000, 0.0), ("two", 8_000, 0.0)]);
            let mut state = ModelState::new(&catalog, sample::LEAD);
            let mut history = History::new(&catalog);
            let mut now = 1_700_000_000;
            for (gap, one, two) in ticks {
                now += gap;
                let bucket = |demand_max| BucketTick { demand_max, ..BucketTick::default() };
                let mut tick = sample::tick(0, vec![bucket(one), bucket(two)]);
                tick.time = DateTime::from_timestamp(now, 0).unwrap();
                history.record(tick);
                state.note(&history);
            }
            let expected = (0..12).flat_map(|row| [(row, 0), (row, 1)]).map(|(row, bucket)| {
                let is_within = |tick: &&Tick| (now - tick.time.timestamp()) / 300 == 11 - row;
                let within = history.latest(60).filter(is_within);
                within.map(|tick| tick.buckets[bucket].demand_max).max().map(|most| most as f32)
            });
            let (_, found) = state.window(&spec, &[0, 1]);
            let found = found.iter().map(|most| (!most.is_nan()).then_some(*most));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }

    /// `models/tests/test_data.py` compares the inputs that `models/data.py` computes with the same
    /// file.
    #[test]
    fn the_inputs_equal_those_of_training() {
        let file = include_str!("../../../../../models/tests/features.json");
        let moments: Value = serde_json::from_str(file).unwrap();
        for moment in moments["moments"].as_array().unwrap() {
            let ticks = moment["lead_ticks"].as_i64().unwrap();
            let mut state =
                ModelState::new(&sample::catalog(), Lead { seconds: 60 * ticks, tick_seconds: 60 });
            let mut history = History::new(&sample::catalog());
            for at in 0..=moment["now"].as_u64().unwrap() {
                history.record(made_up(at));
                state.note(&history);
            }
            let inputs = state.inputs(&SPEC, &[0], &history);
            let check = |name: &str, found: f32, expected: &Value| match expected.as_f64() {
                Some(expected) => assert!(
                    (f64::from(found) - expected).abs() <= 1e-5 * expected.abs().max(0.1),
                    "{name}: {found}, expected {expected} in {moment}"
                ),
                None => assert!(found.is_nan(), "{name}: {found}, expected nothing in {moment}"),
            };
            for (name, found) in SPEC.state.iter().zip(&inputs.state) {
                check(name, *found, &moment["state"][name]);
            }
            let last = moment["target"].as_array().unwrap();
            for (found, expected) in
                inputs.target[inputs.target.len() - last.len()..].iter().zip(last)
            {
                check("target", *found, expected);
            }
        }
    }
}
