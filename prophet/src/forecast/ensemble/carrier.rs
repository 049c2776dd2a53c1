//! Which expert carries the ensemble, and why.

use std::fmt;

/// The expert whose word is held for a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carrier {
    /// The method.
    pub method: &'static str,
    /// The quantile of it that is held; all that it says where it is a point.
    pub quantile: Option<f64>,
    /// Its weight among the experts, in (0, 1].
    pub weight: f64,
    /// What following it would have cost lately, waiting and idling together, in dollars a day.
    pub dollars: f64,
    /// What holding nothing would have cost.
    pub dollars_without: f64,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, quantile, weight, dollars, dollars_without } = self;
        f.write_str(method)?;
        quantile.iter().try_for_each(|q| write!(f, ":{q}"))?;
        write!(
            f,
            " (weight {weight:.2}; {dollars:.2} dollars a day, {dollars_without:.2} without placeholders)"
        )
    }
}
