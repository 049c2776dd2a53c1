//! The page of policies: what each one observes, forecasts and holds, and why.
//!
//! The controller and the demo give it values ([`PolicyView`]). It does not depend on either of
//! them, reads no clock, and only shows what it was given. Its memory is bounded.
//!
//! ```text
//! view.rs       the values that it is given
//! series.rs     values over the last hour, day and two weeks, in bins
//! board.rs      the state: the last view of each policy, its series, the last decisions
//! choice.rs     what a browser selected: the policy, the bucket and the time
//! fragments.rs  the parts of the page that are updated
//! plots.rs      its plots
//! page.rs       the frame of the page
//! routes.rs     the responses to requests
//! http/         a small server: requests, connections and their limits
//! live.js       replaces fragments when the server sends them
//! ```

pub mod http;

mod board;
mod choice;
mod fragments;
mod page;
mod plots;
mod routes;
mod series;
mod view;

pub use board::{Captions, Curve, Dashboard};
pub use routes::respond;
pub use series::Range;
pub use view::{Acting, BucketView, CURVES, FaultView, Figure, PolicyView, Unit};
