//! What is wanted, as plain types. Parsed once; the ranges that the comments give are the reader's to check, by
//! [`Policy::faults`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What to aim for, and what holds it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How waiting and idling are weighed.
    pub objective: Objective,
    /// The most placeholders.
    pub limits: Limits,
    /// The most that placeholders may cost, in dollars an hour; none when absent.
    pub spend_cap: Option<f64>,
    /// How fast targets move.
    pub behavior: Behavior,
}

/// How waiting and idling are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Hold this quantile of the new nodes needed, in (0, 1).
    Quantile(f64),
    /// Hold the quantile at which one more node costs as much idle as it saves in waiting: the newsvendor's ratio.
    Costs {
        /// Dollars per pending pod-hour, above 0.
        wait: f64,
        /// Dollars per idle instance-hour, above 0.
        idle: f64,
    },
}

impl Default for Objective {
    fn default() -> Self {
        Self::Costs { wait: 9.0, idle: 1.0 }
    }
}

impl Objective {
    /// The quantile to hold, in (0, 1).
    pub fn quantile(self) -> f64 {
        match self {
            Self::Quantile(q) => q,
            Self::Costs { wait, idle } => wait / (wait + idle),
        }
    }

    /// What a pending pod-hour costs in idle instance-hours: as by default, where no costs are given.
    pub fn wait_to_idle(self) -> f64 {
        match self {
            Self::Quantile(_) => Self::default().wait_to_idle(),
            Self::Costs { wait, idle } => wait / idle,
        }
    }
}

/// The most placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Over all buckets.
    pub total: Option<u64>,
    /// Of one bucket, by its name.
    pub buckets: BTreeMap<String, u64>,
}

/// How fast targets move: the fields of a HorizontalPodAutoscaler's `behavior`, which name what Autopilot does to its
/// horizontal recommendations (its section 3.3): deferred downscaling, slow decay, deferred small changes, limited
/// growth. Nothing is held back by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behavior {
    /// How targets grow.
    pub scale_up: ScalingRules,
    /// How targets shrink.
    pub scale_down: ScalingRules,
}

/// One direction of [`Behavior`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingRules {
    /// Shrinking: the highest target of so many seconds counts; growing: the lowest. At most a day.
    pub stabilization_window_seconds: u32,
    /// Changes of no more than this share of what stands are left alone, in [0, 1).
    pub tolerance: f64,
    /// No more than so many in a period; of several, the strictest counts.
    pub policies: Vec<ScalingPolicy>,
}

/// At most so many placeholders in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingPolicy {
    /// How many.
    pub value: u64,
    /// In how many seconds; 1 to 86,400.
    pub period_seconds: u32,
}

/// The longest window or period: what a day's decisions weigh is bounded.
const WINDOW_SECONDS_MAX: u32 = 86_400;

impl Policy {
    /// What is wrong with it, each with its field path; empty when nothing is.
    pub fn faults(&self) -> Vec<String> {
        let Self { objective, limits: _, spend_cap, behavior: Behavior { scale_up, scale_down } } = self;
        let mut faults = Vec::new();
        match *objective {
            Objective::Quantile(q) if !(q > 0.0 && q < 1.0) => {
                faults.push(format!("objective.quantile: {q} is not between 0 and 1"));
            }
            Objective::Costs { wait, idle } => {
                for (name, cost) in [("wait", wait), ("idle", idle)] {
                    if !(cost > 0.0 && cost.is_finite()) {
                        faults.push(format!("objective.costs.{name}: {cost} is not a price above 0"));
                    }
                }
            }
            Objective::Quantile(_) => {}
        }
        if let Some(cap) = spend_cap.filter(|cap| !(*cap >= 0.0 && *cap <= 1e9)) {
            faults.push(format!("spend_cap: {cap} is not between 0 and a billion dollars an hour"));
        }
        for (name, rules) in [("scale_up", scale_up), ("scale_down", scale_down)] {
            rules.faults(&format!("behavior.{name}"), &mut faults);
        }
        faults
    }
}

impl ScalingRules {
    fn faults(&self, path: &str, faults: &mut Vec<String>) {
        let Self { stabilization_window_seconds, tolerance, policies } = self;
        if *stabilization_window_seconds > WINDOW_SECONDS_MAX {
            faults.push(format!(
                "{path}.stabilization_window_seconds: {stabilization_window_seconds} is more than a day"
            ));
        }
        if !(*tolerance >= 0.0 && *tolerance < 1.0) {
            faults.push(format!("{path}.tolerance: {tolerance} is not in [0, 1)"));
        }
        for (i, ScalingPolicy { value: _, period_seconds }) in policies.iter().enumerate() {
            if !(1..=WINDOW_SECONDS_MAX).contains(period_seconds) {
                faults.push(format!(
                    "{path}.policies[{i}].period_seconds: {period_seconds} is not in 1 to 86400"
                ));
            }
        }
    }
}
