//! The page frame and the plots that the reports of the simulator and of the backtest share.
//!
//! ```text
//! page.rs  the frame of an HTML page
//! plot.rs  plots, as SVG
//! ```

mod page;
mod plot;

pub(crate) use page::{STYLE, section, whole};
pub(crate) use plot::{Axis, Layer, Mark, Plot, escape};
