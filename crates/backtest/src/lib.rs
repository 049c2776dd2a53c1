//! Computes the errors of forecasts, and the cost of the decisions based on them.
//!
//! Forecasts are scored on offered demand. Decisions are scored by replays in the simulator
//! ([`simulator::compare`]). Forecasters run online from the first job of the log: at each
//! tick, they learn from the tick and then forecast. Only the oracle reads future demand. The
//! actual values that forecasts are compared with are also future demand.
//!
//! ```text
//! moments.rs           the ticks of a log, and the actual demand after each
//! horizon.rs           the horizons: a number of ticks, or the new nodes within the lead time
//! named_forecaster.rs  the forecasters that are scored, and the data that each reads
//! pass.rs              one forecaster, run online from tick to tick
//! answer.rs            one forecast
//! blended.rs           the demand forecast of the ensemble: a weighted average of methods
//! tally.rs             losses, by day
//! score.rs             the figures of a forecaster, computed from losses
//! errors.rs            all forecasters over all ticks, a day at a time
//! curves.rs            counts and forecasts over time, in the paper's protocol
//! plotted_days.rs      the days that a plot shows
//! acceptance.rs        whether a model may replace the model in use
//! table4.rs            table 4 of the paper, beside our results
//! output/              tables, files and plots of a backtest
//! ```

mod acceptance;
mod answer;
mod blended;
#[cfg(test)]
mod coverage;
mod curves;
mod errors;
mod horizon;
mod moments;
mod named_forecaster;
mod output;
mod pass;
mod plotted_days;
mod score;
mod table4;
mod tally;
#[cfg(test)]
mod tests;

pub use acceptance::{Acceptance, Check, Measure, Models, Reference, accept};
pub use errors::{Errors, forecast_errors};
pub use named_forecaster::{
    Lineup, NamedForecaster, NamedModel, default_forecasters, paper_forecasters, policies,
};
pub use output::{Backtest, write_report, write_table};
pub use score::{CoverageOverDays, Score};
pub use table4::{Protocol, paper_catalog};
