//! What an instance costs: exact for the types of the table, else by what it has.
//!
//! Prices weigh buckets against each other and hold the spend cap; who needs them exact gives them in a catalog file.

use embedder::{CapacityType, MicroDollars, Resources, UNLIMITED};

use super::table::instance_type;

/// Dollars an hour of a core, a GiB and an accelerator: the M5 and G5 lists of AWS, us-east-1, solved for their parts.
const CORE: f64 = 0.034;
const GIB: f64 = 0.0035;
const ACCELERATOR: f64 = 0.8;

/// What spot instances cost of the on-demand price, in the long run.
const SPOT_SHARE: f64 = 0.4;

/// The price of an instance for an hour.
pub(super) fn hourly(name: &str, capacity_type: CapacityType, has: Resources) -> MicroDollars {
    let amount = |n: u64| if n == UNLIMITED { 0.0 } else { n as f64 };
    let parts = CORE * amount(has.cpu_millis) / 1_000.0
        + GIB * amount(has.memory_bytes) / f64::from(1 << 30)
        + ACCELERATOR * amount(has.accelerators);
    let on_demand = instance_type(name).map_or(parts, |entry| entry.price_per_hour);
    let share = if capacity_type == CapacityType::Spot { SPOT_SHARE } else { 1.0 };
    MicroDollars::from_dollars(on_demand * share).unwrap_or_default()
}
