//! The plots of the dashboard.

use std::sync::Arc;

use report::{Axis, Layer, Mark, Names, Plot, grouped};

use super::board::{BAND, Captions, DEMAND, LAUNCHING, PLACEHOLDERS, PolicyState, READY, TARGET};
use super::series::Range;
use super::view::BucketView;

/// The CSS classes of the curves of policies, by the place of the policy on the dashboard. Further
/// policies use them again.
const COLOURS: [&str; 6] = ["c1", "c0 strong", "c3", "c2", "c5", "c6"];

/// The class of the colour of a policy.
pub(super) fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

/// The layers of a line with gaps. The first one has the name, also if there is no line.
fn layers(name: &str, class: &str, lines: impl IntoIterator<Item = Mark>) -> Vec<Layer> {
    let mut layers: Vec<Layer> =
        lines.into_iter().map(|mark| Layer::new("", class, mark)).collect();
    if layers.is_empty() {
        layers.push(Layer::new("", class, Mark::Steps(Vec::new())));
    }
    layers[0].name = name.into();
    layers
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
        let lines = policy.curves.lines(range, at, now);
        let highest = lines.iter().flatten().max_by(|a, b| a.1.total_cmp(&b.1)).copied();
        let mut all = layers(&policy.view.name, colour(order), lines.into_iter().map(Mark::Steps));
        // The height of the highest spike cannot be read from the axis.
        let highest = highest.filter(|(_, value)| *value > 0.0);
        all.extend(highest.map(|(x, value)| {
            let text = vec![(x, value, grouped(value))];
            Layer::new("", colour(order), Mark::Dots(text))
        }));
        all
    };
    let layers = policies.iter().enumerate().flat_map(layer).collect();
    let curve = captions.curves[at];
    let value = |value: f64| if value.is_nan() { "–".into() } else { format!("{value:.0}") };
    let values = policies
        .iter()
        .map(|policy| format!("{}: {}", policy.view.name, value(policy.view.curves[at])));
    let values: Vec<String> = values.collect();
    let alt = format!("{} over the {}. Now {}.", curve.title, range.names().1, values.join(", "));
    plot(range, now, curve.unit, 220.0, 0.0, layers).tile(&alt)
}

/// Demand, the forecast, the nodes and the placeholders of a bucket.
pub(super) fn bucket(policy: &PolicyState, bucket: &BucketView, range: Range, now: i64) -> String {
    let Some(series) = policy.buckets.get(&bucket.name) else { return String::new() };
    let points = |value: usize| series.points(range, value, now);
    let lines = |value: usize| series.lines(range, value, now);
    let steps = |name: &str, class: &str, value: usize| {
        layers(name, class, lines(value).into_iter().map(Mark::Steps))
    };
    let [middle, _, high] = BAND;
    let band = lines(middle).into_iter().zip(lines(high)).map(|(low, high)| {
        Mark::Band(low.into_iter().zip(high).map(|((x, low), (_, high))| (x, low, high)).collect())
    });
    let nodes = [
        layers("demand with the forecast (50 to 99 %)", "c2 faint", band),
        steps("nodes ready", "c3", READY),
        steps("demand", "c4", DEMAND),
    ];
    let held = [
        steps("nodes launching", "c1", LAUNCHING),
        steps("placeholders", "c0", PLACEHOLDERS),
        steps("target", "c4 dashed", TARGET),
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
    let nodes =
        Plot { y_from_zero: false, ..plot(range, now, "nodes", 280.0, floor, nodes.concat()) };
    nodes.figure(&nodes_alt)
        + &plot(range, now, "nodes", 200.0, 0.0, held.concat()).figure(&held_alt)
}
