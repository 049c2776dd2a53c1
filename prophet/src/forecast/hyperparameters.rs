//! Every number that a method rests on and that could be tuned: the same for all logs and clusters.

/// After a week a past window counts half: long enough to know weekends, short enough to forget a project that has ended.
pub(super) const HALF_LIFE_SECONDS: f64 = 7.0 * 86_400.0;

/// Two hours away in time of day, a window counts a third (1/e).
pub(super) const DAY_SCALE_SECONDS: f64 = 7_200.0;

/// Windows that are drawn: the quantile 0.99 still rests on four.
pub(super) const WINDOWS: usize = 400;

/// Windows overlap by most of their length: every third start says as much as all.
pub(super) const STRIDE: usize = 3;

/// Closed windows that make a forecast, in ticks: two hours of one-minute ticks.
pub(super) const WINDOWS_MIN: usize = 120;

/// Arrivals of the last ten minutes say how busy it is.
pub(super) const ACTIVITY_SECONDS: i64 = 600;

/// Where ln(1 + room) differs by this much, a window counts a third (1/e).
pub(super) const ROOM_SCALE: f64 = 0.5;

/// On a day of the other kind (a weekend's for a working day, or the reverse), a window counts half.
pub(super) const OTHER_KIND_OF_DAY: f64 = 0.5;
