//! Errors of wrong usage, with exit code 2.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The commands that only a build with the feature `kubernetes` has.
pub(super) const CLUSTER_COMMANDS: [&str; 11] = [
    "run",
    "plan",
    "explain",
    "announce",
    "off",
    "on",
    "remove-placeholders",
    "crd",
    "health",
    "history",
    "fleet",
];

/// The command of `prophet trace` that only such a build has.
const FETCH: &str = "fetch";

/// The option that takes the file of a command without a positional file.
pub(super) const FILE_OPTIONS: [(&str, &str); 7] = [
    ("prophet demo", "--trace"),
    ("prophet simulate", "--trace"),
    ("prophet backtest", "--trace"),
    ("prophet catalog advise", "--trace"),
    ("prophet embed", "--shapes"),
    ("prophet rightsize", "--usage"),
    ("prophet model accept", "--candidate"),
];

/// Options that are tried for the file of a command whose file is positional.
const NO_OPTIONS: [(&str, &str); 4] = [
    ("prophet trace describe", "--trace"),
    ("prophet trace ticks", "--trace"),
    ("prophet model check", "--model"),
    ("prophet model check", "--file"),
];

/// The options that only a build with the feature `kubernetes` has, of commands that all builds
/// have.
pub(super) const CLUSTER_OPTIONS: [(&str, &str); 5] = [
    ("prophet catalog", "--node-group-auto-discovery"),
    ("prophet catalog types", "--aws-prices"),
    ("prophet simulate", "--policy-file"),
    ("prophet rightsize", "--prometheus"),
    ("prophet rightsize", "--lookback"),
];

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
    let missing = CLUSTER_COMMANDS.contains(&name.as_str());
    let whole = if name == FETCH { format!("trace {FETCH}") } else { name.clone() };
    (!has_cluster_commands && (missing || name == FETCH)).then(|| {
        format!(
            "error: this build has no cluster commands, so it has no `prophet {whole}`\n\nTo build them: cargo build --release --features full"
        )
    })
}

/// The words of a command line, in which a negative value, such as `-5m`, is joined to the option
/// before it. By itself it would be read as the options `5` and `m`, and the error would not name
/// the range of the value.
pub(super) fn with_negative_values(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        let is_negative =
            word.to_str().and_then(|word| word.strip_prefix('-')).is_some_and(|rest| {
                rest.trim_start_matches('.').starts_with(|first: char| first.is_ascii_digit())
            });
        let is_option = |before: &&mut OsString| {
            let text = before.to_str().unwrap_or_default();
            text.len() > 2 && text.starts_with("--") && !text.contains('=')
        };
        match joined.last_mut().filter(is_option) {
            Some(option) if is_negative => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// Adds to an error of an unknown argument what to type instead, where it is known. `typed` are the
/// arguments after the name of the program.
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
    let has = |(with, option): &(&str, &str)| *with == name && *option == unknown;
    if !unknown.starts_with('-') {
        let (_, option) = FILE_OPTIONS.into_iter().find(|(with, _)| *with == name)?;
        let is_file = unknown.contains(['.', '/']);
        let is_given = typed.iter().any(|word| value_of(option, word).is_some());
        return (is_file && !is_given)
            .then(|| format!("a file needs its option: {option} {unknown}"));
    }
    if NO_OPTIONS.iter().any(has) {
        let mut rest = typed.iter().skip_while(|word| value_of(unknown, word).is_none());
        let value = rest.next().and_then(|word| value_of(unknown, word));
        let next = || rest.next().map(String::as_str).filter(|word| !word.starts_with('-'));
        let file = value.filter(|value| !value.is_empty()).or_else(next).unwrap_or("FILE");
        return Some(format!("the file needs no option: {name} {file}"));
    }
    let missing = !has_cluster_options && CLUSTER_OPTIONS.iter().any(has);
    missing.then(|| "this option needs another build: cargo build --release --features full".into())
}

/// The value of an option in a word of the form `OPTION=VALUE`; empty for the option alone. `None`
/// for other words.
fn value_of<'a>(option: &str, word: &'a str) -> Option<&'a str> {
    let rest = word.strip_prefix(option)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('=') }
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
        check("fetch", Some(&message("trace fetch")));
        check("simulat", None);
    }

    #[test]
    fn a_negative_value_belongs_to_the_option_before_it() {
        let table = [
            ("simulate --tick -5m", "simulate --tick=-5m"),
            ("simulate --wait-cost -.5 --seed -1", "simulate --wait-cost=-.5 --seed=-1"),
            ("simulate --tick=5m -5", "simulate --tick=5m -5"),
            ("catalog -n prophet -- -5", "catalog -n prophet -- -5"),
            ("trace describe -", "trace describe -"),
        ];
        for (typed, expected) in table {
            let words = with_negative_values(typed.split(' ').map(OsString::from));
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(words.join(" "), expected);
        }
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
        check("simulate --trace a.csv b.csv", "b.csv", true, None);
        check("simulate --policies reactive ladder", "ladder", true, None);
        let whole = "the file needs no option: prophet model check";
        check_file("model check --model a.onnx", "--model", &format!("{whole} a.onnx"));
        check_file("model check --model=a.onnx", "--model", &format!("{whole} a.onnx"));
        check_file("model check --file --output json", "--file", &format!("{whole} FILE"));
        check("model check --fil", "--fil", false, None);
        check("simulate --prometheus a", "--prometheus", false, None);
        check("rightsize --prometheus a", "--prometheus", true, None);
        let missing = "this option needs another build: cargo build --release --features full";
        check("rightsize --prometheus a", "--prometheus", false, Some(missing));
        check("rightsize --usge a", "--usge", false, None);
    }
}
