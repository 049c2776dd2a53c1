//! The elements of a plot: lines, bands and points.

use std::fmt::Write as _;

use super::labels::{Place, Rect};
use super::panel::Panel;

/// One drawn element. Later layers are drawn on top of earlier ones.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The name in the legend or at the line; empty for a layer without a name.
    pub name: String,
    /// The CSS classes, which set the colour.
    pub class: String,
    /// Where and how it is drawn.
    pub mark: Mark,
}

/// The form of a layer, with its values in the units of the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A line through (x, y).
    Line(Vec<(f64, f64)>),
    /// A step line: each y continues until the next x.
    Steps(Vec<(f64, f64)>),
    /// The area between (x, low) and (x, high), in steps.
    Band(Vec<(f64, f64, f64)>),
    /// Points (x, y, label). Each label is drawn.
    Points(Vec<(f64, f64, String)>),
    /// Small points (x, y, label). Labels without room are left out.
    Dots(Vec<(f64, f64, String)>),
}

/// The radius of a point and of a dot, in SVG units.
const POINT: f64 = 4.5;
const DOT: f64 = 3.0;

impl Layer {
    /// A layer; `name` is empty if the layer has none, and `class` has CSS classes.
    pub fn new(name: &str, class: &str, mark: Mark) -> Self {
        Self { name: name.into(), class: class.into(), mark }
    }

    /// Returns the part of the layer up to this x.
    pub(super) fn until(&self, end: f64) -> Self {
        let within = |points: &[(f64, f64, String)]| {
            points.iter().filter(|point| point.0 <= end).cloned().collect()
        };
        let mark = match &self.mark {
            Mark::Line(points) => Mark::Line(cut(points, end)),
            Mark::Steps(points) => Mark::Line(cut(&steps(points), end)),
            Mark::Band(points) => {
                Mark::Band(points.iter().filter(|point| point.0 <= end).copied().collect())
            }
            Mark::Points(points) => Mark::Points(within(points)),
            Mark::Dots(points) => Mark::Dots(within(points)),
        };
        Self { mark, ..self.clone() }
    }

    /// Returns all (x, y) of the layer.
    pub fn extent(&self) -> Vec<(f64, f64)> {
        match &self.mark {
            Mark::Line(points) => points.clone(),
            Mark::Steps(points) => steps(points),
            Mark::Band(points) => {
                points.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]).collect()
            }
            Mark::Points(points) | Mark::Dots(points) => {
                points.iter().map(|&(x, y, _)| (x, y)).collect()
            }
        }
    }

    /// Returns the corners of a line in SVG units; nothing for other elements.
    pub(super) fn corners(&self, panel: &Panel) -> Vec<Place> {
        match &self.mark {
            Mark::Line(_) | Mark::Steps(_) => {
                self.extent().into_iter().map(|(x, y)| panel.at(x, y)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the rectangles of the points; nothing for other elements.
    pub(super) fn points(&self, panel: &Panel) -> Vec<Rect> {
        let (points, radius) = match &self.mark {
            Mark::Points(points) => (points, POINT),
            Mark::Dots(points) => (points, DOT),
            _ => return Vec::new(),
        };
        points.iter().map(|&(x, y, _)| Rect::around(panel.at(x, y), radius)).collect()
    }

    /// Draws the layer, without labels.
    pub(super) fn draw(&self, panel: &Panel, svg: &mut String) {
        let class = &self.class;
        let path_of = |points: &[(f64, f64)]| path(points.iter().map(|&(x, y)| panel.at(x, y)));
        let _ = match &self.mark {
            Mark::Line(_) | Mark::Steps(_) => {
                write!(svg, "<path class=\"line {class}\" d=\"{}\"/>", path_of(&self.extent()))
            }
            // A path without a point is invalid.
            Mark::Band(points) if points.is_empty() => Ok(()),
            Mark::Band(points) => {
                let low: Vec<_> = points.iter().map(|&(x, low, _)| (x, low)).collect();
                let high: Vec<_> = points.iter().map(|&(x, _, high)| (x, high)).collect();
                let around = steps(&high).into_iter().chain(steps(&low).into_iter().rev());
                let around: Vec<_> = around.collect();
                write!(svg, "<path class=\"band {class}\" d=\"{}Z\"/>", path_of(&around))
            }
            Mark::Points(points) => circles(svg, points, panel, &format!("point {class}"), POINT),
            Mark::Dots(points) => circles(svg, points, panel, &format!("point {class}"), DOT),
        };
    }
}

fn circles(
    svg: &mut String,
    points: &[(f64, f64, String)],
    panel: &Panel,
    class: &str,
    radius: f64,
) -> std::fmt::Result {
    points.iter().try_for_each(|(x, y, _)| {
        let (x, y) = panel.at(*x, *y);
        write!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>")
    })
}

/// Returns the part of a line up to `end`, with a last point at `end` if the line goes on.
fn cut(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let inside = points.iter().take_while(|point| point.0 <= end).count();
    let mut line = points[..inside].to_vec();
    if let (Some(&last), Some(&next)) = (line.last(), points.get(inside)) {
        line.push((end, height_at(last, next, end)));
    }
    line
}

/// Returns the y at which the line between two points passes `x`.
pub(super) fn height_at(from: (f64, f64), to: (f64, f64), x: f64) -> f64 {
    let share = if to.0 > from.0 { (x - from.0) / (to.0 - from.0) } else { 0.0 };
    from.1 + share * (to.1 - from.1)
}

fn path(points: impl Iterator<Item = Place>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_end_of_the_axis() {
        let line = [(0.0, 10.0), (2.0, 6.0), (6.0, 2.0)];
        assert_eq!(cut(&line, 4.0), [(0.0, 10.0), (2.0, 6.0), (4.0, 4.0)]);
        assert_eq!(cut(&line, 6.0), line);
        assert_eq!(cut(&line, -1.0), []);
    }
}
