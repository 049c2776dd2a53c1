//! A comparison as a table for a terminal.

use base::days::DAY_SECONDS;
use demand::forecast::Method;
use embedder::{Bucket, Catalog};
use placeholders::Prices;
use report::{TextTable, clock, day, grouped, write_note};
use traces::Trace;

use super::shown::shown;
use crate::compare::{Comparison, PolicyResult};
use crate::figures::{COST_NOTE, Figures, HiddenOverDays, LEVEL_DAYS, PACKING_RUNS_MIN};
use crate::named_policy::{NamedPolicy, PaperForecast};
use crate::settings::SimulationSettings;

/// A column: its two header lines, its value, and its number of decimals.
pub(super) type Column = (&'static str, &'static str, fn(&Figures) -> f64, usize);

pub(super) const COLUMNS: [Column; 18] = [
    ("pending", "minutes", |f| f.pending_minutes.sum, 0),
    ("mean", "min/job", |f| f.pending_minutes.mean, 2),
    ("p95", "min", |f| f.pending_minutes.p95, 1),
    ("p99", "min", |f| f.pending_minutes.p99, 1),
    ("jobs", "hidden %", |f| 100.0 * f.jobs_hidden_share, 1),
    ("pending", "pod-hours", |f| f.pending_pod_hours, 1),
    ("pods", "hidden %", |f| 100.0 * f.pods_hidden_share, 1),
    ("node", "launches", |f| f.launches, 0),
    ("launches", "x", |f| f.launches_ratio, 2),
    ("used launches", "hidden %", |f| 100.0 * f.used_launches_hidden_share, 1),
    ("instance", "hours", |f| f.instance_hours, 0),
    ("idle", "hours", |f| f.idle_instance_hours, 0),
    ("extra", "idle %", |f| 100.0 * f.extra_idle, 2),
    ("extra", "cost %", |f| 100.0 * f.extra_cost, 1),
    ("extra", "packing %", |f| 100.0 * f.extra_packing, 1),
    ("nodes'", "dollars", |f| f.dollars, 0),
    ("breaks even", "at $", |f| f.break_even_dollars, 2),
    ("placeholder", "writes", |f| f.placeholder_writes, 0),
];

/// The indices of [`COLUMNS`], the most important first: pending minutes, pending pod-hours, pods
/// hidden, launches as a multiple, extra cost, dollars, break-even price, extra packing, extra
/// idle, jobs hidden, idle hours, used launches hidden, node launches, mean, p99, p95, instance
/// hours, placeholder writes.
pub(super) const BY_IMPORTANCE: [usize; 18] =
    [0, 5, 6, 8, 13, 15, 16, 14, 12, 4, 11, 9, 7, 1, 3, 2, 10, 17];

/// Returns the comparison as a table, followed by notes on its figures.
///
/// Unless `wide`, the table leaves out columns that do not fit the width of a terminal.
pub fn write_table(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
    wide: bool,
) -> String {
    let mut text = String::new();
    for line in conditions(comparison, settings, trace, catalog) {
        write_note(&mut text, &line);
    }
    text.push('\n');
    let row = |policy: &PolicyResult| {
        let cells = COLUMNS.iter().map(|(_, _, value, decimals)| {
            let error = policy.stderr.map(|stderr| value(&stderr));
            cell(value(&policy.figures), error, *decimals)
        });
        (policy.name(), cells.collect())
    };
    let rows: Vec<(String, Vec<String>)> = comparison.policies.iter().map(row).collect();
    let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
    let table = TextTable::new(heads, &rows);
    let table = if wide { table } else { table.narrow(BY_IMPORTANCE) };
    table.write(&mut text, &rows);
    text.push('\n');
    let curve = super::curve::table(comparison);
    if let Some(table) = &curve {
        table.write(&mut text);
    }
    let (spot, tiers) = (super::spot::table(comparison), super::tiers::table(comparison));
    if let Some(table) = &spot {
        table.write(&mut text);
    }
    if let Some(table) = &tiers {
        table.write(&mut text);
    }
    let further = [
        curve.map(|table| table.note),
        spot.map(|table| table.note),
        tiers.map(|table| table.note),
    ];
    let further = further.into_iter().flatten().map(String::from);
    for note in
        notes(comparison, settings, catalog).into_iter().chain(further).chain(table.left_out())
    {
        write_note(&mut text, &note);
    }
    text
}

/// Formats a value with its standard error; `-` when the value is not finite.
pub(super) fn cell(value: f64, stderr: Option<f64>, decimals: usize) -> String {
    match stderr {
        _ if !value.is_finite() => "-".into(),
        Some(error) => format!("{value:.decimals$}±{error:.decimals$}"),
        None => format!("{value:.decimals$}"),
    }
}

/// Returns the conditions of the runs: the log, the window, and the instance types with prices.
fn conditions(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> Vec<String> {
    let jobs = comparison.policies.first().map_or(0.0, |policy| policy.figures.jobs);
    let (from, until) = comparison.window;
    let warm_up = trace.jobs.first().map_or(0, |job| from.saturating_sub(job.submit));
    let time = |seconds| format!("{} {}", day(seconds), clock(seconds));
    let price = |bucket: &Bucket| format!("{} ${}", bucket.name, bucket.hourly.dollars());
    let prices: Vec<String> = catalog.buckets().iter().map(price).collect();
    vec![
        format!(
            "{}: {} jobs count, from {} to {} (UTC), after a warm-up of {:.1} days.",
            trace.source,
            grouped(jobs),
            time(from),
            time(until),
            warm_up.max(0) as f64 / DAY_SECONDS as f64
        ),
        format!(
            "Instance types, in dollars per hour: {}.{} Launches take {}.",
            prices.join(", "),
            if settings.types_are_chosen { CHOSEN } else { "" },
            settings.launch_latency
        ),
    ]
}

/// Why these instance types, if no others are given.
const CHOSEN: &str = " They suit the log: the smallest of m5 on which all but a thousandth of the demand fits, and for jobs with GPUs a type with eight; --instance-type names yours.";

/// Returns the price of waiting in a sentence.
fn price_of_waiting(settings: &SimulationSettings, catalog: &Catalog) -> String {
    let objective = settings.policy.objective;
    let wait = Prices::new(objective, catalog).wait();
    match objective.ratio() {
        None => {
            format!("A pending pod-hour costs ${wait:.2}, and an instance-hour its price.")
        }
        Some(ratio) => format!(
            "No price of waiting is given, so the ratio {ratio} stands for it: a pending pod-hour counts as {ratio} instance-hours at the mean price, ${wait:.2}. --wait-cost gives your price."
        ),
    }
}

/// What the price of waiting has to do with it if the shown policy removes hardly any waiting.
fn verdict(
    comparison: &Comparison,
    settings: &SimulationSettings,
    catalog: &Catalog,
) -> Option<String> {
    let (reactive, policy) = (comparison.policies.first()?, shown(comparison)?);
    let hours = |result: &PolicyResult| result.figures.pending_pod_hours;
    let removes_none = hours(reactive) > 0.0 && hours(policy) > REMOVED_MIN * hours(reactive);
    let wait = Prices::new(settings.policy.objective, catalog).wait();
    removes_none.then(|| {
        format!(
            "{} removes hardly any waiting here: at ${wait:.2} a pending pod-hour, hardly any placeholder pays off. Give what an hour of a waiting pod costs you, --wait-cost DOLLARS; if that is right, leave Prophet off.",
            policy.name()
        )
    })
}

/// The share of the waiting of `reactive` above which a policy removes hardly any.
const REMOVED_MIN: f64 = 0.98;

fn notes(comparison: &Comparison, settings: &SimulationSettings, catalog: &Catalog) -> Vec<String> {
    let mut notes: Vec<String> = verdict(comparison, settings, catalog).into_iter().collect();
    let has =
        |named_policy| comparison.policies.iter().any(|policy| policy.named_policy == named_policy);
    if settings.replays > 1 {
        notes.push(format!(
            "Means ± standard errors of {} replays, submissions moved by up to {} either way.",
            settings.replays, settings.jitter
        ));
    }
    if has(NamedPolicy::Paper(PaperForecast::LastValue)) {
        notes.push(
            "paper(last-value): the paper's rule with the last value as its forecast; it equals reactive."
                .into(),
        );
    }
    if settings.policies.iter().any(|named_policy| named_policy.counts_pods()) {
        notes.push(
            "paper(NAME): the largest count of Algorithm 2 that NAME forecasts until a node is ready, less the present count; the ladder until a day was recorded, and without a forecast."
                .into(),
        );
    }
    if settings.policies.contains(&NamedPolicy::BestConstant) {
        notes.push(comparison.best_constant.map_or_else(
            || "best-constant: no constant has as few pending minutes as ensemble.".into(),
            |n| {
                format!("best-constant: constant:{n}, the smallest with at most ensemble's pending minutes.")
            },
        ));
    }
    if settings.policies.iter().any(|named_policy| matches!(named_policy, NamedPolicy::Rates(_))) {
        notes.push(
            "rates:Q: reads the arrivals before and after each moment, except those within the lead time; a reference, not a bound."
                .into(),
        );
    }
    if settings.policies.iter().any(|named_policy| matches!(named_policy, NamedPolicy::Jobs(_))) {
        notes.push(
            "jobs:active, jobs:others: know the jobs of the lead time of users who submitted a job within the last ten minutes, or those of the others."
                .into(),
        );
    }
    if has(NamedPolicy::Ends) {
        notes.push(
            "ends: the ensemble, which also knows which of the running jobs end within the lead time; a reference."
                .into(),
        );
    }
    if has(NamedPolicy::Oracle) {
        notes.push(
            "oracle: knows the jobs of the lead time in advance, and when each job ends.".into(),
        );
    }
    let stranded = comparison
        .policies
        .iter()
        .map(|policy| policy.figures.jobs_never_started)
        .fold(0.0, f64::max);
    if stranded > 0.0 {
        notes.push(format!(
            "Up to {stranded:.0} jobs never started, because no group had room. They wait until the end of the window, and they are not hidden."
        ));
    }
    notes.push("pending minutes: the time from submission to start, summed over jobs. hidden %: the share of jobs and of pods that waited at most one scan, and the share of launches that no pod waited for, of those that a pod used.".into());
    notes.push(
        "extra idle: idle hours beyond reactive's, as a share of reactive's instance-hours.".into(),
    );
    notes.push(format!("extra cost: {COST_NOTE}. {}", price_of_waiting(settings, catalog)));
    notes.push(packing(settings));
    notes.push("breaks even at $: the dollars of nodes beyond reactive's, per pending pod-hour removed. The policy pays off where an hour of a waiting pod costs more.".into());
    notes.push("launches x: the launched nodes, as a multiple of reactive's.".into());
    notes.extend(bill(comparison));
    notes.extend(levels(comparison));
    notes.extend(ties(comparison));
    notes
}

/// Returns the meaning of the column of packing in a sentence.
fn packing(settings: &SimulationSettings) -> String {
    let noise = if (settings.replays as usize) < PACKING_RUNS_MIN {
        format!(" With fewer than {PACKING_RUNS_MIN} replays it cannot be told from noise.")
    } else {
        String::new()
    };
    format!(
        "extra packing: what a policy adds to the price of nodes while pods run on them, as a share of the price of reactive's waiting: pods that start at other times share nodes with other pods.{noise}"
    )
}

/// Returns what the default policy costs beyond `reactive`, by its parts.
fn bill(comparison: &Comparison) -> Option<String> {
    let mut all = comparison.policies.iter();
    let bill = all.find(|policy| policy.named_policy == NamedPolicy::DEFAULT)?.figures.bill;
    let dollars = |dollars: f64| {
        let sign = if dollars < 0.0 { "-" } else { "" };
        format!("{sign}${}", grouped(dollars.abs().round()))
    };
    Some(format!(
        "The nodes of {} cost {} more than reactive's: {} for idling, {} for launching, from the request of a node until it is ready, and {} for packing, because pods that start at other times share nodes with other pods.",
        NamedPolicy::DEFAULT,
        dollars(bill.nodes()),
        dollars(bill.idling),
        dollars(bill.launching),
        dollars(bill.packing)
    ))
}

/// Returns the range of the share of hidden pods over any two weeks, for the policies with a
/// required share.
fn levels(comparison: &Comparison) -> Option<String> {
    let has_share = |policy: &&PolicyResult| {
        matches!(policy.named_policy, NamedPolicy::Forecast(Method::Ensemble, Some(_)))
    };
    let level = |policy: &PolicyResult| {
        let HiddenOverDays { least, most } = policy.hidden_over_14_days?;
        Some(format!("{} {:.1} to {:.1}", policy.name(), 100.0 * least, 100.0 * most))
    };
    let levels: Vec<String> =
        comparison.policies.iter().filter(has_share).filter_map(level).collect();
    let all = levels.join("; ");
    (!levels.is_empty()).then(|| {
        format!("Pods hidden over any {LEVEL_DAYS} days, smallest to largest share, in %: {all}.")
    })
}

/// Returns the policies whose cost does not differ significantly from that of the default.
pub(super) fn ties(comparison: &Comparison) -> Option<String> {
    let judged =
        || comparison.policies.iter().filter_map(|policy| Some((policy, policy.cost_ratio?.tie?)));
    let ties: Vec<String> =
        judged().filter(|(_, tie)| *tie).map(|(policy, _)| policy.name()).collect();
    judged().next()?;
    let names = if ties.is_empty() { "none".into() } else { ties.join(", ") };
    Some(format!(
        "Ties with {} by cost (the paired 95 % bootstrap interval by day covers 1): {names}.",
        NamedPolicy::DEFAULT
    ))
}
