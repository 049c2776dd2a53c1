//! The history that forecasters learn from.
//!
//! It has one record per tick, and is bounded. The crate `history` keeps it on disk or in S3.
//!
//! ```text
//! tick.rs         the record of one tick
//! history.rs      the latest ticks, in memory
//! recorder.rs     makes ticks from the observations between them
//! arrivals.rs     pods submitted since the last tick
//! shapes.rs       shapes of pods, by number
//! shape_table.rs  shapes, prepared for packing
//! ```

mod arrivals;
mod counts;
mod history;
mod recorder;
mod shape_table;
mod shapes;
mod tick;

pub use arrivals::Arrivals;
pub(crate) use arrivals::FREQUENT_SHAPES_MAX;
pub use counts::sum_by_key;
pub use history::{History, TICKS_MAX};
pub use recorder::{BucketState, PodStarts, Recorder};
pub(crate) use shape_table::PodCounts;
pub use shape_table::ShapeTable;
pub use shapes::{Shapes, canonical};
pub use tick::{BucketTick, KeptPlan, NamespaceArrivals, ShapeId, StepRun, Tick, TierArrivals};
