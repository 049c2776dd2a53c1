//! The whole product without a cluster: the autoscaler alone and Prophet, side by side over the
//! same jobs, in fast time.
//!
//! Each policy runs in a simulated cluster of its own, by the code of `prophet simulate`, and so by
//! the control of the product. The dashboard is given a view of each at every tick.
//!
//! ```text
//! pace.rs   keeps the runs together, and at the speed of the demo
//! views.rs  a tick of a run as a view of the dashboard
//! ```

mod pace;
mod views;

use std::ops::ControlFlow;

use placeholders::Prices;

pub use self::pace::Pace;
use self::views::Views;
use dashboard::Dashboard;
use simulator::{NamedPolicy, SimulationInput, simulate_observed};

pub use self::views::{CAPTIONS, POLICIES};

/// Runs the policies until the end of the window, at a pace. `answer` is the result of the whole
/// comparison, with which the page begins.
///
/// `warmed` is called with a policy and the share of its warm-up that is done, until that is 1.
pub fn run(
    input: SimulationInput<'_>,
    dashboard: &Dashboard,
    pace: &Pace,
    answer: &str,
    warmed: &(dyn Fn(NamedPolicy, f64) + Sync),
) {
    let prices = Prices::new(input.settings.policy.objective, input.catalog);
    let views = Views::new(input, dashboard, prices, answer);
    let first = input.workload.jobs.first().map_or(0, |job| job.submit);
    let (from, until) = input.window;
    views.learning();
    let run = |at: usize| {
        let mut shown = views.of_run(at);
        let mut is_warm = false;
        simulate_observed(input, POLICIES[at], |moment| {
            // Jobs of the window that still wait are run to their start, as in `prophet simulate`.
            if moment.time >= until {
                return ControlFlow::Continue(());
            }
            if !is_warm {
                is_warm = moment.time >= from;
                let passed = (moment.time - first) as f64 / (from - first).max(1) as f64;
                warmed(POLICIES[at], if is_warm { 1.0 } else { passed });
            }
            shown.note(moment);
            pace.wait(at, moment.time);
            ControlFlow::Continue(())
        });
    };
    let run = &run;
    std::thread::scope(|scope| (0..POLICIES.len()).for_each(|at| _ = scope.spawn(move || run(at))));
    views.finished();
}
