//! Splits the seconds of a time window by day.
//!
//! A window is (first second, first second after it).

/// The number of days that begin within a window, at most [`DAYS_MAX`].
pub fn days((from, until): (i64, i64)) -> usize {
    let days =
        until.saturating_sub(from).max(0).unsigned_abs().div_ceil(DAY_SECONDS.unsigned_abs());
    usize::try_from(days).map_or(DAYS_MAX, |days| days.min(DAYS_MAX))
}

/// The most days of a window: a thousand years, for windows without an end.
pub const DAYS_MAX: usize = 365_000;

/// The number of seconds from `since` to `now` that are within a window.
pub fn within((from, until): (i64, i64), since: i64, now: i64) -> i64 {
    (now.min(until) - since.max(from)).max(0)
}

/// Adds the seconds from `since` to `now` that are within a window to `days`, by day of the window.
pub fn add_by_day(days: &mut [i64], (from, until): (i64, i64), since: i64, now: i64) {
    let (mut at, end) = (since.max(from), now.min(until));
    while at < end {
        let day = (at - from) / DAY_SECONDS;
        let Some(seconds) = usize::try_from(day).ok().and_then(|day| days.get_mut(day)) else {
            return;
        };
        let next = end.min(from + (day + 1) * DAY_SECONDS);
        *seconds += next - at;
        at = next;
    }
}

/// The seconds of a day. The first day of a window begins with the window, not at midnight.
pub const DAY_SECONDS: i64 = 86_400;
