//! What containers use, and the requests that follow from it: vertical scaling as in section 3.2 of
//! Rzadca et al., "Autopilot: workload autoscaling at Google", 2020.
//!
//! Measurements of a container are aggregated over five minutes, and each recommender learns from
//! these samples one after the other. All state is bounded. This crate reads no file, no network
//! and no clock, and writes to no job: `crates/rightsize/src/` turns its recommendations into nodes
//! and dollars.
//!
//! ```text
//! row.rs            a measurement of a container, and the container's class and tolerance
//! ladder.rs         the boundaries of all histograms
//! spread.rs         a histogram of one sample
//! pod.rs            what one pod used from its start to its end
//! sample.rs         five minutes of a container in all of its pods
//! decayed.rs        a histogram whose samples count less with age
//! sliding_max.rs    the maximum of the last samples
//! moving_window.rs  the recommender by statistics of a moving window
//! model_set.rs      a choice among models, each of which minimises a cost
//! learned.rs        the recommender by models
//! figures.rs        footprint, slack, kills and changes of a limit
//! ages.rs           figures over the age of workloads
//! container.rs      one container: its open sample, recommenders and figures
//! book.rs           all containers
//! ```

mod ages;
mod book;
mod container;
mod decayed;
mod figures;
mod ladder;
mod learned;
mod model_set;
mod moving_window;
mod pod;
mod row;
mod sample;
mod sliding_max;
mod spread;

pub use ages::AgeFigures;
pub use book::{
    BookSettings, CONTAINERS_MAX, CONTAINERS_WITH_MODELS_MAX, RecordedUsage, UsageBook, UsageFault,
};
pub use container::ContainerUsage;
pub use decayed::load_percentile;
pub use figures::LimitFigures;
pub use ladder::{LADDER, MEMORY_UNIT_BYTES, rung};
pub use learned::USAGE_WEIGHTS;
pub use model_set::ModelWeights;
pub use model_set::{ModelSet, decay_over};
pub use moving_window::Statistic;
pub use pod::{MeasuredRun, PodMeasurements, PodUsage};
pub use row::{ContainerKey, ContainerRequest, OomTolerance, RequestOf, UsageRow, WorkloadClass};
pub use sample::SAMPLE_SECONDS;
pub use sliding_max::SlidingMax;
