//! Kubernetes quantities (`100m`, `1.5Gi`, `12e6`), parsed exactly and rounded up, as in the
//! scheduler.

/// The maximum number of digits of a quantity: 30. No meaningful quantity has more.
const DIGITS_MAX: usize = 30;

/// Parses a quantity into thousandths of its unit, for example CPU in millis.
///
/// Returns `None` if the text is not a quantity or is negative. Saturates at `u64::MAX`.
pub fn millis(text: &str) -> Option<u64> {
    scaled(text, 3)
}

/// Parses a quantity into whole units, for example bytes.
///
/// Returns `None` if the text is not a quantity or is negative. Saturates at `u64::MAX`.
pub fn units(text: &str) -> Option<u64> {
    scaled(text, 0)
}

/// Returns `text` times ten to the power of `shift`, rounded up.
fn scaled(text: &str, shift: i32) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || digits > DIGITS_MAX || fraction.contains('.') {
        return None;
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (power_of_two, power_of_ten) = suffix_powers(suffix)?;
    let tens = power_of_ten + shift - i32::try_from(fraction.len()).ok()?;
    let Some(scaled) = mantissa.checked_mul(1 << power_of_two) else { return Some(u64::MAX) };
    let ten_to = |power: i32| 10_u128.checked_pow(power.unsigned_abs());
    let exact = if tens >= 0 {
        // Zero times any power of ten is zero.
        if scaled == 0 { Some(0) } else { ten_to(tens).and_then(|by| scaled.checked_mul(by)) }
    } else {
        // The divisor exceeds `u128`, so the result rounds up to 1, or is 0 for 0.
        Some(ten_to(tens).map_or(u128::from(scaled > 0), |by| scaled.div_ceil(by)))
    };
    Some(exact.and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX))
}

/// Returns the powers of two and of ten of a suffix.
fn suffix_powers(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            (0, power.parse().ok().filter(|power| (-99..=99).contains(power))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, in_millis: Option<u64>, in_units: Option<u64>) {
        assert_eq!((millis(text), units(text)), (in_millis, in_units), "{text}");
    }

    #[test]
    fn quantities_are_exact_and_round_up() {
        check("0", Some(0), Some(0));
        check("2", Some(2_000), Some(2));
        check("100m", Some(100), Some(1));
        check("1.5", Some(1_500), Some(2));
        check(".5", Some(500), Some(1));
        check("5.", Some(5_000), Some(5));
        check("1.5Gi", Some(1_610_612_736_000), Some(1_610_612_736));
        check("0.1Ki", Some(102_400), Some(103));
        check("128M", Some(128_000_000_000), Some(128_000_000));
        check("12e6", Some(12_000_000_000), Some(12_000_000));
        check("12E-3", Some(12), Some(1));
        check("1E", Some(u64::MAX), Some(1_000_000_000_000_000_000));
        check("1n", Some(1), Some(1));
        check("+3", Some(3_000), Some(3));
        check("0e99", Some(0), Some(0));
        check("9e99", Some(u64::MAX), Some(u64::MAX));
        check("1e-99", Some(1), Some(1));
    }

    #[test]
    fn invalid_quantities_are_none() {
        for text in ["", "m", ".", "-1", "1 Gi", "1.2.3", "1gi", "1e", "1e100", "1Mb", "Gi", "é"] {
            check(text, None, None);
        }
    }
}
