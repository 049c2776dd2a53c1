//! How many placeholders, and where?
//!
//! Turns what each bucket is expected to need into placeholders per group. Pure: all state is an argument and comes
//! back as a value. Each number carries its reasons.
//!
//! ```text
//! policy.rs    what is wanted, as plain serde types
//! plan.rs      wants to a plan; what stands between them, one file each:
//!   steady.rs    scale-down windows, rates, tolerance
//!   limits.rs    the most placeholders, and the most dollars an hour (spend.rs gives them out)
//!   balance.rs   round-robin over placement groups, in whole virtual instances
//! reason.rs    why a number is what it is, spelled once
//! ```
//!
//! With the feature `kubernetes`:
//!
//! ```text
//! manifest.rs  a group's placeholders as Kubernetes objects
//! changes.rs   the writes that lead from what stands to what ought to
//! actuate.rs   the only writer, and the only code here that does I/O
//! ```

#[cfg(feature = "kubernetes")]
mod actuate;
mod balance;
#[cfg(feature = "kubernetes")]
mod changes;
mod limits;
#[cfg(feature = "kubernetes")]
mod manifest;
mod plan;
mod policy;
mod reason;
mod spend;
mod steady;

#[cfg(feature = "kubernetes")]
pub use actuate::{ActuateError, Actuator};
#[cfg(feature = "kubernetes")]
pub use changes::{Change, StandingPod, StandingSet, changes};
#[cfg(feature = "kubernetes")]
pub use manifest::{
    BUCKET_ANNOTATION, GROUP_ANNOTATION, GROUP_LABEL, HOLD_GATE, LIFTED_AT, LIFTED_FOR, Owner, POLICY_LABEL,
    TEMPLATE_LABEL, Template, Warm,
};
pub use plan::{BucketPlan, GroupPlan, GroupStanding, Plan, Standing, Step, Want, plan};
pub use policy::{Behavior, Limits, Objective, Policy, ScalingPolicy, ScalingRules};
pub use reason::Reason;
pub use steady::Steady;
