//! The forecasting methods, one file each.
//!
//! ```text
//! ladder.rs         a step function of running cores and nodes
//! expression.rs     an expression of the user, in place of a forecast or upon one
//! last_value.rs     persistence: a forecast of no new nodes
//! increments.rs     the decayed empirical distribution of past needs
//! seasonal.rs       past needs at this time of day
//! state.rs          past needs where free room and arrivals were similar
//! scenario.rs       past windows of arrivals, packed into the present free room
//! moving_window.rs  Autopilot's moving window over demand
//! autopilot_ml.rs   Autopilot's recommender, which chooses among models
//! holt_winters.rs   exponential smoothing of demand, with a trend and a daily season
//! ses.rs            the paper's exponential smoothing with a multiplicative season
//! arima.rs          ARIMA(7, 1, 7) over demand (least_squares.rs: its fit)
//! paths.rs          turns the demand forecasts of the last four into new nodes (errors.rs)
//! reference.rs      references for tables: constants, static maximum, a rule for bursts
//! ```

mod arima;
mod autopilot_ml;
mod errors;
mod expression;
mod holt_winters;
mod increments;
mod ladder;
mod last_value;
mod least_squares;
mod moving_window;
mod paths;
mod reference;
mod scenario;
mod seasonal;
mod ses;
mod state;

pub use arima::Arima;
pub use autopilot_ml::AutopilotMl;
pub use expression::ExpressionForecaster;
pub use holt_winters::HoltWinters;
pub use increments::Increments;
pub use ladder::{Ladder, LadderForecaster};
pub use last_value::LastValue;
pub use moving_window::MovingWindow;
pub use paths::Paths;
pub use reference::{Burst, ByHour, Constant, Constants, StaticMax};
pub use scenario::Scenario;
pub use seasonal::Seasonal;
pub use ses::Ses;
pub use state::StateForecaster;
