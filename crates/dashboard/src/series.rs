//! Values over the last hour, day and two weeks. Each range has bins, and a bin keeps the largest
//! value of its time, so a short peak stays visible. Where values are unknown, a line has a gap.

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
    /// The last moment, in seconds.
    last: Option<i64>,
}

/// The shortest gap, in seconds. A turn of a loaded controller can be late by a minute or two.
const GAP_MIN: i64 = 300;

/// The length of a gap in ticks: two ticks at least are missing.
const GAP_TICKS: i64 = 3;

impl<const N: usize> Series<N> {
    /// Adds the values of a moment. A moment before the last bin is left out. If more than some
    /// ticks have passed since the moment before, the values are unknown in between.
    pub(super) fn note(&mut self, time: i64, tick_seconds: i64, values: [f64; N]) {
        let gap = GAP_MIN.max(tick_seconds.saturating_mul(GAP_TICKS));
        let is_gap = self.last.is_some_and(|last| time.saturating_sub(last) > gap);
        self.last = self.last.max(Some(time));
        #[expect(clippy::cast_possible_truncation, reason = "a plot needs no more precision")]
        let values = values.map(|value| value as f32);
        for (range, bins) in Range::ALL.into_iter().zip(&mut self.ranges) {
            let start = time.div_euclid(range.bin_seconds()) * range.bin_seconds();
            let after = bins.back().map(|(last, _)| last + range.bin_seconds());
            if let Some(after) = after.filter(|after| is_gap && *after < start) {
                bins.push_back((after, [f32::NAN; N]));
            }
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

    /// The bins of a range that ends at `now`, as (start, value) of one of the values. An unknown
    /// value is NaN.
    fn bins(&self, range: Range, value: usize, now: i64) -> impl Iterator<Item = (f64, f64)> {
        let from = now.saturating_sub(range.seconds());
        let bins = self.ranges[range as usize].iter().filter(move |(start, _)| *start <= now);
        let within = bins.filter(move |(start, _)| start + range.bin_seconds() > from);
        within.map(move |(start, values)| ((*start).max(from) as f64, f64::from(values[value])))
    }

    /// The known values of a range, as (start, value).
    pub(super) fn points(&self, range: Range, value: usize, now: i64) -> Vec<(f64, f64)> {
        self.bins(range, value, now).filter(|(_, value)| value.is_finite()).collect()
    }

    /// The lines through the known values of a range, with gaps between them. Each line ends where
    /// its last value ends to be known, the last one at `now`.
    pub(super) fn lines(&self, range: Range, value: usize, now: i64) -> Vec<Vec<(f64, f64)>> {
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        for (start, value) in self.bins(range, value, now).chain([(now as f64, f64::NAN)]) {
            if value.is_finite() {
                line.push((start, value));
            } else if let Some((_, last)) = line.last().copied() {
                line.push((start, last));
                lines.push(std::mem::take(&mut line));
            }
        }
        lines
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
            series.note(60 * time, 60, [peak, f64::NAN]);
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
            series.note(time, 60, [value]);
        }
        assert_eq!(series.points(Range::Day, 0, 300), [(0.0, 5.0), (240.0, 2.0)]);
        assert_eq!(series.points(Range::Hour, 0, 300), [(0.0, 1.0), (230.0, 5.0), (240.0, 2.0)]);
    }

    #[test]
    fn a_line_has_a_gap_where_ticks_are_missing_or_the_value_is_unknown() {
        let mut series = Series::<1>::default();
        // A late turn, an hour without the controller, and a turn without a decision.
        let times = (0..10).map(|tick| 60 * tick).chain([780, 840]).chain([4_440, 4_500, 4_560]);
        for time in times {
            series.note(time, 60, [if time == 4_500 { f64::NAN } else { 2.0 }]);
        }
        let ends = |range: Range, now: i64| -> Vec<(f64, f64)> {
            let lines = series.lines(range, 0, now);
            assert!(lines.iter().flatten().all(|(_, value)| *value > 1.0), "{lines:?}");
            lines.iter().map(|line| (line[0].0, line[line.len() - 1].0)).collect()
        };
        let hour = ends(Range::Hour, 4_570);
        assert_eq!(hour, [(4_440.0, 4_500.0), (4_560.0, 4_570.0)]);
        assert_eq!(ends(Range::Day, 4_570), [(0.0, 960.0), (4_320.0, 4_570.0)]);
        // Ticks of an hour are no gap.
        let mut slow = Series::<1>::default();
        (0..5).for_each(|hour| slow.note(3_600 * hour, 3_600, [1.0]));
        assert_eq!(slow.lines(Range::Day, 0, 15_000).len(), 1);
    }
}
