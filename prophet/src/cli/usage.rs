//! Errors of wrong usage, with exit code 2.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The commands that only a build with the feature `kubernetes` has.
pub(super) const CLUSTER_COMMANDS: [&str; 7] =
    ["run", "plan", "explain", "remove-placeholders", "crd", "health", "history"];

/// Prints an error of the command line, or the help that it stands for; returns its exit code.
pub(super) fn print(error: &clap::Error) -> ExitCode {
    if let Some(message) = missing_command(error, cfg!(feature = "kubernetes")) {
        eprintln!("{message}");
    } else {
        // There is nowhere to report a failure of printing.
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns the message for a cluster's command in a build without them.
fn missing_command(error: &clap::Error, has_cluster_commands: bool) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let missing = !has_cluster_commands && CLUSTER_COMMANDS.contains(&name.as_str());
    missing.then(|| {
        format!(
            "error: this build has no cluster commands, so it has no `prophet {name}`\n\nTo build them: cargo build --release --features full"
        )
    })
}

/// An error of options that contradict each other, or the settings file.
pub(super) fn conflict(message: impl std::fmt::Display) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        let mut error = clap::Error::new(ErrorKind::InvalidSubcommand);
        error.insert(ContextKind::InvalidSubcommand, ContextValue::String(name.into()));
        let message = missing_command(&error, false);
        assert_eq!(message.as_deref().and_then(|message| message.lines().next()), expected);
        assert_eq!(missing_command(&error, true), None);
    }

    #[test]
    fn a_build_without_cluster_commands_names_them() {
        let message = |name: &str| {
            format!("error: this build has no cluster commands, so it has no `prophet {name}`")
        };
        check("run", Some(&message("run")));
        check("history", Some(&message("history")));
        check("simulat", None);
    }
}
