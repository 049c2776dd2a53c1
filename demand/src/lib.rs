//! Records the demand of a cluster, and forecasts that of the next minutes.
//!
//! ```text
//! record/     ticks, arrivals and shapes; the history on disk or in S3
//! forecast/   the methods, the ensemble and the trained models
//! usage/      what containers use, and the requests that follow from it
//! tier.rs     bands of priority, each with its own cost of waiting
//! span.rs     spans of time in settings and files, such as 90s or 2h
//! input/      files that users give: their kind, their text, errors in YAML
//! ```
//!
//! Nearly all time of a simulation is spent here, so a release build optimises the crate as one
//! unit, while the crate `prophet` is compiled beside it.

pub mod forecast;
pub mod input;
pub mod record;
pub mod span;
pub mod tier;
pub mod usage;
