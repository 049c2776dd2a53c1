//! Detects a permanent shift of the level of a series.
//!
//! One mean fits n values with the squared error S. Two means, before and after the position k, fit
//! them with the squared error S(k). The best k is a changepoint where n ln(S / S(k)) > 3 ln n. The
//! factor 3 is the penalty of the Bayesian information criterion (Yao, 1988) for a second mean and
//! its position.

/// Returns the position of the first value after the changepoint. `None` where there is no
/// changepoint.
pub(crate) fn changepoint(values: &[f64]) -> Option<usize> {
    let n = values.len() as f64;
    let whole = squared_error(values);
    let split = |at: &usize| squared_error(&values[..*at]) + squared_error(&values[*at..]);
    let best = (1..values.len()).min_by(|a, b| split(a).total_cmp(&split(b)))?;
    // The lower bound keeps rounding errors from counting as a change.
    let least = whole * 1e-9;
    let gain = n * (whole / split(&best).max(least)).ln();
    (whole > 0.0 && gain > 3.0 * n.ln()).then_some(best)
}

/// Returns the sum of squared differences between the values and their mean.
fn squared_error(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::changepoint;

    /// The squared error of 2, 3, 2, 3, 9, 10, 9 is 80.857. Split after the fourth value it is 1 +
    /// 0.667. This is a changepoint, because 7 ln 48.5 = 27.2 exceeds 3 ln 7 = 5.8.
    #[test]
    fn a_new_level_is_distinguished_from_noise() {
        assert_eq!(changepoint(&[2.0, 3.0, 2.0, 3.0, 9.0, 10.0, 9.0]), Some(4));
        assert_eq!(changepoint(&[2.0, 3.0, 2.0, 4.0, 3.0, 2.0, 3.0]), None);
        assert_eq!(changepoint(&[5.0; 7]), None);
        assert_eq!(changepoint(&[1.0, 1.0, 4.0]), Some(2));
        assert_eq!(changepoint(&[1.0]), None);
        assert_eq!(changepoint(&[]), None);
    }
}
