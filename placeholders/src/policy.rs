//! The policy of an operator, as plain types.
//!
//! A policy is parsed once. The code that reads it must check the ranges that the comments give,
//! with [`Policy::faults`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use embedder::{BucketId, MicroDollars};
use serde::{Deserialize, Serialize};

/// The objective of a policy, and the limits on its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How waiting and idle nodes are weighed.
    pub objective: Objective,
    /// The limits on the number of placeholders.
    pub limits: Limits,
    /// How fast targets may change.
    pub behavior: Behavior,
    /// The largest share of the limits over all buckets that is held for what one namespace
    /// submitted, in (0, 1], while others submit, too. If absent, namespaces do not count. The
    /// controller sets it where a forecast is learnt from what was submitted.
    #[serde(skip)]
    pub namespace_share: Option<f64>,
}

/// How waiting and idle nodes are weighed against each other. [`crate::Prices`] has the weights of
/// the buckets of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Objective {
    /// The ensemble holds as many nodes as it takes until this share of the pods waits no longer
    /// than one scan of the autoscaler, in (0, 1). Other methods hold this quantile of the new
    /// nodes needed.
    Quantile(f64),
    /// The price of waiting, in dollars per pending pod-hour, above 0. The price of idling is the
    /// price of the bucket's instances.
    #[serde(alias = "wait_cost")]
    WaitCost(f64),
    /// The price of waiting as a ratio, above 0: a pending pod-hour costs as much as this many idle
    /// instance-hours at the mean price of the catalog's instances.
    #[serde(alias = "wait_ratio")]
    WaitRatio(f64),
}

impl Default for Objective {
    fn default() -> Self {
        Self::WaitRatio(Self::WAIT_RATIO)
    }
}

impl Objective {
    /// The ratio of the default objective, and of the prices of an objective with a quantile.
    pub const WAIT_RATIO: f64 = 9.0;

    /// Returns the price of a pending pod-hour in idle instance-hours, or `None` if the price is in
    /// dollars. An objective with a quantile has the default ratio.
    pub fn ratio(self) -> Option<f64> {
        match self {
            Self::Quantile(_) => Some(Self::WAIT_RATIO),
            Self::WaitCost(_) => None,
            Self::WaitRatio(ratio) => Some(ratio),
        }
    }
}

/// The maximum number and cost of placeholders. The fields are those of a policy in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// The maximum over all buckets. If absent, the total has no limit.
    #[serde(rename = "placeholders")]
    pub total: Option<u64>,
    /// The maximum of single buckets, by the name of the bucket.
    pub buckets: BTreeMap<String, u64>,
    /// The maximum cost of all placeholders, in dollars per hour, between 0 and a billion. If
    /// absent, the cost has no limit.
    pub dollars_per_hour: Option<f64>,
    /// The limits that the controller sets. A policy cannot.
    #[serde(skip)]
    pub outer: OuterLimits,
}

/// A share of the limits over all buckets. A part that is absent has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitShare {
    /// The most placeholders.
    pub placeholders: Option<f64>,
    /// The most dollars per hour.
    pub dollars: Option<f64>,
}

impl Limits {
    /// Returns this share of the limits over all buckets, those of the operator included.
    pub fn share(&self, share: f64) -> LimitShare {
        let operator = &self.outer.operator;
        let least = |own: Option<f64>, other: Option<f64>| match (own, other) {
            (Some(own), Some(other)) => Some(share * own.min(other)),
            (one, other) => one.or(other).map(|limit| share * limit),
        };
        // Numbers of placeholders are far below 2^53.
        let count = |limit: Option<u64>| limit.map(|limit| limit as f64);
        LimitShare {
            placeholders: least(count(self.total), count(operator.placeholders)),
            dollars: least(self.dollars_per_hour, operator.hourly.map(MicroDollars::dollars)),
        }
    }
}

/// The limits that do not come from the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OuterLimits {
    /// What the operator of the controller leaves to the policy.
    pub operator: Ceiling,
    /// The maximum over the buckets that yield, while placeholders yield to pods that wait for
    /// nodes.
    pub yielding: Option<Yielding>,
    /// The buckets whose price is unknown. They get nothing under a limit in dollars.
    pub unpriced: BTreeSet<BucketId>,
    /// The percentage of each target that a rollout lets stand, rounded up to a whole placeholder.
    /// All of it if absent.
    pub rollout_percent: Option<u8>,
    /// Whether no bucket gets more placeholders than stand, because many nodes are not ready.
    pub adds_none: bool,
}

/// The most placeholders while they yield to pods that wait for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yielding {
    /// The maximum over `buckets`.
    pub most: u64,
    /// The buckets whose placeholders yield, ascending.
    pub buckets: Vec<BucketId>,
}

/// The most placeholders and the most dollars per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// The maximum number of placeholders. If absent, the number has no limit.
    pub placeholders: Option<u64>,
    /// The maximum cost of all placeholders per hour. If absent, the cost has no limit.
    pub hourly: Option<MicroDollars>,
}

impl Ceiling {
    /// What is left after this many placeholders at this cost.
    #[must_use]
    pub fn less(self, placeholders: u64, hourly: MicroDollars) -> Self {
        Self {
            placeholders: self.placeholders.map(|most| most.saturating_sub(placeholders)),
            hourly: self.hourly.map(|most| MicroDollars(most.0.saturating_sub(hourly.0))),
        }
    }
}

/// How fast targets may change.
///
/// The fields are those of a HorizontalPodAutoscaler's `behavior`. They name the four operations
/// that Autopilot applies to its horizontal recommendations (its section 3.3): deferred
/// downscaling, slow decay, deferred small changes, limited growth. By default nothing limits the
/// targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Behavior {
    /// The rules for growing targets.
    pub scale_up: ScalingRules,
    /// The rules for shrinking targets.
    pub scale_down: ScalingRules,
}

/// One direction of [`Behavior`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
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
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// The number of placeholders.
    pub value: u64,
    /// The period in seconds, 1 to 86,400. It ends at the decision.
    pub period_seconds: u32,
}

/// The longest window or period, in seconds: one day. It bounds the number of decisions that the
/// stabilisers keep.
pub const WINDOW_SECONDS_MAX: u32 = 86_400;

impl Policy {
    /// Returns the fields with invalid values. The list is empty if the policy is valid.
    pub fn faults(&self) -> Vec<InvalidField> {
        let Self { objective, limits, behavior: Behavior { scale_up, scale_down }, .. } = self;
        let mut faults = Vec::new();
        let mut fault = |field, problem| faults.push(InvalidField { field, problem });
        match *objective {
            Objective::Quantile(q) if !(q > 0.0 && q < 1.0) => {
                fault(PolicyField::Quantile, format!("{q} is not between 0 and 1"));
            }
            Objective::WaitCost(cost) if !is_price(cost) => {
                fault(PolicyField::WaitCost, format!("{cost} is not a price above 0"));
            }
            Objective::WaitRatio(ratio) if !is_price(ratio) => {
                fault(PolicyField::WaitRatio, format!("{ratio} is not a number above 0"));
            }
            _ => {}
        }
        if let Some(cap) = limits.dollars_per_hour.filter(|cap| !(*cap >= 0.0 && *cap <= 1e9)) {
            let problem = format!("{cap} is not between 0 and a billion dollars an hour");
            fault(PolicyField::SpendCap, problem);
        }
        scale_up.faults(Direction::Up, &mut faults);
        scale_down.faults(Direction::Down, &mut faults);
        faults
    }
}

fn is_price(price: f64) -> bool {
    price > 0.0 && price.is_finite()
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
    /// The field whose value is invalid.
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
    /// The price of waiting of the objective.
    WaitCost,
    /// The ratio of the objective.
    WaitRatio,
    /// The maximum cost of all placeholders, in dollars per hour.
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
            Direction::Up => "behavior.scaleUp",
            Direction::Down => "behavior.scaleDown",
        };
        match self {
            Self::Quantile => f.write_str("objective.quantile"),
            Self::WaitCost => f.write_str("objective.waitCost"),
            Self::WaitRatio => f.write_str("objective.waitRatio"),
            Self::SpendCap => f.write_str("limits.dollarsPerHour"),
            Self::Window(of) => write!(f, "{}.stabilizationWindowSeconds", rules(of)),
            Self::Tolerance(of) => write!(f, "{}.tolerance", rules(of)),
            Self::Period(of, at) => write!(f, "{}.policies[{at}].periodSeconds", rules(of)),
        }
    }
}
