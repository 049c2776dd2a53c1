//! The ranges of the numbers of a policy.
//!
//! The schema of the definition has them, so that the API server refuses other numbers. They are
//! checked again when a policy is read, because it may be older than the schema.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The most placeholders of a policy, a bucket, a step or a rate. The largest clusters of
/// Kubernetes have 15,000 nodes.
pub const PLACEHOLDERS_MAX: u32 = 100_000;
/// The highest lower bound of a step: a hundred thousand nodes with a hundred cores each.
pub const STEP_MAX: u32 = 10_000_000;
/// The most steps of a function.
const STEPS_MAX: usize = 64;
/// The most dollars per hour: 100,000 nodes at the price of a small one, or 10,000 large ones.
pub const DOLLARS_MAX: f64 = 1_000_000.0;
/// The lowest price of waiting. The ensemble weighs costs, so 0 would have no meaning.
pub const PRICE_MIN: f64 = 0.000_001;
/// The highest price of waiting, in dollars per hour or in idle instances.
pub const PRICE_MAX: f64 = 1_000_000.0;
/// The lowest service level, in percent.
pub const LEVEL_MIN: f64 = 0.1;
/// The highest service level, in percent. Above it, weeks of history have no pod that waits.
pub const LEVEL_MAX: f64 = 99.99;
/// The longest expression, in characters.
pub const EXPRESSION_MAX: usize = demand::forecast::EXPRESSION_MAX;
/// The largest change of a target that is ignored, as a fraction.
pub const TOLERANCE_MAX: f64 = 0.99;

/// The schema of the numbers of placeholders of single buckets.
pub(super) fn by_bucket(_: &mut SchemaGenerator) -> Schema {
    let most = json_schema!({"type": "integer", "minimum": 0, "maximum": PLACEHOLDERS_MAX});
    json_schema!({"type": "object", "additionalProperties": most})
}

/// The schema of the steps of a function: pairs of a lower bound and a number of placeholders.
///
/// Both numbers have the maximum of a lower bound. A rule on the number of placeholders alone would
/// be an expression, and the API server refuses every status of a stored policy on whose numbers an
/// expression cannot be evaluated. The maximum is checked when the policy is read.
pub(super) fn steps(_: &mut SchemaGenerator) -> Schema {
    let number = json_schema!({"type": "integer", "minimum": 0, "maximum": STEP_MAX});
    let pair = json_schema!({"type": "array", "minItems": 2, "maxItems": 2, "items": number});
    json_schema!({"type": "array", "maxItems": STEPS_MAX, "items": pair})
}
