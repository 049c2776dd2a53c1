//! Data for tests: catalogs, requests, jobs, lines of the history, and objects of Kubernetes.
//!
//! Each function returns the plainest value, and a test replaces the fields that it is about, such
//! as `Bucket { groups: vec![], ..bucket("a", 8_000, 1.0) }`. This crate is a dependency of tests
//! and benchmarks only. The unit tests of a crate must not use a value whose type that crate
//! defines, because the type here is another one: that of the crate compiled without its tests.
//!
//! ```text
//! catalog.rs  buckets, groups and catalogs
//! request.rs  what pods request
//! job.rs      jobs of a log
//! line.rs     lines of the history
//! object.rs   pods and nodes
//! ```

mod catalog;
#[cfg(feature = "jobs")]
mod job;
#[cfg(feature = "history")]
mod line;
#[cfg(feature = "objects")]
mod object;
mod request;

pub use catalog::{bucket, catalog, catalog_of, group};
#[cfg(feature = "jobs")]
pub use job::job;
#[cfg(feature = "history")]
pub use line::line;
#[cfg(feature = "objects")]
pub use object::{placeholder, pod, ready_node};
pub use request::{cpus, pods, shape};
