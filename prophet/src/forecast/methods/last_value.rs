//! Persistence: demand stays what it is, so nothing new is needed. The paper's rule with it is the on-demand
//! autoscaler.
//!
//! As the method of a policy it is called `scheduled`. What is announced within the lead, by CronJobs that fire, suspended and
//! queued jobs that are to be released, and pods behind gates, is held by every method as soon as it is more than the forecast; where
//! nothing is forecast, that is all that is held.

use crate::forecast::demand_ahead::DemandForecaster;

use crate::forecast::question::{Forecaster, Outlook, Present, each};
use crate::record::History;

/// Expects no new node, ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastValue;

impl Forecaster for LastValue {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(now.demand.present.len(), |_| 0)
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

    /// The ladder holds one of five.
    #[test]
    fn scheduled_holds_what_is_announced_and_nothing_else() {
        check(Method::Scheduled, 0, 0);
        check(Method::Scheduled, 3, 3);
        check(Method::Ladder, 0, 1);
        check(Method::Ladder, 3, 3);
    }

    #[test]
    fn scheduled_is_also_known_by_its_old_name() {
        let named = |name: &str| serde_json::from_str::<Method>(name).unwrap();
        assert_eq!(
            (named("\"scheduled\""), named("\"last-value\"")),
            (Method::Scheduled, Method::Scheduled)
        );
        assert_eq!(serde_json::to_string(&Method::Scheduled).unwrap(), "\"scheduled\"");
    }
}
