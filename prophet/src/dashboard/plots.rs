//! The plots of the dashboard.

use std::sync::Arc;

use super::board::{BAND, Captions, DEMAND, LAUNCHING, PLACEHOLDERS, PolicyState, READY, TARGET};
use super::series::Range;
use super::view::BucketView;
use crate::report::{Axis, Layer, Mark, Names, Plot};

/// The colours of policies, in their order.
const COLOURS: [&str; 6] = ["c1", "c0 strong", "c3", "c2", "c5", "c6"];

/// The class of the colour of a policy.
pub(super) fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

fn steps(mut points: Vec<(f64, f64)>, now: i64) -> Mark {
    points.extend(points.last().map(|(_, value)| (now as f64, *value)));
    Mark::Steps(points)
}

/// A plot of a range. The line at `floor` keeps the whole range in view.
fn plot(range: Range, now: i64, unit: &str, height: f64, floor: f64, layers: Vec<Layer>) -> Plot {
    let from = now.saturating_sub(range.seconds()) as f64;
    let base = Layer::new("", "base", Mark::Line(vec![(from, floor), (now as f64, floor)]));
    Plot {
        x_label: String::new(),
        y_label: unit.into(),
        x: Axis::Time,
        y_from_zero: true,
        x_end: None,
        names: Names::Legend,
        height,
        layers: std::iter::once(base).chain(layers).collect(),
    }
}

/// A curve of all policies.
pub(super) fn curve(
    captions: &Captions,
    at: usize,
    policies: &[Arc<PolicyState>],
    range: Range,
    now: i64,
) -> String {
    let layer = |(order, policy): (usize, &Arc<PolicyState>)| {
        let points = policy.curves.points(range, at, now);
        Layer::new(&policy.view.name, colour(order), steps(points, now))
    };
    let layers = policies.iter().enumerate().map(layer).collect();
    let curve = captions.curves[at];
    let value = |value: f64| if value.is_nan() { "–".into() } else { format!("{value:.0}") };
    let values = policies
        .iter()
        .map(|policy| format!("{}: {}", policy.view.name, value(policy.view.curves[at])));
    let values: Vec<String> = values.collect();
    let alt = format!("{} over the {}. Now {}.", curve.title, range.names().1, values.join(", "));
    plot(range, now, curve.unit, 220.0, 0.0, layers).narrow_figure(&alt)
}

/// Demand, the forecast, the nodes and the placeholders of a bucket.
pub(super) fn bucket(policy: &PolicyState, bucket: &BucketView, range: Range, now: i64) -> String {
    let Some(series) = policy.buckets.get(&bucket.name) else { return String::new() };
    let points = |value: usize| series.points(range, value, now);
    let band = |low: usize, high: usize| {
        let (low, high) = (points(low), points(high));
        let mut band: Vec<(f64, f64, f64)> =
            low.into_iter().zip(high).map(|((x, low), (_, high))| (x, low, high)).collect();
        band.extend(band.last().map(|(_, low, high)| (now as f64, *low, *high)));
        Mark::Band(band)
    };
    let [middle, _, high] = BAND;
    let nodes = vec![
        Layer::new("demand with the forecast (50 to 99 %)", "c2 faint", band(middle, high)),
        Layer::new("nodes ready", "c3", steps(points(READY), now)),
        Layer::new("demand", "c4", steps(points(DEMAND), now)),
    ];
    let held = vec![
        Layer::new("nodes launching", "c1", steps(points(LAUNCHING), now)),
        Layer::new("placeholders", "c0", steps(points(PLACEHOLDERS), now)),
        Layer::new("target", "c4 dashed", steps(points(TARGET), now)),
    ];
    let BucketView { name, demand, ready, launching, target, placeholders, .. } = bucket;
    let over = range.names().1;
    let nodes_alt = format!(
        "Demand, forecast and ready nodes of {name} over the {over}. Now demand is {demand}, and {ready} nodes are ready."
    );
    let held_alt = format!(
        "Placeholders and launching nodes of {name} over the {over}. Now the target is {target}, {placeholders} placeholders stand, and {launching} nodes are launching."
    );
    // The axis fits the values, which are far above 0 in a large cluster.
    let counts = points(DEMAND).into_iter().chain(points(READY)).map(|(_, nodes)| nodes);
    let floor = counts.reduce(f64::min).unwrap_or(0.0);
    let nodes = Plot { y_from_zero: false, ..plot(range, now, "nodes", 280.0, floor, nodes) };
    nodes.figure(&nodes_alt) + &plot(range, now, "nodes", 200.0, 0.0, held).figure(&held_alt)
}
