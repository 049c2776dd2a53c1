//! Reference methods for tables of policies: rules that need no forecast.

use chrono::{DateTime, TimeDelta, Timelike, Utc};

use crate::forecast::cache::Copied;
use crate::forecast::question::{DemandForecaster, Forecaster, Outlook, Present};
use crate::record::{History, Tick};

/// A constant number of placeholders of each bucket at all times, as static overprovisioners hold.
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub u64);

impl Forecaster for Constant {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(now.demand.present.len(), |_| self.0)
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(*self))
    }
}

impl DemandForecaster for Constant {}

/// A constant number of placeholders of each bucket at all times, one number for each of the first
/// buckets. Further buckets have none.
#[derive(Clone, Debug)]
pub struct Constants(pub Vec<u64>);

impl Forecaster for Constants {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(now.demand.present.len(), |id| self.0.get(id).copied().unwrap_or(0))
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for Constants {}

/// Placeholders up to the largest demand, in nodes, that was observed before a given time.
#[derive(Clone, Debug)]
pub struct StaticMax {
    until: DateTime<Utc>,
    most: Vec<u64>,
}

impl StaticMax {
    /// Uses the demand of ticks before `until`.
    pub fn new(buckets: usize, until: DateTime<Utc>) -> Self {
        Self { until, most: vec![0; buckets] }
    }
}

impl Forecaster for StaticMax {
    fn learn(&mut self, history: &History) {
        if let Some(tick) = history.last().filter(|tick| tick.time < self.until) {
            self.most
                .iter_mut()
                .zip(&tick.buckets)
                .for_each(|(most, bucket)| *most = bucket.demand_max.max(*most));
        }
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(self.most.len(), |id| self.most[id].saturating_sub(now.demand.present[id]))
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for StaticMax {}

/// Half of the nodes that were newly needed within a period, rounded up, up to a maximum.
///
/// A node is newly needed where demand rises from one tick to the next. Falls of demand do not
/// count.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    period: TimeDelta,
    most: u64,
}

impl Burst {
    /// Looks back `period_seconds`, and holds at most `most` placeholders of each bucket.
    pub fn new(period_seconds: i64, most: u64) -> Self {
        Self { period: TimeDelta::seconds(period_seconds), most }
    }
}

impl Forecaster for Burst {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let since = now.time - self.period;
        let within = history.latest(history.len()).rev().take_while(|tick| tick.time >= since);
        let ticks: Vec<&Tick> = within.collect();
        Outlook::certain(now.demand.present.len(), |id| {
            let demand = |tick: &&Tick| {
                tick.buckets.get(id).map_or((0, 0), |bucket| (bucket.demand, bucket.planned))
            };
            let planned = now.planned.get(id).copied().unwrap_or(0);
            let present = std::iter::once((now.demand.present[id], planned));
            let newly = newly_needed(present.chain(ticks.iter().map(demand)));
            newly.div_ceil(2).min(self.most)
        })
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(*self))
    }
}

impl DemandForecaster for Burst {}

/// Returns the sum of all rises of demand, without those that are due to planned pods. The latest
/// demand is the first. `demand` has, for each moment, the demand and the planned part of its rise.
pub(super) fn newly_needed(mut demand: impl Iterator<Item = (u64, u64)>) -> u64 {
    let (mut newly, mut later) = (0_u64, demand.next().unwrap_or_default());
    for earlier in demand {
        newly = newly.saturating_add(later.0.saturating_sub(earlier.0).saturating_sub(later.1));
        later = earlier;
    }
    newly
}

/// A constant by hour of the day: a number of placeholders on average, more of them in hours in
/// which more nodes were newly needed so far.
#[derive(Clone, Debug)]
pub struct ByHour {
    mean: u64,
    /// Nodes that were newly needed, by bucket and by hour of the day in UTC.
    newly: Vec<[u64; 24]>,
}

impl ByHour {
    /// Holds `mean` placeholders of each bucket on average.
    pub fn new(buckets: usize, mean: u64) -> Self {
        Self { mean, newly: vec![[0; 24]; buckets] }
    }
}

impl Forecaster for ByHour {
    fn learn(&mut self, history: &History) {
        let mut latest = history.latest(2);
        let (Some(earlier), Some(later)) = (latest.next(), latest.next()) else { return };
        let hour = later.time.hour() as usize;
        let buckets = earlier.buckets.iter().zip(&later.buckets);
        for (newly, (earlier, later)) in self.newly.iter_mut().zip(buckets) {
            let rise = later.demand.saturating_sub(earlier.demand).saturating_sub(later.planned);
            newly[hour] = newly[hour].saturating_add(rise);
        }
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        let hour = now.time.hour() as usize;
        Outlook::certain(self.newly.len(), |id| {
            let all = self.newly[id].iter().fold(0, |sum: u64, nodes| sum.saturating_add(*nodes));
            let share = if all > 0 { self.newly[id][hour] as f64 / all as f64 } else { 1.0 / 24.0 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            let nodes = (24.0 * share * self.mean as f64).round() as u64;
            nodes
        })
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for ByHour {}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    fn history(demand: &[u64]) -> History {
        let mut history = History::new(&sample::catalog());
        for (minute, &demand) in (0..).zip(demand) {
            let bucket = BucketTick { demand, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket]));
        }
        history
    }

    fn headroom(method: &dyn Forecaster, history: &History, present: u64) -> u64 {
        let demand = Demand { present: vec![present], ..Demand::default() };
        let now = Present::at_tick(history.last().unwrap().time, &demand);
        method.forecast(history, &now).buckets[0].headroom(0.5)
    }

    #[test]
    fn a_burst_holds_half_of_the_nodes_newly_needed_within_the_period() {
        let history = history(&[0, 10, 8, 9, 7]);
        let held = |minutes: i64, most| headroom(&Burst::new(60 * minutes, most), &history, 8);
        assert_eq!([held(1, 9), held(2, 9), held(9, 9), held(9, 4)], [1, 1, 6, 4]);
    }

    #[test]
    fn planned_nodes_are_not_newly_needed() {
        assert_eq!(newly_needed([(9, 2), (4, 1), (0, 0)].into_iter()), 6);
        assert_eq!(newly_needed([(9, 7), (4, 0)].into_iter()), 0);
    }

    /// All of the three nodes are newly needed within the first hour of the day.
    #[test]
    fn a_constant_by_hour_is_higher_in_hours_with_more_new_nodes() {
        let mut method = ByHour::new(1, 2);
        let history = history(&[0, 3]);
        assert_eq!(headroom(&method, &history, 3), 2);
        method.learn(&history);
        assert_eq!(headroom(&method, &history, 3), 48);
        let later = (0..=60).map(|_| 3).collect::<Vec<u64>>();
        let all: Vec<u64> = [0].into_iter().chain(later).collect();
        assert_eq!(headroom(&method, &self::history(&all), 3), 0);
    }
}
