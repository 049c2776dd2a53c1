//! The simulator against reality: the same small trace through `prophet simulate`, and in real time
//! through the real scheduler with the autoscaler of the tests, and with Karpenter.
//!
//! ```text
//! trace.rs      the jobs and the cluster of a trace
//! outcome.rs    what happened: waiting, instance-hours, the order of events
//! simulated.rs  a trace through `prophet simulate`
//! stand_in.rs   a trace in real time with the autoscaler of the tests
//! karpenter.rs  a trace in real time with Karpenter
//! observed.rs   what happens in real time
//! ```

mod karpenter;
mod observed;
mod outcome;
mod simulated;
mod stand_in;
mod trace;

use std::fmt::Write as _;
use std::time::Duration;

use self::karpenter::with_karpenter;
use self::outcome::Outcome;
use self::simulated::simulate;
use self::stand_in::with_stand_in;
use self::trace::{Job, Size, Trace};

/// Events that are closer in the simulator have no order, in seconds: a real launch takes some
/// tenths of a second longer.
const APART: f64 = 3.0;

const fn job(name: &'static str, submit: i64, runtime: i64, pods: usize, size: Size) -> Job {
    Job { name, submit, runtime, pods, size }
}

/// Ten minutes with the default scan of cluster-autoscaler and launches of a minute. Jobs come, and
/// end, some seconds before and after scans, so that a delay of a second changes no decision. Pods
/// of two jobs never wait for the same node, because the scheduler has no order for them.
const TEN_MINUTES: Trace = Trace {
    jobs: &[
        job("a", 3, 120, 1, Size::Node),
        job("b", 86, 50, 1, Size::Small),
        job("c", 96, 90, 1, Size::Gpu),
        job("d", 97, 60, 3, Size::Node),
        // The only node with a GPU is in use.
        job("e", 176, 60, 1, Size::Gpu),
        job("f", 296, 70, 3, Size::Node),
        job("g", 376, 40, 2, Size::Small),
        job("h", 386, 40, 1, Size::Gpu),
        // Nodes of an earlier job are still there.
        job("i", 446, 60, 2, Size::Node),
        job("j", 516, 90, 1, Size::Node),
    ],
    gpus: 1,
    tick: 60,
    launch: 64,
    scan: 10,
    unneeded: 60,
    delay_after_add: 60,
    removal_apart: APART,
    ladder: &[(0, 1), (2, 2)],
    end: 600,
};

/// The same jobs with Karpenter, which reacts to a pending pod at once. A launch does not delay the
/// removal of another node. A removal can be 5 s earlier and 20 s later than in the simulator.
const TEN_MINUTES_OF_KARPENTER: Trace =
    Trace { scan: 1, delay_after_add: 0, removal_apart: 20.0, ..TEN_MINUTES };

/// A minute and a half. At most one pod at a time waits for a node, because a pod whose attempt
/// fails when the first of several nodes joins waits for the scheduler's backoff.
const NINETY_SECONDS: Trace = Trace {
    jobs: &[
        job("a", 2, 48, 1, Size::Node),
        job("b", 32, 23, 2, Size::Node),
        job("c", 37, 5, 1, Size::Small),
    ],
    gpus: 0,
    tick: 20,
    launch: 13,
    scan: 5,
    unneeded: 10,
    delay_after_add: 10,
    removal_apart: APART,
    ladder: &[(0, 1)],
    end: 90,
};

/// A figure of both sides.
struct Row {
    what: &'static str,
    simulated: f64,
    real: Vec<f64>,
}

impl Row {
    fn new(
        what: &'static str,
        runs: &[Outcome],
        simulated: &Outcome,
        of: impl Fn(&Outcome) -> f64,
    ) -> Self {
        Self { what, simulated: of(simulated), real: runs.iter().map(of).collect() }
    }

    fn mean(&self) -> f64 {
        self.real.iter().sum::<f64>() / self.real.len() as f64
    }

    /// The standard deviation of the repeats.
    fn spread(&self) -> f64 {
        let squares: f64 = self.real.iter().map(|value| (value - self.mean()).powi(2)).sum();
        (squares / (self.real.len() - 1).max(1) as f64).sqrt()
    }

    /// Whether the two sides differ by at most this share of the simulated figure, or by twice the
    /// spread.
    fn agrees(&self, share: f64) -> bool {
        let most = (share * self.simulated).max(2.0 * self.spread());
        (self.mean() - self.simulated).abs() <= most
    }

    fn text(&self) -> String {
        let Self { what, simulated, real } = self;
        let real: Vec<String> = real.iter().map(|value| format!("{value:9.3}")).collect();
        let share = 100.0 * (self.mean() / simulated - 1.0);
        format!("{what:22} {simulated:9.3}  {}  {share:+6.1} %", real.join(" "))
    }
}

/// Prints a table of both sides. Returns what does not agree within this share.
fn compare(
    policy: &str,
    trace: &Trace,
    simulated: &Outcome,
    runs: &[Outcome],
    share: f64,
) -> Vec<String> {
    let end = trace.end as f64;
    let row = |what, of: &dyn Fn(&Outcome) -> f64| Row::new(what, runs, simulated, of);
    let compared = [
        row("pending seconds", &|run| run.pending(end)),
        row("instance-hours", &|run| run.instance_hours(end)),
    ];
    let mut text = format!("{policy}: simulated, real runs, difference\n");
    let shown = compared.iter().map(Row::text);
    let nodes = row("nodes", &|run| run.nodes() as f64).text();
    for line in shown.chain([nodes]) {
        let _ = writeln!(text, "  {line}");
    }
    let mut events: Vec<(String, f64)> = simulated.events().into_iter().collect();
    events.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    for (name, at) in events {
        let real = runs.iter().map(|run| {
            run.events().get(&name).map_or("     none".into(), |at| format!("{at:9.1}"))
        });
        let _ = writeln!(text, "    {name:20} {at:9.1}  {}", real.collect::<Vec<_>>().join(" "));
    }
    println!("{text}");
    let wrong = compared.iter().filter(|row| !row.agrees(share));
    let mut wrong: Vec<String> = wrong.map(|row| format!("{policy}: {}", row.text())).collect();
    for run in runs {
        let disorder = run.disorder(simulated, APART, trace.removal_apart).into_iter();
        wrong.extend(disorder.map(|what| format!("{policy}: {what}")));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulator_agrees_with_ninety_seconds_of_reality() {
    let simulated = simulate(&NINETY_SECONDS);
    let real = [with_stand_in(&NINETY_SECONDS, true, Duration::ZERO).await];
    // Launches are short, so the scheduler's backoff weighs more than in ten minutes.
    let wrong = compare("ladder", &NINETY_SECONDS, &simulated["ladder"], &real, 0.35);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a quarter of an hour: make reality"]
async fn the_simulator_agrees_with_ten_minutes_of_reality() {
    let runs = repeats();
    // The scans of two runs are not at the same time.
    let apart = Duration::from_secs(TEN_MINUTES.scan) / (2 * runs);
    let real =
        both(runs, |at, with_controller| with_stand_in(&TEN_MINUTES, with_controller, at * apart));
    let wrong = compare_both(&TEN_MINUTES, &real.await);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a quarter of an hour: make reality"]
async fn the_simulator_agrees_with_ten_minutes_of_karpenter() {
    let real = both(repeats(), |at, with_controller| {
        with_karpenter(&TEN_MINUTES_OF_KARPENTER, with_controller, at * Duration::from_millis(300))
    });
    let wrong = compare_both(&TEN_MINUTES_OF_KARPENTER, &real.await);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The number of repeats of each run.
fn repeats() -> u32 {
    std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// The runs without and with the controller. All are at the same time, because each of them mostly
/// waits. `run` has the number of the run, and whether it has the controller.
async fn both<F: Future<Output = Outcome>>(
    repeats: u32,
    run: impl Fn(u32, bool) -> F,
) -> [Vec<Outcome>; 2] {
    let all = (0..2 * repeats).map(|at| Box::pin(run(at, at % 2 == 1)));
    let all = futures::future::join_all(all).await;
    [0, 1].map(|first| all.iter().skip(first).step_by(2).cloned().collect())
}

/// Compares the runs without and with the controller with the simulator.
fn compare_both(trace: &Trace, [reactive, ladder]: &[Vec<Outcome>; 2]) -> Vec<String> {
    let simulated = simulate(trace);
    let mut wrong = compare("reactive", trace, &simulated["reactive"], reactive, 0.05);
    wrong.extend(compare("ladder", trace, &simulated["ladder"], ladder, 0.05));
    wrong
}
