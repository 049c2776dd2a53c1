//! Replays a job log under each policy, and computes what it would have cost and how long its jobs
//! would have waited.
//!
//! The simulated cluster is event-driven, counts whole seconds, and is deterministic for a seed.
//! The policy under test is called at ticks and at changes of demand, through [`control::decide`].
//! It receives data of the past only, except for `oracle`, `jobs`, `ends` and `rates`.
//!
//! ```text
//! replay/           jobs, queue, scheduler, nodes: the world that a log is replayed in
//! advice.rs         instance types for a log: base instances, with prices and waiting
//! settings.rs       every option of a run, and its file
//! named_policy.rs   the policies by name
//! forecasters.rs    the forecaster of each policy
//! input.rs          the checked input of a run
//! announcements.rs  which jobs are announced; announced.rs: the announcements of a run
//! autoscaler.rs     scans, launches, backoff
//! gang_estimate.rs  the nodes for jobs whose pods must be in one group
//! policy_run.rs     the policy under test: its control, and its observations since its last turn
//! world.rs          the event loop; world/foresight.rs: references that know the future
//! warm_up.rs        runs of a policy, whose replays share the part before the first decision
//! spot.rs           which jobs use spot instances, and how often these are interrupted
//! tiers.rs          the waiting of each tier
//! observed.rs       a run whose ticks an observer sees
//! witness.rs        a run whose turns are compared with those of the controller
//! oracle.rs         references that know the jobs of the future
//! paper.rs          the paper's autoscaler: counts of Algorithm 2 and their forecast
//! rates.rs          a reference that reads past and future arrivals around each moment
//! log.rs            the record of a run
//! figures.rs        the figures of a run
//! bootstrap.rs      confidence intervals of ratios, by resampling days
//! hull.rs           the lower convex hull of waiting against dollars
//! compare.rs        all policies and replays, and the search for the best constant
//! runs.rs           single runs of several policies, each under options of its own
//! costs.rs          the cost of one policy by day, under several settings
//! dependencies.rs   jobs that wait for others, as steps of workflows
//! output/           tables, files and plots of a comparison
//! ```

pub mod advice;
mod announced;
mod announcements;
#[cfg(test)]
mod audit;
mod autoscaler;
mod bootstrap;
mod compare;
mod costs;
mod dependencies;
mod figures;
mod forecasters;
mod gang_estimate;
mod hull;
mod input;
mod log;
mod named_policy;
mod observed;
mod oracle;
pub mod output;
mod paper;
mod policy_run;
mod rates;
pub mod replay;
mod runs;
mod settings;
mod spot;
mod tiers;
mod warm_up;
pub mod witness;
mod world;

pub use announcements::{AnnouncedBy, Announcements, FALSE_SHARE_MAX};
pub use bootstrap::{DAYS_MIN, Ratio};
pub use compare::parallel;
pub use compare::{Comparison, PolicyResult, Progress, SpotCase, SpotInstances, compare};
pub use costs::costs_of;
pub use figures::{
    Bill, COST_NOTE, DayFigures, Figures, HiddenOverDays, PendingMinutes, Pricing, costs_by_day,
};
pub use forecasters::causal_forecaster;
pub use hull::next_on_hull;
pub use input::SimulationInput;
pub use log::{JobRecord, NodeRecord, RunLog, TickRecord, WarmRecord};
pub use named_policy::{KnownJobs, NamedPolicy, PaperForecast};
pub use observed::{Moment, NodeCounts, simulate_observed};
pub use output::{write_report, write_table};
pub use runs::{Candidate, RunFigures, runs};
pub use settings::REPLAYS_MAX;
pub use settings::{
    GangHeadroom, GangMode, LaunchLatency, SimulationSettings, SimulationSettingsError, TimePoint,
};
pub use spot::{Interrupted, Interruptions, NOTICE_SECONDS, SpotFor};
pub use world::{WAIT_SECONDS_MAX, simulate};
