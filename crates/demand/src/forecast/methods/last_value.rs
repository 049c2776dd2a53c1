//! Persistence: the forecast is that demand does not change, so no new nodes are needed. With this
//! forecast, the paper's rule is the on-demand autoscaler.
//!
//! The policy name of this method is `scheduled`. Under every method, the headroom is at least the
//! announced demand within the lead time: CronJobs that fire, suspended and queued jobs that will
//! be released, and gated pods. With this method, the headroom is exactly the announced demand.

use crate::forecast::cache::Copied;
use crate::forecast::question::{DemandForecaster, Forecaster, Outlook, Present};
use crate::record::History;

/// Forecasts at all times that no new nodes are needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastValue;

impl Forecaster for LastValue {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(now.demand.present.len(), |_| 0)
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(*self))
    }
}

impl DemandForecaster for LastValue {}

#[cfg(test)]
mod tests {
    use crate::forecast::method::Method;

    #[test]
    fn scheduled_also_parses_from_its_old_name() {
        let named = |name: &str| serde_json::from_str::<Method>(name).unwrap();
        assert_eq!(
            (named("\"scheduled\""), named("\"last-value\"")),
            (Method::Scheduled, Method::Scheduled)
        );
        assert_eq!(serde_json::to_string(&Method::Scheduled).unwrap(), "\"scheduled\"");
    }
}
