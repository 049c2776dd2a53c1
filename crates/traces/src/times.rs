//! The times of tables: seconds from any zero, or dates. All rows of a table have one of the two.

use chrono::{DateTime, NaiveDateTime};

use super::reader::{SECONDS_MAX, TraceFault, submission};

/// How times are written.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    /// Seconds from any zero.
    Seconds,
    /// Dates with a time.
    Dates,
}

/// The clock of the first row, and its line.
#[derive(Default)]
pub(super) struct SameClock(Option<(Clock, u64)>);

impl SameClock {
    /// Parses a time, and checks that it is written as that of the first row.
    pub(super) fn time(
        &mut self,
        column: &'static str,
        text: &str,
        line: u64,
    ) -> Result<i64, TraceFault> {
        let (time, clock) = time(column, text)?;
        let (first, at) = *self.0.get_or_insert((clock, line));
        let problem = match clock {
            _ if clock == first => return Ok(time),
            Clock::Seconds => format!("expected a date, because line {at} has one"),
            Clock::Dates => format!("expected seconds, because line {at} has them"),
        };
        Err(TraceFault::new(column, problem, text))
    }
}

/// Parses a number of seconds, or a time with or without its zone. A time without a zone is UTC.
fn time(column: &'static str, text: &str) -> Result<(i64, Clock), TraceFault> {
    if text.parse::<f64>().is_ok_and(f64::is_finite) {
        return Ok((submission(column, text)?, Clock::Seconds));
    }
    let fault = |problem: &'static str| TraceFault::new(column, problem, text);
    let zoned = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp());
    let plain = || {
        let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
        let mut times = formats.iter().map(|format| NaiveDateTime::parse_from_str(text, format));
        times.find_map(Result::ok).map(|time| time.and_utc().timestamp())
    };
    let time = zoned.or_else(plain).ok_or_else(|| {
        let year = text.trim_start_matches('+').split('-').next().unwrap_or_default();
        if year.len() > 4 && year.bytes().all(|byte| byte.is_ascii_digit()) {
            fault("expected a year of four digits")
        } else {
            fault("expected seconds, or a time such as 2024-01-31T09:30:00Z")
        }
    })?;
    match time {
        ..0 => Err(fault("expected a time from the year 1970 on")),
        _ if time as f64 > SECONDS_MAX => Err(fault("expected a time before the year 5138")),
        _ => Ok((time, Clock::Dates)),
    }
}
