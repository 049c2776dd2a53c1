//! A backtest as one self-contained page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use embedder::Catalog;

use super::document::Backtest;
use super::table::{COLUMNS, PAPER_HEADS, paper_rows, title};
use crate::backtest::answer::LEVELS;
use crate::backtest::errors::Errors;
use crate::backtest::horizon::Horizon;
use crate::backtest::score::Score;
use crate::backtest::telling::{Point, Telling};
use crate::replay::DAY_SECONDS;
use crate::report::{Axis, Layer, Mark, Plot, escape};
use crate::report::{section, whole};
use crate::simulate::SimulationSettings;
use crate::simulate::report::html::{figures_note, frontier, table as figures_table};
use crate::trace::Trace;

/// The page.
pub(super) fn page(
    backtest: &Backtest,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> String {
    let Backtest { errors, decisions, paper, .. } = backtest;
    let mut body = format!(
        "<h1>How far off were the forecasts?</h1><p class=\"lead\">{}</p>",
        escape(&trace.source)
    );
    bands(&mut body, errors, settings, catalog);
    if *paper {
        let rows = table(PAPER_HEADS, paper_rows(&errors.scores));
        section(
            &mut body,
            "The paper's table 4, Philly, one tick ahead",
            "Printed figures, and ours.",
            &rows,
        );
    }
    let notes = escape(&backtest.notes(settings).join(" "));
    for (place, horizon) in Horizon::ALL.into_iter().enumerate() {
        let note = if place == 0 { notes.as_str() } else { "" };
        section(
            &mut body,
            &capitalised(&title(horizon, settings)),
            note,
            &errors_table(&errors.scores, horizon),
        );
    }
    let note = "How often what came was at most a quantile, by the quantile that was asked for. On the diagonal, a forecast says what it means; counts that tie lift it.";
    section(&mut body, "Coverage of D", note, &coverage(&errors.scores));
    if errors.carriers.iter().any(|day| !day.is_empty()) {
        let note =
            "The share of ticks of each day at which a method was the one whose word was held.";
        section(&mut body, "Who carried the ensemble", note, &carriers(errors));
    }
    if let Some(comparison) = decisions {
        section(&mut body, "Decisions", &figures_note(comparison), &figures_table(comparison));
        let note = "Lower and further left is better. A point on a line is one setting: a quantile, or a constant.";
        section(&mut body, "Waiting against cost", note, &frontier(comparison));
    }
    whole(body, settings, &trace.source)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn errors_table(scores: &[Score], horizon: Horizon) -> String {
    let rows = scores.iter().filter(|score| score.horizon == horizon);
    let cells = |score: &Score| COLUMNS.iter().map(|(.., cell)| cell(score)).collect();
    let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
    table(heads, rows.map(|score| (score.name.clone(), cells(score))).collect())
}

fn table<const N: usize>(heads: [[&str; N]; 2], rows: Vec<(String, Vec<String>)>) -> String {
    let mut text = String::from("<div class=\"wide\"><table><thead><tr><th></th>");
    for (first, second) in heads[0].iter().zip(heads[1]) {
        let _ = write!(text, "<th>{first}<br>{second}</th>");
    }
    text += "</tr></thead><tbody>";
    for (name, cells) in rows {
        let _ = write!(text, "<tr><th>{}</th>", escape(&name));
        for cell in cells {
            let _ = write!(text, "<td>{}</td>", escape(&cell));
        }
        text += "</tr>";
    }
    text + "</tbody></table></div>"
}

/// Points that are drawn: as many as a screen can show.
const POINTS: usize = 700;

fn bands(body: &mut String, errors: &Errors, settings: &SimulationSettings, catalog: &Catalog) {
    let Telling { entrant, bucket, points, .. } = &errors.telling;
    let Some(entry) = catalog.buckets().get(*bucket) else { return };
    let note = "The two days in which most new nodes were needed: what would be held beyond demand, and what was needed until a node ordered at that moment would be ready.";
    section(
        body,
        &format!("New nodes: {} by {entrant}", entry.name),
        note,
        &new_nodes_plot(&most_needed(points)),
    );
    if points.iter().any(|point| point.tenths.is_some()) {
        let ahead = capitalised(&title(Horizon::Ticks(Horizon::TICKS_MAX), settings));
        let note = "The eight hours of them in which most was needed. The band lies between the lowest and the highest tenth of what was expected; the line is what came.";
        let plot = ahead_plot(&most_needed(busiest(points, points.len().div_ceil(6))));
        section(body, &format!("{ahead}: {} by {entrant}", entry.name), note, &plot);
    }
}

/// So many points as can be drawn: of each bin, the tick that needed most.
fn most_needed(points: &[Point]) -> Vec<&Point> {
    let bins = points.chunks(points.len().div_ceil(POINTS).max(1));
    bins.filter_map(|bin| bin.iter().max_by(|a, b| a.needed().total_cmp(&b.needed()))).collect()
}

/// The so many points one after the other that needed most.
fn busiest(points: &[Point], len: usize) -> &[Point] {
    let needed = |points: &[Point]| points.iter().map(Point::needed).sum::<f64>();
    points
        .windows(len.max(1))
        .step_by(10)
        .max_by(|a, b| needed(a).total_cmp(&needed(b)))
        .unwrap_or(points)
}

fn new_nodes_plot(points: &[&Point]) -> String {
    let held = points.iter().map(|point| (point.time as f64, 0.0, point.held)).collect();
    let needed = points.iter().map(|point| (point.time as f64, point.needed())).collect();
    let plot = Plot {
        x_label: String::new(),
        y_label: "nodes".into(),
        x: Axis::Time,
        y_from_zero: true,
        layers: vec![
            layer("held", "c0", Mark::Band(held)),
            layer("needed", "c4", Mark::Steps(needed)),
        ],
    };
    plot.svg("New nodes that were needed within the lead, and what was held for them, over time")
}

fn ahead_plot(points: &[&Point]) -> String {
    let tenths = points.iter().filter_map(|point| Some((point, point.tenths?)));
    let band = tenths.map(|(point, (low, high))| (point.later as f64, low, high)).collect();
    let came = points.iter().map(|point| (point.later as f64, point.then)).collect();
    let plot = Plot {
        x_label: String::new(),
        y_label: "nodes".into(),
        x: Axis::Time,
        y_from_zero: false,
        layers: vec![
            layer("expected, 10 % to 90 %", "c0", Mark::Band(band)),
            layer("demand", "c4", Mark::Steps(came)),
        ],
    };
    plot.svg("Demand and what was expected of it, over time")
}

fn coverage(scores: &[Score]) -> String {
    let said = scores.iter().filter(|score| score.horizon == Horizon::Lead);
    // Points without a distribution have no quantiles.
    let points =
        ["zero", "last-value", "static-max", "ladder", "moving-window", "autopilot-ml", "oracle"];
    let said = said.filter(|score| {
        !points.contains(&score.name.as_str()) && !score.name.starts_with("constant")
    });
    let line = |(place, score): (usize, &Score)| {
        let points = LEVELS
            .iter()
            .zip(&score.calibration)
            .map(|(level, share)| (100.0 * level, 100.0 * share));
        layer(&score.name, &format!("c{}", place % 8), Mark::Line(points.collect()))
    };
    let mut layers: Vec<Layer> = said.enumerate().map(line).collect();
    layers.push(layer("", "c4", Mark::Line(vec![(0.0, 0.0), (100.0, 100.0)])));
    let plot = Plot {
        x_label: "quantile, %".into(),
        y_label: "% of ticks at which it was enough".into(),
        x: Axis::Number,
        y_from_zero: true,
        layers,
    };
    plot.svg("How often a quantile was enough, by quantile and forecaster")
}

fn carriers(errors: &Errors) -> String {
    let methods: BTreeSet<&str> =
        errors.carriers.iter().flat_map(|day| day.keys().copied()).collect();
    let line = |(place, method): (usize, &str)| {
        let share = |counts: &BTreeMap<&'static str, f64>| {
            100.0 * counts.get(method).copied().unwrap_or(0.0)
                / counts.values().sum::<f64>().max(1.0)
        };
        // The last day has an end, too.
        let days = errors.carriers.iter().chain(errors.carriers.last()).map(share);
        let starts = (0..).map(|day| (errors.since + day * DAY_SECONDS) as f64);
        layer(method, &format!("c{}", place % 8), Mark::Steps(starts.zip(days).collect()))
    };
    let plot = Plot {
        x_label: String::new(),
        y_label: "% of ticks".into(),
        x: Axis::Time,
        y_from_zero: true,
        layers: methods.into_iter().enumerate().map(line).collect(),
    };
    plot.svg("The share of ticks that each method carried the ensemble, by day")
}

fn layer(name: &str, class: &str, mark: Mark) -> Layer {
    Layer { name: name.into(), class: class.into(), mark }
}
