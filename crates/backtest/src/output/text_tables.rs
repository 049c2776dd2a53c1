//! A backtest as tables for a terminal.

use std::fmt::Write as _;

use embedder::Catalog;
use report::{TextTable, write_note};
use simulator::{Ratio, SimulationSettings};
use traces::Trace;

use super::document::Backtest;
use crate::errors::Errors;
use crate::horizon::Horizon;
use crate::score::Score;
use crate::table4::{self, Printed, Protocol};

/// A column: its two header lines, and its cell.
pub(super) type Column = (&'static str, &'static str, fn(&Score) -> String);

pub(super) const COLUMNS: [Column; 8] = [
    ("", "mse", |score| small(score.mse)),
    ("", "pmse", |score| small(score.pmse)),
    ("wape", "%", |score| percent(score.wape)),
    ("pinball", "nodes", |score| format!("{:.4}", score.pinball)),
    ("coverage", "below %", |score| percent(score.coverage_below)),
    ("coverage", "at most %", |score| percent(score.coverage)),
    ("mse over", "last-value's", |score| ratio(score, score.mse_ratio)),
    ("pinball over", "last-value's", |score| ratio(score, score.pinball_ratio)),
];

/// The indices of [`COLUMNS`], the most important first: the ratios to the last value's losses,
/// mse, the share of values at most equal to the quantile, pmse, wape, pinball, the share below.
const BY_IMPORTANCE: [usize; 8] = [6, 7, 0, 5, 1, 2, 3, 4];

/// Returns the backtest as tables, followed by notes on its figures.
///
/// Unless `wide`, the tables leave out columns that do not fit the width of a terminal.
pub fn write_table(
    backtest: &Backtest,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
    wide: bool,
) -> String {
    let scores = &backtest.errors.scores;
    let mut text = format!("{}: forecasts\n", trace.source);
    let cells = |score: &Score| COLUMNS.iter().map(|(.., cell)| cell(score)).collect();
    let row = |score: &Score| (score.name.clone(), cells(score));
    let all: Vec<(String, Vec<String>)> = scores.iter().map(row).collect();
    let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
    let table = TextTable::new(heads, &all);
    let table = if wide { table } else { table.narrow(BY_IMPORTANCE) };
    for horizon in Horizon::ALL {
        let _ = write!(text, "\n{}\n", title(horizon, settings));
        let rows = scores.iter().filter(|score| score.horizon == horizon);
        table.write(&mut text, &rows.map(row).collect::<Vec<_>>());
    }
    text.push('\n');
    for note in backtest.notes(settings).into_iter().chain(table.left_out()) {
        write_note(&mut text, &note);
    }
    if let Some(protocol) = backtest.paper {
        write_paper(&mut text, protocol, &backtest.errors);
    }
    if let Some(comparison) = &backtest.decisions {
        let decisions = simulator::write_table(comparison, settings, trace, catalog, wide);
        let _ = write!(text, "\nDecisions\n\n{decisions}");
    }
    text
}

/// Returns the heading of a horizon.
pub(super) fn title(horizon: Horizon, settings: &SimulationSettings) -> String {
    match horizon {
        Horizon::Ticks(1) => format!("demand 1 tick ahead ({})", settings.tick),
        Horizon::Ticks(ticks) => format!("demand {ticks} ticks ahead"),
        Horizon::Lead => format!("D: the new nodes needed within {} s", settings.lead().seconds),
    }
}

/// Returns the rows of the paper's table. Each row has the name of the paper's model and its cells.
pub(super) fn paper_rows(protocol: Protocol, errors: &Errors) -> Vec<(String, Vec<String>)> {
    let printed = |printed: Option<Printed>| {
        let cell = |of: fn(Printed) -> f64| printed.map_or_else(|| "-".into(), |p| small(of(p)));
        let time = printed.map_or("", |printed| printed.time);
        let time = if time.is_empty() { "-" } else { time };
        [cell(|p| p.mse), cell(|p| p.pmse), time.to_string()]
    };
    let ours = |score: Option<&Score>| {
        let cell =
            |of: fn(&Score) -> f64| score.map_or_else(|| "-".into(), |score| small(of(score)));
        let time = score.and_then(|score| errors.milliseconds(&score.name));
        [
            score.map_or("-", |score| score.name.as_str()).to_string(),
            cell(|s| s.mse),
            cell(|s| s.pmse),
            time.map_or_else(|| "-".into(), |milliseconds| format!("{milliseconds:.2}")),
        ]
    };
    let row = |name: &str, of_paper: Option<Printed>, score: Option<&Score>| {
        (name.to_string(), printed(of_paper).into_iter().chain(ours(score)).collect())
    };
    let scores = &errors.scores;
    let with_row = table4::ROWS
        .iter()
        .map(|of| row(of.model, protocol.printed(of), table4::score(scores, of.ours)));
    with_row.chain(table4::others(scores).map(|score| row("-", None, Some(score)))).collect()
}

/// The two header lines above [`paper_rows`].
pub(super) const PAPER_HEADS: [[&str; 7]; 2] = [
    ["printed", "printed", "training", "", "ours", "ours", "forecast"],
    ["mse", "pmse", "time", "ours", "mse", "pmse", "ms"],
];

/// The footnotes of the paper's table: our forecasters beside the paper's models.
pub(super) const PAPER_NOTE: &str = "Demand is counted by Algorithm 2 at each tick.\ntransformer, lstm: the files of --transformer and --lstm. The default ones are trained on Philly with demand in GPUs: a variant of the paper's Transformer, which forecasts the difference to the last value, and the paper's LSTM. --named-model adds others. See models/paper/README.md.\nses: the paper's multiplicative smoothing with its parameters. holt-winters: our smoothing, with a damped trend and an additive season.\nprinted time: the training, on the paper's machines. ms: the milliseconds in which a forecaster learned from a tick and forecast all horizons of all buckets in use, on this machine.\n";

fn write_paper(text: &mut String, protocol: Protocol, errors: &Errors) {
    let _ = write!(text, "\n{}\n", protocol.title());
    let rows = paper_rows(protocol, errors);
    TextTable::new(PAPER_HEADS, &rows).write(text, &rows);
    PAPER_NOTE.lines().for_each(|note| write_note(text, note));
}

fn small(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".into(),
        0.0 => "0".into(),
        value => format!("{value:.3e}"),
    }
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.2}", 100.0 * share) } else { "-".into() }
}

/// From this ratio to the last value's loss on, the interval is not printed, because the ratio
/// alone shows the difference.
const MANY: f64 = 10.0;

/// Formats a ratio with its interval, followed by `tie` when the interval covers 1.
fn ratio(score: &Score, ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".into(),
        Some(_) if score.name == "last-value" => "1".into(),
        Some(Ratio { ratio, interval: Some((low, high)), tie }) if ratio < MANY => {
            let tie = if tie == Some(true) { " tie" } else { "" };
            format!("{ratio:.3} [{low:.3}, {high:.3}]{tie}")
        }
        Some(Ratio { ratio, .. }) if ratio < MANY => format!("{ratio:.3}"),
        Some(Ratio { ratio, .. }) => format!("{ratio:.0}"),
    }
}
