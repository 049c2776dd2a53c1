//! The plot of waiting against the dollars of nodes, by policy.

use std::fmt::Write as _;

use report::{Axis, Layer, Mark, Names, PLOT_STYLE, Plot};

use super::shown::{OTHERS, Rival, classes, constants, shown};
use crate::compare::{Comparison, SWEPT};
use crate::figures::Figures;

/// The explanation above the plot, as HTML.
pub const FRONTIER_NOTE: &str = "Lower and further left is better. Each small point on a line is one setting: the quantile that scenario+arrivals holds, or the number of placeholders of each instance type that a constant holds. The axis ends at twice the dollars of the policies that are compared first; the inset has the whole range.";

/// Returns the plot as HTML.
pub fn frontier(comparison: &Comparison) -> String {
    plot(comparison).figure("Hours waited over dollars of nodes, by policy")
}

/// Returns the plot as a separate SVG file, or `None` when there is nothing to draw.
pub(super) fn frontier_file(comparison: &Comparison) -> Option<String> {
    plot(comparison).file(PLOT_STYLE)
}

/// How far the x axis extends beyond the policies that are compared first.
const BEYOND: f64 = 2.0;

fn plot(comparison: &Comparison) -> Plot {
    let held = constants(comparison);
    let swept: Vec<(String, &Figures)> =
        comparison.frontier.iter().map(|(q, figures)| (q.to_string(), figures)).collect();
    let held: Vec<(String, &Figures)> =
        held.iter().map(|(n, figures)| (n.to_string(), figures)).collect();
    let policies = policies(comparison);
    // A setting that is also a compared policy has the name of the policy.
    let unnamed = |settings: &[(String, &Figures)]| {
        let points =
            settings.iter().map(|(name, figures)| (at(figures).0, at(figures).1, name.clone()));
        let is_policy = |point: &(f64, f64, String)| {
            policies.iter().any(|layer| layer.extent().contains(&(point.0, point.1)))
        };
        Mark::Dots(points.filter(|point| !is_policy(point)).collect())
    };
    let mut layers = vec![
        Layer::new("constant:N", "c1", line(&held)),
        Layer::new(&format!("{}:Q", SWEPT.name()), "c2", line(&swept)),
        Layer::new("", "c1", unnamed(&held)),
        Layer::new("", "c2", unnamed(&swept)),
    ];
    layers.extend(policies);
    Plot {
        x_label: "dollars of nodes beyond reactive's".into(),
        y_label: "hours waited, over all jobs".into(),
        x: Axis::Number,
        y_from_zero: true,
        x_end: x_end(comparison),
        names: Names::AtLines,
        height: 420.0,
        layers,
    }
}

/// Returns the end of the x axis: so far that the shown policy and its rival lie in the left half.
fn x_end(comparison: &Comparison) -> Option<f64> {
    let shown = shown(comparison)?;
    let rival = Rival::of(comparison, &shown.figures);
    let compared = [Some(shown.figures), rival.map(|rival| rival.figures)];
    let most = compared.iter().flatten().map(|figures| at(figures).0).fold(0.0, f64::max);
    (most > 0.0).then_some(BEYOND * most)
}

fn at(figures: &Figures) -> (f64, f64) {
    (figures.bill.nodes(), figures.pending_minutes.sum / 60.0)
}

fn line(settings: &[(String, &Figures)]) -> Mark {
    let mut points: Vec<(f64, f64)> = settings.iter().map(|(_, figures)| at(figures)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Mark::Line(points)
}

/// The largest number of policies that are all named. The names of more would fill the plot, so
/// only those of the policies with a colour of their own are always drawn.
const NAMED: usize = 16;

/// Returns one point for each policy. Policies at the same place share one point with both names.
fn policies(comparison: &Comparison) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    for (policy, class) in comparison.policies.iter().zip(classes(comparison)) {
        let ((x, y), name) = (at(&policy.figures), comparison.name(policy.named_policy));
        let same = layers.iter_mut().find_map(|layer| match &mut layer.mark {
            Mark::Points(points) | Mark::Dots(points) => {
                points.iter_mut().find(|point| (point.0, point.1) == (x, y))
            }
            _ => None,
        });
        if let Some(point) = same {
            let _ = write!(point.2, " = {}", policy.name());
            continue;
        }
        let is_named = comparison.policies.len() <= NAMED || !OTHERS.contains(&class.as_str());
        let mark = if is_named { Mark::Points } else { Mark::Dots };
        layers.push(Layer::new("", &class, mark(vec![(x, y, name)])));
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::shown::tests::comparison;

    /// The policies by default, as on a log whose demand was once 40 times as high.
    #[test]
    fn each_policy_is_named_and_a_costly_one_only_in_the_inset() {
        let comparison = comparison(&[
            ("reactive", 0.0, 97.0, 344_254.0),
            ("static-max", 1_045.0, 1.0, 902_657.0),
            ("constant:4", 6.19, 24.4, 365_132.0),
            ("best-constant", 6.19, 24.4, 365_132.0),
            ("ladder", 4.55, 29.3, 360_410.0),
            ("paper(last-value)", 0.0, 97.0, 344_254.0),
            ("ensemble", 1.56, 24.7, 353_454.0),
            ("oracle", 0.12, 1.6, 344_593.0),
        ]);
        assert_eq!(x_end(&comparison), Some(2.0 * 20_878.0));
        let figure = frontier(&comparison);
        let names = [
            "reactive = paper(last-value)",
            "static-max",
            "constant:4 = best-constant",
            "ladder",
            "ensemble",
            "oracle",
        ];
        for layout in figure.split("<svg").skip(1) {
            for name in names {
                assert_eq!(layout.matches(&format!(">{name}<")).count(), 1, "{name} in {layout}");
            }
            let (main, inset) = layout.split_once("the whole range").unwrap();
            assert!(!main.contains("static-max") && inset.contains("static-max"), "{layout}");
        }
    }
}
