//! How far off are forecasts, and what would decisions by them have cost?
//!
//! Forecasts are judged on offered demand, decisions by replay through the simulator ([`crate::simulate::compare`]). Forecasters
//! are fed online from the log's first job: each tick is learnt from, and then asked about; only the oracle and what is judged look
//! ahead.
//!
//! ```text
//! moments.rs    the ticks of a log, and what demand came to after each
//! horizon.rs    how far ahead: so many ticks, or the new nodes within the lead
//! entrant.rs    who is judged, and what each knows
//! pass.rs       a forecaster online, from tick to tick
//! answer.rs     what it said
//! blended.rs    the ensemble's demand ahead
//! tally.rs      losses, by day
//! score.rs      figures of losses
//! errors.rs     all forecasters over all ticks, a day at a time
//! telling.rs    a few days for a picture
//! table4.rs     the paper's table, with ours beside it
//! report/       tables, files and pictures of it
//! ```

mod answer;
mod blended;
mod entrant;
mod errors;
mod horizon;
mod moments;
mod pass;
mod report;
mod score;
mod table4;
mod tally;
mod telling;
#[cfg(test)]
mod tests;

pub use entrant::{NamedForecaster, NamedModel, default_forecasters, policies};
pub use errors::{Errors, forecast_errors};
pub use report::{Backtest, write_report, write_table};
pub use score::{CoverageOverDays, Score};
pub use table4::paper_catalog;
