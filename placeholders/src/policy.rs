//! The policy of an operator, as plain types.
//!
//! A policy is parsed once. The code that reads it must check the ranges that the comments give,
//! with [`Policy::faults`].

use std::collections::BTreeMap;
use std::fmt;

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
    /// Returns the fields with invalid values. The list is empty if the policy is valid.
    pub fn faults(&self) -> Vec<InvalidField> {
        let Self { objective, limits: _, spend_cap, behavior: Behavior { scale_up, scale_down } } =
            self;
        let mut faults = Vec::new();
        let mut fault = |field, problem| faults.push(InvalidField { field, problem });
        match *objective {
            Objective::Quantile(q) if !(q > 0.0 && q < 1.0) => {
                fault(PolicyField::Quantile, format!("{q} is not between 0 and 1"));
            }
            Objective::Costs { wait, idle } => {
                for (field, cost) in [(PolicyField::WaitCost, wait), (PolicyField::IdleCost, idle)]
                {
                    if !(cost > 0.0 && cost.is_finite()) {
                        fault(field, format!("{cost} is not a price above 0"));
                    }
                }
            }
            Objective::Quantile(_) => {}
        }
        if let Some(cap) = spend_cap.filter(|cap| !(*cap >= 0.0 && *cap <= 1e9)) {
            let problem = format!("{cap} is not between 0 and a billion dollars an hour");
            fault(PolicyField::SpendCap, problem);
        }
        scale_up.faults(Direction::Up, &mut faults);
        scale_down.faults(Direction::Down, &mut faults);
        faults
    }
}

impl ScalingRules {
    fn faults(&self, direction: Direction, faults: &mut Vec<InvalidField>) {
        let Self { stabilization_window_seconds, tolerance, policies } = self;
        let mut fault = |field, problem| faults.push(InvalidField { field, problem });
        if *stabilization_window_seconds > WINDOW_SECONDS_MAX {
            let problem = format!("{stabilization_window_seconds} is more than a day");
            fault(PolicyField::Window(direction), problem);
        }
        if !(*tolerance >= 0.0 && *tolerance < 1.0) {
            fault(PolicyField::Tolerance(direction), format!("{tolerance} is not in [0, 1)"));
        }
        for (at, ScalingPolicy { value: _, period_seconds }) in policies.iter().enumerate() {
            if !(1..=WINDOW_SECONDS_MAX).contains(period_seconds) {
                let problem = format!("{period_seconds} is not in 1 to {WINDOW_SECONDS_MAX}");
                fault(PolicyField::Period(direction, at), problem);
            }
        }
    }
}

/// A field of a [`Policy`] with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The field.
    pub field: PolicyField,
    /// The problem with its value.
    pub problem: String,
}

/// A field of a [`Policy`]. Its text is the path in a settings file; other sources of policies have
/// paths of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyField {
    /// The quantile of the objective.
    Quantile,
    /// The cost of waiting of the objective.
    WaitCost,
    /// The cost of idling of the objective.
    IdleCost,
    /// The spend cap.
    SpendCap,
    /// The stabilisation window of a direction.
    Window(Direction),
    /// The tolerance of a direction.
    Tolerance(Direction),
    /// The period of a rate of a direction, by its place in the list.
    Period(Direction, usize),
}

/// A direction in which the number of placeholders moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// More placeholders.
    Up,
    /// Fewer placeholders.
    Down,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl fmt::Display for PolicyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = |direction: &Direction| match direction {
            Direction::Up => "behavior.scale_up",
            Direction::Down => "behavior.scale_down",
        };
        match self {
            Self::Quantile => f.write_str("objective.quantile"),
            Self::WaitCost => f.write_str("objective.costs.wait"),
            Self::IdleCost => f.write_str("objective.costs.idle"),
            Self::SpendCap => f.write_str("spend_cap"),
            Self::Window(of) => write!(f, "{}.stabilization_window_seconds", rules(of)),
            Self::Tolerance(of) => write!(f, "{}.tolerance", rules(of)),
            Self::Period(of, at) => write!(f, "{}.policies[{at}].period_seconds", rules(of)),
        }
    }
}
