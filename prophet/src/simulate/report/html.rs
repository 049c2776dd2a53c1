//! A comparison as one self-contained HTML page.

use std::fmt::Write as _;

use embedder::Catalog;

use super::table::{COLUMNS, cell, name, ties};
use crate::report::{Axis, Layer, Mark, Plot, STYLE, escape, section, whole};
use crate::simulate::compare::{Comparison, PolicyResult, SWEPT};
use crate::simulate::figures::Figures;
use crate::simulate::log::RunLog;
use crate::simulate::named_policy::NamedPolicy;
use crate::simulate::settings::SimulationSettings;
use crate::trace::Trace;

/// Returns the page.
pub(super) fn page(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> String {
    let mut body = format!(
        "<h1>Would Prophet have helped?</h1><p class=\"lead\">{}</p>",
        headline(comparison)
    );
    let jobs = comparison.policies.first().map_or(0.0, |policy| policy.figures.jobs);
    let _ = write!(
        body,
        "<p>{}: {jobs:.0} jobs count. Launches take {}. Decisions are made every {} and at every change of demand{}.</p>",
        escape(&trace.source),
        settings.launch_latency,
        settings.tick,
        if settings.replays > 1 {
            format!(". The figures are means of {} replays", settings.replays)
        } else {
            String::new()
        }
    );
    section(&mut body, "Policies side by side", &figures_note(comparison), &table(comparison));
    let note = "Lower and further left is better. Each point on a line is one setting: the quantile that scenario+arrivals holds, or the number of placeholders that a constant holds.";
    section(&mut body, "Waiting against cost", note, &frontier(comparison));
    let note = "The share of jobs that waited longer for a node than the minutes on the x axis.";
    section(&mut body, "Waits", note, &waits(comparison));
    if let Some(policy) = shown(comparison) {
        for (bucket, entry) in catalog.buckets().iter().enumerate() {
            let title = format!("Demand and nodes: {} under {}", entry.name, policy.name());
            let note = "Demand is the number of nodes that jobs occupy or wait for. The band above it is the number of placeholders that the policy holds for future jobs.";
            section(&mut body, &title, note, &demand(policy.logs.first(), bucket));
        }
    }
    whole(body, settings, &trace.source)
}

const FIGURES_NOTE: &str = "Pending minutes are the time from submission to start, summed over jobs. A job is hidden when it waited no longer than one scan of the autoscaler. A launch is hidden when no pod waited for it. Extra idle is the idle time beyond reactive's, as a share of reactive's instance-hours. Extra cost is the cost of waiting and extra idling at the policy's prices, less the cost of reactive's waiting, as a share of the latter.";

/// Returns the note above [`table`]: the definitions of the figures, and the ties.
pub(crate) fn figures_note(comparison: &Comparison) -> String {
    let ties = ties(comparison).unwrap_or_default();
    format!("{FIGURES_NOTE} {}", escape(&ties))
}

/// Returns the policy that the page shows: the default policy if it is compared, else the last
/// policy that forecasts.
fn shown(comparison: &Comparison) -> Option<&PolicyResult> {
    let forecasts = |c| matches!(c, NamedPolicy::Forecast(..));
    let default =
        comparison.policies.iter().find(|policy| policy.named_policy == NamedPolicy::DEFAULT);
    default
        .or_else(|| comparison.policies.iter().rev().find(|policy| forecasts(policy.named_policy)))
}

fn headline(comparison: &Comparison) -> String {
    let (Some(reactive), Some(policy)) = (comparison.policies.first(), shown(comparison)) else {
        return String::new();
    };
    let less =
        100.0 * (1.0 - policy.figures.pending_minutes.sum / reactive.figures.pending_minutes.sum);
    let more = 100.0 * (policy.figures.dollars / reactive.figures.dollars - 1.0);
    let name = escape(&policy.name());
    let waited = match less {
        _ if !less.is_finite() => return "No job waited for a node.".into(),
        less if less.abs() < 1.0 => "about as long".to_string(),
        less if less > 0.0 => format!("{less:.0} % less"),
        less => format!("{:.0} % longer", -less),
    };
    format!("With {name}, jobs would have waited {waited} for nodes than with the autoscaler alone, for {more:.1} % more dollars.")
        .replace("about as long for nodes than", "about as long for nodes as")
}

/// Returns the figures of a comparison, one row for each policy.
pub(crate) fn table(comparison: &Comparison) -> String {
    let mut rows = String::from("<tr><th>policy</th>");
    for (first, second, ..) in COLUMNS {
        let _ = write!(rows, "<th>{first}<br>{second}</th>");
    }
    rows += "</tr></thead><tbody>";
    for policy in &comparison.policies {
        let _ = write!(rows, "<tr><th>{}</th>", escape(&name(comparison, policy.named_policy)));
        for (_, _, value, decimals) in COLUMNS {
            let error = policy.stderr.map(|stderr| value(&stderr));
            let _ = write!(rows, "<td>{}</td>", cell(value(&policy.figures), error, decimals));
        }
        rows += "</tr>";
    }
    format!("<div class=\"wide\"><table><thead>{rows}</tbody></table></div>")
}

/// Returns the plot of waiting against idling, by policy.
pub(crate) fn frontier(comparison: &Comparison) -> String {
    frontier_plot(comparison).svg("Pending minutes over extra idle, for quantiles and constants")
}

/// Returns the same plot as a separate SVG file, or `None` when there is nothing to draw.
pub(super) fn frontier_file(comparison: &Comparison) -> Option<String> {
    frontier_plot(comparison).file(STYLE)
}

fn frontier_plot(comparison: &Comparison) -> Plot {
    let at = |figures: &Figures| (100.0 * figures.extra_idle, figures.pending_minutes.sum);
    let line = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Mark::Line(points)
    };
    let labelled = |name: String, figures: &Figures| (at(figures).0, at(figures).1, name);
    let swept =
        comparison.frontier.iter().map(|(q, figures)| labelled(format!("{q}"), figures)).collect();
    let held =
        comparison.constants.iter().map(|(n, figures)| labelled(format!("{n}"), figures)).collect();
    // Policies that idle far more than the frontier are left out, because their points would
    // compress the rest of the plot.
    let most = comparison.frontier.iter().map(|(_, f)| f.extra_idle).fold(0.1, f64::max) * 2.0;
    let others = comparison.policies.iter().filter(|policy| {
        use NamedPolicy::{BestConstant, Constant, Forecast, Paper};
        let drawn =
            matches!(policy.named_policy, Forecast(SWEPT, _) | Constant(_) | BestConstant | Paper);
        !drawn && policy.figures.extra_idle <= most
    });
    let others = others.map(|policy| labelled(policy.name(), &policy.figures)).collect();
    let layer =
        |name: &str, class: &str, mark| Layer { name: name.into(), class: class.into(), mark };
    Plot {
        x_label: "extra idle, % of reactive's instance-hours".into(),
        y_label: "pending minutes".into(),
        x: Axis::Number,
        y_from_zero: true,
        layers: vec![
            layer(
                "constant:N",
                "c1",
                line(&mut comparison.constants.iter().map(|(_, figures)| at(figures))),
            ),
            layer(
                &format!("{}:Q", SWEPT.name()),
                "c0",
                line(&mut comparison.frontier.iter().map(|(_, figures)| at(figures))),
            ),
            layer("other policies", "c2", Mark::Points(others)),
            layer("", "c1", Mark::Points(held)),
            layer("", "c0", Mark::Points(swept)),
        ],
    }
}

/// The number of points that are drawn for a distribution of waits.
const WAIT_POINTS: usize = 200;

fn waits(comparison: &Comparison) -> String {
    let mut layers = Vec::new();
    let kept = comparison
        .policies
        .iter()
        .filter(|policy| !matches!(policy.named_policy, NamedPolicy::Paper));
    for (i, policy) in kept.enumerate() {
        let mut waits: Vec<i64> = policy
            .logs
            .iter()
            .flat_map(|log| &log.jobs)
            .map(|job| job.start - job.submit)
            .collect();
        waits.sort_unstable();
        let most = waits.get(waits.len() * 999 / 1_000).copied().unwrap_or(0);
        let share = |limit: i64| {
            100.0 * (1.0 - waits.partition_point(|wait| *wait <= limit) as f64 / waits.len() as f64)
        };
        let step = (most / i64::try_from(WAIT_POINTS).unwrap_or(1)).max(1);
        let limits = (0..).map(|k| k * step).take_while(|limit| *limit <= most + step);
        let points = limits.map(|limit| (limit as f64 / 60.0, share(limit))).collect();
        layers.push(Layer {
            name: policy.name(),
            class: format!("c{}", i % 8),
            mark: Mark::Line(points),
        });
    }
    let plot = Plot {
        x_label: "minutes".into(),
        y_label: "% of jobs that waited longer".into(),
        x: Axis::Number,
        y_from_zero: true,
        layers,
    };
    plot.svg("The share of jobs that waited longer than a number of minutes, by policy")
}

/// The largest number of bins that are drawn. It is close to the horizontal pixels of a plot.
const BINS: usize = 700;

fn demand(log: Option<&RunLog>, bucket: usize) -> String {
    let ticks: Vec<_> =
        log.iter().flat_map(|log| &log.ticks).filter(|tick| tick.bucket == bucket).collect();
    let bins = ticks.chunks(ticks.len().div_ceil(BINS).max(1));
    let (mut band, mut need, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    for bin in bins {
        let x = bin[0].time as f64;
        // Each bin shows its tick with the largest demand.
        let Some(tick) = bin.iter().max_by_key(|tick| tick.demand) else { continue };
        band.push((x, tick.demand as f64, (tick.demand + tick.placeholders) as f64));
        need.push((x, tick.demand as f64));
        ready.push((x, tick.ready as f64));
    }
    let layer =
        |name: &str, class: &str, mark| Layer { name: name.into(), class: class.into(), mark };
    let plot = Plot {
        x_label: String::new(),
        y_label: "nodes".into(),
        x: Axis::Time,
        y_from_zero: true,
        layers: vec![
            layer("placeholders on top of demand", "c0", Mark::Band(band)),
            layer("nodes ready", "c3", Mark::Steps(ready)),
            layer("demand", "c4", Mark::Steps(need)),
        ],
    };
    plot.svg("Demand, headroom and ready nodes over time")
}
