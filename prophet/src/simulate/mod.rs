//! What would it have cost, and how long would jobs have waited, on your own log?
//!
//! An event-driven cluster in whole seconds, deterministic for a seed. It sees jobs, a scheduler, an autoscaler and
//! launches; the policy under test is called at ticks and at changes of demand, through [`crate::decide`], and sees only the
//! past.
//!
//! ```text
//! settings.rs     every option of a run, and its file
//! workload.rs     jobs of a log as pods of shapes on a catalog's buckets
//! cluster.rs      nodes, their free room, placeholders on them
//! queue.rs        pods that wait
//! scheduler.rs    jobs onto nodes, gangs whole, placeholders preempted
//! autoscaler.rs   scans, launches, backoff, scale-down
//! world.rs        the event loop
//! control.rs      the policy under test, and what it has seen
//! log.rs          what a run leaves behind
//! offered.rs      demand without launch latency, and the oracle's look ahead
//! ticks.rs        offered demand as the ticks that a controller records
//! rates.rs        what knowledge of rates alone can tell
//! contender.rs    the policies by name
//! figures.rs      what a run comes to
//! bootstrap.rs    intervals of ratios, by resampling days
//! compare.rs      all policies and replays, and the best constant in hindsight
//! report/         tables, files and pictures of it
//! ```

#[cfg(test)]
mod audit;
mod autoscaler;
mod bootstrap;
mod cluster;
mod compare;
mod contender;
mod control;
mod figures;
mod log;
mod offered;
mod queue;
mod rates;
pub(crate) mod report;
mod scheduler;
mod settings;
mod ticks;
mod workload;
mod world;

pub use bootstrap::{DAYS_MIN, Ratio};
pub(crate) use compare::parallel;
pub use compare::{Comparison, PolicyResult, Progress, Stopped, compare};
pub use contender::Contender;
pub use figures::{Figures, HiddenOverDays, PendingMinutes};
pub(crate) use log::DAY_SECONDS;
pub use log::{JobRecord, NodeRecord, RunLog, TickRecord};
pub(crate) use offered::LookAhead;
pub use offered::{Series, offered};
pub use report::{write_report, write_table};
pub use settings::{GangMode, LaunchLatency, Moment, SchedulerKind, Settings, SettingsError};
pub use ticks::ticks;
pub use workload::{Unplaceable, Workload};
pub use world::{World, simulate};
