//! The commands of a cluster and of its history, one file each.
//!
//! ```text
//! args.rs      the options of a cluster, which several commands share
//! if_acted.rs  the simulation that the controller runs for policies in the mode `Observe`
//! http_get.rs  HTTP requests; prometheus.rs: usage from Prometheus; prometheus_jobs.rs: jobs
//! ```

mod announce;
mod args;
pub(super) mod buckets;
mod crd;
mod explain;
mod health;
mod history;
pub(super) mod http_get;
mod if_acted;
mod off_switch;
mod plan;
pub(super) mod prometheus;
pub(super) mod prometheus_jobs;
mod reference;
mod remove_placeholders;
mod run;

/// The commands of a cluster.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Watch a cluster, forecast demand, and hold placeholders as the policies configure.
    Run(Box<run::Args>),
    /// Print the decisions that the controller would make now, without writing anything.
    Plan(Box<plan::Args>),
    /// Print the reasons for the number of placeholders of each bucket.
    Explain(explain::Args),
    /// Say which pods will come, and when, so that their nodes are there in time.
    Announce(Box<announce::Args>),
    /// Stop all policies at once: delete all placeholders, and hold none until `prophet on`.
    Off(off_switch::OffArgs),
    /// Let the policies act again after `prophet off`.
    On(off_switch::OnArgs),
    /// Delete all placeholders, before an uninstallation.
    RemovePlaceholders(remove_placeholders::Args),
    /// Print the objects that must exist in a cluster before the controller starts.
    Crd(crd::Args),
    /// Check that a controller is ready.
    Health(health::Args),
    /// List or export the recorded history.
    History(history::Args),
    /// Print a page of the reference in the documentation.
    #[command(hide = true)]
    Reference(reference::Args),
}

impl Command {
    /// Whether Ctrl-C and SIGTERM end the command at once.
    pub(super) fn ends_on_interrupt(&self) -> bool {
        !matches!(self, Self::Run(_))
    }

    /// Runs the command. `all` has all commands of the program, for its reference.
    pub(super) fn run(self, all: clap::Command) -> anyhow::Result<()> {
        match self {
            Self::Run(args) => run::run(*args),
            Self::Plan(args) => plan::run(*args),
            Self::Explain(args) => explain::run(&args),
            Self::Announce(args) => announce::run(&args),
            Self::Off(args) => off_switch::off(args),
            Self::On(args) => off_switch::on(args),
            Self::RemovePlaceholders(args) => remove_placeholders::run(args),
            Self::Crd(args) => crd::run(&args),
            Self::Health(args) => health::run(&args),
            Self::History(args) => history::run(args),
            Self::Reference(args) => reference::run(&args, all),
        }
    }
}
