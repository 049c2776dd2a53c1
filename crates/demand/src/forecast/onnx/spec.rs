//! The description of a model in its file: the JSON under `prophet.spec` in the metadata.

use std::sync::Arc;

use serde::Deserialize;

use super::covariate::Covariate;
use super::feature::Feature;
use crate::forecast::model_fault::ModelFault;

/// The version of the contract that this program implements.
const VERSION: u32 = 1;

/// The spec of a model. `docs/models.md` describes the shapes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The version of the contract.
    pub version: u32,
    /// Length of the input window, in ticks of the model.
    pub window: usize,
    /// Number of ticks of the model that the output `quantiles` covers.
    pub horizon: usize,
    /// Seconds of one tick of the model. Its demand is the maximum within the tick.
    pub tick_seconds: i64,
    /// The levels of the quantiles, increasing, each between 0 and 1 (both excluded).
    pub levels: Vec<f64>,
    /// The names of the buckets that the model was trained for, in order; `None` if it takes any
    /// buckets.
    #[serde(default)]
    pub buckets: Option<Vec<String>>,
    /// The names of the covariates of the input `future`, in order.
    #[serde(default)]
    pub covariates: Vec<String>,
    /// The names of the features of the input `state`, in order.
    #[serde(default)]
    pub state: Vec<String>,
    /// The shortest and the longest lead time in seconds that `headroom` was trained for.
    #[serde(default)]
    pub lead_seconds: Option<[i64; 2]>,
    /// How the model was trained, for people; any JSON.
    #[serde(default)]
    pub training: serde_json::Value,
    /// The git revision of the code that trained the model.
    #[serde(default)]
    pub revision: String,
    /// An input with the expected output.
    pub golden: Golden,
}

/// The golden input and output: an input of batch 1 with the expected output. Arrays are flat, in
/// row-major order; `None` is a missing value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// The number of buckets of the input.
    pub buckets: usize,
    /// `[window, buckets]`, in nodes.
    pub target: Vec<Option<f32>>,
    /// `[window]`, in Unix seconds.
    pub time: Vec<i64>,
    /// `[buckets, features]`.
    #[serde(default)]
    pub state: Vec<Option<f32>>,
    /// `[horizon, buckets, covariates]`.
    #[serde(default)]
    pub future: Vec<f32>,
    /// `[buckets, horizon, levels]`, in nodes.
    pub quantiles: Vec<f32>,
    /// `[buckets, levels]`, in nodes; empty if the model has no output `headroom`.
    #[serde(default)]
    pub headroom: Vec<f32>,
}

/// Largest window in ticks: a leap year of minutes. A larger value is a mistake.
const WINDOW_MAX: usize = 527_040;
/// Largest horizon in ticks. A larger value is a mistake.
const HORIZON_MAX: usize = 1_000;
/// Largest tick and largest lead time in seconds: a day. A larger value is a mistake.
const SECONDS_MAX: i64 = 86_400;
/// Largest number of levels. A larger value is a mistake.
const LEVELS_MAX: usize = 100;

impl Spec {
    /// Parses the JSON text of the spec.
    ///
    /// # Errors
    /// The text is no JSON, or a field is missing, unknown or of another type.
    pub fn parse(text: &str) -> Result<Self, ModelFault> {
        serde_json::from_str(text)
            .map_err(|error| ModelFault::new(FIELD, format!("invalid JSON: {error}")))
    }

    /// Whether two models have equal specs, so that they take the same inputs. A copy of a
    /// forecaster loads its model again, which makes another spec that is equal.
    pub(super) fn is_same(one: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(one, other) || one == other
    }

    /// Returns all faults of the spec by itself. `gives_headroom` is whether the graph has the
    /// output `headroom`.
    pub fn faults(&self, gives_headroom: bool) -> Vec<ModelFault> {
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
        let rising = self.levels.is_sorted_by(|a, b| a < b)
            && self.levels.iter().all(|q| *q > 0.0 && *q < 1.0);
        faults.unless(rising && within(self.levels.len(), LEVELS_MAX), "levels", || {
            format!("expected up to {LEVELS_MAX} increasing numbers between 0 and 1")
        });
        let names = self.buckets.iter().flatten().collect::<std::collections::BTreeSet<_>>();
        let distinct =
            self.buckets.as_ref().is_none_or(|all| !all.is_empty() && names.len() == all.len());
        faults.unless(distinct, "buckets", || "expected distinct names, at least one".into());
        for name in self.covariates.iter().filter(|name| Covariate::named(name).is_none()) {
            let names = Covariate::NAMES.join(", ");
            let what = format!("{name:?} is not a covariate; the covariates are {names}");
            faults.add("covariates", what);
        }
        for name in self.state.iter().filter(|name| Feature::named(name).is_none()) {
            let names = Feature::NAMES.join(", ");
            faults.add("state", format!("{name:?} is not a feature; the features are {names}"));
        }
        match self.lead_seconds {
            None => faults.unless(!gives_headroom, "lead_seconds", || {
                "missing, but the model has the output headroom".into()
            }),
            Some([least, most]) => {
                let fine = 0 < least && least <= most && most <= SECONDS_MAX;
                faults.unless(fine, "lead_seconds", || {
                    format!("expected the shortest and the longest, from 1 to {SECONDS_MAX}")
                });
            }
        }
        self.golden_sizes(gives_headroom, &mut faults);
        faults.all
    }

    fn golden_sizes(&self, gives_headroom: bool, faults: &mut Faults) {
        let Golden { buckets, target, time, state, future, quantiles, headroom } = &self.golden;
        let levels = self.levels.len();
        // A description can have any numbers.
        let numbers = |sizes: &[usize]| sizes.iter().fold(1, |a: usize, b| a.saturating_mul(*b));
        let given = if gives_headroom { numbers(&[*buckets, levels]) } else { 0 };
        let sizes = [
            ("golden.target", target.len(), numbers(&[self.window, *buckets])),
            ("golden.time", time.len(), self.window),
            ("golden.state", state.len(), numbers(&[*buckets, self.state.len()])),
            (
                "golden.future",
                future.len(),
                numbers(&[self.horizon, *buckets, self.covariates.len()]),
            ),
            ("golden.quantiles", quantiles.len(), numbers(&[*buckets, self.horizon, levels])),
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

/// The key of the spec in the metadata, and the prefix of the field paths in faults.
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
