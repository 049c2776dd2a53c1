//! The paper's table 4, its rows of Philly, with ours beside them.
//!
//! Its protocol: ticks of five minutes, demand in units (GPUs, processors) rather than nodes, errors one tick ahead as shares of the training maximum, the last week held
//! out.

use serde_json::{Value, json};

use super::horizon::Horizon;
use super::score::Score;
use crate::catalog::{CatalogFile, InstanceTypeEntry};

/// A model, its printed errors, and who stands for it here.
pub(super) struct Row {
    pub(super) model: &'static str,
    pub(super) mse: f64,
    pub(super) pmse: f64,
    /// The networks by the names that `--network` gives them.
    pub(super) ours: &'static str,
}

/// As they are printed. The paper trained on the whole log; ours is what the log given here has.
pub(super) const ROWS: [Row; 5] = [
    Row { model: "Transformer", mse: 3.0e-4, pmse: 4.0e-4, ours: "transformer" },
    Row { model: "LSTM", mse: 4.0e-3, pmse: 2.8e-3, ours: "lstm" },
    Row { model: "SES", mse: 0.147, pmse: 0.147, ours: "holt-winters" },
    Row { model: "ARIMA", mse: 0.020, pmse: 0.093, ours: "arima" },
    Row { model: "Static", mse: 0.7054, pmse: 0.7054, ours: "static-max" },
];

/// One instance type that holds one unit: demand counts units.
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

/// The score one tick ahead, by name.
pub(super) fn score<'a>(scores: &'a [Score], name: &str) -> Option<&'a Score> {
    scores.iter().find(|score| score.horizon == Horizon::Ticks(1) && score.name == name)
}

/// The scores one tick ahead that stand for no model of the paper.
pub(super) fn others(scores: &[Score]) -> impl Iterator<Item = &Score> {
    let stands = |score: &&Score| ROWS.iter().any(|row| row.ours == score.name);
    scores
        .iter()
        .filter(|score| score.horizon == Horizon::Ticks(1))
        .filter(move |score| !stands(score))
}

/// The table as objects.
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
