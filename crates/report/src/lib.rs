//! The page frame, the plots and the tables that the reports of the simulator and of the backtest
//! share.
//!
//! ```text
//! page.rs      the frame of an HTML page, and page.css
//! plot.rs      plots, as SVG, and plot.css
//! panel.rs     the axes of a plot
//! marks.rs     lines, bands and points
//! labels.rs    labels that cover neither each other nor a point
//! text.rs      dates and numbers as text
//! terminal.rs  tables and notes for a terminal
//! document.rs  objects for programs
//! ```

mod document;
mod labels;
mod marks;
mod page;
mod panel;
mod plot;
mod terminal;
mod text;

pub use document::versioned;
pub use marks::{Layer, Mark};
pub use page::{PAGE_STYLE, PLOT_STYLE, elements, section, whole};
pub use panel::Axis;
pub use plot::{Names, Plot, escape};
pub use terminal::{TextTable, write_note};
pub use text::{clock, day, grouped};
