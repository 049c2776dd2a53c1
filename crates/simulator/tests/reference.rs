//! A small simulation, event by event: job starts and nodes equal those of an independent replay.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use base::span::Span;
use simulator::replay::Workload;
use simulator::{NamedPolicy, SimulationInput, SimulationSettings, simulate};

type Rows = Vec<Vec<i64>>;

fn rows(text: &str) -> Rows {
    let numbers = |line: &str| line.split(',').map(|n| n.trim().parse().unwrap()).collect();
    text.lines().skip(1).map(numbers).collect()
}

#[track_caller]
fn check(named_policy: NamedPolicy, starts: &str, nodes: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small-jobs.csv");
    let trace = traces::read(&path, None, false).unwrap();
    let catalog = testkit::catalog([("eight-units", 8_000, 1.0)]);
    let settings = SimulationSettings {
        scale_down_delay_after_add: Span::seconds(0),
        ..SimulationSettings::default()
    };
    let workload = Workload::new(&trace.jobs, &catalog);
    let world = SimulationInput {
        workload: &workload,
        catalog: &catalog,
        settings: &settings,
        window: (0, 20_000),
        replay: 0,
        keep_ticks: false,
    };
    let log = simulate(world, named_policy, &|_| ());
    let name = |index: usize| trace.jobs[index].name.parse().unwrap();
    let start = |ran: Option<(i64, i64)>| ran.unwrap().0;
    let mut got: Rows =
        log.jobs.iter().map(|job| vec![name(job.index), job.submit, start(job.ran)]).collect();
    got.sort();
    assert_eq!(got, rows(starts));
    let mut got: Rows = log
        .nodes
        .iter()
        .map(|node| vec![node.requested, node.ready.unwrap(), node.gone.unwrap_or(-1)])
        .collect();
    let mut expected: Rows = rows(nodes).into_iter().map(|row| row[1..].to_vec()).collect();
    got.sort();
    expected.sort();
    assert_eq!(got, expected);
}

#[test]
fn reactive_has_the_starts_and_launches_of_the_reference() {
    let (starts, nodes) = (
        include_str!("data/small-reactive-starts.csv"),
        include_str!("data/small-reactive-nodes.csv"),
    );
    check(NamedPolicy::Reactive, starts, nodes);
}

#[test]
fn two_placeholders_have_the_starts_and_launches_of_the_reference() {
    let (starts, nodes) = (
        include_str!("data/small-constant-2-starts.csv"),
        include_str!("data/small-constant-2-nodes.csv"),
    );
    check(NamedPolicy::Constant(2), starts, nodes);
}
