//! Durations in the form `90s`, `5m` or `8d`.
//!
//! A number needs a unit, because it could mean seconds or minutes. Only 0 needs none, as in
//! Kubernetes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A duration in whole seconds, at most a thousand years.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Span(i64);

/// The longest duration, in seconds: a thousand years, so that the sum of a few durations does not
/// overflow an `i64`.
const SECONDS_MAX: i64 = 1_000 * 366 * 86_400;

/// The units and their lengths in seconds, longest first.
const UNITS: [(char, i64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The units of a duration of Go with their lengths in seconds. A unit that begins like another one
/// comes first.
const GO_UNITS: [(f64, &str); 6] =
    [(1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (3_600.0, "h"), (60.0, "m"), (1.0, "s")];

impl Span {
    /// A duration of this many seconds.
    pub const fn seconds(seconds: u32) -> Self {
        Self(seconds as i64)
    }

    /// Parses a duration in the form of Go, such as `1h30m0s` or `1.5h`, rounded down to whole
    /// seconds. `None` for any other text, and above a thousand years.
    pub fn of_go(text: &str) -> Option<Self> {
        let (mut seconds, mut rest) = (0.0, text);
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, unit) = rest.split_at(end);
            let (length, unit) = GO_UNITS.into_iter().find(|(_, name)| unit.starts_with(name))?;
            seconds += number.parse::<f64>().ok()? * length;
            rest = rest.get(end + unit.len()..)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is at most SECONDS_MAX")]
        let whole = seconds as i64;
        (!text.is_empty() && seconds <= SECONDS_MAX as f64).then_some(Self(whole))
    }

    /// The duration in seconds, at least 0.
    pub const fn as_seconds(self) -> i64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a duration such as 90s, 5m, 2h or 8d, got {text:?}");
        if text.starts_with('-') {
            return Err(format!("expected 0s or more, such as 90s, 5m, 2h or 8d, got {text:?}"));
        }
        let (digits, unit) = match text.chars().last() {
            Some(last) if last.is_ascii_alphabetic() => (&text[..text.len() - 1], last),
            _ if text == "0" => (text, 's'),
            _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!(
                    "{text} has no unit: give {text}s, {text}m, {text}h or {text}d"
                ));
            }
            _ => return Err(expected()),
        };
        let (_, seconds) =
            UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(expected)?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(expected());
        }
        let total = digits.parse::<i64>().ok().and_then(|n| n.checked_mul(seconds));
        total
            .filter(|total| *total <= SECONDS_MAX)
            .map(Self)
            .ok_or_else(|| format!("{text} is above 1000 years"))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, seconds) = UNITS
            .into_iter()
            .find(|&(_, seconds)| self.0 % seconds == 0 && self.0 > 0)
            .unwrap_or(UNITS[3]);
        write!(f, "{}{unit}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[track_caller]
    fn check(text: &str, seconds: i64, shown: &str) {
        let span: Span = text.parse().unwrap();
        assert_eq!((span.as_seconds(), span.to_string().as_str()), (seconds, shown));
    }

    #[test]
    fn durations_of_go_have_several_units() {
        let seconds = |text| Span::of_go(text).map(Span::as_seconds);
        let valid = [("1h30m5s", 5_405), ("1m0s", 60), ("90m", 5_400), ("1.5h", 5_400)];
        for (text, expected) in valid.into_iter().chain([("500ms", 0), ("1m1500ms", 61)]) {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "5", "1d", "Never", "-1s", "s", "1..5s", "1hé", "99999999999999h"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed_and_shown_in_the_longest_whole_unit() {
        check("0", 0, "0s");
        check("90s", 90, "90s");
        check("120s", 120, "2m");
        check("5m", 300, "5m");
        check("24h", 86_400, "1d");
        check("8d", 691_200, "8d");
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in [
            "",
            "m",
            "5",
            "-5",
            "-5m",
            "1.5h",
            "5 m",
            "5w",
            "99999999999999999999s",
            "400000d",
            "5é",
            "+5s",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
