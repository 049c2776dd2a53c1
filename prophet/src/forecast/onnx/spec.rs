//! What a network's file says of itself: the JSON under `prophet.spec` in its metadata.

use serde::Deserialize;

use super::contract::ModelFault;
use super::state::Feature;

/// The version of the contract that this program knows.
const VERSION: u32 = 1;

/// The spec of a network. Its shapes are described in `docs/models.md`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Of the contract.
    pub version: u32,
    /// Ticks that the network sees.
    pub window: usize,
    /// Ticks that `quantiles` looks ahead.
    pub horizon: usize,
    /// Seconds of one of its ticks. Demand within one is its maximum.
    pub tick_seconds: i64,
    /// Of the quantiles, rising, each between 0 and 1.
    pub levels: Vec<f64>,
    /// The buckets that it is made for, in their order; none: any.
    #[serde(default)]
    pub buckets: Option<Vec<String>>,
    /// Of the input `future`.
    #[serde(default)]
    pub covariates: Vec<String>,
    /// The features of the input `state`, in their order.
    #[serde(default)]
    pub state: Vec<String>,
    /// The shortest and the longest lead that `headroom` was trained for.
    #[serde(default)]
    pub lead_seconds: Option<[i64; 2]>,
    /// Where it comes from: for people.
    #[serde(default)]
    pub training: serde_json::Value,
    /// Of the code that trained it.
    #[serde(default)]
    pub revision: String,
    /// One input, and what comes of it.
    pub golden: Golden,
}

/// One input, of batch 1, and what comes of it, flat, the last dimension running fastest; `None` is missing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// How many buckets it has.
    pub buckets: usize,
    /// [window, buckets].
    pub target: Vec<Option<f32>>,
    /// [window].
    pub time: Vec<i64>,
    /// [buckets, features].
    #[serde(default)]
    pub state: Vec<Option<f32>>,
    /// [buckets, horizon, levels].
    pub quantiles: Vec<f32>,
    /// [buckets, levels].
    #[serde(default)]
    pub headroom: Vec<f32>,
}

/// Larger ones than these are mistakes: a year of minutes, a thousand ticks, a day, a hundred levels.
const WINDOW_MAX: usize = 527_040;
const HORIZON_MAX: usize = 1_000;
const SECONDS_MAX: i64 = 86_400;
const LEVELS_MAX: usize = 100;

impl Spec {
    /// Parses the text.
    pub(super) fn parse(text: &str) -> Result<Self, ModelFault> {
        serde_json::from_str(text).map_err(|error| ModelFault::new(FIELD, error.to_string()))
    }

    /// All that makes no sense by itself. `gives_headroom`: whether there is such an output.
    pub(super) fn faults(&self, gives_headroom: bool) -> Vec<ModelFault> {
        let mut faults = Faults::default();
        faults.unless(self.version == VERSION, "version", || {
            format!("expected {VERSION}, got {}", self.version)
        });
        let within = |value: usize, most: usize| (1..=most).contains(&value);
        faults.unless(within(self.window, WINDOW_MAX), "window", || {
            format!("{} is not in 1 to {WINDOW_MAX}", self.window)
        });
        faults.unless(within(self.horizon, HORIZON_MAX), "horizon", || {
            format!("{} is not in 1 to {HORIZON_MAX}", self.horizon)
        });
        faults.unless((1..=SECONDS_MAX).contains(&self.tick_seconds), "tick_seconds", || {
            format!("{} is not in 1 to {SECONDS_MAX}", self.tick_seconds)
        });
        let rising =
            self.levels.is_sorted_by(|a, b| a < b) && self.levels.iter().all(|q| *q > 0.0 && *q < 1.0);
        faults.unless(rising && within(self.levels.len(), LEVELS_MAX), "levels", || {
            format!("expected up to {LEVELS_MAX} numbers between 0 and 1, rising")
        });
        let names = self.buckets.iter().flatten().collect::<std::collections::BTreeSet<_>>();
        let distinct = self.buckets.as_ref().is_none_or(|all| !all.is_empty() && names.len() == all.len());
        faults.unless(distinct, "buckets", || "expected distinct names, at least one".into());
        for name in &self.covariates {
            faults.add("covariates", format!("{name:?} is none that we can feed: there is none as yet"));
        }
        for name in self.state.iter().filter(|name| Feature::named(name).is_none()) {
            faults.add("state", format!("{name:?} is no feature; there are {}", Feature::NAMES.join(", ")));
        }
        match self.lead_seconds {
            None => faults.unless(!gives_headroom, "lead_seconds", || {
                "missing, though there is an output headroom".into()
            }),
            Some([least, most]) => {
                let fine = 0 < least && least <= most && most <= SECONDS_MAX;
                faults.unless(fine, "lead_seconds", || {
                    format!("expected the least and the most, up to {SECONDS_MAX}")
                });
            }
        }
        self.golden_sizes(gives_headroom, &mut faults);
        faults.all
    }

    fn golden_sizes(&self, gives_headroom: bool, faults: &mut Faults) {
        let Golden { buckets, target, time, state, quantiles, headroom } = &self.golden;
        let levels = self.levels.len();
        let given = if gives_headroom { buckets * levels } else { 0 };
        let sizes = [
            ("golden.target", target.len(), self.window * buckets),
            ("golden.time", time.len(), self.window),
            ("golden.state", state.len(), buckets * self.state.len()),
            ("golden.quantiles", quantiles.len(), buckets * self.horizon * levels),
            ("golden.headroom", headroom.len(), given),
        ];
        for (field, have, want) in sizes {
            faults.unless(have == want, field, || format!("expected {want} numbers, got {have}"));
        }
        let named = self.buckets.as_ref().map_or(*buckets, Vec::len);
        faults.unless(*buckets == named && *buckets > 0, "golden.buckets", || {
            format!("expected {named}, got {buckets}")
        });
    }
}

/// The key in the metadata, and the root of the paths of its fields.
pub(super) const FIELD: &str = "prophet.spec";

#[derive(Default)]
struct Faults {
    all: Vec<ModelFault>,
}

impl Faults {
    fn add(&mut self, field: &str, what: String) {
        self.all.push(ModelFault::new(format!("{FIELD}.{field}"), what));
    }

    fn unless(&mut self, fine: bool, field: &str, what: impl FnOnce() -> String) {
        if !fine {
            self.add(field, what());
        }
    }
}
