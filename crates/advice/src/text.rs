//! The advice for a terminal.

use std::fmt::Write as _;

use report::{TextTable, grouped, write_note};

use super::choice::{Advice, Goal, Judged, Verdict};
use super::totals::Totals;

/// The header of the table.
const HEADS: [[&str; 7]; 2] = [
    ["pending", "hidden", "launches", "bill", "bill", "cost %", "cost %"],
    ["pod-hours", "pods %", "of first", "$", "more %", "chosen on", "checked"],
];

/// The columns by importance.
const BY_IMPORTANCE: [usize; 7] = [5, 6, 0, 3, 4, 1, 2];

impl Advice {
    /// The advice as sentences and a table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for sentence in self.sentences() {
            write_note(&mut text, &sentence);
            text.push('\n');
        }
        let rows: Vec<(String, Vec<String>)> =
            self.settings.iter().enumerate().map(|(at, one)| self.row(at, one)).collect();
        let table = TextTable::new(HEADS, &rows).narrow(BY_IMPORTANCE);
        table.write(&mut text, &rows);
        text.push('\n');
        write_note(&mut text, &self.note());
        text
    }

    /// The verdict, and what would change it.
    pub fn sentences(&self) -> Vec<String> {
        let mut all = vec![self.verdict_sentence()];
        if self.verdict != Verdict::LeaveOff {
            all.push(self.check_sentence());
        }
        all.push(self.switches_sentence());
        all
    }

    fn verdict_sentence(&self) -> String {
        let name = &self.chosen().name;
        match (self.verdict, self.goal) {
            (Verdict::Recommended, _) => format!("Recommended: {name}."),
            (Verdict::Weak, _) if self.check.interval.is_some() => {
                format!("Recommended: {name}, but the difference may be chance.")
            }
            (Verdict::Weak, _) => {
                format!("Recommended: {name}, but there are too few days to exclude chance.")
            }
            (Verdict::ChangeAutoscaler, _) => format!(
                "Leave Prophet off, and change the autoscaler: {name} was the best setting."
            ),
            (Verdict::NotConfirmed, _) => format!(
                "Leave Prophet off: {name} was the best setting on the first {} days, and did not reach the goal on the {} days after them.",
                self.days_chosen_on, self.days_checked_on
            ),
            (Verdict::LeaveOff, Goal::Cost) => {
                "Leave Prophet off: no setting costs less than the autoscaler alone.".into()
            }
            (Verdict::LeaveOff, Goal::BillAtMost(multiple)) => format!(
                "Leave Prophet off: no setting waits less than the autoscaler alone for a bill of at most {:.0} % of its bill.",
                100.0 * multiple
            ),
            (Verdict::LeaveOff, Goal::WaitingAtMost(share)) if share >= 1.0 => {
                "Leave Prophet off: no bill is lower than that of the autoscaler alone.".into()
            }
            (Verdict::LeaveOff, Goal::WaitingAtMost(share)) => format!(
                "Leave Prophet off: with no setting, pods wait at most {:.0} % as long as with the autoscaler alone.",
                100.0 * share
            ),
        }
    }

    fn check_sentence(&self) -> String {
        let (ours, alone) = (&self.chosen().checked_on, &self.reactive().checked_on);
        let mut text = format!(
            "On the {} days of the check, pods waited {} hours for nodes instead of {}, and the nodes cost ${} instead of ${}.",
            self.days_checked_on,
            grouped(ours.pending_pod_hours),
            grouped(alone.pending_pod_hours),
            grouped(ours.bill.nodes()),
            grouped(alone.bill.nodes()),
        );
        if self.check.extra_cost.is_finite() {
            let _ = write!(
                text,
                " At ${:.2} for an hour of a waiting pod, waiting and nodes together cost {} by {:.1} % of the price of the autoscaler's waiting",
                self.wait_price,
                if self.check.extra_cost < 0.0 { "less" } else { "more" },
                100.0 * self.check.extra_cost.abs()
            );
            if let Some((low, high)) = self.check.interval {
                let _ = write!(
                    text,
                    " (95 % interval {} to {} %, from {} days)",
                    signed(100.0 * low),
                    signed(100.0 * high),
                    self.check.interval_days
                );
            }
            text.push('.');
        }
        text
    }

    /// Which setting costs least at which price of waiting.
    fn switches_sentence(&self) -> String {
        let mut text =
            String::from("What would change the answer is the price of an hour of a waiting pod:");
        for (at, switch) in self.switches.iter().enumerate() {
            let name = &self.settings[switch.setting].name;
            let next = self.switches.get(at + 1);
            let _ = match (at, next) {
                (0, None) => write!(text, " at every price, {name} costs least"),
                (0, Some(next)) => write!(text, " up to ${:.2}, {name} costs least", next.above),
                _ => write!(text, "; from ${:.2}, {name}", switch.above),
            };
        }
        text + "."
    }

    /// The figures of a setting: over all days, and the cost of both parts.
    pub(crate) fn cells(&self, one: &Judged) -> Vec<String> {
        let reactive = self.reactive();
        let all = Totals::sum([&one.chosen_on, &one.checked_on]);
        let alone = Totals::sum([&reactive.chosen_on, &reactive.checked_on]);
        let percent = |share: f64, decimals: usize| {
            if share.is_finite() { format!("{:.decimals$}", 100.0 * share) } else { "-".into() }
        };
        vec![
            format!("{:.1}", all.pending_pod_hours),
            percent(all.hidden_share(), 1),
            format!("{:.2}", all.launches / alone.launches),
            grouped(all.bill.nodes()),
            percent(all.bill.nodes() / alone.bill.nodes() - 1.0, 1),
            percent(one.chosen_on.extra_cost(&reactive.chosen_on), 1),
            percent(one.checked_on.extra_cost(&reactive.checked_on), 1),
        ]
    }

    fn row(&self, at: usize, one: &Judged) -> (String, Vec<String>) {
        let mark = if at == self.chosen { "* " } else { "  " };
        let reference = if one.is_for_clusters { "" } else { " (reference)" };
        (format!("{mark}{}{reference}", one.name), self.cells(one))
    }

    /// The note below the table.
    pub(crate) fn note(&self) -> String {
        let references = if self.settings.iter().all(|one| one.is_for_clusters) {
            ""
        } else {
            " References are no policies of a cluster, so none of them is chosen."
        };
        format!(
            "* is the setting that was chosen by the first {} of {} days. Launches and the bill are relative to those of the first row. Cost is what a setting adds to the price of waiting, and of nodes while they idle and launch and of warm pools, in % of the price of the first row's waiting: on the days of the choice, and on the days of the check.{references}",
            self.days_chosen_on,
            self.days_chosen_on + self.days_checked_on,
        )
    }
}

/// A number with its sign, rounded to a whole one.
fn signed(value: f64) -> String {
    if value.round() < 0.0 { format!("−{:.0}", value.abs()) } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;
    use simulator::{Bill, SimulationSettings};

    /// Twelve equal days: hours of waiting at $10, and dollars of idle and of busy nodes.
    fn days(hours: f64, idling: f64) -> Vec<Totals> {
        let day = Totals {
            pods: 100.0,
            pods_hidden: 100.0 - 10.0 * hours,
            pending_pod_hours: hours,
            weighted_pod_hours: hours,
            launches: 10.0 - hours,
            bill: Bill { waiting: 10.0 * hours, idling, packing: 100.0, ..Bill::default() },
        };
        vec![day; 12]
    }

    fn text(settings: &[(&str, Vec<Totals>)], goal: Goal) -> String {
        let of = |(policy, days): &(&str, Vec<Totals>)| {
            (Setting::of(policy.parse().unwrap()), days.clone())
        };
        let settings: Vec<(Setting, Vec<Totals>)> = settings.iter().map(of).collect();
        Advice::new(&settings, &SimulationSettings::default(), 10.0, goal).unwrap().text()
    }

    #[test]
    fn the_advice_names_the_setting_its_check_and_what_would_change_it() {
        let all = [
            ("reactive", days(4.0, 0.0)),
            ("ensemble", days(1.0, 20.0)),
            ("oracle", days(0.0, 1.0)),
        ];
        let expected = "\
Recommended: ensemble.

On the 4 days of the check, pods waited 4 hours for nodes instead of 16, and the nodes cost $480
instead of $400. At $10.00 for an hour of a waiting pod, waiting and nodes together cost less by
25.0 % of the price of the autoscaler's waiting (95 % interval −25 to −25 %, from 12 days).

What would change the answer is the price of an hour of a waiting pod: up to $6.67, reactive costs
least; from $6.67, ensemble.

                        pending  hidden  launches   bill    bill     cost %   cost %
                      pod-hours  pods %  of first      $  more %  chosen on  checked
  reactive                 48.0    60.0      1.00  1,200     0.0        0.0      0.0
* ensemble                 12.0    90.0      1.50  1,440    20.0      -25.0    -25.0
  oracle (reference)        0.0   100.0      1.67  1,212     1.0      -97.5    -97.5
";
        let text = text(&all, Goal::Cost);
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn it_says_to_leave_prophet_off_and_why() {
        let all = [("reactive", days(4.0, 0.0)), ("ensemble", days(3.0, 20.0))];
        let first = |goal| text(&all, goal).lines().next().unwrap().to_owned();
        assert_eq!(
            first(Goal::Cost),
            "Leave Prophet off: no setting costs less than the autoscaler alone."
        );
        assert!(
            first(Goal::WaitingAtMost(0.5))
                .starts_with("Leave Prophet off: with no setting, pods wait at")
        );
        assert!(
            first(Goal::BillAtMost(1.1)).starts_with("Leave Prophet off: no setting waits less")
        );
    }
}
