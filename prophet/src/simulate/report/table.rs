//! A comparison for a terminal.

use std::fmt::Write as _;

use crate::forecast::Method;
use crate::simulate::compare::{Comparison, PolicyResult};
use crate::simulate::contender::NamedPolicy;
use crate::simulate::figures::{Figures, HiddenOverDays, LEVEL_DAYS};
use crate::simulate::settings::SimulationSettings;
use crate::trace::Trace;

/// A column: its two header lines, its value, and how many decimals it has.
pub(super) type Column = (&'static str, &'static str, fn(&Figures) -> f64, usize);

pub(super) const COLUMNS: [Column; 13] = [
    ("pending", "minutes", |f| f.pending_minutes.sum, 0),
    ("mean", "min/job", |f| f.pending_minutes.mean, 2),
    ("p95", "min", |f| f.pending_minutes.p95, 1),
    ("p99", "min", |f| f.pending_minutes.p99, 1),
    ("jobs", "hidden %", |f| 100.0 * f.jobs_hidden_share, 1),
    ("node", "launches", |f| f.launches, 0),
    ("launches", "hidden %", |f| 100.0 * f.launches_hidden_share, 1),
    ("instance", "hours", |f| f.instance_hours, 0),
    ("idle", "hours", |f| f.idle_instance_hours, 0),
    ("extra", "idle %", |f| 100.0 * f.extra_idle, 2),
    ("extra", "cost %", |f| 100.0 * f.extra_cost, 1),
    ("nodes'", "dollars", |f| f.dollars, 0),
    ("placeholder", "writes", |f| f.placeholder_writes, 0),
];

/// The comparison as a table, with a sentence on whatever needs one.
pub fn write_table(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
) -> String {
    let jobs = comparison.policies.first().map_or(0.0, |policy| policy.figures.jobs);
    let mut text = format!("{}: {jobs:.0} jobs count\n\n", trace.source);
    let rows: Vec<(String, Vec<String>)> = comparison
        .policies
        .iter()
        .map(|policy| {
            let cells = COLUMNS.iter().map(|(_, _, value, decimals)| {
                let error = policy.stderr.map(|stderr| value(&stderr));
                cell(value(&policy.figures), error, *decimals)
            });
            (name(comparison, policy.contender), cells.collect())
        })
        .collect();
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let width = |i: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[i].chars().count());
        cells.chain([COLUMNS[i].0.len(), COLUMNS[i].1.len()]).max().unwrap_or(0)
    };
    let mut line = |first_cell: &str, cells: &[&str]| {
        let _ = write!(text, "{first_cell:first$}");
        for (i, cell) in cells.iter().enumerate() {
            let _ = write!(text, "  {cell:>width$}", width = width(i));
        }
        text.push('\n');
    };
    line("", &COLUMNS.map(|column| column.0));
    line("", &COLUMNS.map(|column| column.1));
    for (name, cells) in &rows {
        line(name, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text.push('\n');
    for note in notes(comparison, settings) {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// The name of a policy, with what it stands for.
pub(super) fn name(comparison: &Comparison, contender: NamedPolicy) -> String {
    match (contender, comparison.best_constant) {
        (NamedPolicy::BestConstant, Some(n)) => format!("best-constant (= constant:{n})"),
        _ => contender.to_string(),
    }
}

/// A value with its standard error.
pub(super) fn cell(value: f64, stderr: Option<f64>, decimals: usize) -> String {
    match stderr {
        _ if !value.is_finite() => "-".into(),
        Some(error) => format!("{value:.decimals$}±{error:.decimals$}"),
        None => format!("{value:.decimals$}"),
    }
}

fn notes(comparison: &Comparison, settings: &SimulationSettings) -> Vec<String> {
    let mut notes = Vec::new();
    let has = |contender| comparison.policies.iter().any(|policy| policy.contender == contender);
    if settings.replays > 1 {
        notes.push(format!(
            "Means ± standard errors of {} replays, submissions moved by up to {} either way.",
            settings.replays, settings.jitter
        ));
    }
    if has(NamedPolicy::Paper) {
        notes.push(
            "paper(last-value): the paper's rule with the last value for its forecast; it equals reactive."
                .into(),
        );
    }
    if settings.policies.contains(&NamedPolicy::BestConstant) && comparison.best_constant.is_none()
    {
        notes.push("best-constant: no constant lets jobs wait as little as ensemble does.".into());
    }
    if settings.policies.iter().any(|contender| matches!(contender, NamedPolicy::Rates(_))) {
        notes.push(
            "rates:Q: knows what arrives around each moment, before and after it, but not within the lead; a reference, not a bound."
                .into(),
        );
    }
    if has(NamedPolicy::Oracle) {
        notes.push("oracle: knows the demand to come; a reference, not a bound.".into());
    }
    let stranded = comparison
        .policies
        .iter()
        .map(|policy| policy.figures.jobs_never_started)
        .fold(0.0, f64::max);
    if stranded > 0.0 {
        notes.push(format!(
            "Up to {stranded:.0} jobs never started: no group had room. They are not in the waits."
        ));
    }
    notes.push("pending minutes: submission to start, summed over jobs. hidden: waited for no launch (at most one scan).".into());
    notes.push(
        "extra idle: idle hours beyond reactive's, as a share of reactive's instance-hours.".into(),
    );
    notes.push(format!(
        "extra cost: what waiting and extra idling cost beyond reactive's waiting, as a share of it, with a pending pod-hour worth {} idle instance-hours.",
        settings.policy.objective.wait_to_idle()
    ));
    notes.extend(levels(comparison));
    notes.extend(ties(comparison));
    notes
}

/// What was hidden over any two weeks by those of which a share was asked.
fn levels(comparison: &Comparison) -> Option<String> {
    let asked = |policy: &&PolicyResult| {
        matches!(policy.contender, NamedPolicy::Forecast(Method::Ensemble, Some(_)))
    };
    let level = |policy: &PolicyResult| {
        let HiddenOverDays { least, most } = policy.hidden_over_14_days?;
        Some(format!("{} {:.1} to {:.1}", policy.name(), 100.0 * least, 100.0 * most))
    };
    let levels: Vec<String> = comparison.policies.iter().filter(asked).filter_map(level).collect();
    let all = levels.join("; ");
    (!levels.is_empty())
        .then(|| format!("Launches hidden over any {LEVEL_DAYS} days, in %: {all}."))
}

/// Which policies days do not tell from the default by what they cost.
pub(super) fn ties(comparison: &Comparison) -> Option<String> {
    let judged =
        || comparison.policies.iter().filter_map(|policy| Some((policy, policy.cost_ratio?.tie?)));
    let ties: Vec<String> =
        judged().filter(|(_, tie)| *tie).map(|(policy, _)| policy.name()).collect();
    judged().next()?;
    let who = if ties.is_empty() { "none".into() } else { ties.join(", ") };
    Some(format!(
        "Ties with {} by cost (the interval of 95 % of resamples by day, paired, covers 1): {who}.",
        NamedPolicy::DEFAULT
    ))
}
