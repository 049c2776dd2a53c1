//! `prophet fleet`: the replays of many clusters, in shards that can run anywhere, and the advice
//! for each cluster.
//!
//! ```text
//! plan.rs    reads the logs, and writes the shards
//! run.rs     runs shards
//! report.rs  joins the results of the shards that are complete
//! ```

mod plan;
mod report;
mod run;

use std::path::PathBuf;

use anyhow::Context as _;
use fleet::{Plan, Shard, ShardResult};
use history::Place;

use super::input;

const EXAMPLES: &str = "\
Examples:
  prophet fleet plan berlin.csv.gz tokyo=jobs.swf s3://logs/prophet --out plan.json
  prophet fleet run --plan plan.json --results results/       all shards, on this machine
  prophet fleet run --plan plan.json --results s3://logs/results --shard 7
  prophet fleet report --plan plan.json --results results/ --out page/

docs/fleet.md has the Job of Kubernetes that runs the shards on many machines.";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Read job logs and histories, and write the shards of their replays
    Plan(Box<plan::Args>),
    /// Run shards, each to a result of its own; results that are there are kept
    Run(run::Args),
    /// Join the results that are there to an advice for each cluster
    Report(report::Args),
}

/// The plan and the place of its results.
#[derive(clap::Args)]
struct PlannedArgs {
    /// The plan that prophet fleet plan wrote
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// The place of the results: a folder, or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "PLACE")]
    results: String,
}

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

impl PlannedArgs {
    /// Reads the plan.
    fn plan(&self) -> anyhow::Result<Plan> {
        let file = self.plan.display().to_string();
        let plan: Plan = base::input::parse(&input::text(&self.plan)?, &file)?;
        plan.check().context(file)?;
        Ok(plan)
    }
}

/// The most bytes of a result: 1 GiB.
const RESULT_BYTES_MAX: u64 = 1 << 30;

/// Reads the result of a shard. `None` if it is not there.
///
/// # Errors
/// It cannot be read, or is the result of another plan.
async fn result(
    place: &Place,
    results: &str,
    plan: &Plan,
    number: usize,
) -> anyhow::Result<Option<ShardResult>> {
    let name = Shard::file_name(number);
    let file = || format!("{}/{name}", results.trim_end_matches('/'));
    let Some(bytes) = place.file(&name, RESULT_BYTES_MAX).await.with_context(file)? else {
        return Ok(None);
    };
    let part = plan.part(&plan.shards[number])?;
    let read = ShardResult::read(bytes, &part).with_context(file)?;
    read.map(Some).with_context(|| {
        format!("{}: it is the result of another plan: name another place of results", file())
    })
}
