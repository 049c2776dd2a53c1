//! The command line, one file per command.
//!
//! Exit codes: 0 after success, 1 after a failure, 2 after wrong usage, 3 if `model accept` keeps
//! the model in use, 130 after Ctrl-C, 143 after SIGTERM. `run` completes its turn after both
//! signals, and `demo` prints its comparison after Ctrl-C, so they exit with 0.

mod accept;
mod advise;
mod backtest;
mod catalog;
mod catalog_advise;
#[cfg(feature = "kubernetes")]
mod cluster;
mod completions;
mod demo;
mod embed;
#[cfg(feature = "kubernetes")]
mod fleet;
mod input;
mod interrupt;
mod log;
mod model;
mod model_place;
mod output;
mod progress;
mod rightsize;
#[cfg(feature = "kubernetes")]
mod runtime;
mod simulate;
mod trace;
mod types;
mod wrong_usage;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// The end of `prophet --help`.
const AFTER_HELP: &str = if cfg!(feature = "kubernetes") {
    "\
Examples:
  prophet demo                         a simulated cluster in fast time, with and without Prophet
  prophet simulate                     how long would jobs have waited, and what would it have cost?
  prophet simulate --trace jobs.csv.gz --from 14d --out report/
  prophet plan --namespace prophet     the decisions of now; writes nothing

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated."
} else {
    "\
Examples:
  prophet demo                         a simulated cluster in fast time, with and without Prophet
  prophet simulate                     how long would jobs have waited, and what would it have cost?
  prophet simulate --trace jobs.csv.gz --from 14d --out report/

The commands for a cluster (run, plan, explain, announce, crd, health, history, fleet, remove-placeholders) are not in this build. To build them:
  cargo build --release --features full

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated."
};

/// What `prophet --version` prints. A release has its commit; other builds do not know theirs.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("embedded-onnx", cfg!(feature = "embedded-onnx")),
        ("kubernetes", cfg!(feature = "kubernetes")),
        ("aws", cfg!(feature = "aws")),
        ("s3", cfg!(feature = "s3")),
    ];
    let features: Vec<&str> =
        features.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    format!(
        "{}\ncommit: {}\nfeatures: {}",
        env!("CARGO_PKG_VERSION"),
        option_env!("PROPHET_COMMIT")
            .filter(|commit| !commit.is_empty())
            .unwrap_or("unknown, because this is not a release"),
        features.join(", ")
    )
});

/// Launches the nodes that a batch cluster is about to need, before it needs them.
#[derive(Parser)]
#[command(
    name = "prophet",
    version,
    long_version = LONG_VERSION.as_str(),
    max_term_width = 110,
    after_help = AFTER_HELP
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    Cluster(cluster::Command),
    /// Replay a job log under several policies, and report waiting times and costs.
    Simulate(Box<simulate::Args>),
    /// Choose the setting that pays off by a job log or a history, and check it on later days.
    Advise(Box<advise::Args>),
    /// Replay the logs of many clusters in shards, and report where Prophet pays off.
    #[cfg(feature = "kubernetes")]
    #[command(subcommand)]
    Fleet(fleet::Command),
    /// Show a simulated cluster in fast time, with and without Prophet, on a page in the browser.
    Demo(Box<demo::Args>),
    /// Score forecasters on a job log, and report the cost of decisions based on them.
    Backtest(Box<backtest::Args>),
    /// List the buckets that a cluster offers, or choose instance types for a job log.
    Catalog(Box<catalog::Args>),
    /// Count the instances that pods need.
    Embed(embed::Args),
    /// Recommend requests by what jobs used, and report the nodes and the dollars that they save.
    Rightsize(Box<rightsize::Args>),
    /// Describe a job log, or generate one.
    #[command(
        subcommand,
        after_help = "Examples:
  prophet trace generate --days 28 --out jobs.csv
  prophet trace describe jobs.csv"
    )]
    Trace(trace::Command),
    /// Check a trained model, or publish it unless it is worse than the model in use.
    #[command(
        subcommand,
        after_help = "Examples:
  prophet model check quantile.onnx
  prophet model accept --candidate new.onnx --data s3://logs/prophet --publish s3://models/prophet/own.onnx"
    )]
    Model(model::Command),
    /// Print a script that completes commands and options in a shell.
    Completions(completions::Args),
    /// Write the man pages of all commands.
    Man(completions::ManArgs),
}

impl Command {
    /// Whether Ctrl-C and SIGTERM end the command at once. The controller completes its turn first.
    fn ends_on_interrupt(&self) -> bool {
        match self {
            #[cfg(feature = "kubernetes")]
            Self::Cluster(command) => command.ends_on_interrupt(),
            _ => true,
        }
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        if self.ends_on_interrupt() {
            interrupt::exit_on_interrupt()?;
        }
        match self {
            #[cfg(feature = "kubernetes")]
            Self::Cluster(command) => command.run(Args::command()),
            Self::Catalog(args) => catalog::run(*args),
            Self::Demo(args) => demo::run(&args),
            #[cfg(feature = "kubernetes")]
            Self::Fleet(command) => fleet::run(command),
            Self::Advise(args) => advise::run(&args),
            Self::Simulate(args) => simulate::run(*args),
            Self::Backtest(args) => backtest::run(&args),
            Self::Embed(args) => embed::run(&args),
            Self::Rightsize(args) => rightsize::run(*args),
            Self::Trace(command) => trace::run(command),
            Self::Model(command) => return model::run(&command),
            Self::Completions(args) => completions::run(&args, Args::command()),
            Self::Man(args) => completions::man(&args, Args::command()),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

/// The commands, by the name under which the program was started. As `kubectl-prophet` on the path,
/// it is the plugin `kubectl prophet`.
fn program(started_as: Option<&OsString>) -> clap::Command {
    let name = started_as.and_then(|path| Path::new(path).file_stem());
    let command = Args::command();
    if name.is_some_and(|name| name == "kubectl-prophet") {
        command.bin_name("kubectl prophet")
    } else {
        command
    }
}

/// Parses the command line, and runs the command.
pub fn main() -> ExitCode {
    let typed = wrong_usage::with_negative_values(std::env::args_os());
    let parsed = program(typed.first()).try_get_matches_from(&typed);
    let command = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args.command,
        Err(error) => {
            let typed: Vec<String> =
                typed.iter().skip(1).map(|word| word.to_string_lossy().into()).collect();
            return wrong_usage::print(&wrong_usage::with_tip(error, &Args::command(), &typed));
        }
    };
    match command.run() {
        Ok(code) => code,
        // The reader of standard output closed the pipe, as `head` does: that is no failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(error) = error.downcast_ref::<clap::Error>() {
                return wrong_usage::print(error);
            }
            eprintln!("prophet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(all(test, feature = "kubernetes"))]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_tips_exist() {
        for (name, option) in
            wrong_usage::FILE_OPTIONS.into_iter().chain(wrong_usage::CLUSTER_OPTIONS)
        {
            let command = Args::command();
            let words = name.split(' ').skip(1);
            let command = words.fold(&command, |command, word| {
                command.find_subcommand(word).unwrap_or_else(|| panic!("{name}"))
            });
            let mut options = command.get_arguments().filter_map(|argument| argument.get_long());
            assert!(options.any(|long| option.strip_prefix("--") == Some(long)), "{name} {option}");
        }
    }

    #[test]
    fn the_cluster_commands_are_those_of_the_feature() {
        let command = Args::command();
        let others = [
            "simulate",
            "advise",
            "demo",
            "backtest",
            "catalog",
            "embed",
            "rightsize",
            "trace",
            "model",
            "completions",
            "man",
        ];
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.map(clap::Command::get_name);
        let cluster: Vec<&str> = names.filter(|name| !others.contains(name)).collect();
        assert_eq!(cluster, wrong_usage::CLUSTER_COMMANDS);
    }
}
