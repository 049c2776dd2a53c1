//! Plans how many placeholders each group gets.
//!
//! This crate turns the expected needs of each bucket into placeholders per group. It is pure: all
//! state is an argument and is returned as a value. Each number carries its reasons.
//!
//! ```text
//! policy.rs    the operator's policy, as plain serde types
//! prices.rs    the prices of waiting and idling that its objective implies, per bucket
//! plan.rs      from needs to a plan; its steps are in one file each:
//!   steady.rs    stabilisation windows, rates, tolerance
//!   limits.rs    limits on placeholders and on dollars per hour (spend.rs allots the dollars)
//!   deal.rs      the targets of all buckets, within the limits that their groups share
//!   balance.rs   round-robin over placement groups, in whole virtual instances
//! lint.rs      what holds for every plan
//! shrink.rs    plans that only remove placeholders
//! standing.rs  the standing placeholders, per group
//! want.rs      the expected needs of a bucket, and the steps to its target
//! reason.rs    the reasons of a number, each spelled once
//! manifest.rs  the placeholders of a group as Kubernetes objects
//! changes.rs   the writes that lead from the standing placeholders to the planned ones
//! ```

mod balance;
mod changes;
mod deal;
mod limits;
mod lint;
mod manifest;
mod plan;
mod policy;
mod prices;
mod reason;
mod shrink;
mod spend;
mod standing;
mod steady;
mod want;

pub use changes::{Binding, Change, StandingPod, StandingSet, changes};
pub use lint::{exceeded, lint};
pub use manifest::{
    BUCKET_ANNOTATION, GROUP_ANNOTATION, GROUP_LABEL, HOLD_GATE, LIFTED_AT, LIFTED_FOR, Owner,
    POLICY_LABEL, SHRUNK_ANNOTATION, TEMPLATE_LABEL, Template, Warm,
};
pub use plan::{BucketPlan, GroupPlan, Plan, plan};
pub use policy::{
    Behavior, Ceiling, Direction, InvalidField, LimitShare, Limits, Objective, OuterLimits, Policy,
    PolicyField, ScalingPolicy, ScalingRules, WINDOW_SECONDS_MAX, Yielding,
};
pub use prices::Prices;
pub use reason::Reason;
pub use shrink::shrink;
pub use standing::{GroupStanding, Prepaid, SharedLimit, Standing};
pub use steady::Steady;
pub use want::{Step, Want};
