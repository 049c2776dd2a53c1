//! The command line, one file per command.
//!
//! Exit codes: 0 after success, 1 after a failure, 2 after wrong usage.

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
mod input;
mod log;
mod model;
mod output;
#[cfg(feature = "kubernetes")]
mod plan;
#[cfg(feature = "kubernetes")]
mod run;
mod simulate;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Launches the nodes that a batch cluster is about to need, before it needs them.
#[derive(Parser)]
#[command(name = "prophet", version, max_term_width = 110)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch a cluster, forecast demand, and hold placeholders as the policies configure.
    #[cfg(feature = "kubernetes")]
    Run(Box<run::Args>),
    /// Print the decisions that the controller would make now, without writing anything.
    #[cfg(feature = "kubernetes")]
    Plan(Box<plan::Args>),
    /// Print the reasons for the number of placeholders of each bucket.
    #[cfg(feature = "kubernetes")]
    Explain(explain::Args),
    /// List the buckets that a cluster offers.
    #[cfg(feature = "kubernetes")]
    Catalog(Box<catalog::Args>),
    /// Print the objects that must exist in a cluster before the controller starts.
    #[cfg(feature = "kubernetes")]
    Crd(crd::Args),
    /// Replay a job log under several policies, and report waiting times and costs.
    Simulate(Box<simulate::Args>),
    /// Score forecasters on a job log, and report the cost of decisions based on them.
    Backtest(Box<backtest::Args>),
    /// Count the instances that pods need.
    Embed(embed::Args),
    /// Describe a job log, or generate one.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Check a trained model.
    #[command(subcommand)]
    Model(model::Command),
    /// List or export the recorded history.
    #[cfg(feature = "kubernetes")]
    History(history::Args),
}

/// Parses the command line, and runs the command.
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
        // The reader of standard output closed the pipe, as `head` does: that is no failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prophet: {error:#}");
            ExitCode::FAILURE
        }
    }
}
