//! Plots as SVG.
//!
//! A plot takes its colours from the CSS of the page, so it is readable in light and in dark mode.
//! Each plot is drawn twice, for wide and for narrow screens, because the text of one picture that
//! is scaled to a phone is too small to read. This module exists because the plotting crates write
//! fixed colours into the picture.

use std::fmt::Write as _;

use super::labels::{Clear, Label, Place, PlacedLabel, Rect, place};
use super::marks::{Layer, Mark, height_at};
use super::panel::{Axis, Panel};

/// A plot with its axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The label of the x axis, with its unit.
    pub x_label: String,
    /// The label of the y axis, with its unit.
    pub y_label: String,
    /// The format of the values of x.
    pub x: Axis,
    /// Whether the y axis begins at 0 even when all values are larger.
    pub y_from_zero: bool,
    /// Where the x axis ends, because larger values would compress the rest. An inset shows the
    /// whole range.
    pub x_end: Option<f64>,
    /// Where names of lines are drawn.
    pub names: Names,
    /// The height on a wide screen, in SVG units. The width is 900.
    pub height: f64,
    /// What is drawn, from the bottom to the top.
    pub layers: Vec<Layer>,
}

/// Where names of lines are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// In a legend above the plot.
    Legend,
    /// Beside the lines; in a legend where there is no room.
    AtLines,
}

/// A layout of a plot. An SVG unit is about a pixel of the screens that it is made for.
#[derive(Clone, Copy)]
struct Layout {
    class: &'static str,
    width: f64,
    /// The height, as a share of that of the plot.
    height: f64,
    inset: InsetPlace,
}

/// Where the inset of a layout is.
#[derive(Clone, Copy)]
enum InsetPlace {
    /// In the upper right corner of the panel, with a width and a height as shares of the panel's.
    Corner(f64, f64),
    /// Below the panel, with this height in SVG units.
    Below(f64),
}

const BROAD: Layout =
    Layout { class: "broad", width: 900.0, height: 1.0, inset: InsetPlace::Corner(0.4, 0.46) };
/// Of a plot beside others, two in a row.
const TILE: Layout = Layout { width: 560.0, ..BROAD };
const NARROW: Layout =
    Layout { class: "narrow", width: 360.0, height: 0.9, inset: InsetPlace::Below(150.0) };

/// The margins of a panel, in SVG units. They hold the labels of axes and ticks.
const LEFT: f64 = 46.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 42.0;
/// The margins of an inset.
const INSET: Rect = Rect { left: 36.0, top: 24.0, right: 12.0, bottom: 24.0 };

/// A drawn plot.
struct Drawing {
    width: f64,
    height: f64,
    /// The content of the SVG element.
    svg: String,
    /// The names that the picture does not show, each with its class.
    unnamed: Vec<(String, String)>,
}

/// A label, the class of its text, and the class of the layer that it names.
struct Tag {
    label: Label,
    text_class: &'static str,
    class: String,
}

impl Plot {
    /// Returns the plot as a figure with its legend. `alt` describes it for screen readers.
    pub fn figure(&self, alt: &str) -> String {
        self.figure_of(BROAD, alt)
    }

    /// Returns the plot as a figure of about half the width, to be shown beside others.
    pub fn tile(&self, alt: &str) -> String {
        self.figure_of(TILE, alt)
    }

    fn figure_of(&self, broad: Layout, alt: &str) -> String {
        let layouts = [broad, NARROW].map(|layout| {
            let Drawing { width, height, svg, unnamed } = self.draw(layout)?;
            Some(format!(
                "<div class=\"{}\">{}{}</div>",
                layout.class,
                legend(&unnamed),
                element((width, height), alt, &svg),
            ))
        });
        match layouts {
            [Some(broad), Some(narrow)] => format!("<figure>{broad}{narrow}</figure>"),
            _ => NO_DATA.into(),
        }
    }

    /// Returns the plot as a separate SVG file with this style sheet, or `None` when there is
    /// nothing to draw.
    pub fn file(&self, style: &str) -> Option<String> {
        let Drawing { width, height, svg, unnamed } = self.draw(BROAD)?;
        let names = unnamed.iter().map(|(name, class)| {
            format!("<tspan class=\"{class}\" dx=\"12\">{}</tspan>", escape(name))
        });
        Some(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" font-family=\"sans-serif\"><style>{style}</style>{svg}<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"16\">{}</text></svg>\n",
            width - RIGHT,
            names.collect::<String>()
        ))
    }

    fn draw(&self, layout: Layout) -> Option<Drawing> {
        let (width, height) = (layout.width, layout.height * self.height);
        let area = Rect { left: LEFT, top: TOP, right: width - RIGHT, bottom: height - BOTTOM };
        let whole = self.panel(&self.layers, area)?;
        let end = self.x_end.filter(|end| *end > whole.x.0 && *end < whole.x.1);
        let layers = match end {
            Some(end) => self.layers.iter().map(|layer| layer.until(end)).collect(),
            None => self.layers.clone(),
        };
        let mut panel = self.panel(&layers, area)?;
        let mut full_height = height;
        let inset = end.map(|end| {
            panel.x = (whole.x.0, end);
            match layout.inset {
                InsetPlace::Corner(share_x, share_y) => {
                    let inset = Rect {
                        left: area.right - share_x * area.width(),
                        bottom: area.top + share_y * area.height(),
                        ..area
                    };
                    make_room(&mut panel, &layers, inset);
                    inset
                }
                InsetPlace::Below(inset) => {
                    full_height = height + inset + 10.0;
                    Rect { top: height + 10.0, bottom: full_height, left: 1.0, ..area }
                }
            }
        });
        let mut svg = String::new();
        panel.axes(self.x, &mut svg);
        self.write_axis_labels(area, height, &mut svg);
        for layer in &layers {
            layer.draw(&panel, &mut svg);
        }
        let mut tags: Vec<Tag> =
            layers.iter().flat_map(|layer| point_tags(layer, &panel)).collect();
        if self.names == Names::AtLines {
            tags.extend(line_tags(&layers, &panel));
        }
        // The shown policy has the best places.
        tags.sort_by_key(|tag| (!tag.label.needed, !tag.class.contains("strong")));
        let mut unnamed = write_tags(tags, &layers, &panel, inset, &mut svg);
        if let Some(rect) = inset {
            unnamed.extend(self.write_inset(rect, &panel, &mut svg));
        }
        if self.names == Names::Legend {
            let named = layers.iter().filter(|layer| !layer.name.is_empty());
            unnamed.extend(named.map(|layer| (layer.name.clone(), layer.class.clone())));
        }
        Some(Drawing { width, height: full_height, svg, unnamed })
    }

    /// Returns a panel whose axes cover these layers, or `None` when the layers are empty.
    fn panel(&self, layers: &[Layer], area: Rect) -> Option<Panel> {
        let points: Vec<Place> = layers.iter().flat_map(Layer::extent).collect();
        let range = |values: &mut dyn Iterator<Item = f64>| {
            let finite = values.filter(|value| value.is_finite());
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        };
        let (x_low, x_high) = range(&mut points.iter().map(|point| point.0));
        let (y_low, y_high) = range(&mut points.iter().map(|point| point.1));
        if !(x_low <= x_high && y_low <= y_high) {
            return None;
        }
        let x = match self.x {
            Axis::Number => (x_low.min(0.0), x_high + 0.04 * (x_high - x_low.min(0.0))),
            Axis::Time | Axis::Decades => (x_low, x_high),
        };
        let margin = 0.06 * (y_high - y_low);
        let y = if self.y_from_zero {
            (y_low.min(0.0), y_high * 1.06)
        } else {
            (if y_low < 0.0 { y_low } else { (y_low - margin).max(0.0) }, y_high + margin)
        };
        Some(Panel { area, x, y })
    }

    fn write_axis_labels(&self, area: Rect, height: f64, svg: &mut String) {
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"4\" y=\"14\">{}</text><text class=\"axis\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            escape(&self.y_label),
            area.right,
            height - 6.0,
            escape(&self.x_label)
        );
    }

    /// Draws the whole range of x, and returns the names that have no room there.
    fn write_inset(&self, rect: Rect, main: &Panel, svg: &mut String) -> Vec<(String, String)> {
        let Rect { left, top, right, bottom } = rect;
        let area = Rect {
            left: left + INSET.left,
            top: top + INSET.top,
            right: right - INSET.right,
            bottom: bottom - INSET.bottom,
        };
        let Some(panel) = self.panel(&self.layers, area) else { return Vec::new() };
        let _ = write!(
            svg,
            "<rect class=\"inset\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/><text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\">the whole range</text>",
            rect.width(),
            rect.height(),
            left + 8.0,
            top + 15.0
        );
        panel.axes(self.x, svg);
        let (end, floor) = panel.at(main.x.1, main.y.0);
        let (start, ceiling) = panel.at(main.x.0, main.y.1);
        let ceiling = ceiling.max(area.top);
        let _ = write!(
            svg,
            "<rect class=\"range\" x=\"{start:.1}\" y=\"{ceiling:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            end - start,
            floor - ceiling
        );
        for layer in &self.layers {
            layer.draw(&panel, svg);
        }
        let beyond = self.layers.iter().flat_map(|layer| point_tags(layer, &panel));
        let beyond = beyond.filter(|tag| tag.label.anchors.iter().all(|anchor| anchor.0 > end));
        write_tags(beyond.collect(), &self.layers, &panel, None, svg)
    }
}

/// The text in place of a plot without data.
const NO_DATA: &str = "<p>There is no data to draw.</p>";

/// Returns an SVG element with a description for screen readers.
fn element((width, height): (f64, f64), alt: &str, svg: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\">{svg}</svg>",
        escape(alt)
    )
}

/// Extends the y axis until no element lies under the inset.
fn make_room(panel: &mut Panel, layers: &[Layer], inset: Rect) {
    let Panel { area, x, y } = panel;
    let margin = 12.0;
    let from = x.0 + (inset.left - margin - area.left) / area.width() * (x.1 - x.0);
    let right_of = |layer: &Layer| {
        let points = layer.extent();
        let crossing = points.windows(2).filter(|pair| pair[0].0 < from && pair[1].0 >= from);
        let crossing = crossing.map(|pair| height_at(pair[0], pair[1], from));
        let right = points.iter().filter(|point| point.0 >= from).map(|point| point.1);
        crossing.chain(right).fold(y.0, f64::max)
    };
    let highest = layers.iter().map(right_of).fold(y.0, f64::max);
    let free = 1.0 - (inset.height() + margin) / area.height();
    y.1 = y.1.max(y.0 + (highest - y.0) / free);
}

/// Returns the labels of the points of a layer.
fn point_tags(layer: &Layer, panel: &Panel) -> Vec<Tag> {
    let (points, needed, text_class) = match &layer.mark {
        Mark::Points(points) => (points, true, "name"),
        Mark::Dots(points) => (points, false, "tick"),
        _ => return Vec::new(),
    };
    let tag = |(x, y, text): &(f64, f64, String)| Tag {
        label: Label { text: text.clone(), anchors: vec![panel.at(*x, *y)], needed },
        text_class,
        class: layer.class.clone(),
    };
    points.iter().map(tag).collect()
}

/// The number of places along a line at which its name is tried.
const ALONG: u32 = 40;

/// A name is not placed where another line is closer than this to its own, in SVG units.
const APART: f64 = 6.0;

/// Returns the labels that name lines.
fn line_tags(layers: &[Layer], panel: &Panel) -> Vec<Tag> {
    let corners: Vec<Vec<Place>> = layers.iter().map(|layer| layer.corners(panel)).collect();
    let tag = |(at, layer): (usize, &Layer)| {
        let others = corners.iter().enumerate().filter(|(other, _)| *other != at);
        let others: Vec<&Vec<Place>> = others.map(|(_, corners)| corners).collect();
        let is_apart = |anchor: &Place| {
            let around = Rect::around(*anchor, APART);
            !others
                .iter()
                .any(|line| line.windows(2).any(|pair| around.is_crossed_by([pair[0], pair[1]])))
        };
        let mut anchors = along(&corners[at]);
        anchors.retain(is_apart);
        match &layer.mark {
            // The name of a step line is at its highest step.
            Mark::Steps(_) => anchors.sort_by(|a, b| a.1.total_cmp(&b.1)),
            _ => anchors.sort_by(|a, b| {
                panel.distance_to_third(*a).total_cmp(&panel.distance_to_third(*b))
            }),
        }
        let label = Label { text: layer.name.clone(), anchors, needed: false };
        Tag { label, text_class: "name", class: layer.class.clone() }
    };
    let is_named_line =
        |(_, layer): &(usize, &Layer)| !layer.name.is_empty() && !layer.corners(panel).is_empty();
    layers.iter().enumerate().filter(is_named_line).map(tag).collect()
}

/// Returns evenly spaced points of a line.
fn along(corners: &[Place]) -> Vec<Place> {
    let (Some(first), Some(last)) = (corners.first(), corners.last()) else { return Vec::new() };
    let points = (0..=ALONG).filter_map(|i| {
        let x = first.0 + (last.0 - first.0) * f64::from(i) / f64::from(ALONG);
        let pair = corners.windows(2).find(|pair| pair[0].0 <= x && x <= pair[1].0)?;
        Some((x, height_at(pair[0], pair[1], x)))
    });
    points.collect()
}

/// Draws the labels, and returns the names that have no room.
fn write_tags(
    tags: Vec<Tag>,
    layers: &[Layer],
    panel: &Panel,
    inset: Option<Rect>,
    svg: &mut String,
) -> Vec<(String, String)> {
    let labels: Vec<Label> = tags.iter().map(|tag| tag.label.clone()).collect();
    let taken = layers.iter().flat_map(|layer| layer.points(panel)).chain(inset).collect();
    let lines = layers.iter().flat_map(|layer| {
        let corners = layer.corners(panel);
        corners.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
    });
    let clear = Clear { bounds: panel.area, taken, lines: lines.collect() };
    let mut unnamed = Vec::new();
    for (tag, placed) in tags.into_iter().zip(place(&labels, &clear)) {
        let Tag { label, text_class, class } = tag;
        match placed {
            Some(placed) => write_label(&label.text, text_class, &class, &placed, svg),
            None if text_class == "name" => unnamed.push((label.text, class)),
            None => {}
        }
    }
    unnamed
}

fn write_label(text: &str, text_class: &str, class: &str, placed: &PlacedLabel, svg: &mut String) {
    let PlacedLabel { anchor, rect, leader } = placed;
    if let Some([from, to]) = leader {
        let _ = write!(
            svg,
            "<line class=\"leader {class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }
    // The real text may be narrower than its estimate, so it touches the side of its point.
    let (side, x) = if rect.left >= anchor.0 {
        ("start", rect.left)
    } else if rect.right <= anchor.0 {
        ("end", rect.right)
    } else {
        ("middle", f64::midpoint(rect.left, rect.right))
    };
    let _ = write!(
        svg,
        "<text class=\"{text_class} {class}\" text-anchor=\"{side}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        rect.bottom - 3.5,
        escape(text)
    );
}

/// Returns the legend, or nothing when it has no entry.
fn legend(names: &[(String, String)]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let entries = names.iter().map(|(name, class)| {
        format!("<span class=\"key\"><i class=\"swatch {class}\"></i>{}</span>", escape(name))
    });
    format!("<p class=\"legend\">{}</p>", entries.collect::<String>())
}

/// Escapes a string for the text and the attributes of an HTML page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(layers: Vec<Layer>) -> Plot {
        Plot {
            x_label: "<x>".into(),
            y_label: String::new(),
            x: Axis::Number,
            y_from_zero: true,
            x_end: None,
            names: Names::AtLines,
            height: 300.0,
            layers,
        }
    }

    fn points(points: &[(f64, f64, &str)]) -> Mark {
        Mark::Points(points.iter().map(|&(x, y, label)| (x, y, label.to_string())).collect())
    }

    #[test]
    fn labels_and_names_are_escaped() {
        let line = Mark::Line(vec![(0.0, 1.0), (1.0, 2.0)]);
        let layers = vec![
            Layer::new("<script>", "a", line),
            Layer::new("", "a", points(&[(0.5, 0.5, "<script>")])),
        ];
        let figure = plot(layers).figure("\"><script>");
        assert!(!figure.contains("<script>") && !figure.contains("<x>"), "{figure}");
    }

    #[test]
    fn a_point_beyond_the_end_of_the_axis_is_named_in_the_inset() {
        let all = points(&[(0.0, 10.0, "near"), (2.0, 4.0, "middle"), (1_000.0, 1.0, "far")]);
        let mut plot = plot(vec![Layer::new("", "c2", all)]);
        let whole = plot.figure("");
        assert!(!whole.contains("the whole range"), "{whole}");
        plot.x_end = Some(4.0);
        let figure = plot.figure("");
        // Each of the two layouts names each point once, and draws it once or twice.
        for (text, count) in
            [("the whole range", 2), (">near<", 2), (">middle<", 2), (">far<", 2), ("<circle", 10)]
        {
            assert_eq!(figure.matches(text).count(), count, "{text} in {figure}");
        }
    }

    #[test]
    fn an_inset_covers_no_point() {
        let all = points(&[(0.0, 10.0, "a"), (3.9, 10.0, "b"), (50.0, 1.0, "c")]);
        let layers = vec![Layer::new("", "c2", all)];
        let area = Rect { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 };
        let inset = Rect { left: 60.0, top: 0.0, right: 100.0, bottom: 40.0 };
        let mut panel = Panel { area, x: (0.0, 4.0), y: (0.0, 10.5) };
        make_room(&mut panel, &layers, inset);
        assert!(panel.at(3.9, 10.0).1 >= inset.bottom, "{:?}", panel.y);
    }

    #[test]
    fn a_name_without_room_is_in_the_legend() {
        let flat = Mark::Line(vec![(0.0, 1.0), (1.0, 1.0)]);
        let line = |name: &str| Layer::new(name, "a", flat.clone());
        let figure = plot(vec![line("one"), line("two")]).figure("");
        assert_eq!(figure.matches("one").count(), 2, "{figure}");
        let mut with_legend = plot(vec![line("one")]);
        with_legend.names = Names::Legend;
        assert!(with_legend.figure("").contains("class=\"legend\""));
    }
}
