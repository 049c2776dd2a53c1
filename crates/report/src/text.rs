//! Dates and numbers as text.

use base::days::DAY_SECONDS;
use chrono::{DateTime, Utc};

/// The times of a log without dates are below this, in seconds: ten years from its zero.
const DATES_FROM: i64 = 10 * 366 * DAY_SECONDS;

/// Returns the day of a time: `6 Nov 2017`, or `day 8` for a log without dates.
pub fn day(seconds: i64) -> String {
    if seconds < DATES_FROM {
        return format!("day {}", seconds.div_euclid(DAY_SECONDS));
    }
    time(seconds).format("%-d %b %Y").to_string()
}

/// Returns the time of the day: `07:40`.
pub fn clock(seconds: i64) -> String {
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
pub fn grouped(value: f64) -> String {
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

/// Returns a number of an axis as short as possible. Numbers of an axis that are `step` apart
/// differ in their text.
pub(super) fn short(value: f64, step: f64) -> String {
    let (unit, suffix) = match value.abs() {
        a if a >= 1e6 => (1e6, "M"),
        a if a >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    // A step of 0.002 needs three decimals. The logarithm of 0.001 may be a little above -3.
    let decimals = (-(step / unit).log10() - 1e-9).ceil().clamp(0.0, DECIMALS_MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let decimals = decimals as usize;
    // A sum of 0 has no sign.
    let text = format!("{:.decimals$}", value / unit + 0.0);
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

/// The most decimals of a number of an axis.
const DECIMALS_MAX: f64 = 9.0;

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
    fn numbers_of_an_axis_are_short_and_differ() {
        let check = |step: f64, values: &[f64], expected: &[&str]| {
            let texts: Vec<String> = values.iter().map(|value| short(*value, step)).collect();
            assert_eq!(texts, expected);
        };
        check(0.002, &[-0.0, 0.002, 0.004], &["0", "0.002", "0.004"]);
        check(0.5, &[0.0, 0.5, 1.0], &["0", "0.5", "1"]);
        check(20.0, &[80.0, 100.0], &["80", "100"]);
        check(1.0, &[9_999.0, 10_000.0, 10_001.0], &["9999", "10k", "10.001k"]);
        check(500_000.0, &[500_000.0, 1_000_000.0, 1_500_000.0], &["500k", "1M", "1.5M"]);
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
