//! What right-sized requests would change: containers' recommendations as nodes and dollars.
//!
//! The requests of a job log are replaced by the recommendations of `usage`, and both logs
//! are packed and simulated. Advice only: nothing is written to jobs.
//!
//! ```text
//! owners.rs       the jobs of a log, by owner
//! measured.rs     usage that a history recorded, as rows
//! requests.rs     the requests of jobs after the recommendations
//! advice.rs       the advice, as data
//! utilisation.rs  the shares of occupied nodes that are requested and used
//! advice_text.rs  the same as text
//! ```

mod advice;
mod advice_text;
mod measured;
mod owners;
mod requests;
mod utilisation;

pub use advice::{ContainerAdvice, RightSizing, SizedCluster, right_size};
pub use measured::usage_rows;
pub use owners::{JobsByOwner, recurring};
pub use utilisation::Utilisation;
