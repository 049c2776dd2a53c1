//! Past needs, weighted by nearness in time of day and by kind of day.
//!
//! The weight of a past window depends on recency, nearness in time of day and kind of day
//! (`past.rs`). The forecast is the weighted distribution of D. Needs are used instead of demand
//! because demand has a weak season where long jobs run. Needs follow arrivals, which have a strong
//! season.

use crate::forecast::windows::Changes;
use crate::forecast::windows::PastNeeds;
use crate::forecast::{
    demand_ahead::Ahead,
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::History;

/// Forecasts D from past windows at a similar time of day.
pub struct Seasonal {
    needs: PastNeeds<()>,
    changes: Changes,
}

impl Seasonal {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self { needs: PastNeeds::new(buckets, lead), changes: Changes::new(lead) }
    }
}

impl Forecaster for Seasonal {
    fn learn(&mut self, history: &History) {
        self.needs.learn(history, || ());
    }

    fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
        let new_nodes = self.needs.distributions(|notes| notes.iter().map(|()| 1.0));
        let reason = self.needs.reason();
        let bucket = |new_nodes| BucketOutlook::new(new_nodes, reason);
        Outlook { buckets: new_nodes.into_iter().map(bucket).collect() }
    }
}

impl DemandForecaster for Seasonal {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.changes.ahead(history, ticks, || self.needs.moments(|()| 1.0))
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// For six days, demand rises by 2 every ten minutes from 8:00 to 16:00 and at no other time.
    #[track_caller]
    fn check(hour: i64, expected: std::ops::Range<f64>) {
        let (mut seasonal, mut history) =
            (Seasonal::new(1, sample::LEAD), History::new(&sample::catalog()));
        for minute in 0..6 * 1_440 + hour * 60 {
            let day = (8..16).contains(&(minute / 60 % 24));
            let rise = if day && minute % 10 == 5 { 2 } else { 0 };
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand: 3, demand_max: 3 + rise, ..BucketTick::default() }],
            ));
            seasonal.learn(&history);
        }
        let now = history.last().unwrap().time;
        let outlook = seasonal.forecast(&history, &Present::at_tick(now, &Demand::default()));
        let chance = outlook.buckets[0].new_nodes.chance_of(2);
        assert!(expected.contains(&chance), "{chance}");
    }

    /// At noon three of ten windows of three ticks contain a rise. At midnight the windows with a
    /// rise are at least eight hours away in time of day, so they have hardly any weight.
    #[test]
    fn the_forecast_depends_on_the_time_of_day() {
        check(12, 0.24..0.34);
        check(0, 0.0..0.01);
    }
}
