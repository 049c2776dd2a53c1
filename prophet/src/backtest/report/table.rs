//! A backtest as tables for a terminal.

use std::fmt::Write as _;

use super::document::Backtest;
use crate::backtest::horizon::Horizon;
use crate::backtest::score::Score;
use crate::backtest::table4;
use crate::simulate;
use crate::simulate::{Ratio, SimulationSettings};
use crate::trace::Trace;

/// A column: its two header lines, and its cell.
pub(super) type Column = (&'static str, &'static str, fn(&Score) -> String);

pub(super) const COLUMNS: [Column; 8] = [
    ("", "mse", |score| small(score.mse)),
    ("", "pmse", |score| small(score.pmse)),
    ("wape", "%", |score| percent(score.wape)),
    ("pinball", "nodes", |score| format!("{:.4}", score.pinball)),
    ("coverage %", "below", |score| percent(score.coverage_below)),
    ("", "at most", |score| percent(score.coverage)),
    ("mse over", "last-value's", |score| ratio(score, score.mse_ratio)),
    ("pinball over", "last-value's", |score| ratio(score, score.pinball_ratio)),
];

/// Returns the backtest as tables, followed by notes on its figures.
pub fn write_table(backtest: &Backtest, settings: &SimulationSettings, trace: &Trace) -> String {
    let scores = &backtest.errors.scores;
    let mut text = format!("{}: forecasts\n", trace.source);
    for horizon in Horizon::ALL {
        let _ = write!(text, "\n{}\n", title(horizon, settings));
        let rows = scores.iter().filter(|score| score.horizon == horizon);
        let cells = |score: &Score| COLUMNS.iter().map(|(.., cell)| cell(score)).collect();
        let rows: Vec<(String, Vec<String>)> =
            rows.map(|score| (score.name.clone(), cells(score))).collect();
        let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
        write_rows(&mut text, &heads, &rows);
    }
    text.push('\n');
    for note in backtest.notes(settings) {
        let _ = writeln!(text, "{note}");
    }
    if backtest.paper {
        write_paper(&mut text, scores);
    }
    if let Some(comparison) = &backtest.decisions {
        let _ = write!(text, "\nDecisions: {}", simulate::write_table(comparison, settings, trace));
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
pub(super) fn paper_rows(scores: &[Score]) -> Vec<(String, Vec<String>)> {
    let ours = |score: Option<&Score>| {
        let cell =
            |of: fn(&Score) -> f64| score.map_or_else(|| "-".into(), |score| small(of(score)));
        [
            score.map_or("-", |score| score.name.as_str()).to_string(),
            cell(|s| s.mse),
            cell(|s| s.pmse),
        ]
    };
    let row = |row: &table4::Row| {
        let printed = [small(row.mse), small(row.pmse)];
        let ours = ours(table4::score(scores, row.ours));
        (row.model.to_string(), printed.into_iter().chain(ours).collect())
    };
    let other = |score: &Score| {
        let none = ["-".to_string(), "-".to_string()];
        ("-".to_string(), none.into_iter().chain(ours(Some(score))).collect())
    };
    table4::ROWS.iter().map(row).chain(table4::others(scores).map(other)).collect()
}

/// The two header lines above [`paper_rows`].
pub(super) const PAPER_HEADS: [[&str; 5]; 2] =
    [["printed", "printed", "", "ours", "ours"], ["mse", "pmse", "ours", "mse", "pmse"]];

/// The footnotes of the paper's table: our forecasters beside the paper's models.
pub(super) const PAPER_NOTE: &str = "transformer, lstm: the paper's models, trained again; --named-model transformer=FILE and --named-model lstm=FILE add them, and their forecasts are scored unchanged. onnx: the shipped model, or that of --model, mixed with the last value.\nSES: our row is a damped Holt-Winters with a daily season, not the paper's SES (simple exponential smoothing).\n";

fn write_paper(text: &mut String, scores: &[Score]) {
    text.push_str("\nThe paper's table 4, Philly, one tick ahead\n");
    write_rows(text, &PAPER_HEADS, &paper_rows(scores));
    text.push_str(PAPER_NOTE);
}

fn write_rows<const N: usize>(
    text: &mut String,
    heads: &[[&str; N]; 2],
    rows: &[(String, Vec<String>)],
) {
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let width = |i: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[i].chars().count());
        cells.chain(heads.iter().map(|head| head[i].len())).max().unwrap_or(0)
    };
    let mut line = |first_cell: &str, cells: &mut dyn Iterator<Item = &str>| {
        let _ = write!(text, "{first_cell:first$}");
        for (i, cell) in cells.enumerate() {
            let _ = write!(text, "  {cell:>width$}", width = width(i));
        }
        text.push('\n');
    };
    for head in heads {
        line("", &mut head.iter().copied());
    }
    for (name, cells) in rows {
        line(name, &mut cells.iter().map(String::as_str));
    }
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
