//! Job logs: readers of public formats, a generator of synthetic logs, and statistics of a log.
//!
//! A reader streams lines and returns jobs; the content of the file determines the format. Of each
//! job, only the submission, the runtime and the requests count. The recorded wait is ignored,
//! because it depends on the machine that the log comes from. A malformed line is an error that
//! names file, line, column and value, unless the caller is lenient.
//!
//! ```text
//! job.rs         a job and its requests
//! read.rs        reads a log of any format (reader.rs: shared by the readers)
//! detect.rs      the formats, and the detection of a format from the first line
//! lines.rs       lines of a file, plain or gzip, of bounded length
//! columns.rs     the columns of a CSV file by name; fields.rs: fields of a line
//! documents.rs   logs that are JSON documents
//! kubernetes.rs  pods and Jobs of Kubernetes; pod_metrics.rs: pods by their metrics
//! opencost.rs    the allocations of OpenCost; argo.rs: workflows of Argo
//! scheduler_json.rs  jobs of Slurm and Philly, and tasks of Ray
//! mapping.rs     a mapping of columns to the parts of a job (mapped.rs: reads a file by it)
//! known_formats.rs  the delimited files that are known by name, from formats.yaml
//! times.rs       times of tables: seconds or dates
//! alibaba.rs  borg.rs  google_2011.rs  openb.rs  philly.rs  swf.rs  job_table.rs    one a format
//! task_events.rs the tasks of a log of events, as Google publishes them
//! machines.rs    the capacity of a cluster, from Borg's machine_events
//! used.rs        what jobs used on average, from Borg's instance_usage
//! usage/         readers of what containers use: a table, and Borg's instance_usage
//! generate.rs    a seeded synthetic log
//! describe.rs    statistics: demand, arrivals, autocorrelation, tiers; tail.rs: consumption
//! tiers.rs       the tiers of a log, by priority
//! odd_units.rs   requests that suggest another unit than the log's
//! default_types.rs  the instance types of a log without any
//! allocation.rs  the shares of the machines that jobs request and use
//! ```

mod alibaba;
mod allocation;
mod argo;
mod borg;
mod columns;
mod default_types;
mod describe;
mod detect;
mod documents;
mod fields;
mod generate;
mod google_2011;
mod job;
mod job_table;
mod known_formats;
mod kubernetes;
mod lines;
mod machines;
mod mapped;
mod mapping;
mod odd_units;
mod openb;
mod opencost;
mod philly;
mod pod_metrics;
mod read;
mod reader;
mod scheduler_json;
mod swf;
mod tail;
mod task_events;
mod tiers;
mod times;
mod usage;
mod used;

pub use allocation::{Allocation, TierAllocation};
pub use default_types::default_types;
pub use describe::{Description, InterArrival, LogTier, SchedulingDelay, TierDelays, describe};
pub use detect::Format;
pub use documents::DocumentKind;
pub use generate::{Recipe, generate};
pub use job::{Admits, Job, Work};
pub use job_table::write as write_table;
pub use machines::{Capacity, Machines};
pub use mapping::{Mapping, MappingFault};
pub use odd_units::odd_units;
pub use pod_metrics::{PodMetric, PodMetrics};
pub use read::{JOBS_MAX, Trace, TraceError, example, read};
pub use reader::{Notes, TraceFault};
pub use tail::{Consumption, Delay, Percentiles, Tail};
pub use usage::{UsageNotes, read_usage};
pub use used::{Used, read_used};
