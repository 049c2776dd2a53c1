//! Dates and numbers as text.

use chrono::{DateTime, Utc};

use crate::replay::DAY_SECONDS;

/// The times of a log without dates are below this, in seconds: ten years from its zero.
const DATES_FROM: i64 = 10 * 366 * DAY_SECONDS;

/// Returns the day of a time: `6 Nov 2017`, or `day 8` for a log without dates.
pub(crate) fn day(seconds: i64) -> String {
    if seconds < DATES_FROM {
        return format!("day {}", seconds.div_euclid(DAY_SECONDS));
    }
    time(seconds).format("%-d %b %Y").to_string()
}

/// Returns the time of the day: `07:40`.
pub(crate) fn clock(seconds: i64) -> String {
    time(seconds).format("%H:%M").to_string()
}

/// Returns the label of a tick on a time axis. With `clock`, times between midnights have only the
/// time of the day.
pub(super) fn tick(seconds: f64, with_clock: bool) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "times of a log")]
    let seconds = seconds as i64;
    let is_midnight = seconds % DAY_SECONDS == 0;
    match (seconds < DATES_FROM, is_midnight) {
        (_, false) if with_clock => clock(seconds),
        (true, true) => day(seconds),
        (true, false) => format!("day {:.1}", seconds as f64 / DAY_SECONDS as f64),
        (false, _) => time(seconds).format("%-d %b").to_string(),
    }
}

fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

/// Returns a whole number with a comma between groups of three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("−{text}") } else { text }
}

/// Returns a number of an axis, as short as possible.
pub(super) fn short(value: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        let check = |value, expected: &str| assert_eq!(grouped(value), expected);
        check(0.4, "0");
        check(-0.4, "0");
        check(999.6, "1,000");
        check(-12_345.0, "−12,345");
        check(1_234_567.0, "1,234,567");
    }

    #[test]
    fn a_log_without_dates_counts_days() {
        assert_eq!(day(8 * DAY_SECONDS + 7_200), "day 8");
        assert_eq!(day(1_509_926_400), "6 Nov 2017");
        assert_eq!(tick(8.5 * 86_400.0, false), "day 8.5");
        assert_eq!(tick(8.5 * 86_400.0, true), "12:00");
        assert_eq!(tick(1_509_926_400.0, true), "6 Nov");
    }
}
