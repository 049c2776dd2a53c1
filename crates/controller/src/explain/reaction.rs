//! How long the controller took to answer a change.

/// The time from the first event of a change to the last write in response.
#[derive(Clone, Copy, Debug)]
pub struct Reaction {
    /// The time in seconds.
    pub seconds: f64,
}
