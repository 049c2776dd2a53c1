//! The history that forecasts learn from: one record a tick, bounded in memory, and lasting on disk or in S3.
//!
//! ```text
//! arrivals.rs  pods submitted since the last tick
//! launches.rs  how long launches take, and which groups fail
//! shapes.rs    shapes by number in a run, by a text in files
//! line.rs      a tick as a line, and back
//! place.rs     a folder, or a prefix in a bucket of S3
//! journal.rs   appends lines (file.rs: to a file, wholly or not at all)
//! replay.rs    lines, oldest first (raw.rs: bytes into lines)
//! archive.rs   closed days to Parquet (columns.rs: lines as rows)
//! ```
//!
//! What is written is described in `docs/history.md`.

#[cfg(feature = "kubernetes")]
mod archive;
mod arrivals;
#[cfg(feature = "kubernetes")]
mod columns;
#[cfg(feature = "kubernetes")]
mod fault;
#[cfg(feature = "kubernetes")]
mod file;
#[cfg(feature = "kubernetes")]
mod journal;
#[cfg(feature = "kubernetes")]
mod launches;
#[cfg(feature = "kubernetes")]
mod line;
#[cfg(feature = "kubernetes")]
mod place;
#[cfg(feature = "kubernetes")]
mod raw;
#[cfg(feature = "kubernetes")]
mod replay;
#[cfg(feature = "kubernetes")]
#[cfg(test)]
mod samples;
#[cfg(feature = "kubernetes")]
mod shapes;

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use embedder::{Resources, Shape};

#[cfg(feature = "kubernetes")]
pub use archive::{Compaction, Export, export};
pub use arrivals::Arrivals;
pub(crate) use arrivals::FREQUENT_SHAPES_MAX;
#[cfg(feature = "kubernetes")]
pub use fault::{Fault, FaultKind, HistoryError};
#[cfg(feature = "kubernetes")]
pub use journal::{Appended, Journal};
#[cfg(feature = "kubernetes")]
pub use launches::Launches;
#[cfg(feature = "kubernetes")]
pub use line::{BucketExtras, BucketLine, Launch, LaunchEnd, Line, LineError, Recalled, VERSION, launched};
#[cfg(feature = "kubernetes")]
pub use place::{Place, PlaceError};
#[cfg(feature = "kubernetes")]
pub use replay::{Replay, Report};
#[cfg(feature = "kubernetes")]
pub use shapes::{ShapeKeyError, Shapes, parse_shape_key, shape_key};

/// A shape of pod by its place in the shapes of a run, in the order in which they were first seen.
pub type ShapeId = u32;

/// What is recorded at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// When.
    pub time: DateTime<Utc>,
    /// Per bucket of the catalog.
    pub buckets: Vec<BucketTick>,
    /// For the shapes that arrive most, how many more pods fit on the nodes of present demand.
    pub room: Vec<(ShapeId, u64)>,
    /// Shapes that arrived for the first time since the last tick.
    pub first_seen: Vec<(ShapeId, Shape)>,
    /// Pods submitted since the last tick, by shape.
    pub arrivals: Vec<(ShapeId, u64)>,
}

/// What is recorded of one bucket, in instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketTick {
    /// Present demand.
    pub demand: u64,
    /// Its maximum since the last tick.
    pub demand_max: u64,
    /// Announced demand.
    pub announced: u64,
    /// Placeholders on nodes.
    pub ready: u64,
    /// Launches since the last tick that ended with a placeholder on the node: no pod had waited for it.
    pub hidden: u64,
    /// Launches since the last tick for which a pod waited.
    pub waited_for: u64,
}

/// Two weeks of one-minute ticks: what the longest look back of a forecaster needs.
const TICKS_MAX: usize = 14 * 24 * 60;

/// The last ticks, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    ticks: VecDeque<Tick>,
}

impl History {
    /// Adds a tick. One that is not after the last is a repetition or a clock that went back, and is dropped.
    pub fn record(&mut self, tick: Tick) {
        if self.ticks.back().is_some_and(|last| last.time >= tick.time) {
            return;
        }
        if self.ticks.len() == TICKS_MAX {
            self.ticks.pop_front();
        }
        self.ticks.push_back(tick);
    }

    /// How many ticks there are.
    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// A tick by its place, oldest first.
    pub fn get(&self, at: usize) -> Option<&Tick> {
        self.ticks.get(at)
    }

    /// The last tick.
    pub fn last(&self) -> Option<&Tick> {
        self.ticks.back()
    }

    /// The last `n` ticks, oldest first, or all where there are fewer.
    pub fn latest(&self, n: usize) -> impl ExactSizeIterator<Item = &Tick> {
        self.ticks.range(self.ticks.len().saturating_sub(n)..)
    }
}

/// The free room that counts for one shape: how many more of it fit on nodes with this free room.
pub fn room_for(shape: Resources, free: impl Iterator<Item = (Resources, u64)>) -> u64 {
    free.fold(0, |sum, (free, nodes)| sum.saturating_add(free.holds(shape).saturating_mul(nodes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_adds_nothing() {
        let mut history = History::default();
        for seconds in [60, 120, 120, 60, 180] {
            let time = DateTime::from_timestamp(seconds, 0).unwrap();
            history.record(Tick {
                time,
                buckets: vec![],
                room: vec![],
                first_seen: vec![],
                arrivals: vec![],
            });
        }
        let times: Vec<_> = history.latest(9).map(|tick| tick.time.timestamp()).collect();
        assert_eq!(times, [60, 120, 180]);
    }
}
