//! Wrong usage and failures of the commands that need no cluster, and the help of all commands, as
//! golden texts.
//!
//! Exit codes are 0 after success, 1 after a failure and 2 after wrong usage. Each error names the
//! argument or the file, and what to do.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use expect_test::expect_file;
use tests::{finish, prophet, run};

/// Runs a command line in a folder; returns its exit code, its standard output and its standard
/// error. The command has no environment variables, because they set options and colours.
fn run_in(folder: &Path, arguments: &str) -> (i32, String, String) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    finish(prophet(&arguments).current_dir(folder).env_clear())
}

/// The folder in which the command lines run; `errors.txt` lists its files.
fn folder_with_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let generate = "trace generate --days 3 --jobs-per-day 100 --out log.csv";
    let (code, _, error) = run_in(folder.path(), generate);
    assert_eq!(code, 0, "{error}");
    let header = "name,count,accelerators,cpu_millis,memory_bytes,ephemeral_bytes";
    fs::write(path("pods.csv"), format!("{header}\nweb,10,0,1000,1,0\n")).expect("pods.csv");
    fs::write(path("usage.csv"), "time,owner,cpu_millis\n0,1,500\n0,other,500\n").expect("usage");
    fs::write(path("bad.yaml"), "tik: 1m\n").expect("bad.yaml");
    let policy = |spec: &str| {
        format!(
            "apiVersion: prophet.dev/v1alpha1\nkind: OverprovisioningPolicy\nmetadata: {{name: a}}\nspec:\n{spec}"
        )
    };
    let all = "  mode: Act\n  forecast: {method: ladder}\n  limits: {placeholders: 3}\n";
    fs::write(path("policy.yaml"), policy(all)).expect("policy.yaml");
    fs::write(path("typo.yaml"), policy("  limits: {total: 3}\n")).expect("typo.yaml");
    fs::write(path("cores.csv"), "submit,runtime,cpu_millis\n0,60,4\n60,60,2\n").expect("cores");
    fs::create_dir(path("report")).expect("report");
    fs::write(path("report/report.html"), "").expect("report.html");
    fs::create_dir(path("folder")).expect("folder");
    folder
}

/// The golden text is also the table of the command lines: its comments and its lines `$ prophet …`
/// are kept, and what follows each of these is compared with a run.
#[test]
fn errors_name_the_argument_and_what_to_do() {
    let golden = expect_file!["data/usage/errors.txt"];
    let folder = folder_with_files();
    let (mut found, mut command_lines) = (String::new(), 0);
    for line in golden.data().lines() {
        if let Some(arguments) = line.strip_prefix("$ prophet") {
            let (code, _, error) = run_in(folder.path(), arguments);
            let _ = writeln!(found, "\n{line}\nexit code {code}\n{}", error.trim_end());
            command_lines += 1;
        } else if line.starts_with("##") {
            let _ = writeln!(found, "\n{line}");
        } else if line.starts_with('#') {
            let _ = writeln!(found, "{line}");
        }
    }
    assert!(command_lines > 100, "the golden text has {command_lines} command lines");
    golden.assert_eq(&found);
}

/// The default is a ratio, which is not called dollars. A price of waiting is in dollars.
#[test]
fn the_table_names_the_price_of_waiting() {
    let check = |typed: &[&str], expected: &str| {
        let (code, out, error) = run(&[&["simulate", "--policies", "reactive"], typed].concat());
        let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == 0 && text.contains(expected), "{typed:?}: {out}{error}");
    };
    check(
        &[],
        "No price of waiting is given, so the ratio 9 stands for it: a pending pod-hour counts as 9 instance-hours at the mean price",
    );
    check(&["--wait-ratio", "3"], "a pending pod-hour counts as 3 instance-hours at the mean");
    check(&["--wait-cost", "3"], "A pending pod-hour costs $3.00, and an instance-hour its price.");
}

/// The generated page of the commands is the golden text of their help: another test compares it
/// with `prophet reference`, and this one with what each command prints. The layout may differ,
/// because clap prints a command whose options all have one paragraph in two columns, and options
/// that an earlier command has are named below the block.
#[test]
fn every_help_has_the_words_of_the_reference_and_examples() {
    let page = include_str!("../../docs/reference/commands.md");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(sections.len() > 20, "the page has {} commands", sections.len());
    for section in sections {
        let (command, block) = section.split_once("\n\n```text\n").expect("a block");
        let (expected, below) = block.split_once("\n```").expect("the end of the block");
        let arguments = command.strip_prefix("prophet").expect("a command of the program");
        let (code, help, error) = run_in(Path::new("."), &format!("{arguments} --help"));
        assert_eq!(code, 0, "{command}: {error}");
        // A variable that is not set has an equals sign and no value.
        let help = help.replace("=]", "]");
        let named = below.split('`').filter_map(|word| word.strip_prefix("--"));
        let named: BTreeSet<&str> = named.collect();
        let described = options(expected);
        assert!(described.is_disjoint(&named), "{command}: {described:?} and {named:?}");
        assert_eq!(options(&help), &described | &named, "{command}");
        let mut words = help.split_whitespace();
        let missing = expected.split_whitespace().find(|word| !words.any(|other| other == *word));
        assert_eq!(missing, None, "{command}:\n{help}");
        assert!(expected.contains("\nExample"), "{command} has no example");
    }
}

/// The long names of the options that a help describes.
fn options(help: &str) -> BTreeSet<&str> {
    help.lines().filter_map(option).collect()
}

/// The long name of the option that a line begins with.
fn option(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let long = match line.split_once(", --") {
        Some((short, long)) if short.len() == 2 && short.starts_with('-') => long,
        _ => line.strip_prefix("--")?,
    };
    long.split([' ', '[']).next()
}
