//! The policy of an operator, as plain types.
//!
//! A policy is parsed once. The code that reads it must check the ranges that the comments give,
//! with [`Policy::faults`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The objective of a policy, and the limits on its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How waiting and idle nodes are weighed.
    pub objective: Objective,
    /// The limits on the number of placeholders.
    pub limits: Limits,
    /// The maximum cost of all placeholders, in dollars per hour, between 0 and a billion. If
    /// absent, the cost has no limit.
    pub spend_cap: Option<f64>,
    /// How fast targets may change.
    pub behavior: Behavior,
}

/// How the cost of waiting and the cost of idle nodes are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Targets are this quantile of the new nodes needed, in (0, 1).
    Quantile(f64),
    /// Targets are the quantile at which one more node costs as much idle as it saves in waiting:
    /// the newsvendor's ratio, wait / (wait + idle).
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
    /// Returns the quantile that targets hold, in (0, 1).
    pub fn quantile(self) -> f64 {
        match self {
            Self::Quantile(q) => q,
            Self::Costs { wait, idle } => wait / (wait + idle),
        }
    }

    /// Returns the cost of a pending pod-hour in idle instance-hours.
    ///
    /// If the policy gives a quantile and no costs, the default costs apply.
    pub fn wait_to_idle(self) -> f64 {
        match self {
            Self::Quantile(_) => Self::default().wait_to_idle(),
            Self::Costs { wait, idle } => wait / idle,
        }
    }
}

/// The maximum numbers of placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The maximum over all buckets. If absent, the total has no limit.
    pub total: Option<u64>,
    /// The maximum of single buckets, by the name of the bucket.
    pub buckets: BTreeMap<String, u64>,
}

/// How fast targets may change.
///
/// The fields are those of a HorizontalPodAutoscaler's `behavior`. They name the four operations
/// that Autopilot applies to its horizontal recommendations (its section 3.3): deferred
/// downscaling, slow decay, deferred small changes, limited growth. By default nothing limits the
/// targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behavior {
    /// The rules for growing targets.
    pub scale_up: ScalingRules,
    /// The rules for shrinking targets.
    pub scale_down: ScalingRules,
}

/// One direction of [`Behavior`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingRules {
    /// The stabilisation window in seconds, at most a day (86,400). A shrinking target is the
    /// highest of the window; a growing target is the lowest.
    pub stabilization_window_seconds: u32,
    /// The fraction of the standing placeholders up to which a change is ignored, in [0, 1).
    pub tolerance: f64,
    /// The rates of change. Of several, the strictest counts.
    pub policies: Vec<ScalingPolicy>,
}

/// A rate: the maximum number of placeholders that may be added or removed in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingPolicy {
    /// The number of placeholders.
    pub value: u64,
    /// The period in seconds, 1 to 86,400.
    pub period_seconds: u32,
}

/// The longest window or period, in seconds: one day. It bounds the number of decisions that the
/// stabilisers keep.
pub(crate) const WINDOW_SECONDS_MAX: u32 = 86_400;

impl Policy {
    /// Returns one message per fault of the policy, each with its field path. The list is empty if
    /// the policy is valid.
    pub fn faults(&self) -> Vec<String> {
        let Self { objective, limits: _, spend_cap, behavior: Behavior { scale_up, scale_down } } =
            self;
        let mut faults = Vec::new();
        match *objective {
            Objective::Quantile(q) if !(q > 0.0 && q < 1.0) => {
                faults.push(format!("objective.quantile: {q} is not between 0 and 1"));
            }
            Objective::Costs { wait, idle } => {
                for (name, cost) in [("wait", wait), ("idle", idle)] {
                    if !(cost > 0.0 && cost.is_finite()) {
                        faults
                            .push(format!("objective.costs.{name}: {cost} is not a price above 0"));
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
