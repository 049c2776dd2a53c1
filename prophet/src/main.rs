//! The `prophet` binary: see `prophet --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    prophet::cli::main()
}
