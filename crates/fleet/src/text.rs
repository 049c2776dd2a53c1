//! The advice for all clusters, for a terminal.

use std::fmt::Write as _;

use advice::{Totals, Verdict};
use report::{TextTable, grouped, write_note};

use super::joined::{ClusterAdvice, FleetAdvice};

/// The header of the table.
const HEADS: [[&str; 8]; 2] = [
    ["days", "Prophet", "waited", "waited", "bill", "bill", "cost", ""],
    ["checked", "", "before h", "after h", "before $", "more %", "%", "setting"],
];

/// The columns by importance.
const BY_IMPORTANCE: [usize; 8] = [1, 6, 7, 2, 3, 5, 4, 0];

/// The most numbers of missing shards that are listed.
const MISSING_MAX: usize = 20;

impl FleetAdvice {
    /// The advice as a table, and what is odd.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let row = |cluster: &ClusterAdvice| (cluster.name.clone(), cluster.cells());
        let rows: Vec<(String, Vec<String>)> = self.clusters.iter().map(row).collect();
        let table = TextTable::new(HEADS, &rows).narrow(BY_IMPORTANCE);
        table.write(&mut text, &rows);
        text.push('\n');
        write_note(&mut text, &self.totals_sentence());
        for cluster in self.clusters.iter().filter(|cluster| !cluster.odd.is_empty()) {
            write_note(&mut text, &format!("{}: {}.", cluster.name, cluster.odd.join("; ")));
        }
        if let Some(sentence) = self.missing_sentence() {
            text.push('\n');
            write_note(&mut text, &sentence);
        }
        text.push('\n');
        write_note(&mut text, NOTE);
        text
    }

    /// The sums over all clusters, as a sentence.
    pub(crate) fn totals_sentence(&self) -> String {
        let (before, after) = self.totals();
        let is_on = |cluster: &&ClusterAdvice| {
            cluster.advice.as_ref().is_some_and(|advice| advice.verdict.is_on())
        };
        let on = self.clusters.iter().filter(is_on).count();
        let mut text = format!("Prophet is recommended for {on} of {}", self.clusters.len());
        let _ = write!(
            text,
            " clusters. On the days of the check, pods would wait {} hours for nodes instead of {}, and the nodes would cost ${} instead of ${}",
            grouped(after.pending_pod_hours),
            grouped(before.pending_pod_hours),
            grouped(after.bill.nodes()),
            grouped(before.bill.nodes()),
        );
        let more = after.bill.nodes() / before.bill.nodes() - 1.0;
        if more.is_finite() {
            let word = if more < 0.0 { "less" } else { "more" };
            let _ = write!(text, ", {:.1} % {word}", 100.0 * more.abs());
        }
        text + "."
    }

    /// Which shards are missing, as a sentence. `None` if all are complete.
    pub(crate) fn missing_sentence(&self) -> Option<String> {
        if self.missing.is_empty() {
            return None;
        }
        let listed: Vec<String> =
            self.missing.iter().take(MISSING_MAX).map(ToString::to_string).collect();
        let further = self.missing.len().saturating_sub(MISSING_MAX);
        let further = if further > 0 { format!(" and {further} more") } else { String::new() };
        Some(format!(
            "{} of {} shards are missing: {}{further}. Windows with a missing shard do not count.",
            self.missing.len(),
            self.missing.len() + self.complete,
            listed.join(", ")
        ))
    }
}

/// The note below the table.
pub(crate) const NOTE: &str = "Each setting was chosen by the first two thirds of a cluster's days. Waiting, the bill and the cost are those of the last third, by which it was checked. Cost is what the setting adds to the price of waiting, and of nodes while they idle and launch and of warm pools, in % of the price of the autoscaler's waiting.";

/// Whether Prophet is recommended, as a word.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Recommended => "on",
        Verdict::Weak => "on, weak",
        Verdict::NotConfirmed => "off, fails",
        Verdict::ChangeAutoscaler | Verdict::LeaveOff => "off",
    }
}

impl ClusterAdvice {
    /// The cells of its row.
    pub(crate) fn cells(&self) -> Vec<String> {
        let Some(advice) = &self.advice else {
            return vec![
                self.days.to_string(),
                "-".into(),
                "-".into(),
                "-".into(),
                "-".into(),
                "-".into(),
                "-".into(),
                "too few days".into(),
            ];
        };
        let (before, after): (&Totals, &Totals) =
            (&advice.reactive().checked_on, &advice.recommended().checked_on);
        let percent = |share: f64| {
            if share.is_finite() { format!("{:.1}", 100.0 * share) } else { "-".into() }
        };
        let setting = &advice.recommended().name;
        vec![
            advice.days_checked_on.to_string(),
            word(advice.verdict).into(),
            format!("{:.1}", before.pending_pod_hours),
            format!("{:.1}", after.pending_pod_hours),
            grouped(before.bill.nodes()),
            percent(after.bill.nodes() / before.bill.nodes() - 1.0),
            percent(after.extra_cost(before)),
            setting.clone(),
        ]
    }
}
