//! The curve of waiting against the bill: what each further hour of waiting that is removed costs.

use super::two_line_header::{TwoLineHeader, cell};
use crate::compare::{Comparison, PolicyResult};
use crate::hull::next_on_hull;

/// Returns the policies on the curve as a table: from the autoscaler alone to the policy with the
/// least waiting, each with the dollars for a pending pod-hour that it removes beyond the row
/// above. `None` if no policy removes waiting.
///
/// The curve is the lower convex hull: a policy between two rows costs more than a mixture of both.
/// Policies that know the future are left out.
pub(super) fn table(comparison: &Comparison) -> Option<TwoLineHeader<3>> {
    let mut rows = Vec::new();
    let mut at = comparison.policies.first()?;
    while let Some((price, next)) = next(comparison, at) {
        let bill = next.figures.bill.nodes();
        let cells = vec![cell(next.figures.weighted_pod_hours, 1), cell(bill, 0), cell(price, 2)];
        rows.push((comparison.name(next.named_policy), cells));
        at = next;
    }
    (!rows.is_empty()).then_some(TwoLineHeader {
        title: "The price of less waiting",
        note: "The price of less waiting: each row waits less than the row above it, the first one less than reactive, and further pod-hour is what it then pays for a pending pod-hour less, weighted by tier. The last row whose price an hour of a waiting pod is worth is the best one. Other policies cost more than a mixture of two rows; those that know the future are left out.",
        names: "policy",
        heads: [["pending", "dollars more", "further"], ["pod-hours", "than reactive", "pod-hour $"]],
        rows,
    })
}

/// Returns the policy after `at` on the curve, with the dollars for each pending pod-hour less.
fn next<'a>(comparison: &'a Comparison, at: &PolicyResult) -> Option<(f64, &'a PolicyResult)> {
    let point =
        |policy: &PolicyResult| (policy.figures.weighted_pod_hours, policy.figures.bill.nodes());
    let policies: Vec<&PolicyResult> = comparison
        .policies
        .iter()
        .filter(|policy| !policy.named_policy.knows_the_future())
        .collect();
    let next = next_on_hull(policies.iter().map(|policy| point(policy)), point(at));
    next.map(|(price, next)| (price, policies[next]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::shown::tests::comparison;

    /// Each sample is a policy, its extra idle in %, its hours of waiting and its dollars. The
    /// dollars of `reactive` are 100.
    #[test]
    fn the_curve_has_the_cheapest_further_hour_first() {
        let comparison = comparison(&[
            ("reactive", 0.0, 50.0, 100.0),
            ("constant:1", 0.0, 30.0, 140.0),
            ("burst:10m:4", 0.0, 40.0, 105.0),
            ("ensemble", 0.0, 20.0, 125.0),
            ("constant:8", 0.0, 5.0, 185.0),
            ("oracle", 0.0, 0.0, 100.0),
        ]);
        let table = table(&comparison).unwrap();
        let rows: Vec<(&str, Vec<&str>)> = table
            .rows
            .iter()
            .map(|(name, cells)| (name.as_str(), cells.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            rows,
            [
                ("burst:10m:4", vec!["40.0", "5", "0.50"]),
                ("ensemble", vec!["20.0", "25", "1.00"]),
                ("constant:8", vec!["5.0", "85", "4.00"]),
            ]
        );
    }

    #[test]
    fn without_less_waiting_there_is_no_curve() {
        let comparison = comparison(&[("reactive", 0.0, 50.0, 100.0), ("oracle", 0.0, 0.0, 90.0)]);
        assert!(table(&comparison).is_none());
    }
}
