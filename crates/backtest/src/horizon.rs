//! The horizons of the scored forecasts.

use std::fmt;

use serde::{Serialize, Serializer};

/// The horizon of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Demand this number of ticks ahead.
    Ticks(usize),
    /// D, the new nodes needed within the lead time: the largest demand within it, less demand at
    /// its start.
    Lead,
}

impl Horizon {
    /// The horizons that are scored.
    pub const ALL: [Self; 5] =
        [Self::Ticks(1), Self::Ticks(2), Self::Ticks(3), Self::Ticks(6), Self::Lead];

    /// The longest horizon in ticks.
    pub(super) const TICKS_MAX: usize = 6;
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ticks(ticks) => ticks.fmt(f),
            Self::Lead => f.write_str("D"),
        }
    }
}

impl Serialize for Horizon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ticks(ticks) => serializer.serialize_u64(*ticks as u64),
            Self::Lead => serializer.serialize_str("D"),
        }
    }
}
