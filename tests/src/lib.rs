//! End-to-end tests of the `prophet` binary, run as a user runs it. The tests are in
//! `tests/tests/`.
//!
//! The environment is real where possible: `make control-plane` builds Kubernetes and Karpenter,
//! and the modules here start them on loopback. [`moto`] emulates AWS. These modules must not
//! depend on the code of the binary under test.

pub mod api_proxy;
pub mod apply;
pub mod audit;
pub mod autoscaler;
pub mod aws_proxy;
pub mod axe;
mod background;
pub mod browser;
pub mod built;
pub mod cluster_autoscaler;
pub mod control_plane;
pub mod crds;
pub mod helm;
mod http;
pub mod https;
pub mod installed;
pub mod instances;
pub mod joiner;
pub mod karpenter;
pub mod log_pipe;
pub mod monitoring;
pub mod moto;
pub mod node_group;
mod node_template;
mod options;
pub mod own_root;
pub mod ports;
pub mod process;
mod programs;
pub mod prometheus;
pub mod quantity;
pub mod real_node;
pub mod registry;
pub mod schemas;
pub mod stepped_clock;
pub mod wait;
pub mod workloads;

use std::process::{Command, Output};

/// A command that runs the `prophet` binary of this test's target folder with `arguments`.
///
/// # Panics
/// The binary does not exist. `cargo build` creates it.
pub fn prophet(arguments: &[&str]) -> Command {
    let program = std::env::current_exe().expect("the path of this program is available");
    // Tests are in target/PROFILE/deps, and programs in target/PROFILE.
    let mut folders = program.ancestors().skip(1);
    let folder = folders.find(|folder| !folder.ends_with("deps")).expect("a folder of a profile");
    let binary = folder.join("prophet");
    assert!(binary.exists(), "{} is missing: run cargo build first", binary.display());
    let mut command = Command::new(binary);
    command.args(arguments);
    command
}

/// Runs the binary to its end; returns what [`finish`] returns.
///
/// # Panics
/// The binary cannot be started.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    finish(&mut prophet(arguments))
}

/// Runs a command of the binary to its end; returns its exit code, or -1 after a signal, its
/// standard output and its standard error. Lines of progress are left out, because their number
/// depends on how fast the machine is.
///
/// # Panics
/// The binary cannot be started.
pub fn finish(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("prophet starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let is_progress = |line: &&str| {
        let share = line.strip_prefix("prophet: ").and_then(|rest| rest.split_once(" %, "));
        share.is_some_and(|(share, _)| share.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let error = text(stderr);
    let error = error.split_inclusive('\n').filter(|line| !is_progress(line)).collect();
    (status.code().unwrap_or(-1), text(stdout), error)
}
