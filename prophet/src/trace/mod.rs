//! Job logs: readers of public formats, a generator of synthetic ones, and what a log is like.
//!
//! A reader streams lines and yields jobs; the format is told from the content. What counts is submit and runtime: the
//! wait that a log recorded belongs to the machine that it came from. A bad line is an error that names file, line, column
//! and value, unless the caller is lenient.
//!
//! ```text
//! job.rs       a job, and what it asks for
//! read.rs      reads a log of any format (reader.rs: what the readers share)
//! lines.rs      lines of a file, plain or gzip, of bounded length
//! philly.rs  swf.rs  openb.rs  borg.rs  table.rs    one file per format
//! generate.rs   a seeded synthetic log
//! describe.rs   demand, arrivals, autocorrelation, tail
//! ```

mod borg;
mod describe;
mod generate;
mod job;
mod lines;
mod openb;
mod philly;
mod read;
mod reader;
mod swf;
mod table;

pub use describe::{Description, describe};
pub use generate::{Recipe, generate};
pub use job::{Job, Work};
pub use read::{Format, Trace, TraceError, read};
pub use reader::{Notes, TraceFault};
pub use table::write as write_table;
