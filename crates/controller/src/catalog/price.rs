//! The price of an instance: exact for the types of the table, else estimated from its resources.
//!
//! Prices rank the buckets and enforce the spend cap. For exact prices, use a catalog file.

use embedder::{CapacityType, MicroDollars, Resources, UNLIMITED};
use traces::catalog::instance_type;

/// Dollars per hour of a CPU core. This and the next two prices are solved from AWS's prices of the
/// M5 and G5 families in us-east-1.
const CORE: f64 = 0.034;

/// Dollars per hour of a GiB of memory.
const GIB: f64 = 0.0035;

/// Dollars per hour of an accelerator.
const ACCELERATOR: f64 = 0.8;

/// The price of a spot instance as a share of the on-demand price, in the long run.
const SPOT_SHARE: f64 = 0.4;

/// The price of an instance per hour: the table's, else estimated from its resources.
pub(super) fn hourly(name: &str, capacity_type: CapacityType, has: Resources) -> MicroDollars {
    let amount = |n: u64| if n == UNLIMITED { 0.0 } else { n as f64 };
    let parts = CORE * amount(has.cpu_millis) / 1_000.0
        + GIB * amount(has.memory_bytes) / f64::from(1 << 30)
        + ACCELERATOR * amount(has.accelerators);
    let on_demand = instance_type(name).map_or(parts, |entry| entry.price_per_hour);
    let share = if capacity_type == CapacityType::Spot { SPOT_SHARE } else { 1.0 };
    MicroDollars::from_dollars(on_demand * share).unwrap_or_default()
}
