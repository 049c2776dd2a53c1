//! Measures simulations of growing job logs: `cargo bench -p prophet --bench simulate`.
//!
//! Each simulation runs once, because a million jobs take long. The growth from row to row is the
//! result of interest.

use std::hint::black_box;
use std::time::Instant;

use prophet::catalog::{CatalogFile, default_types};
use prophet::replay::{Workload, offered};
use prophet::simulate::{NamedPolicy, SimulationInput, SimulationSettings, simulate};
use prophet::trace::{Recipe, generate};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn main() {
    // Cargo passes `--bench` only for `cargo bench`. `cargo test --benches` needs no measurement,
    // so a single day is enough.
    let sizes: &[u32] = if std::env::args().any(|a| a == "--bench") { &[7, 70, 700] } else { &[1] };
    println!("{:>9} {:>7} {:>12} {:>12} {:>12}", "jobs", "days", "policy", "seconds", "µs per job");
    for &days in sizes {
        let jobs = generate(&Recipe { days, ..Recipe::default() });
        let types = CatalogFile { instance_types: default_types(&jobs) };
        let catalog = types.catalog().expect("the table's types make a catalog");
        let settings = SimulationSettings::default();
        let workload = Workload::new(&jobs, &catalog);
        let series = offered(&workload, &catalog, settings.scheduler);
        let window = (jobs[0].submit, jobs[jobs.len() - 1].submit + 1);
        let world = SimulationInput {
            workload: &workload,
            catalog: &catalog,
            settings: &settings,
            window,
            replay: 0,
            keep_ticks: false,
        };
        for named_policy in [NamedPolicy::Reactive, NamedPolicy::DEFAULT, NamedPolicy::Oracle] {
            // The time of the default policy grows with the days: two years would take half an hour
            // without further information.
            if named_policy == NamedPolicy::DEFAULT && days > 70 {
                continue;
            }
            let took = seconds(|| {
                black_box(simulate(world, named_policy, &series, &|_| ()));
            });
            let each = 1e6 * took / jobs.len() as f64;
            println!(
                "{:>9} {days:>7} {:>12} {took:>12.2} {each:>12.2}",
                jobs.len(),
                named_policy.to_string()
            );
        }
    }
}
