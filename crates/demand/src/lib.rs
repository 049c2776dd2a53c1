//! Records the demand of a cluster, and forecasts that of the next minutes.
//!
//! ```text
//! record/     ticks, arrivals and shapes
//! forecast/   the methods, the ensemble and the trained models
//! ```
//!
//! It reads no clock and has no client. Only the loading of models does I/O. The feature
//! `kubernetes` adds what only a controller needs: the parser of expressions.
//!
//! A simulation spends nearly all of its time here. Therefore a release build optimises the crate
//! as one unit, and compiles `prophet` at the same time.

pub mod forecast;
pub mod record;
