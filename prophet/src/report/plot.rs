//! Plots as SVG.
//!
//! A plot takes its colours from the CSS of the page, so it is readable in light and in dark mode.
//! This module exists because the plotting crates write fixed colours into the picture.

use std::fmt::Write as _;

/// A plot with its axes.
pub(crate) struct Plot {
    /// The labels of the axes, with units.
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x: Axis,
    /// Whether the y axis begins at 0 even when all values are larger.
    pub(crate) y_from_zero: bool,
    pub(crate) layers: Vec<Layer>,
}

/// The format of the values of x.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Number,
    /// Seconds: Unix time, or time from the start of a log without dates.
    Time,
}

/// One drawn element. Later layers are drawn on top of earlier ones.
pub(crate) struct Layer {
    /// The name in the legend; empty for a layer without an entry.
    pub(crate) name: String,
    /// The CSS class, which sets the colour.
    pub(crate) class: String,
    pub(crate) mark: Mark,
}

pub(crate) enum Mark {
    /// A line through (x, y).
    Line(Vec<(f64, f64)>),
    /// A step line: each y continues until the next x.
    Steps(Vec<(f64, f64)>),
    /// The area between (x, low) and (x, high), in steps.
    Band(Vec<(f64, f64, f64)>),
    /// Points (x, y, label).
    Points(Vec<(f64, f64, String)>),
}

/// The size of a plot and its margins, in SVG units. The left and the bottom margin hold the axis
/// labels.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

/// The width and the height of a label, in SVG units. A label that would overlap another is left
/// out.
const LABEL: (f64, f64) = (34.0, 11.0);

impl Mark {
    fn extent(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Line(points) | Self::Steps(points) => points.clone(),
            Self::Band(points) => {
                points.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]).collect()
            }
            Self::Points(points) => points.iter().map(|&(x, y, _)| (x, y)).collect(),
        }
    }
}

/// The mapping from values to SVG coordinates.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |(low, high): (f64, f64), v: f64| {
            if high > low { (v - low) / (high - low) } else { 0.0 }
        };
        let px = LEFT + share(self.x, x) * (WIDTH - LEFT - RIGHT);
        let py = HEIGHT - BOTTOM - share(self.y, y) * (HEIGHT - TOP - BOTTOM);
        (px, py)
    }
}

impl Plot {
    /// Returns the plot as an SVG element with a legend. `alt` describes it for screen readers.
    pub(crate) fn svg(&self, alt: &str) -> String {
        let Some(drawn) = self.drawn() else { return "<p>There is no data to draw.</p>".into() };
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{drawn}</svg>{}",
            escape(alt),
            self.legend()
        )
    }

    /// Returns the plot as a separate SVG file with this style sheet, or `None` when there is
    /// nothing to draw.
    pub(crate) fn file(&self, style: &str) -> Option<String> {
        let mut drawn = self.drawn()?;
        for (at, layer) in self.layers.iter().filter(|layer| !layer.name.is_empty()).enumerate() {
            let _ = write!(
                drawn,
                "<text class=\"axis {}\" style=\"fill: var(--c)\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                layer.class,
                WIDTH - RIGHT,
                24.0 + 18.0 * at as f64,
                escape(&layer.name)
            );
        }
        Some(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\"><style>{style}</style>{drawn}</svg>\n"
        ))
    }

    /// Returns the content of the SVG element, or `None` when there is nothing to draw.
    fn drawn(&self) -> Option<String> {
        let points: Vec<(f64, f64)> =
            self.layers.iter().flat_map(|layer| layer.mark.extent()).collect();
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values
                .filter(|v| v.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        };
        let (x_low, x_high) = range(&mut points.iter().map(|p| p.0));
        let (y_low, y_high) = range(&mut points.iter().map(|p| p.1));
        if !(x_low <= x_high && y_low <= y_high) {
            return None;
        }
        let number = self.x == Axis::Number;
        let x = if number {
            (x_low.min(0.0), x_high + 0.04 * (x_high - x_low.min(0.0)))
        } else {
            (x_low, x_high)
        };
        let y = if self.y_from_zero { (y_low.min(0.0), y_high * 1.05) } else { (y_low, y_high) };
        let scale = Scale { x, y };
        let mut svg = String::new();
        self.axes(&scale, &mut svg);
        let mut labels = Vec::new();
        for layer in &self.layers {
            layer.draw(&scale, &mut labels, &mut svg);
        }
        Some(svg)
    }

    fn axes(&self, scale: &Scale, svg: &mut String) {
        for y in ticks(scale.y, 5) {
            let (left, at) = scale.at(scale.x.0, y);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                WIDTH - RIGHT
            );
            let _ = write!(
                svg,
                "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 6.0,
                at + 4.0,
                short(y)
            );
        }
        let (xs, label): (Vec<f64>, fn(f64) -> String) = match self.x {
            Axis::Number => (ticks(scale.x, 9), short),
            Axis::Time => (time_ticks(scale.x), date),
        };
        for x in xs {
            let (at, bottom) = scale.at(x, scale.y.0);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>",
                bottom + 4.0
            );
            let _ = write!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 17.0,
                label(x)
            );
        }
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        let _ = write!(
            svg,
            "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(14 {middle:.1}) rotate(-90)\">{}</text>",
            escape(&self.y_label)
        );
        let centre = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = write!(
            svg,
            "<text class=\"axis\" text-anchor=\"middle\" x=\"{centre:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - 6.0,
            escape(&self.x_label)
        );
    }

    fn legend(&self) -> String {
        let entries = self.layers.iter().filter(|layer| !layer.name.is_empty()).map(|layer| {
            format!(
                "<span class=\"key\"><i class=\"swatch {}\"></i>{}</span>",
                layer.class,
                escape(&layer.name)
            )
        });
        format!("<p class=\"legend\">{}</p>", entries.collect::<String>())
    }
}

impl Layer {
    fn draw(&self, scale: &Scale, labels: &mut Vec<(f64, f64)>, svg: &mut String) {
        let class = &self.class;
        let _ = match &self.mark {
            Mark::Line(points) => {
                let path = path(points.iter().map(|&(x, y)| scale.at(x, y)));
                write!(svg, "<path class=\"line {class}\" d=\"{path}\"/>")
            }
            Mark::Steps(points) => {
                let path = path(steps(points).into_iter().map(|(x, y)| scale.at(x, y)));
                write!(svg, "<path class=\"line {class}\" d=\"{path}\"/>")
            }
            Mark::Band(points) => {
                let low: Vec<_> = points.iter().map(|&(x, low, _)| (x, low)).collect();
                let high: Vec<_> = points.iter().map(|&(x, _, high)| (x, high)).collect();
                let around = steps(&high).into_iter().chain(steps(&low).into_iter().rev());
                write!(
                    svg,
                    "<path class=\"band {class}\" d=\"{}Z\"/>",
                    path(around.map(|(x, y)| scale.at(x, y)))
                )
            }
            Mark::Points(points) => points.iter().try_for_each(|(x, y, label)| {
                let (x, y) = scale.at(*x, *y);
                // A label near the right edge is placed to the left of its point.
                let (anchor, beside) = if x > WIDTH - 140.0 { ("end", x - 7.0) } else { ("start", x + 7.0) };
                write!(svg, "<circle class=\"point {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>")?;
                if labels.iter().any(|(lx, ly)| (lx - x).abs() < LABEL.0 && (ly - y).abs() < LABEL.1) {
                    return Ok(());
                }
                labels.push((x, y));
                write!(
                    svg,
                    "<text class=\"tick\" text-anchor=\"{anchor}\" x=\"{beside:.1}\" y=\"{:.1}\">{}</text>",
                    y - 5.0,
                    escape(label)
                )
            }),
        };
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    path
}

fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * points.len());
    for pair in points.windows(2) {
        corners.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    corners.extend(points.last());
    corners
}

/// Returns about `n` round values within a range.
fn ticks((low, high): (f64, f64), n: u32) -> Vec<f64> {
    let rough = (high - low) / f64::from(n);
    if rough.is_nan() || rough <= 0.0 {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (low / step).ceil() * step;
    (0..50).map(|i| first + f64::from(i) * step).take_while(|tick| *tick <= high).collect()
}

/// Returns the ticks of a time axis, in seconds: multiples of hours, days or weeks. The step is the
/// shortest that gives at most about nine ticks.
fn time_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let steps = [
        3_600.0,
        6.0 * 3_600.0,
        86_400.0,
        2.0 * 86_400.0,
        7.0 * 86_400.0,
        28.0 * 86_400.0,
        91.0 * 86_400.0,
        364.0 * 86_400.0,
    ];
    let step =
        steps.into_iter().find(|step| (high - low) / step <= 9.0).unwrap_or((high - low) / 6.0);
    let first = (low / step).ceil() * step;
    (0..20).map(|i| first + f64::from(i) * step).take_while(|tick| *tick <= high).collect()
}

fn date(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "times of a log")]
    let time = chrono::DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
    // A log without dates counts seconds from 0, so times in the first ten years are day numbers.
    if seconds < 10.0 * 366.0 * 86_400.0 {
        return format!("day {:.1}", seconds / 86_400.0).replace(".0", "");
    }
    time.format(if time.timestamp() % 86_400 == 0 { "%-d %b" } else { "%-d %b %H:%M" }).to_string()
}

fn short(value: f64) -> String {
    match value.abs() {
        a if a >= 1e6 => format!("{}M", trim(value / 1e6)),
        a if a >= 1e4 => format!("{}k", trim(value / 1e3)),
        _ => trim(value),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Escapes a string for the text and the attributes of an HTML page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks((0.0, 10.0), 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks((0.0, 0.0), 5), [0.0]);
        assert!(time_ticks((0.0, 14.0 * 86_400.0)).len() <= 9);
    }

    #[test]
    fn labels_and_names_are_escaped() {
        let plot = Plot {
            x_label: "<x>".into(),
            y_label: String::new(),
            x: Axis::Number,
            y_from_zero: true,
            layers: vec![Layer {
                name: "<script>".into(),
                class: "a".into(),
                mark: Mark::Line(vec![(0.0, 1.0)]),
            }],
        };
        let svg = plot.svg("\"><script>");
        assert!(!svg.contains("<script>") && !svg.contains("<x>"));
    }
}
