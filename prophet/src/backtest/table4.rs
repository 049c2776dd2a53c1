//! Table 4 of the paper: its rows of the Philly log, beside our results.
//!
//! The protocol of the paper has ticks of five minutes. It measures demand in units (GPUs,
//! processors) and not in nodes. Errors are those of demand one tick ahead, as shares of the
//! training maximum. The last week is held out.

use serde_json::{Value, json};

use super::horizon::Horizon;
use super::score::Score;
use crate::catalog::{CatalogFile, InstanceTypeEntry};

/// A model of the paper, its printed errors, and our forecaster beside it.
pub(super) struct Row {
    pub(super) model: &'static str,
    pub(super) mse: f64,
    pub(super) pmse: f64,
    /// The name of our forecaster. The Transformer and the LSTM have the names given to
    /// `--named-model`.
    pub(super) ours: &'static str,
}

/// The rows as the paper prints them.
///
/// The paper trained on the whole log; ours trains on the log that is given. Our row beside the
/// paper's SES (simple exponential smoothing) is a damped Holt-Winters with a daily season.
pub(super) const ROWS: [Row; 5] = [
    Row { model: "Transformer", mse: 3.0e-4, pmse: 4.0e-4, ours: "transformer" },
    Row { model: "LSTM", mse: 4.0e-3, pmse: 2.8e-3, ours: "lstm" },
    Row { model: "SES", mse: 0.147, pmse: 0.147, ours: "holt-winters" },
    Row { model: "ARIMA", mse: 0.020, pmse: 0.093, ours: "arima" },
    Row { model: "Static", mse: 0.7054, pmse: 0.7054, ours: "static-max" },
];

/// Returns a catalog with one instance type that holds one unit, so demand counts units.
pub fn paper_catalog() -> CatalogFile {
    let unit = InstanceTypeEntry {
        name: "unit".into(),
        accelerators: Some(1),
        cpu_millis: Some(1_000),
        price_per_hour: 1.0,
        ..InstanceTypeEntry::default()
    };
    CatalogFile { instance_types: vec![unit] }
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

/// Returns the table as JSON objects, one for each row.
pub(super) fn document(scores: &[Score]) -> Value {
    let row = |row: &Row| {
        let Row { model, mse, pmse, ours } = row;
        let ours = score(scores, ours);
        json!({
            "model": model, "printed_mse": mse, "printed_pmse": pmse,
            "name": ours.map(|score| &score.name), "mse": ours.map(|score| score.mse), "pmse": ours.map(|score| score.pmse),
        })
    };
    let other = |score: &Score| {
        json!({
            "model": null, "printed_mse": null, "printed_pmse": null,
            "name": score.name, "mse": score.mse, "pmse": score.pmse,
        })
    };
    ROWS.iter().map(row).chain(others(scores).map(other)).collect()
}
