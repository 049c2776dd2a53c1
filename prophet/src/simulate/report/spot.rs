//! Cost and waiting without spot instances and with them.

use std::fmt::Write as _;

use crate::report::{TextTable, elements, escape};
use crate::simulate::compare::{Comparison, SpotCase, SpotInstances};
use crate::simulate::figures::Figures;

/// A column: its two header lines, its value, and its number of decimals.
type Column = (&'static str, &'static str, fn(&Figures) -> f64, usize);

const COLUMNS: [Column; 6] = [
    ("nodes'", "dollars", |f| f.dollars, 0),
    ("pending", "pod-hours", |f| f.pending_pod_hours, 1),
    ("pods", "hidden %", |f| 100.0 * f.pods_hidden_share, 1),
    ("spot nodes", "taken away", |f| f.interruptions, 0),
    ("pods", "lost", |f| f.interrupted_pods, 0),
    ("lost", "pod-hours", |f| f.lost_pod_hours, 1),
];

/// The definitions of the columns.
pub(super) const NOTE: &str = "Spot: the same jobs without spot instances, with spot instances that are never interrupted, and with interruptions. Lost pods were submitted again, and lost pod-hours are the time that they had run.";

impl SpotCase {
    /// The policy, and its instances.
    fn name(&self) -> String {
        let instances = match self.instances {
            SpotInstances::None => "on demand",
            SpotInstances::Uninterrupted => "spot, uninterrupted",
            SpotInstances::AsSet => "spot",
        };
        format!("{}, {instances}", self.named_policy)
    }
}

fn rows(comparison: &Comparison) -> Vec<(String, Vec<String>)> {
    let row = |case: &SpotCase| {
        let cell = |(_, _, value, decimals): Column| {
            let value = value(&case.figures);
            if value.is_finite() { format!("{value:.decimals$}") } else { "-".into() }
        };
        (case.name(), COLUMNS.map(cell).into())
    };
    comparison.spot.iter().map(row).collect()
}

/// Appends the table for a terminal, if any job uses spot instances.
pub(super) fn write(text: &mut String, comparison: &Comparison) {
    let rows = rows(comparison);
    if rows.is_empty() {
        return;
    }
    let heads = [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)];
    TextTable::new(heads, &rows).write(text, &rows);
    text.push('\n');
}

/// Returns the table for a page. `None` if no job uses spot instances.
pub(super) fn html(comparison: &Comparison) -> Option<String> {
    let rows = rows(comparison);
    if rows.is_empty() {
        return None;
    }
    let heads = COLUMNS.map(|(first, second, ..)| format!("{first}<br>{second}"));
    let mut table = format!(
        "<div class=\"wide\"><table><thead><tr><th>policy and instances</th>{}</tr></thead><tbody>",
        elements("th", heads)
    );
    for (name, cells) in rows {
        let _ = write!(table, "<tr><th>{}</th>{}</tr>", escape(&name), elements("td", cells));
    }
    Some(table + "</tbody></table></div>")
}
