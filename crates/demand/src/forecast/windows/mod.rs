//! Past windows of the history, as long as the lead time, drawn by weight.
//!
//! ```text
//! past.rs      the windows, weighted by recency, time of day and kind of day
//! activity.rs  the recent arrivals at a moment, and the similarity of two moments by them
//! roominess.rs the free room at a moment, and the similarity of two free rooms
//! needs.rs     the new nodes that each window needed
//! arrivals.rs  the arrivals of each window, packed into the present free room
//! drawn.rs     the new nodes of drawn windows, as distributions
//! changes.rs   the changes of demand after past moments
//! ```

mod activity;
mod arrivals;
mod changes;
mod drawn;
mod needs;
mod past;
mod roominess;

pub(crate) use activity::{Activity, ActivityLevel};
pub(crate) use arrivals::{KindId, PastArrivals};
pub(crate) use changes::Changes;
pub(crate) use drawn::DrawnNodes;
pub(crate) use needs::PastNeeds;
pub use needs::last_needs;
pub(crate) use needs::need;
pub(crate) use past::Windows;
pub(crate) use roominess::{RoomLikeness, Roominess, Rooms};

use embedder::BucketId;
use smallvec::SmallVec;

/// The new nodes that a window needs, by bucket, without the buckets that need none. Nearly all
/// windows need nodes of one bucket at most. One entry is stored in place, because a forecast reads
/// hundreds of windows.
type NewNodes = SmallVec<[(BucketId, u64); 1]>;
