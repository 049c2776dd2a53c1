//! `prophet completions` and `prophet man`: the commands and their options for shells and for man.

use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::Shell;

use super::output;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  prophet completions bash > /etc/bash_completion.d/prophet
  prophet completions zsh > \"${fpath[1]}/_prophet\"
  prophet completions fish > ~/.config/fish/completions/prophet.fish")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example:
  prophet man /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// The directory for the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints a script that completes commands and options.
pub(super) fn run(args: &Args, mut program: clap::Command) -> anyhow::Result<()> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes a page for each command.
pub(super) fn man(args: &ManArgs, program: clap::Command) -> anyhow::Result<()> {
    let failed = || format!("failed to write the pages into {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(failed)?;
    clap_mangen::generate_to(program, &args.folder).with_context(failed)
}
