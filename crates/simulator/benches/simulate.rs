//! Measures simulations of growing job logs: `cargo bench -p simulator --bench simulate`.
//!
//! Each simulation runs once, because a million jobs take long. The growth from row to row is the
//! result of interest. If the variable `TRACES` is a folder with the public logs, two weeks of
//! Philly and of CTC are simulated, too.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use simulator::replay::Workload;
use simulator::{NamedPolicy, SimulationInput, SimulationSettings, simulate};
use traces::default_types;
use traces::{Job, Recipe, generate, read};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn main() {
    // Cargo passes `--bench` only for `cargo bench`. `cargo test --benches` needs no measurement,
    // so a single day is enough.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let sizes: &[u32] = if is_bench { &[7, 70, 700] } else { &[1] };
    println!("{:>9} {:>12} {:>12} {:>12}", "jobs", "policy", "seconds", "µs per job");
    for &days in sizes {
        let jobs = generate(&Recipe { days, ..Recipe::default() });
        // The time of the default policy grows with the days: two years would take minutes without
        // further information.
        measure(&jobs, (jobs[0].submit, jobs[jobs.len() - 1].submit + 1), days <= 70);
    }
    // Two weeks of Philly, which are the last of its log, and two busy weeks of CTC.
    for (name, from, until) in [("philly", 62, 76), ("CTC", 126, 140)] {
        let Some(path) = log_of(name).filter(|_| is_bench) else { continue };
        let trace = read(&path, None, false).expect("a readable log");
        let day = |day: i64| trace.jobs[0].submit + 86_400 * day;
        println!("{}, from day {from} until day {until}:", path.display());
        measure(&trace.jobs, (day(from), day(until)), true);
    }
}

/// Prints the time of each policy. `with_default` includes the default policy.
fn measure(jobs: &[Job], window: (i64, i64), with_default: bool) {
    let types = default_types(jobs);
    let catalog = types.catalog().expect("the table's types make a catalog");
    let settings = SimulationSettings::default();
    let workload = Workload::new(jobs, &catalog);
    let world = SimulationInput {
        workload: &workload,
        catalog: &catalog,
        settings: &settings,
        window,
        replay: 0,
        keep_ticks: false,
    };
    let count = workload.jobs_within(window);
    for named_policy in [NamedPolicy::Reactive, NamedPolicy::DEFAULT, NamedPolicy::Oracle] {
        if named_policy == NamedPolicy::DEFAULT && !with_default {
            continue;
        }
        let took = seconds(|| drop(black_box(simulate(world, named_policy, &|_| ()))));
        let each = 1e6 * took / count as f64;
        println!("{count:>9} {:>12} {took:>12.2} {each:>12.2}", named_policy.to_string());
    }
}

/// The log in the folder `TRACES` whose name begins with `name`.
fn log_of(name: &str) -> Option<PathBuf> {
    let folder = std::fs::read_dir(std::env::var_os("TRACES")?).ok()?;
    let mut paths = folder.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
}
