//! What was needed in the past at this time of day, on this kind of day.
//!
//! The need of a past window, D, weighs by recency, nearness in time of day (`past.rs`) and kind of day; the weighted
//! distribution of D is the forecast. Demand itself has a weak season where long jobs run; its increments follow arrivals,
//! which have a strong one.

use crate::forecast::windows::Changes;
use crate::forecast::windows::PastNeeds;
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    lead::Lead,
    question::{Forecaster, Outlook, Present},
};
use crate::record::History;

/// See the module.
pub struct Seasonal {
    needs: PastNeeds<()>,
    changes: Changes,
}

impl Seasonal {
    /// For so many buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self { needs: PastNeeds::new(buckets, lead), changes: Changes::new(lead) }
    }
}

impl Forecaster for Seasonal {
    fn learn(&mut self, history: &History) {
        self.needs.learn(history, || ());
    }

    fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
        self.needs.outlook(|()| 1.0)
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

    /// For six days, demand rises by 2 every ten minutes from 8 to 16 o'clock, and never else.
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

    /// Three of ten windows of three ticks see a rise at noon; four hours from it, hardly any weight is on those.
    #[test]
    fn the_time_of_day_counts() {
        check(12, 0.24..0.34);
        check(0, 0.0..0.01);
    }
}
