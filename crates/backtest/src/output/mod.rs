//! Tables, files and plots of a backtest.
//!
//! ```text
//! document.rs     all figures as JSON, and the notes on them
//! text_tables.rs  the tables for a terminal
//! html.rs         one self-contained HTML page
//! curves.rs       its figures in the paper's protocol
//! headline.rs     its answer: which forecaster is best, and by how much
//! ```

mod curves;
mod document;
mod headline;
mod html;
mod text_tables;

use std::io;

use embedder::Catalog;

pub use document::Backtest;
pub use text_tables::write_table;

use simulator::SimulationSettings;
use traces::Trace;

/// Writes all files of a report.
///
/// # Errors
/// Returns the error of `write`.
pub fn write_report(
    backtest: &Backtest,
    settings: &SimulationSettings,
    trace: &Trace,
    catalog: &Catalog,
    write: impl Fn(&str, &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let document = backtest.document(settings, trace, catalog);
    write("figures.json", &mut |to| {
        serde_json::to_writer_pretty(to, &document).map_err(io::Error::from)
    })?;
    let page = html::page(backtest, settings, trace, catalog);
    write("backtest.html", &mut |to| to.write_all(page.as_bytes()))
}
