//! Forecasts how many new nodes arrivals will need until a node that is ordered now is ready.
//!
//! Every method forecasts this number for each bucket, as a distribution of counts. A method learns
//! at ticks and forecasts at any time, for the state of that moment, from the past alone. A method
//! must never use information from the future, a clock or a random number.
//!
//! ```text
//! question.rs         the interface of a method: Forecaster, Present, Outlook
//! lead.rs             the lead time, the window that a forecast covers
//! gangs.rs            the sizes of the gangs that arrive within the lead time
//! per_lead.rs         one forecaster for each lead time, where buckets differ in it
//! method.rs           the methods by name
//! config.rs           the configuration of a forecaster, and its construction
//! learners.rs         a forecaster with the history from which it has learnt
//! carrier.rs          the expert whose forecast the ensemble holds
//! methods/            one file per method
//! expression/         expressions in CEL: their syntax and their evaluation
//! windows/            past windows of the history: their needs, their weights, their arrivals
//! ensemble/           experts, each a method at a quantile or a rule, weighted by hindsight cost
//! onnx/               trained models, from files that follow the contract of docs/models.md
//! model_fault.rs      a fault of a model, and the field at fault
//! calibrated.rs       corrects a method's level until D exceeds its quantile at the nominal rate
//! demand_ahead.rs     demand ahead, which only the backtest reads (blend.rs: its weighted average)
//! distribution.rs     counts with their probabilities
//! histogram.rs        a weighted histogram whose weights decay
//! cache.rs            what a forecast keeps for the next one, and copies of it
//! hyperparameters.rs  every number that could be tuned
//! ```

mod blend;
mod cache;
mod calibrated;
mod carrier;
mod config;
mod demand_ahead;
mod distribution;
mod ensemble;
mod expression;
mod gangs;
mod histogram;
mod hyperparameters;
mod lead;
mod learners;
mod method;
mod methods;
mod model_fault;
pub mod onnx;
mod per_lead;
#[cfg(test)]
mod properties;
mod question;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod windows;

pub use blend::Blend;
pub use cache::Copied;
pub use calibrated::Calibrated;
pub use carrier::Carrier;
pub use config::ForecasterConfig;
pub use demand_ahead::Ahead;
pub use distribution::Distribution;
pub use ensemble::Ensemble;
pub use expression::{EXPRESSION_MAX, Expression};
pub use gangs::WithGangs;
pub use lead::Lead;
pub use learners::Learners;
pub use method::{Baseline, Method};
pub use methods::{
    Arima, AutopilotMl, Burst, ByHour, Constant, Constants, ExpressionForecaster, HoltWinters,
    Increments, Ladder, LadderForecaster, LastValue, MovingWindow, Paths, Scenario, Seasonal, Ses,
    StateForecaster, StaticMax,
};
pub use model_fault::ModelFault;
pub use question::{BucketOutlook, DemandForecaster, Forecaster, HEADROOM_MAX, Outlook, Present};
pub use windows::last_needs;
