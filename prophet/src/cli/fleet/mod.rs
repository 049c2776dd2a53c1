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

use anyhow::Context as _;
use fleet::{Plan, Shard, ShardResult};
use history::Place;

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

/// The place of the plan and of the results.
#[derive(clap::Args)]
struct PlaceArgs {
    /// The place of the plan and of the results: a folder, or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "PLACE")]
    results: String,
}

/// The name of the plan in the place of the results.
const PLAN: &str = "plan.json";

/// The most bytes of a plan: 256 MiB.
const PLAN_BYTES_MAX: u64 = 256 << 20;

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

impl PlaceArgs {
    /// The name of a file of the place in messages.
    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.results.trim_end_matches('/'))
    }

    /// Reads the plan. `None` if there is none.
    async fn plan_in(&self, place: &Place) -> anyhow::Result<Option<Plan>> {
        let file = self.file(PLAN);
        let bytes = place.file(PLAN, PLAN_BYTES_MAX).await.with_context(|| file.clone())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes).with_context(|| file.clone())?;
        let plan: Plan = base::input::parse(&text, &file)?;
        plan.check().context(file)?;
        Ok(Some(plan))
    }

    /// Reads the plan.
    async fn plan(&self, place: &Place) -> anyhow::Result<Plan> {
        let plan = self.plan_in(place).await?;
        plan.with_context(|| {
            format!("{}: there is no plan: prophet fleet plan writes one", self.file(PLAN))
        })
    }

    /// Reads the result of a shard. `None` if it is not there.
    ///
    /// # Errors
    /// It cannot be read, or is the result of another plan.
    async fn result(
        &self,
        place: &Place,
        plan: &Plan,
        number: usize,
    ) -> anyhow::Result<Option<ShardResult>> {
        let name = Shard::file_name(number);
        let file = || self.file(&name);
        let Some(bytes) = place.file(&name, RESULT_BYTES_MAX).await.with_context(file)? else {
            return Ok(None);
        };
        let part = plan.part(&plan.shards[number])?;
        let read = ShardResult::read(bytes, &part).with_context(file)?;
        read.map(Some).with_context(|| {
            format!(
                "{}: it is the result of another plan: remove it, or name another place",
                file()
            )
        })
    }
}

/// The most bytes of a result: 1 GiB.
const RESULT_BYTES_MAX: u64 = 1 << 30;
