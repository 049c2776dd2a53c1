//! `prophet fleet`: the replays of many clusters, in shards that can run anywhere, and the advice
//! for each cluster.
//!
//! ```text
//! place.rs   the plan and the results in their place
//! plan.rs    reads the logs, and writes the shards
//! run.rs     runs shards
//! report.rs  joins the results of the shards that are complete
//! ```

mod place;
mod plan;
mod report;
mod run;

const EXAMPLES: &str = "\
Examples:
  prophet fleet plan berlin.csv.gz tokyo=jobs.swf --results results/
  prophet fleet run --results results/                        all shards, on this machine
  prophet fleet report --results results/ --out page/
  prophet fleet plan s3://logs/prophet --results s3://logs/fleet --windows 7d
  prophet fleet run --results s3://logs/fleet --shard 7       one shard of them

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

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
    }
}
