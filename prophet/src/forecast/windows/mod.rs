//! Past windows of the history, as long as the lead time, drawn by weight.
//!
//! ```text
//! past.rs      the windows, weighted by recency, time of day and kind of day
//! activity.rs  the recent arrivals at a moment, and the similarity of two moments by them
//! needs.rs     the new nodes that each window needed
//! changes.rs   the changes of demand after past moments
//! ```

mod activity;
mod changes;
mod needs;
mod past;

pub(crate) use activity::{Activity, ActivityLevel};
pub(crate) use changes::Changes;
pub(crate) use needs::{PastNeeds, last_needs};
pub(crate) use past::{Window, Windows};
