//! The exit codes of the program: 0 done, 1 failed, 2 wrong usage. `tests/tests/usage.rs` has the
//! texts.
//!
//! Because this package has an integration test, `cargo test` builds the program itself, which the
//! end-to-end tests of `tests` run.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

#[track_caller]
fn check(arguments: &[&str], code: i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_prophet")).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
}

#[test]
fn success_failure_and_wrong_usage_have_a_code_each() {
    check(&["--version"], 0);
    check(&["simulate", "--trace", "none.csv"], 1);
    check(&["simulate", "--tick", "0s"], 2);
}
