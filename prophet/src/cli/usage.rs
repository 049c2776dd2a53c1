//! Errors of wrong usage, with exit code 2.

use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The commands that only a build with the feature `kubernetes` has.
pub(super) const CLUSTER_COMMANDS: [&str; 7] =
    ["run", "plan", "explain", "remove-placeholders", "crd", "health", "history"];

/// The option that takes the file of a command without a positional file.
const FILE_OPTIONS: [(&str, &str); 7] = [
    ("prophet demo", "--trace"),
    ("prophet simulate", "--trace"),
    ("prophet backtest", "--trace"),
    ("prophet catalog advise", "--trace"),
    ("prophet embed", "--shapes"),
    ("prophet rightsize", "--usage"),
    ("prophet model accept", "--candidate"),
];

/// The commands some of whose options only a build with the feature `kubernetes` has.
const COMMANDS_WITH_CLUSTER_OPTIONS: [&str; 2] = ["prophet catalog", "prophet rightsize"];

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

/// Replaces the tip of an error about an unknown argument by what to type instead, where it is
/// known. `typed` are the arguments after the name of the program.
pub(super) fn with_tip(mut error: clap::Error, command: &Command, typed: &[String]) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::UnknownArgument => name,
        _ => return error,
    };
    if let Some(tip) = tip(unknown, command, typed, cfg!(feature = "kubernetes")) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(
    unknown: &str,
    command: &Command,
    typed: &[String],
    has_cluster_options: bool,
) -> Option<String> {
    let (mut command, mut name) = (command, command.get_name().to_owned());
    for word in typed {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            name = format!("{name} {word}");
        }
    }
    if !unknown.starts_with('-') {
        let (_, option) = FILE_OPTIONS.into_iter().find(|(with_option, _)| *with_option == name)?;
        return Some(format!("a file needs its option: {option} {unknown}"));
    }
    if unknown[1..].starts_with(|letter: char| letter.is_ascii_digit()) {
        return Some("no negative value is possible here".into());
    }
    let takes_file = command.get_positionals().next().is_some();
    if takes_file && ["--trace", "--model", "--file"].contains(&unknown) {
        let mut after = typed.iter().skip_while(|word| !word.starts_with(unknown)).skip(1);
        let file = after.next().map_or("FILE", |file| file);
        return Some(format!("the file needs no option: {name} {file}"));
    }
    let missing = !has_cluster_options && COMMANDS_WITH_CLUSTER_OPTIONS.contains(&name.as_str());
    missing.then(|| {
        "options for a cluster are not in this build: cargo build --release --features full".into()
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

    #[test]
    fn tips_name_what_to_type() {
        let command = Command::new("prophet")
            .subcommand(Command::new("simulate"))
            .subcommand(Command::new("rightsize"))
            .subcommand(
                Command::new("model").subcommand(Command::new("check").arg(clap::Arg::new("file"))),
            );
        let check = |typed: &str, unknown: &str, built: bool, expected: Option<&str>| {
            let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(tip(unknown, &command, &typed, built).as_deref(), expected, "{typed:?}");
        };
        let check_file = |typed: &str, unknown: &str, expected: &str| {
            check(typed, unknown, true, Some(expected));
        };
        check_file("simulate a.csv", "a.csv", "a file needs its option: --trace a.csv");
        check_file("simulate --seed -1", "-1", "no negative value is possible here");
        let whole = "the file needs no option: prophet model check";
        check_file("model check --model a.onnx", "--model", &format!("{whole} a.onnx"));
        check_file("model check --file", "--file", &format!("{whole} FILE"));
        check("model check --fil", "--fil", false, None);
        check("simulate --prometheus a", "--prometheus", false, None);
        check("rightsize --prometheus a", "--prometheus", true, None);
        let missing =
            "options for a cluster are not in this build: cargo build --release --features full";
        check("rightsize --prometheus a", "--prometheus", false, Some(missing));
    }
}
