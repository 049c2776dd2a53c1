//! The command line, one file per command. Exit codes: 0 done, 1 failed, 2 wrong usage.

mod backtest;
#[cfg(feature = "kubernetes")]
mod catalog;
#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(feature = "kubernetes")]
mod crd;
mod embed;
#[cfg(feature = "kubernetes")]
mod explain;
#[cfg(feature = "kubernetes")]
mod history;
mod model;
mod output;
#[cfg(feature = "kubernetes")]
mod plan;
mod replay;
#[cfg(feature = "kubernetes")]
mod run;
mod simulate;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::span::Span;

/// Launches the nodes that a batch cluster is about to need, before it needs them.
#[derive(Parser)]
#[command(name = "prophet", version, max_term_width = 110)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch a cluster, forecast, and hold placeholders where policies say so.
    #[cfg(feature = "kubernetes")]
    Run(Box<run::Args>),
    /// Say what would be done now.
    #[cfg(feature = "kubernetes")]
    Plan(Box<plan::Args>),
    /// Say why a bucket has as many placeholders as it has.
    #[cfg(feature = "kubernetes")]
    Explain(explain::Args),
    /// List the buckets on offer in a cluster.
    #[cfg(feature = "kubernetes")]
    Catalog(Box<catalog::Args>),
    /// Print what a cluster must have before the controller starts.
    #[cfg(feature = "kubernetes")]
    Crd(crd::Args),
    /// Replay a job log: how long would jobs have waited for nodes, and what would it have cost?
    Simulate(Box<simulate::Args>),
    /// Judge forecasts on a job log, and what decisions by them would have cost.
    Backtest(Box<backtest::Args>),
    /// Count the instances that pods need.
    Embed(embed::Args),
    /// Describe a job log, or generate one.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Check a trained network.
    #[command(subcommand)]
    Model(model::Command),
    /// List what was recorded, or export it.
    #[cfg(feature = "kubernetes")]
    History(history::Args),
}

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    let result = match Args::parse().command {
        #[cfg(feature = "kubernetes")]
        Command::Run(args) => run::run(*args),
        #[cfg(feature = "kubernetes")]
        Command::Plan(args) => plan::run(*args),
        #[cfg(feature = "kubernetes")]
        Command::Explain(args) => explain::run(&args),
        #[cfg(feature = "kubernetes")]
        Command::Catalog(args) => catalog::run(*args),
        #[cfg(feature = "kubernetes")]
        Command::Crd(args) => crd::run(&args),
        Command::Simulate(args) => simulate::run(*args),
        Command::Backtest(args) => backtest::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Trace(command) => trace::run(command),
        Command::Model(command) => return model::run(&command),
        #[cfg(feature = "kubernetes")]
        Command::History(args) => history::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prophet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Nineteen years of minutes: a log that is longer has a time that is wrong.
const TICKS_MAX: i64 = 10_000_000;

/// Refuses to walk through more ticks than make sense.
fn check_ticks(source: &str, (first, last): (i64, i64), tick: Span) -> anyhow::Result<()> {
    let ticks = (last - first) / tick.as_seconds();
    anyhow::ensure!(
        ticks <= TICKS_MAX,
        "{source}: {ticks} ticks of {tick} from the first job to the last are more than {TICKS_MAX}: is a time wrong, or --tick too short?"
    );
    Ok(())
}
