//! Table 4 of the paper: its figures, and ours beside them.
//!
//! The protocol of the paper has ticks of five minutes. Demand is counted by Algorithm 2 at the
//! ticks: in units (GPUs, processors), for which the shipped networks were trained, or in instances
//! of the types that are given. Errors are those of demand one tick ahead, as shares of the
//! training maximum. The last week is held out.

use instances::{CatalogFile, InstanceTypeEntry};
use serde::Serialize;
use serde_json::{Value, json};
use traces::{Format, Trace};

use super::horizon::Horizon;
use super::score::Score;

/// A model of the paper, and our forecaster beside it.
pub(super) struct Row {
    pub(super) model: &'static str,
    /// The name of our forecaster.
    pub(super) ours: &'static str,
    /// The figures that the paper prints for Philly and for Fuxi.
    printed: [Printed; 2],
}

/// The figures that the paper prints for a model and a log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Printed {
    pub(super) mse: f64,
    pub(super) pmse: f64,
    /// How long the training took, on the paper's machines. Empty for the static allocation.
    pub(super) time: &'static str,
}

const fn printed(mse: f64, pmse: f64, time: &'static str) -> Printed {
    Printed { mse, pmse, time }
}

/// The rows as the paper prints them.
pub(super) const ROWS: [Row; 5] = [
    Row {
        model: "Transformer",
        ours: "transformer",
        printed: [printed(3.0e-4, 4.0e-4, "38min"), printed(2.1e-3, 1.0e-3, "11min")],
    },
    Row {
        model: "LSTM",
        ours: "lstm",
        printed: [printed(4.0e-3, 2.8e-3, "31min"), printed(3.5e-3, 7.4e-3, "8min")],
    },
    Row {
        model: "SES",
        ours: "ses",
        printed: [printed(0.147, 0.147, "46min"), printed(2.6e-3, 2.5e-3, "28s")],
    },
    Row {
        model: "ARIMA",
        ours: "arima",
        printed: [printed(0.020, 0.093, "84min"), printed(0.025, 0.021, "20min")],
    },
    Row {
        model: "Static",
        ours: "static-max",
        printed: [printed(0.7054, 0.7054, ""), printed(0.8927, 0.8927, "")],
    },
];

/// The paper's protocol for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The period of SES in days.
    pub season_days: i64,
    /// The column of the paper that has figures for the log.
    log: Option<usize>,
}

/// The shortest log in seconds with the season of a week: three weeks, of which the last is held
/// out, so that each tick of the week occurred at least once before.
const WEEKS_SECONDS: i64 = 21 * 86_400;

impl Protocol {
    /// The protocol for a log. The paper takes the season of a week for Philly and that of a day
    /// for Fuxi. For other logs, the season is a week if they are long enough.
    pub fn of(trace: &Trace) -> Self {
        let span = trace.jobs.first().zip(trace.jobs.last());
        let span = span.map_or(0, |(first, last)| last.submit - first.submit);
        let long = if span >= WEEKS_SECONDS { 7 } else { 1 };
        match trace.format {
            Format::Philly => Self { season_days: long, log: Some(0) },
            Format::AlibabaTasks => Self { season_days: 1, log: Some(1) },
            _ => Self { season_days: long, log: None },
        }
    }

    /// The heading of the table.
    pub(super) fn title(self) -> String {
        let log = match self.log {
            Some(0) => ", Philly",
            Some(_) => ", Fuxi",
            None => ", for a log that the paper does not have",
        };
        format!("The paper's table 4{log}, one tick ahead")
    }

    /// The figures that the paper prints for a row.
    pub(super) fn printed(self, row: &Row) -> Option<Printed> {
        Some(row.printed[self.log?])
    }
}

/// Returns a catalog with one instance type that holds one unit (a GPU or a processor). The
/// networks of the paper that ship with Prophet were trained for it.
pub fn paper_catalog() -> CatalogFile {
    let unit = InstanceTypeEntry {
        name: "unit".into(),
        accelerators: Some(1),
        cpu_millis: Some(1_000),
        price_per_hour: Some(1.0),
        ..InstanceTypeEntry::default()
    };
    CatalogFile::new(vec![unit])
}

/// Returns the score of a forecaster one tick ahead.
pub(super) fn score<'a>(scores: &'a [Score], name: &str) -> Option<&'a Score> {
    scores.iter().find(|score| score.horizon == Horizon::Ticks(1) && score.name == name)
}

/// Returns the scores one tick ahead of the forecasters that have no row in the paper.
pub(super) fn others(scores: &[Score]) -> impl Iterator<Item = &Score> {
    let has_row = |score: &&Score| ROWS.iter().any(|row| row.ours == score.name);
    scores
        .iter()
        .filter(|score| score.horizon == Horizon::Ticks(1))
        .filter(move |score| !has_row(score))
}

/// Returns the table as JSON objects, one for each row. `milliseconds` gives the time of a
/// forecaster.
pub(super) fn document(
    protocol: Protocol,
    scores: &[Score],
    milliseconds: impl Fn(&str) -> Option<f64>,
) -> Value {
    let ours = |score: Option<&Score>| {
        json!({
            "name": score.map(|score| &score.name),
            "mse": score.map(|score| score.mse),
            "pmse": score.map(|score| score.pmse),
            "milliseconds": score.and_then(|score| milliseconds(&score.name)),
        })
    };
    let row = |model: Option<&str>, printed: Option<Printed>, score: Option<&Score>| json!({ "model": model, "printed": printed, "ours": ours(score) });
    let of_paper = |of: &Row| row(Some(of.model), protocol.printed(of), score(scores, of.ours));
    let other = |score: &Score| row(None, None, Some(score));
    ROWS.iter().map(of_paper).chain(others(scores).map(other)).collect()
}
