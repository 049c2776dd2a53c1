//! A panel: the rectangle of a plot in which values become coordinates, and its axes.

use std::fmt::Write as _;

use super::labels::{Place, Rect};
use super::text;

/// The format of the values of x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Decimal numbers.
    Number,
    /// Seconds: Unix time, or time from the start of a log without dates.
    Time,
    /// Decimal logarithms, on both axes. The labels are the numbers.
    Decades,
}

/// The mapping from values to SVG coordinates.
pub(super) struct Panel {
    pub(super) area: Rect,
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

/// The room of a tick on the x axis and on the y axis, in SVG units: its label and a gap.
const TICK: (f64, f64) = (88.0, 44.0);

/// The longest time axis whose ticks have times of the day, in seconds: two days.
const CLOCK_SECONDS: f64 = 2.0 * 86_400.0;

impl Panel {
    pub(super) fn at(&self, x: f64, y: f64) -> Place {
        let share = |(low, high): (f64, f64), v: f64| {
            if high > low { (v - low) / (high - low) } else { 0.0 }
        };
        (
            self.area.left + share(self.x, x) * self.area.width(),
            self.area.bottom - share(self.y, y) * self.area.height(),
        )
    }

    /// Returns the distance of a place from the vertical line at a third of the width. Lines of a
    /// report converge further right.
    pub(super) fn distance_to_third(&self, place: Place) -> f64 {
        (place.0 - self.area.left - self.area.width() / 3.0).abs()
    }

    /// Draws the grid and the ticks of both axes.
    pub(super) fn axes(&self, axis: Axis, svg: &mut String) {
        let Rect { left, right, bottom, .. } = self.area;
        let number = |value: f64, step: f64| match axis {
            Axis::Decades => decade(value),
            Axis::Number | Axis::Time => text::short(value, step),
        };
        let round = |ticks: Vec<f64>| -> Vec<f64> {
            let whole = |tick: &f64| axis != Axis::Decades || tick.fract() == 0.0;
            ticks.into_iter().filter(whole).collect()
        };
        let ys = round(ticks(self.y, room(self.area.height(), TICK.1)));
        let y_step = step(&ys);
        for y in ys {
            let (_, at) = self.at(self.x.0, y);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 6.0,
                at + 4.0,
                number(y, y_step)
            );
        }
        let most = room(self.area.width(), TICK.0);
        let xs = match axis {
            Axis::Number | Axis::Decades => round(ticks(self.x, most)),
            Axis::Time => time_ticks(self.x, most),
        };
        let x_step = step(&xs);
        for x in xs {
            let (at, _) = self.at(x, self.y.0);
            let label = match axis {
                Axis::Number | Axis::Decades => number(x, x_step),
                Axis::Time => text::tick(x, self.x.1 - self.x.0 <= CLOCK_SECONDS),
            };
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
                bottom + 4.0,
                bottom + 17.0,
            );
        }
    }
}

/// Returns the number with this decimal logarithm, a whole number.
fn decade(logarithm: f64) -> String {
    if logarithm < -2.0 {
        return format!("1e{logarithm:.0}");
    }
    let value = 10_f64.powf(logarithm);
    text::short(value, value)
}

/// The step of a single tick. Its text then has two decimals.
const STEP_OF_ONE: f64 = 0.01;

/// Returns the distance of ticks.
fn step(ticks: &[f64]) -> f64 {
    ticks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(STEP_OF_ONE)
}

/// Returns the number of ticks that an axis has room for, at least one.
fn room(length: f64, tick: f64) -> f64 {
    (length / tick).floor().max(1.0)
}

/// Returns at most `most` and two round values within a range.
fn ticks((low, high): (f64, f64), most: f64) -> Vec<f64> {
    let rough = (high - low) / most;
    if rough.is_nan() || rough <= 0.0 {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [0.5, 1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let at = |step: f64| {
        let first = (low / step).ceil() * step;
        let all = (0..50).map(|i| first + f64::from(i) * step);
        all.take_while(|tick| *tick <= high).collect::<Vec<f64>>()
    };
    let largest = steps.iter().skip(1).position(|step| *step >= rough).unwrap_or(0) + 1;
    // The height of a spike cannot be read from a single tick, such as 0.
    let found = at(steps[largest]);
    if found.len() < 2 { at(steps[largest - 1]) } else { found }
}

/// Returns the ticks of a time axis, in seconds: multiples of minutes, hours, days or weeks. The
/// step is the shortest that gives about `most` ticks or fewer.
fn time_ticks((low, high): (f64, f64), most: f64) -> Vec<f64> {
    let steps = [
        600.0,
        900.0,
        1_800.0,
        3_600.0,
        3.0 * 3_600.0,
        6.0 * 3_600.0,
        12.0 * 3_600.0,
        86_400.0,
        2.0 * 86_400.0,
        7.0 * 86_400.0,
        14.0 * 86_400.0,
        28.0 * 86_400.0,
        91.0 * 86_400.0,
        364.0 * 86_400.0,
    ];
    let step =
        steps.into_iter().find(|step| (high - low) / step <= most).unwrap_or((high - low) / most);
    let first = (low / step).ceil() * step;
    (0..20).map(|i| first + f64::from(i) * step).take_while(|tick| *tick <= high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_the_numbers_as_labels() {
        let labels = [-3.0, -2.0, 0.0, 3.0, 6.0].map(decade);
        assert_eq!(labels, ["1e-3", "0.01", "1", "1000", "1M"]);
        let area = Rect { left: 0.0, top: 0.0, right: 500.0, bottom: 300.0 };
        let mut svg = String::new();
        Panel { area, x: (-1.0, 2.0), y: (-2.5, 0.0) }.axes(Axis::Decades, &mut svg);
        for label in [">0.1<", ">1<", ">10<", ">100<", ">0.01<"] {
            assert!(svg.contains(label), "{label} is not in {svg}");
        }
        assert_eq!(svg.matches("<text").count(), 4 + 3, "{svg}");
    }

    #[test]
    fn an_axis_of_cents_repeats_no_label() {
        let area = Rect { left: 0.0, top: 0.0, right: 300.0, bottom: 200.0 };
        let mut svg = String::new();
        Panel { area, x: (0.0, 1.0), y: (0.0, 0.0045) }.axes(Axis::Number, &mut svg);
        let labels = [">0.002<", ">0.004<"];
        assert!(labels.iter().all(|label| svg.contains(label)), "{svg}");
        // One of each axis.
        assert_eq!(svg.matches(">0<").count(), 2, "{svg}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks((0.0, 10.0), 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks((0.0, 0.0), 5.0), [0.0]);
        assert_eq!(ticks((0.0, 44.0), 2.0), [0.0, 20.0, 40.0]);
        let two_weeks = time_ticks((0.0, 14.0 * 86_400.0), 9.0);
        assert_eq!(
            two_weeks,
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0].map(|day| day * 86_400.0)
        );
        assert_eq!(time_ticks((60.0, 3_660.0), 4.0), [900.0, 1_800.0, 2_700.0, 3_600.0]);
    }
}
