//! `prophet catalog`: lists the buckets that a cluster offers (`buckets.rs`), or AWS's instance
//! types (`types.rs`), or chooses instance types for a job log (`advise.rs`).

use super::{catalog_advise, types};

#[cfg(feature = "kubernetes")]
use super::cluster::buckets;
#[cfg(not(feature = "kubernetes"))]
use super::wrong_usage;

const EXAMPLES: &str = if cfg!(feature = "kubernetes") {
    "\
Examples:
  prophet catalog                                            the buckets that the cluster offers
  prophet catalog --node-group-auto-discovery asg:tag=k8s.io/cluster-autoscaler/enabled
  prophet catalog --catalog types.yaml --output json
  prophet catalog types m7i g6 p5.48xlarge                   what nodes of these types have for pods, and cost
  prophet catalog advise --trace jobs.csv.gz --series g4dn   instance types for a job log"
} else {
    "\
Examples:
  prophet catalog types m7i g6 p5.48xlarge                   what nodes of these types have for pods, and cost
  prophet catalog advise --trace jobs.csv.gz --series g4dn   instance types for a job log"
};

#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    buckets: buckets::ListArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Choose instance types for a job log
    Advise(Box<catalog_advise::Args>),
    /// List AWS's instance types: what a node has for pods, and what it costs
    Types(types::Args),
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Some(Command::Advise(args)) => catalog_advise::run(*args),
        Some(Command::Types(args)) => types::run(&args),
        #[cfg(feature = "kubernetes")]
        None => buckets::run(args.buckets),
        #[cfg(not(feature = "kubernetes"))]
        None => Err(wrong_usage::conflict(
            "this build cannot list the buckets of a cluster: build it with cargo build --release --features full",
        )),
    }
}
