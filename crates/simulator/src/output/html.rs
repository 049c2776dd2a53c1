//! A comparison as one self-contained HTML page.

use std::fmt::Write as _;

use embedder::Catalog;
use report::{Axis, Layer, Mark, Names, Plot, escape, section, whole};
use traces::Trace;

use super::burst::{Burst, node_layers, write_burst};
use super::frontier::{FRONTIER_NOTE, frontier};
use super::headline::{conditions, headline};
use super::shown::{lines, shown};
use super::text_table::{BY_IMPORTANCE, COLUMNS, cell, ties};
use crate::compare::{Comparison, PolicyResult};
use crate::figures::COST_NOTE;
use crate::log::{RunLog, TickRecord};
use crate::settings::SimulationSettings;

/// Returns the report of a comparison as one HTML document with inline plots.
pub(super) fn page(
    comparison: &Comparison,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> String {
    let mut body = format!(
        "<h1>Would Prophet have helped?</h1>{}{}",
        headline(comparison),
        conditions(comparison, settings, trace, catalog)
    );
    section(&mut body, "Waiting against cost", FRONTIER_NOTE, &frontier(comparison));
    if let Some(curve) = super::curve::table(comparison) {
        section(&mut body, curve.title, curve.note, &curve.html());
    }
    write_burst(&mut body, comparison, catalog);
    section(&mut body, "All policies", &figures_note(comparison), &table(comparison));
    if let Some(spot) = super::spot::table(comparison) {
        section(&mut body, spot.title, spot.note, &spot.html());
    }
    if let Some(tiers) = super::tiers::table(comparison) {
        section(&mut body, tiers.title, tiers.note, &tiers.html());
    }
    let note = "The share of jobs that waited longer for a node than the minutes on the x axis.";
    section(&mut body, "Waits", note, &waits(comparison));
    if let Some((policy, log)) =
        shown(comparison).and_then(|policy| Some((policy, policy.logs.first()?)))
    {
        for (bucket, entry) in catalog.buckets().iter().enumerate() {
            let title = format!("Demand and nodes: {} under {}", entry.name, policy.name());
            let note = "Demand is the number of nodes that jobs occupy or wait for. Placeholders are nodes that the policy holds for future jobs.";
            section(&mut body, &title, note, &demand(log, bucket, Burst::of(comparison)));
        }
    }
    whole(&body, settings, &trace.source)
}

const FIGURES_NOTE: &str = "Pending minutes are the time from submission to start, summed over jobs. A job is hidden when it waited no longer than one scan of the autoscaler. A launch is hidden when no pod waited for it. Extra idle is the idle time beyond reactive's, as a share of reactive's instance-hours.";

/// Returns the note above [`table`]: the definitions of the figures, and the ties.
pub fn figures_note(comparison: &Comparison) -> String {
    let ties = ties(comparison).unwrap_or_default();
    format!(
        "{FIGURES_NOTE} Columns for which the screen has no room are in <code>figures.json</code> and on paper. Extra cost is {COST_NOTE}. Extra packing is what a policy adds to the price of nodes while pods run on them, as the same share. {}",
        escape(&ties)
    )
}

/// The CSS class of the columns from a rank by importance on: those that are on paper only, and
/// those that a middle and a small screen have no room for.
const ROOM: [(usize, &str); 3] = [(11, "room-paper"), (7, "room-middle"), (3, "room-small")];

/// Returns the figures of a comparison, one row for each policy. Columns without room on a screen
/// are hidden, the least important first.
pub fn table(comparison: &Comparison) -> String {
    let class = |at: usize| {
        let rank = BY_IMPORTANCE.iter().position(|other| *other == at).unwrap_or(COLUMNS.len());
        let classes = ROOM.iter().find(|(most, _)| rank >= *most);
        classes.map_or(String::new(), |(_, class)| format!(" class=\"{class}\""))
    };
    let mut rows = String::from("<tr><th>policy</th>");
    for (at, (first, second, ..)) in COLUMNS.iter().enumerate() {
        let _ = write!(rows, "<th{}>{first}<br>{second}</th>", class(at));
    }
    rows += "</tr></thead><tbody>";
    for policy in &comparison.policies {
        let _ = write!(rows, "<tr><th>{}</th>", escape(&comparison.name(policy.named_policy)));
        for (at, (_, _, value, decimals)) in COLUMNS.iter().enumerate() {
            let error = policy.stderr.map(|stderr| value(&stderr));
            let value = cell(value(&policy.figures), error, *decimals);
            let _ = write!(rows, "<td{}>{value}</td>", class(at));
        }
        rows += "</tr>";
    }
    format!("<div class=\"wide\"><table><thead>{rows}</tbody></table></div>")
}

/// The number of points that are drawn for a distribution of waits.
const WAIT_POINTS: usize = 200;

fn waits(comparison: &Comparison) -> String {
    let plot = Plot {
        x_label: "minutes".into(),
        y_label: "% of jobs that waited longer".into(),
        x: Axis::Number,
        y_from_zero: true,
        x_end: None,
        names: Names::AtLines,
        height: 320.0,
        layers: lines(comparison, |policy| Mark::Line(waited_longer(policy))),
    };
    plot.figure("The share of jobs that waited longer than a number of minutes, by policy")
}

/// Returns the share of jobs that waited longer than a number of minutes, in %. The line ends where
/// one job in a thousand is left.
fn waited_longer(policy: &PolicyResult) -> Vec<(f64, f64)> {
    let waits = |log: &RunLog| -> Vec<i64> {
        log.jobs.iter().map(|job| job.wait_seconds(log.window.1)).collect()
    };
    let mut waits: Vec<i64> = policy.logs.iter().flat_map(waits).collect();
    waits.sort_unstable();
    let most = waits.get(waits.len() * 999 / 1_000).copied().unwrap_or(0);
    let share = |limit: i64| {
        100.0 * (1.0 - waits.partition_point(|wait| *wait <= limit) as f64 / waits.len() as f64)
    };
    let step = (most / i64::try_from(WAIT_POINTS).unwrap_or(1)).max(1);
    let limits = (0..).map(|k| k * step).take_while(|limit| *limit <= most + step);
    limits.map(|limit| (limit as f64 / 60.0, share(limit))).collect()
}

/// The largest number of bins that are drawn. It is close to the horizontal pixels of a plot.
const BINS: usize = 700;

/// Returns demand and ready nodes over the whole window, and below them the placeholders, which are
/// too few to see on the scale of demand.
fn demand(log: &RunLog, bucket: usize, burst: Option<Burst>) -> String {
    let ticks: Vec<&TickRecord> = log.ticks.iter().filter(|tick| tick.bucket == bucket).collect();
    if ticks.iter().all(|tick| tick.demand + tick.ready + tick.placeholders == 0) {
        return "<p>No node of this instance type was used.</p>".into();
    }
    let bins = ticks.chunks(ticks.len().div_ceil(BINS).max(1));
    // Each bin shows its tick with the largest demand.
    let peaks: Vec<&TickRecord> =
        bins.clone().filter_map(|bin| bin.iter().copied().max_by_key(|tick| tick.demand)).collect();
    let held = bins.filter_map(|bin| {
        let most = bin.iter().map(|tick| tick.placeholders).max()?;
        Some((bin[0].time as f64, 0.0, most as f64))
    });
    let mut nodes = node_layers(&peaks);
    nodes.retain(|layer| !matches!(layer.mark, Mark::Band(_)));
    if let Some(burst) = burst {
        let most = peaks.iter().map(|tick| tick.demand.max(tick.ready)).max().unwrap_or(0);
        let at = burst.window.0 as f64;
        let line = Mark::Line(vec![(at, 0.0), (at, most as f64)]);
        nodes.push(Layer::new("the worst burst", "c5 dashed", line));
    }
    let held = vec![Layer::new("placeholders", "c0 faint", Mark::Band(held.collect()))];
    let plot = |height: f64, layers: Vec<Layer>| Plot {
        x_label: String::new(),
        y_label: "nodes".into(),
        x: Axis::Time,
        y_from_zero: true,
        x_end: None,
        names: Names::Legend,
        height,
        layers,
    };
    plot(260.0, nodes).figure("Demand and ready nodes over time")
        + &plot(170.0, held).figure("Placeholders over time")
}
