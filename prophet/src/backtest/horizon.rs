//! How far ahead a forecast looks.

use std::fmt;

use serde::{Serialize, Serializer};

/// How far ahead a forecast looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Demand so many ticks ahead.
    Ticks(usize),
    /// The new nodes needed within the lead: the largest demand within it, less demand at its start.
    Lead,
}

impl Horizon {
    /// Those that are judged.
    pub const ALL: [Self; 5] =
        [Self::Ticks(1), Self::Ticks(2), Self::Ticks(3), Self::Ticks(6), Self::Lead];

    /// The most ticks that are looked ahead.
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
