//! The carrier: the expert whose forecast the ensemble holds, with its weight and its costs.

use std::fmt;

/// The expert whose forecast is held for a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carrier {
    /// The name of the method.
    pub method: &'static str,
    /// The quantile of the method that is held, in (0, 1). `None` where the method forecasts a
    /// single count, which is then the headroom.
    pub quantile: Option<f64>,
    /// Its weight among the experts, in (0, 1].
    pub weight: f64,
    /// The recent hindsight cost of following this expert, waiting, idling and launching together,
    /// in dollars a day.
    pub dollars: f64,
    /// The recent hindsight cost without placeholders, in dollars a day.
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
