//! What would have happened to the recorded pods of a cluster if a policy had acted.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::clock::Stopwatch;
use chrono::{DateTime, Utc};
use history::Place;
use placeholders::Prices;
use report::{clock, day, grouped};
use simulator::NamedPolicy;
use simulator::RunLog;
use simulator::SimulationInput;
use simulator::SimulationSettings;
use simulator::replay::Workload;
use simulator::simulate_observed;
use simulator::{DAYS_MIN, Ratio};
use simulator::{Figures, Pricing, costs_by_day};

use super::{Recorded, RecordedError, recorded_since};

/// The most pods that are simulated, so that they take tens of megabytes.
const PODS_MAX: usize = 50_000;

/// The longest simulation. It competes with the controller's loop for processors.
const SIMULATION_MAX: Duration = Duration::from_mins(5);

/// Simulates the pods that a policy's history has since a time, and returns the result as a text.
///
/// # Errors
/// The history cannot be read, or the settings do not suit it.
pub async fn if_acted(
    (place, policy, since): (&Place, &str, DateTime<Utc>),
    (named_policy, has_warm_pools): (NamedPolicy, bool),
    settings: &SimulationSettings,
    cancelled: &AtomicBool,
) -> anyhow::Result<String> {
    let begun = Stopwatch::now();
    let is_over = || cancelled.load(Ordering::Relaxed) || begun.elapsed() > SIMULATION_MAX;
    let read = recorded_since(place, policy, Some(since), PODS_MAX, &is_over).await;
    let too_long = || {
        let minutes = SIMULATION_MAX.as_secs() / 60;
        format!(
            "Not known: the simulation takes more than {minutes} minutes. Use prophet simulate --data."
        )
    };
    let recorded = match read {
        Ok(recorded) => recorded,
        Err(RecordedError::Cancelled) => return Ok(too_long()),
        Err(RecordedError::TooManyPods(most)) => {
            return Ok(format!(
                "Not known: more than {most} pods ended since {}. Use prophet simulate --data.",
                since.format("%Y-%m-%d")
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let simulated =
        IfActed::simulate(&recorded, (named_policy, has_warm_pools), settings, &is_over);
    let simulated = simulated.map_err(anyhow::Error::msg)?;
    Ok(simulated.map_or_else(too_long, |simulated| simulated.to_string()))
}

/// The recorded pods with the autoscaler alone, and under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct IfActed {
    /// The window in which the pods were created, in Unix seconds.
    window: (i64, i64),
    /// The pods that are left out, because they fit no bucket that is now on offer.
    left_out: u64,
    /// The hours that the pods really waited, with those that are left out.
    really_waited: f64,
    /// The figures with the autoscaler alone.
    alone: Figures,
    /// The figures under the policy.
    acting: Figures,
    /// The most instances of the policy's warm pools, and the figures with these pools, too. `None`
    /// for a policy without them.
    with_pools: Option<(Option<u64>, Figures)>,
    /// The cost of waiting, idling and launching under the policy, divided by that with the
    /// autoscaler alone. `None` if the latter is 0.
    cost: Option<Ratio>,
}

impl IfActed {
    /// Simulates the recorded pods with the autoscaler alone, and then under a policy of these
    /// settings that begins without a history, and with warm pools if it has them. Returns `None`
    /// once `is_cancelled` holds.
    ///
    /// # Errors
    /// The settings do not suit the recorded launch latency.
    pub fn simulate(
        recorded: &Recorded,
        (named_policy, has_warm_pools): (NamedPolicy, bool),
        settings: &SimulationSettings,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, String> {
        let mut settings = settings.clone();
        let objective = settings.policy.objective;
        recorded.set(&mut settings);
        settings.policy.objective = objective;
        settings.check().map_err(|error| error.to_string())?;
        let catalog = &recorded.catalog;
        let workload = Workload::new(&recorded.jobs, catalog);
        let (Some(first), Some(last)) = (recorded.jobs.first(), recorded.jobs.last()) else {
            return Ok(None);
        };
        let window = (first.submit, last.submit + 1);
        let run = |named_policy| {
            let world = SimulationInput {
                workload: &workload,
                catalog,
                settings: &settings,
                window,
                replay: 0,
                keep_ticks: false,
            };
            let log = simulate_observed(world, named_policy, |_| {
                if is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (!is_cancelled()).then_some(log)
        };
        let Some(alone) = run(NamedPolicy::Reactive) else { return Ok(None) };
        let Some(acting) = run(named_policy) else { return Ok(None) };
        let pools = if has_warm_pools {
            let Some(log) = run(NamedPolicy::Tiered(None)) else { return Ok(None) };
            Some(log)
        } else {
            None
        };
        let prices = Prices::new(objective, catalog);
        let (tiers, scan) = (&settings.tiers, settings.scan.as_seconds());
        let pricing = Pricing { prices: &prices, tiers, warm_share: settings.warm_share };
        let figures = |log: &RunLog| Figures::of(log, pricing, scan);
        let costs = |log: &RunLog| costs_by_day(log, pricing);
        Ok(Some(Self {
            window,
            left_out: workload.unplaceable.iter().map(|jobs| jobs.jobs).sum(),
            really_waited: recorded.waiting.seconds as f64 / 3_600.0,
            alone: figures(&alone),
            acting: figures(&acting),
            with_pools: pools.map(|log| (settings.warm_max, figures(&log))),
            cost: Ratio::of(&costs(&acting), &costs(&alone), settings.seed),
        }))
    }
}

impl fmt::Display for IfActed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, left_out, really_waited, alone, acting, with_pools, cost } = self;
        let time = |seconds: i64| format!("{} {}", day(seconds), clock(seconds));
        write!(
            f,
            "From {} to {} UTC, {} pods would have waited {:.1} hours together instead of {:.1}",
            time(window.0),
            time(window.1),
            grouped(alone.pods),
            acting.pending_pod_hours,
            alone.pending_pod_hours,
        )?;
        if *left_out == 0 {
            write!(f, " (they really waited {really_waited:.1})")?;
        } else {
            write!(f, " ({left_out} more fit no instance type that is now on offer)")?;
        }
        write!(
            f,
            ", and the nodes would have cost ${:.2} instead of ${:.2}. In this simulation, the policy begins without a history. ",
            acting.dollars, alone.dollars,
        )?;
        if let Some((most, figures)) = with_pools {
            let most = most.map_or(String::new(), |most| format!(" of up to {most} instances"));
            write!(
                f,
                "With warm pools{most}, the pods would have waited {:.1} hours, and nodes and pools would have cost ${:.2}. ",
                figures.pending_pod_hours, figures.dollars,
            )?;
        }
        let Some(Ratio { ratio, interval, .. }) = cost else {
            return f.write_str(
                "With the autoscaler alone, there would have been no waiting, idling or launching.",
            );
        };
        write!(
            f,
            "At the prices of the objective, the cost of waiting, idling and launching would have been {ratio:.2} times as high "
        )?;
        match interval {
            Some((low, high)) => {
                write!(f, "(between {low:.2} and {high:.2} in 95 % of the resamples of days).")
            }
            None => write!(f, "(fewer than {DAYS_MIN} days, so there is no interval)."),
        }
    }
}

#[cfg(test)]
mod tests {
    use history::ReplayReport;

    use super::*;
    use crate::RecordedWaiting;

    /// On each of some days, a pod that fills a node comes at noon and runs for an hour. A launch
    /// takes five minutes.
    fn recorded(days: i64) -> Recorded {
        let job =
            |day: i64| testkit::job("a", 1_704_110_400 + 86_400 * day, 3_600, testkit::cpus(8_000));
        Recorded {
            jobs: (0..days).map(job).collect(),
            catalog: testkit::catalog([("one", 8_000, 0.5)]),
            objective: placeholders::Objective::default(),
            launch_latency: None,
            waiting: RecordedWaiting { seconds: 7_200, ..RecordedWaiting::default() },
            usage: Vec::new(),
            delays: Vec::new(),
            report: ReplayReport::default(),
        }
    }

    fn constant(days: i64, is_cancelled: bool) -> Option<IfActed> {
        let (policy, settings) = (NamedPolicy::Constant(1), SimulationSettings::default());
        IfActed::simulate(&recorded(days), (policy, false), &settings, &|| is_cancelled).unwrap()
    }

    #[test]
    fn one_placeholder_removes_the_waiting_and_costs_its_node() {
        let text = constant(12, false).unwrap().to_string();
        let expected = "From 1 Jan 2024 12:00 to 12 Jan 2024 12:00 UTC, 12 pods would have waited 0.1 hours together instead of 1.0 (they really waited 2.0), and the nodes would have cost $";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(" in 95 % of the resamples of days)."), "{text}");
        let text = constant(3, false).unwrap().to_string();
        assert!(text.ends_with("(fewer than 10 days, so there is no interval)."), "{text}");
    }

    #[test]
    fn a_policy_with_warm_pools_is_also_simulated_with_them() {
        let settings = SimulationSettings { warm_max: Some(3), ..SimulationSettings::default() };
        let ensemble: NamedPolicy = "ensemble".parse().unwrap();
        let simulated = IfActed::simulate(&recorded(4), (ensemble, true), &settings, &|| false);
        let simulated = simulated.unwrap().unwrap();
        let (_, pools) = simulated.with_pools.as_ref().unwrap();
        assert!(pools.pending_pod_hours < simulated.alone.pending_pod_hours, "{pools:?}");
        let text = simulated.to_string();
        assert!(text.contains("With warm pools of up to 3 instances, the pods"), "{text}");
    }

    #[test]
    fn a_cancelled_simulation_has_no_result() {
        assert_eq!(constant(3, true), None);
    }
}
