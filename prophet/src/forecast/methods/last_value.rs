//! Persistence: the forecast is that demand does not change, so no new nodes are needed. With this
//! forecast, the paper's rule is the on-demand autoscaler.
//!
//! The policy name of this method is `scheduled`. Under every method, the headroom is at least the
//! announced demand within the lead time: CronJobs that fire, suspended and queued jobs that will
//! be released, and gated pods. With this method, the headroom is exactly the announced demand.

use crate::forecast::kept::Copied;
use crate::forecast::question::{DemandForecaster, Forecaster, Outlook, Present, each};
use crate::record::History;

/// Forecasts at all times that no new nodes are needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastValue;

impl Forecaster for LastValue {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(now.demand.present.len(), |_| 0)
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(*self))
    }
}

impl DemandForecaster for LastValue {}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use embedder::Demand;
    use placeholders::{GroupStanding, Objective, Policy, Standing, Steady};

    use super::*;
    use crate::decide::decide;
    use crate::forecast::{method::Method, sample};

    #[track_caller]
    fn check(method: Method, announced: u64, placeholders: u64) {
        let catalog = sample::catalog();
        let forecaster =
            sample::config(method, Objective::default()).forecaster(DateTime::UNIX_EPOCH);
        let demand = Demand { present: vec![5], announced: vec![announced], ..Demand::default() };
        let now = DateTime::UNIX_EPOCH;
        let outlook =
            forecaster.forecast(&History::new(&sample::catalog()), &Present::at_tick(now, &demand));
        let standing = Standing { buckets: vec![vec![GroupStanding::default()]] };
        let (policy, steady) = (Policy::default(), Steady::default());
        let (plan, _) = decide(&outlook, &demand, &standing, &catalog, &policy, &steady, now);
        assert_eq!(plan.buckets[0].target, placeholders, "{method:?}");
    }

    /// At five nodes the ladder holds one placeholder.
    #[test]
    fn scheduled_holds_announced_demand_only() {
        check(Method::Scheduled, 0, 0);
        check(Method::Scheduled, 3, 3);
        check(Method::Ladder, 0, 1);
        check(Method::Ladder, 3, 3);
    }

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
