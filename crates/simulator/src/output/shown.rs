//! The policies that a page shows: their names and colours, and the two that it compares first.

use std::collections::BTreeMap;

use report::{Layer, Mark};

use crate::compare::{Comparison, PolicyResult};
use crate::figures::Figures;
use crate::named_policy::NamedPolicy;

/// Returns the policy that the page shows: the default policy if it is compared, else the last
/// policy that forecasts.
pub(super) fn shown(comparison: &Comparison) -> Option<&PolicyResult> {
    let policies = || comparison.policies.iter();
    let forecasts =
        |policy: &&PolicyResult| matches!(policy.named_policy, NamedPolicy::Forecast(..));
    let default = policies().find(|policy| policy.named_policy == NamedPolicy::DEFAULT);
    default.or_else(|| policies().rev().find(forecasts))
}

/// Returns all constants that were run, by their number of placeholders.
pub(super) fn constants(comparison: &Comparison) -> BTreeMap<u64, Figures> {
    let compared = comparison.policies.iter().filter_map(|policy| match policy.named_policy {
        NamedPolicy::Constant(n) => Some((n, policy.figures)),
        NamedPolicy::BestConstant => Some((comparison.best_constant?, policy.figures)),
        _ => None,
    });
    comparison.constants.iter().copied().chain(compared).collect()
}

/// The constant that the shown policy is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rival {
    pub(super) n: u64,
    pub(super) figures: Figures,
    /// Whether jobs wait no longer under it than under the shown policy.
    pub(super) waits_no_longer: bool,
}

impl Rival {
    /// Returns the cheapest constant under which jobs wait no longer than with `shown`. If there is
    /// none, returns the constant with the lowest cost.
    pub(super) fn of(comparison: &Comparison, shown: &Figures) -> Option<Self> {
        let all = constants(comparison);
        let no_longer = all
            .iter()
            .filter(|(_, figures)| figures.pending_minutes.sum <= shown.pending_minutes.sum)
            .min_by(|a, b| a.1.dollars.total_cmp(&b.1.dollars).then(a.0.cmp(b.0)));
        let cheapest = || {
            all.iter().min_by(|a, b| a.1.extra_cost.total_cmp(&b.1.extra_cost).then(a.0.cmp(b.0)))
        };
        let waits_no_longer = no_longer.is_some();
        let (n, figures) = no_longer.or_else(cheapest)?;
        Some(Self { n: *n, figures: *figures, waits_no_longer })
    }
}

/// Returns one line for each policy. Policies with equal lines share one line with both names.
pub(super) fn lines(comparison: &Comparison, mark: impl Fn(&PolicyResult) -> Mark) -> Vec<Layer> {
    let mut lines: Vec<Layer> = Vec::new();
    for (policy, class) in comparison.policies.iter().zip(classes(comparison)) {
        let (mark, name) = (mark(policy), comparison.name(policy.named_policy));
        match lines.iter_mut().find(|line| line.mark == mark) {
            Some(line) => line.name.extend([" = ", &policy.name()]),
            None => lines.push(Layer { name, class, mark }),
        }
    }
    // The line of the shown policy is drawn last, on top of the others.
    lines.sort_by_key(|line| line.class.contains("strong"));
    lines
}

/// The colours of policies without a colour of their own. c2 is the line of quantiles.
pub(super) const OTHERS: [&str; 3] = ["c5", "c6", "c7"];

/// Returns the CSS classes of the policies, in their order. A policy has the same colour in all
/// pictures of a page.
pub(super) fn classes(comparison: &Comparison) -> Vec<String> {
    let strong = shown(comparison).map(|policy| policy.named_policy);
    let mut others = OTHERS.into_iter().cycle();
    let class = |policy: &PolicyResult| match policy.named_policy {
        named_policy if Some(named_policy) == strong => "c0 strong",
        NamedPolicy::Reactive => "c4",
        NamedPolicy::BestConstant => "c1",
        NamedPolicy::Oracle => "c3",
        _ => others.next().unwrap_or("c5"),
    };
    comparison.policies.iter().map(class).map(str::to_owned).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::figures::{Bill, PendingMinutes};

    /// A policy with its extra idle in %, its hours of waiting and its dollars.
    pub(in super::super) type Sample = (&'static str, f64, f64, f64);

    /// Returns a comparison of these policies over three days. Its best constant is 8.
    pub(in super::super) fn comparison(samples: &[Sample]) -> Comparison {
        let policy = |&(name, extra_idle, hours, dollars): &Sample| {
            let pending =
                PendingMinutes { sum: 60.0 * hours, mean: 1.0, p50: 0.0, p95: 5.0, p99: 6.0 };
            let figures = Figures {
                jobs: 100.0,
                pending_minutes: pending,
                pending_pod_hours: hours,
                weighted_pod_hours: hours,
                jobs_hidden_share: 0.75,
                pods: 200.0,
                pods_hidden_share: 0.8,
                launches: 10.0,
                used_launches: 8.0,
                used_launches_hidden_share: 0.5,
                instance_hours: 1_000.0,
                launching_instance_hours: 1.0,
                idle_instance_hours: 10.0 * extra_idle,
                extra_idle: extra_idle / 100.0,
                extra_cost: extra_idle / 100.0 + hours,
                extra_packing: -0.01,
                break_even_dollars: 5.0,
                dollars,
                bill: Bill { idling: dollars - samples[0].3, ..Bill::default() },
                launches_ratio: 2.0,
                placeholder_writes: 1.0,
                jobs_never_started: 0.0,
                interruptions: 0.0,
                interrupted_pods: 0.0,
                lost_pod_hours: 0.0,
            };
            PolicyResult {
                named_policy: name.parse().unwrap(),
                figures,
                stderr: None,
                tiers: vec![],
                cost_ratio: None,
                hidden_over_14_days: None,
                logs: vec![],
            }
        };
        let policies = samples.iter().map(policy).collect();
        let window = (0, 3 * 86_400);
        Comparison {
            window,
            policies,
            frontier: vec![],
            constants: vec![],
            best_constant: Some(8),
            spot: vec![],
        }
    }

    #[track_caller]
    fn check(samples: &[Sample], expected: Option<(u64, bool)>) {
        let comparison = comparison(samples);
        let rival = Rival::of(&comparison, &shown(&comparison).unwrap().figures);
        assert_eq!(rival.map(|rival| (rival.n, rival.waits_no_longer)), expected);
    }

    #[test]
    fn the_rival_is_the_cheapest_constant_that_removes_as_much_waiting() {
        let ensemble = ("ensemble", 1.0, 10.0, 110.0);
        check(&[("reactive", 0.0, 50.0, 100.0), ensemble], None);
        check(
            &[
                ensemble,
                ("constant:4", 2.0, 11.0, 112.0),
                ("best-constant", 3.0, 9.0, 120.0),
                ("constant:16", 5.0, 5.0, 140.0),
            ],
            Some((8, true)),
        );
        // No constant removes as much, and the second has the lower cost.
        check(
            &[ensemble, ("constant:1", 2.0, 30.0, 105.0), ("constant:4", 2.0, 11.0, 112.0)],
            Some((4, false)),
        );
    }

    #[test]
    fn policies_with_equal_lines_share_one() {
        let comparison = comparison(&[
            ("reactive", 0.0, 50.0, 100.0),
            ("ensemble", 1.0, 10.0, 110.0),
            ("paper(last-value)", 0.0, 50.0, 100.0),
        ]);
        let lines = lines(&comparison, |policy| {
            Mark::Line(vec![(0.0, policy.figures.pending_minutes.sum)])
        });
        let names: Vec<(&str, &str)> =
            lines.iter().map(|line| (line.name.as_str(), line.class.as_str())).collect();
        assert_eq!(names, [("reactive = paper(last-value)", "c4"), ("ensemble", "c0 strong")]);
    }
}
