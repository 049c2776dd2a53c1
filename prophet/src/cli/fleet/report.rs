//! `prophet fleet report`: joins the results that are there to an advice for each cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fleet::{FleetAdvice, page};
use history::Place;

use super::place::PlaceArgs;
use crate::cli::advise::GoalArgs;
use crate::cli::output::{OutputFormat, Overwrite};
use crate::cli::{output, runtime};

const EXAMPLES: &str = "\
Examples:
  prophet fleet report --results results/
  prophet fleet report --results s3://logs/fleet --out page/
  prophet fleet report --results results/ --bill-at-most 105%

A window counts once all its shards are complete, so the report is right while shards are still running.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    goal: GoalArgs,
    /// Also write fleet.json, report.html and the recommended policies, as policies/CLUSTER.yaml,
    /// here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (runtime, place) = (runtime::of_this_thread()?, Place::existing(&args.place.results)?);
    let plan = runtime.block_on(args.place.plan(&place))?;
    let staged = output::stage(args.out.as_deref(), "report.html", &args.overwrite)?;
    let mut found = Vec::new();
    for number in 0..plan.shards.len() {
        found.push(runtime.block_on(args.place.result(&place, &plan, number))?);
    }
    let advice = FleetAdvice::new(&plan, &found, args.goal.goal())?;
    let document = report::versioned(serde_json::to_value(&advice)?);
    if let Some(staged) = staged {
        staged.write("fleet.json", |to| Ok(serde_json::to_writer_pretty(to, &document)?))?;
        staged.write("report.html", |to| to.write_all(page(&advice, &plan).as_bytes()))?;
        let mut names = BTreeSet::new();
        for (at, cluster) in advice.clusters.iter().enumerate() {
            let policy = cluster.advice.as_ref().and_then(advice::Advice::policy_file);
            let Some(text) = policy else { continue };
            let mut name = file_name(&cluster.name);
            // Some file systems do not tell upper case from lower case.
            if !names.insert(name.to_lowercase()) {
                name = format!("{name}-{at}");
            }
            staged.write(&format!("policies/{name}.yaml"), |to| to.write_all(text.as_bytes()))?;
        }
        eprintln!("wrote {}", staged.finish()?.join("report.html").display());
    }
    match args.output {
        OutputFormat::Table => output::print(&advice.text()),
        format => output::print_document(format, &document),
    }
}

/// The name of a cluster as the name of a file: up to 100 letters, digits, dots, dashes and
/// underscores.
fn file_name(cluster: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    cluster.chars().take(100).map(plain).collect()
}
