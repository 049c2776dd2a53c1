//! The waiting of each tier under each policy.

use super::two_line_header::{TwoLineHeader, cell};
use crate::compare::Comparison;
use crate::tiers::TierFigures;

/// A column: its two header lines, its value, and its number of decimals.
type Column = (&'static str, &'static str, fn(&TierFigures) -> f64, usize);

const COLUMNS: [Column; 5] = [
    ("", "jobs", |f| f.jobs, 0),
    ("pending", "minutes", |f| f.pending_minutes, 0),
    ("pending", "pod-hours", |f| f.pending_pod_hours, 1),
    ("", "pods", |f| f.pods, 0),
    ("pods", "hidden %", |f| 100.0 * f.pods_hidden / f.pods, 1),
];

/// Returns the table, if the settings have tiers.
pub(super) fn table(comparison: &Comparison) -> Option<TwoLineHeader<5>> {
    let row = |name: &str, figures: &TierFigures| {
        let tier = figures.tier.as_deref().unwrap_or("no tier");
        let cells = COLUMNS.map(|(_, _, value, decimals)| cell(value(figures), decimals));
        (format!("{name}, {tier}"), cells.into())
    };
    let rows = comparison.policies.iter().flat_map(|policy| {
        let name = policy.name();
        policy.tiers.iter().map(move |figures| row(&name, figures)).collect::<Vec<_>>()
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    (!rows.is_empty()).then(|| TwoLineHeader {
        title: "Tiers",
        note: "Tiers: bands of priority, each with its own cost of waiting.",
        names: "policy and tier",
        heads: [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)],
        rows,
    })
}
