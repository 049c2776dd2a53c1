//! The page frame, the plots and the tables that the reports of the simulator and of the backtest
//! share.
//!
//! ```text
//! page.rs  the frame of an HTML page
//! plot.rs  plots, as SVG
//! text.rs  tables and notes for a terminal
//! ```

mod page;
mod plot;
mod text;

pub(crate) use page::{STYLE, section, whole};
pub(crate) use plot::{Axis, Layer, Mark, Plot, escape};
pub(crate) use text::{TextTable, write_note};
