//! Records the demand of a cluster, and forecasts that of the next minutes.
//!
//! ```text
//! record/     ticks, arrivals and shapes
//! forecast/   the methods, the ensemble and the trained models
//! ```
//!
//! It reads no clock and has no client. Only the loading of models does I/O. The feature
//! `kubernetes` adds what only a controller needs: the parser of expressions, and schemas.
//!
//! A simulation spends nearly all of its time here, so a release build optimises the crate as one
//! unit.

pub mod forecast;
pub mod record;
