//! End-to-end tests of the `prophet` binary, as a user runs it. The tests live in `tests/tests/`.
//!
//! What runs beside it is real where it can be had: `make control-plane` builds it, the modules here start it on
//! loopback. [`moto`] serves AWS. Nothing here may depend on code of the binary under test.

pub mod apply;
pub mod audit;
pub mod autoscaler;
mod background;
pub mod built;
pub mod control_plane;
pub mod crds;
pub mod installed;
pub mod instances;
pub mod joiner;
pub mod karpenter;
pub mod moto;
pub mod node_group;
mod node_template;
mod options;
pub mod ports;
pub mod process;
mod programs;
mod quantity;
pub mod wait;

use std::path::PathBuf;
use std::process::{Command, Output};

/// The binary that was built beside this test.
///
/// # Panics
/// Where there is none: `cargo build` makes it.
pub fn prophet(arguments: &[&str]) -> Command {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder: PathBuf = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").into();
    let binary = folder.join("prophet");
    assert!(binary.exists(), "{} is missing: run cargo build first", binary.display());
    let mut command = Command::new(binary);
    command.args(arguments);
    command
}

/// Runs it to its end: exit code, standard output, standard error.
///
/// # Panics
/// Where it cannot be started.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = prophet(arguments).output().expect("prophet starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}
