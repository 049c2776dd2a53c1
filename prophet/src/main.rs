//! The `prophet` binary. `prophet --help` lists its commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    prophet::cli::main()
}
