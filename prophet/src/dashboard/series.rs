//! Values over the last hour, day and two weeks. Each range has bins, and a bin keeps the largest
//! value of its time, so a short peak stays visible.

use std::collections::VecDeque;

/// The length of time that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// The last hour.
    Hour,
    /// The last day.
    #[default]
    Day,
    /// The last two weeks.
    TwoWeeks,
}

impl Range {
    pub(super) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::TwoWeeks];

    /// Its name in addresses, and for people.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Hour => ("hour", "last hour"),
            Self::Day => ("day", "last day"),
            Self::TwoWeeks => ("weeks", "last two weeks"),
        }
    }

    /// Its length in seconds.
    pub(super) const fn seconds(self) -> i64 {
        match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::TwoWeeks => 14 * 86_400,
        }
    }

    /// The length of its bins in seconds. Each range has 336 or 360 bins: about as many as a narrow
    /// plot has horizontal pixels.
    const fn bin_seconds(self) -> i64 {
        match self {
            Self::Hour => 10,
            Self::Day => 240,
            Self::TwoWeeks => 3_600,
        }
    }
}

/// The values of a moment or of a bin; NaN where there is none.
type Values<const N: usize> = [f32; N];

/// Some values over each range.
#[derive(Clone, Debug, Default)]
pub(super) struct Series<const N: usize> {
    ranges: [VecDeque<(i64, Values<N>)>; 3],
}

impl<const N: usize> Series<N> {
    /// Adds the values of a moment. A moment before the last bin is left out.
    pub(super) fn note(&mut self, time: i64, values: [f64; N]) {
        #[expect(clippy::cast_possible_truncation, reason = "a plot needs no more precision")]
        let values = values.map(|value| value as f32);
        for (range, bins) in Range::ALL.into_iter().zip(&mut self.ranges) {
            let start = time.div_euclid(range.bin_seconds()) * range.bin_seconds();
            match bins.back_mut() {
                Some((last, _)) if *last > start => continue,
                Some((last, known)) if *last == start => {
                    known
                        .iter_mut()
                        .zip(values)
                        .for_each(|(known, value)| *known = known.max(value));
                }
                _ => bins.push_back((start, values)),
            }
            // The bin in which the range begins stays, so that lines reach the edge of the plot.
            let oldest = start.saturating_sub(range.seconds());
            while bins.front().is_some_and(|(first, _)| *first < oldest) {
                bins.pop_front();
            }
        }
    }

    /// The bins of a range that ends at `now`, as (start, value) of one of the values.
    pub(super) fn points(&self, range: Range, value: usize, now: i64) -> Vec<(f64, f64)> {
        let from = now.saturating_sub(range.seconds());
        let bins = self.ranges[range as usize].iter().filter(|(start, _)| *start <= now);
        let point = |(start, values): &(i64, Values<N>)| {
            ((*start).max(from) as f64, f64::from(values[value]))
        };
        let within = bins.filter(|(start, _)| start + range.bin_seconds() > from);
        within.map(point).filter(|(_, value)| value.is_finite()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_keeps_its_largest_value_and_old_bins_go() {
        let mut series = Series::<2>::default();
        for time in 0..20 * 86_400 / 60 {
            let peak = if time == 100 { 7.0 } else { 1.0 };
            series.note(60 * time, [peak, f64::NAN]);
        }
        let now = 20 * 86_400 - 60;
        for (range, bins) in Range::ALL.into_iter().zip([61, 361, 337]) {
            let points = series.points(range, 0, now);
            assert!(points.len() <= bins, "{range:?}: {}", points.len());
            assert!(points[0].0 >= (now - range.seconds()) as f64, "{range:?}");
            assert_eq!(series.points(range, 1, now), []);
        }
        let mut series = Series::<1>::default();
        for (time, value) in [(0, 1.0), (239, 5.0), (240, 2.0), (100, 9.0)] {
            series.note(time, [value]);
        }
        assert_eq!(series.points(Range::Day, 0, 300), [(0.0, 5.0), (240.0, 2.0)]);
        assert_eq!(series.points(Range::Hour, 0, 300), [(0.0, 1.0), (230.0, 5.0), (240.0, 2.0)]);
    }
}
