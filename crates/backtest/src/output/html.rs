//! A backtest as one self-contained HTML page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base::days::DAY_SECONDS;
use embedder::Catalog;
use report::{Axis, Layer, Mark, Names, Plot, day, elements, escape, grouped, section, whole};
use simulator::SimulationSettings;
use simulator::output::frontier::{FRONTIER_NOTE, frontier};
use simulator::output::html::{figures_note, table as figures_table};
use traces::Trace;

use super::curves;
use super::document::Backtest;
use super::headline::{best_first, headline};
use super::text_tables::{COLUMNS, PAPER_HEADS, PAPER_NOTE, paper_rows, title};
use crate::answer::LEVELS;
use crate::errors::Errors;
use crate::horizon::Horizon;
use crate::plotted_days::{PlottedDays, Point};
use crate::score::Score;

/// Returns the report of a backtest as one HTML document with inline plots.
pub(super) fn page(
    backtest: &Backtest,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
) -> String {
    let Backtest { errors, decisions, paper, .. } = backtest;
    let mut body = format!(
        "<h1>Which forecast is best?</h1>{}{}",
        headline(backtest, settings),
        conditions(backtest, settings, trace)
    );
    bands(&mut body, errors, settings, catalog);
    if let Some(protocol) = paper {
        let rows = table(PAPER_HEADS, paper_rows(*protocol, errors));
        section(
            &mut body,
            &protocol.title(),
            &format!("The figures that the paper prints, and ours. {}", escape(PAPER_NOTE)),
            &rows,
        );
        if let Some(figures) = &errors.curves {
            curves::write(&mut body, figures, catalog);
        }
    }
    let note = "How often the actual value was at most equal to a quantile, by the level of the quantile. The line of a calibrated forecast is the diagonal. Actual values that equal the quantile raise the line.";
    section(&mut body, "Coverage of D", note, &coverage(&errors.scores));
    if errors.carriers.iter().any(|day| !day.is_empty()) {
        let note = "The share of the ticks of each day at which the forecast of a method was held.";
        section(&mut body, "The carrier of the ensemble", note, &carriers(errors));
    }
    if let Some(comparison) = decisions {
        section(&mut body, "Decisions", &figures_note(comparison), &figures_table(comparison));
        section(&mut body, "Waiting against cost", FRONTIER_NOTE, &frontier(comparison));
    }
    let notes = backtest.notes(settings);
    let notes = elements("p", notes.iter().map(|note| escape(note)));
    for (place, horizon) in Horizon::ALL.into_iter().enumerate() {
        let title = format!("Errors: {}", title(horizon, settings));
        let table = errors_table(&errors.scores, horizon);
        let notes = if place == 0 { notes.as_str() } else { "" };
        section(&mut body, &title, "", &format!("{notes}{table}"));
    }
    whole(&body, settings, &trace.source)
}

/// Returns the conditions of the backtest: the log, its dates, and the scored time.
fn conditions(backtest: &Backtest, settings: &SimulationSettings, trace: &Trace) -> String {
    let Errors { ticks, days, since, .. } = &backtest.errors;
    let dates = trace.jobs.first().zip(trace.jobs.last());
    let dates = dates.map_or(String::new(), |(first, last)| {
        format!(", {} to {}", day(first.submit), day(last.submit))
    });
    let jobs = grouped(trace.jobs.len() as f64);
    let ticks = grouped(*ticks as f64);
    format!(
        "<dl><dt>Log</dt><dd>{}: {jobs} jobs{dates}</dd><dt>Scored</dt><dd>{ticks} ticks of {} on {days} days from {} on; earlier ticks only train the forecasters</dd></dl>",
        escape(&trace.source),
        settings.tick,
        day(*since)
    )
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn errors_table(scores: &[Score], horizon: Horizon) -> String {
    let cells = |score: &Score| COLUMNS.iter().map(|(.., cell)| cell(score)).collect();
    let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
    let rows = best_first(scores, horizon).into_iter();
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

/// The largest number of points that are drawn. It is close to the horizontal pixels of a plot.
const POINTS: usize = 700;

fn bands(body: &mut String, errors: &Errors, settings: &SimulationSettings, catalog: &Catalog) {
    let PlottedDays { named_forecaster, bucket, points, .. } = &errors.plotted_days;
    let Some(entry) = catalog.buckets().get(*bucket) else { return };
    let note = "The two days in which the most new nodes were needed. The band is the headroom that would be held. The line is the number of new nodes that were needed before a node ordered at that moment would be ready.";
    section(
        body,
        &format!("New nodes: {} by {named_forecaster}", entry.name),
        note,
        &new_nodes_plot(&most_needed(points)),
    );
    if points.iter().any(|point| point.tenths.is_some()) {
        let ahead = capitalised(&title(Horizon::Ticks(Horizon::TICKS_MAX), settings));
        let note = "The eight hours of these two days in which the most new nodes were needed. The band lies between the quantiles 0.1 and 0.9 of the forecast. The line is the actual demand.";
        let plot = ahead_plot(&most_needed(busiest(points, points.len().div_ceil(6))));
        section(body, &format!("{ahead}: {} by {named_forecaster}", entry.name), note, &plot);
    }
}

/// Reduces the points to at most [`POINTS`]: each bin keeps the tick that needed the most new
/// nodes.
fn most_needed(points: &[Point]) -> Vec<&Point> {
    let bins = points.chunks(points.len().div_ceil(POINTS).max(1));
    bins.filter_map(|bin| bin.iter().max_by(|a, b| a.needed().total_cmp(&b.needed()))).collect()
}

/// Returns the `len` consecutive points that needed the most new nodes.
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
        x_end: None,
        names: Names::Legend,
        height: 280.0,
        layers: vec![
            Layer::new("held", "c0 faint", Mark::Band(held)),
            Layer::new("needed", "c4", Mark::Steps(needed)),
        ],
    };
    plot.figure("New nodes that were needed within the lead time, and the headroom held for them, over time")
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
        x_end: None,
        names: Names::Legend,
        height: 280.0,
        layers: vec![
            Layer::new("forecast, 10 % to 90 %", "c0 faint", Mark::Band(band)),
            Layer::new("demand", "c4", Mark::Steps(came)),
        ],
    };
    plot.figure("Actual and forecast demand, over time")
}

fn coverage(scores: &[Score]) -> String {
    let of_d = scores.iter().filter(|score| score.horizon == Horizon::Lead);
    // Point forecasts have no quantiles.
    let points =
        ["zero", "last-value", "static-max", "ladder", "moving-window", "autopilot-ml", "oracle"];
    let of_d = of_d.filter(|score| {
        !points.contains(&score.name.as_str()) && !score.name.starts_with("constant")
    });
    let line = |(place, score): (usize, &Score)| {
        let points = LEVELS
            .iter()
            .zip(&score.calibration)
            .map(|(level, share)| (100.0 * level, 100.0 * share));
        Layer::new(&score.name, &format!("c{}", place % 8), Mark::Line(points.collect()))
    };
    let mut layers: Vec<Layer> = of_d.enumerate().map(line).collect();
    layers.push(Layer::new(
        "a calibrated forecast",
        "c4 dashed",
        Mark::Line(vec![(0.0, 0.0), (100.0, 100.0)]),
    ));
    let plot = Plot {
        x_label: "quantile, %".into(),
        y_label: "% of ticks at which it sufficed".into(),
        x: Axis::Number,
        y_from_zero: true,
        x_end: None,
        names: Names::AtLines,
        height: 420.0,
        layers,
    };
    plot.figure("How often a quantile sufficed, by quantile and forecaster")
}

fn carriers(errors: &Errors) -> String {
    let methods: BTreeSet<&str> =
        errors.carriers.iter().flat_map(|day| day.keys().copied()).collect();
    let line = |(place, method): (usize, &str)| {
        let share = |counts: &BTreeMap<&'static str, f64>| {
            100.0 * counts.get(method).copied().unwrap_or(0.0)
                / counts.values().sum::<f64>().max(1.0)
        };
        // The last day is repeated, so that its step has an end.
        let days = errors.carriers.iter().chain(errors.carriers.last()).map(share);
        let starts = (0..).map(|day| (errors.since + day * DAY_SECONDS) as f64);
        Layer::new(method, &format!("c{}", place % 8), Mark::Steps(starts.zip(days).collect()))
    };
    let plot = Plot {
        x_label: String::new(),
        y_label: "% of ticks".into(),
        x: Axis::Time,
        y_from_zero: true,
        x_end: None,
        names: Names::Legend,
        height: 280.0,
        layers: methods.into_iter().enumerate().map(line).collect(),
    };
    plot.figure("The share of ticks at which each method was the carrier of the ensemble, by day")
}
