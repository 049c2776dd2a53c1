//! The reference in the documentation is what the program prints, and names every reason.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

/// The pages of the reference, which `make reference` writes.
const PAGES: [&str; 3] = ["commands", "policy", "metrics"];

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn the_pages_of_the_reference_are_up_to_date() {
    for page in PAGES {
        // The values of variables must not show in the page.
        let output = tests::prophet(&["reference", page])
            .env("PROPHET_DATA", "/elsewhere")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let written = source(&format!("docs/reference/{page}.md"));
        let printed = String::from_utf8(output.stdout).unwrap();
        let differs = printed.lines().zip(written.lines()).find(|(new, old)| new != old);
        assert!(printed == written, "docs/reference/{page}.md: run make reference: {differs:?}");
    }
}

/// The spellings of an enum: those that its function `label` returns.
fn labels(path: &str, kind: &str) -> Vec<String> {
    let text = source(path);
    let label = text.split(&format!("\nimpl {kind} {{")).nth(1).unwrap();
    let label = label.split("fn label(").nth(1).unwrap().split(" fn ").next().unwrap();
    let labels = label.lines().filter_map(|line| line.split_once("=> \""));
    labels.map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_reason_has_a_row_in_the_page_of_the_metrics() {
    let page = source("docs/reference/metrics.md");
    for (path, kind, least) in [
        ("placeholders/src/reason.rs", "Reason", 19),
        ("prophet/src/outcome.rs", "Cause", 12),
        ("prophet/src/observe/workloads.rs", "HeldBack", 6),
    ] {
        let labels = labels(path, kind);
        assert!(labels.len() >= least, "{path}: {labels:?}");
        for label in labels {
            assert!(page.contains(&format!("\n| `{label}` | ")), "{path}: {label} has no row");
        }
    }
}
