//! Cost and waiting without spot instances and with them.

use super::two_line_header::{TwoLineHeader, cell};
use crate::compare::{Comparison, SpotCase, SpotInstances};
use crate::figures::Figures;

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
const NOTE: &str = "Spot: the same jobs without spot instances, with spot instances that are never interrupted, and with interruptions. Lost pods were submitted again, and lost pod-hours are the time that they had run.";

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

/// Returns the table, if any job uses spot instances.
pub(super) fn table(comparison: &Comparison) -> Option<TwoLineHeader<6>> {
    let row = |case: &SpotCase| {
        let cells = COLUMNS.map(|(_, _, value, decimals)| cell(value(&case.figures), decimals));
        (case.name(), cells.into())
    };
    (!comparison.spot.is_empty()).then(|| TwoLineHeader {
        title: "Spot and on demand",
        note: NOTE,
        names: "policy and instances",
        heads: [COLUMNS.map(|column| column.0), COLUMNS.map(|column| column.1)],
        rows: comparison.spot.iter().map(row).collect(),
    })
}
