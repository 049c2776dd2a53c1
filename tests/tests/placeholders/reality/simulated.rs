//! The trace through `prophet simulate`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::outcome::{Outcome, Times};
use super::trace::{LAST, Trace};

/// What `prophet simulate` makes of a trace, by policy: `reactive` and `ladder`.
pub(super) fn simulate(trace: &Trace) -> BTreeMap<String, Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [table, settings, out] = ["jobs.csv", "settings.json", "out"].map(path);
    fs::write(&table, trace.table()).unwrap();
    fs::write(&settings, trace.settings()).unwrap();
    let arguments =
        ["simulate", "--trace", &table, "--settings", &settings, "--out", &out, "--output", "json"];
    let (code, _, error) = tests::run(&arguments);
    assert_eq!(code, 0, "{error}");

    let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
    for row in rows(&Path::new(&out).join("jobs.csv")) {
        if row["job"] != LAST {
            let times = times(&row, "submit", "start").expect("each job was submitted");
            outcomes
                .entry(row["policy"].clone())
                .or_default()
                .jobs
                .insert(row["job"].clone(), times);
        }
    }
    for row in rows(&Path::new(&out).join("nodes.csv")) {
        let Some(times) = times(&row, "ready", "gone") else { continue };
        if times.0 < trace.end as f64 {
            let nodes = &mut outcomes.entry(row["policy"].clone()).or_default().nodes;
            nodes.entry(row["bucket"].clone()).or_default().push(times);
        }
    }
    for outcome in outcomes.values_mut() {
        outcome.end(trace.end as f64);
    }
    outcomes
}

/// The two times of a row. -1 is the time of an event that did not happen.
fn times(row: &BTreeMap<String, String>, first: &str, second: &str) -> Option<Times> {
    let time = |name: &str| row[name].parse().ok().filter(|time: &f64| *time >= 0.0);
    Some((time(first)?, time(second)))
}

/// The rows of a CSV file without quotes, by the names of its columns.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| names.iter().cloned().zip(line).collect()).collect()
}
