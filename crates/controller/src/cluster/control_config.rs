//! The configuration of a policy's control, and its construction.

use chrono::{DateTime, Utc};
use control::{Control, WarmPools, WarmTerms};
use demand::forecast::{ForecasterConfig, Lead, Method};
use placeholders::Prices;

/// The configuration of a policy's control. When any field changes, the control learns anew.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ControlConfig {
    /// The configuration of the forecaster of placeholders.
    pub(super) forecaster: ForecasterConfig,
    /// Seconds between ticks.
    pub(super) tick_seconds: i64,
    /// The warm pools. `None` if the policy has none.
    pub(super) warm_pools: Option<WarmPoolsConfig>,
}

/// The configuration of the warm pools of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmPoolsConfig {
    /// The lead time of each bucket, which covers the preparation of an instance.
    pub(super) leads: Vec<Lead>,
    /// By bucket, what a pool saves and costs. `None` where no pool is possible.
    pub(super) terms: Vec<Option<WarmTerms>>,
}

impl ControlConfig {
    /// A control that has learnt nothing yet, for decisions from `from` on.
    pub(super) fn control(&self, from: DateTime<Utc>) -> Control {
        let Self { forecaster, tick_seconds, warm_pools } = self;
        let catalog = &forecaster.catalog;
        let warm_pools = warm_pools.as_ref().map(|WarmPoolsConfig { leads, terms }| {
            // The forecast of all past windows, as in the simulator.
            let (method, leads) = (Method::Increments, leads.clone());
            let config = ForecasterConfig { method, leads, ..forecaster.clone() };
            let prices = Prices::new(forecaster.objective, catalog);
            WarmPools::new(config.forecaster(from), catalog, &prices, terms)
        });
        Control::new(forecaster.forecaster(from), catalog, *tick_seconds)
            .with_warm_pools(warm_pools)
    }
}
