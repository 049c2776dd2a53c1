//! Waiting, launches and the bill of some days.

use serde::Serialize;
use simulator::{Bill, DayFigures, RunFigures};

/// Sums over some days, of the mean of several replays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// The pods that were submitted.
    pub pods: f64,
    /// Those of them that waited no longer than one scan of the autoscaler.
    pub pods_hidden: f64,
    /// The time that these pods waited, in hours.
    pub pending_pod_hours: f64,
    /// The same, where each pod is weighted by its tier.
    pub weighted_pod_hours: f64,
    /// The nodes that were requested.
    pub launches: f64,
    /// The prices of the waiting, and of the nodes and warm pools. In JSON, its fields are among
    /// those of the sums.
    #[serde(flatten)]
    pub bill: Bill,
}

/// The names of the sums, in the order of [`Totals::values`].
pub const COLUMNS: [&str; 10] = [
    "pods",
    "pods_hidden",
    "pending_pod_hours",
    "weighted_pod_hours",
    "launches",
    "waiting",
    "idling",
    "launching",
    "warm_pool",
    "packing",
];

impl Totals {
    /// All sums, in the order of [`COLUMNS`].
    pub fn values(&self) -> [f64; 10] {
        [
            self.pods,
            self.pods_hidden,
            self.pending_pod_hours,
            self.weighted_pod_hours,
            self.launches,
            self.bill.waiting,
            self.bill.idling,
            self.bill.launching,
            self.bill.warm_pool,
            self.bill.packing,
        ]
    }

    /// The sums with these values, in the order of [`COLUMNS`].
    pub fn of_values(values: [f64; 10]) -> Self {
        let [pods, pods_hidden, pending_pod_hours, weighted_pod_hours, launches, ..] = values;
        let [.., waiting, idling, launching, warm_pool, packing] = values;
        Self {
            pods,
            pods_hidden,
            pending_pod_hours,
            weighted_pod_hours,
            launches,
            bill: Bill { waiting, idling, launching, warm_pool, packing },
        }
    }

    /// The sums of one day of one run.
    pub fn of_day(day: &DayFigures) -> Self {
        Self {
            pods: day.pods as f64,
            pods_hidden: day.pods_hidden as f64,
            pending_pod_hours: day.pending_pod_hours,
            weighted_pod_hours: day.weighted_pod_hours,
            launches: day.launches as f64,
            bill: day.bill,
        }
    }

    /// The days of several replays of a run: the mean of the replays, by day.
    pub fn means(replays: &[RunFigures]) -> Vec<Self> {
        let of_run = |run: &RunFigures| run.days.iter().map(Self::of_day).collect();
        Self::means_of(&replays.iter().map(of_run).collect::<Vec<Vec<Self>>>())
    }

    /// The mean of several replays, each given by day.
    pub fn means_of(replays: &[Vec<Self>]) -> Vec<Self> {
        let days = replays.iter().map(Vec::len).max().unwrap_or(0);
        let share = 1.0 / replays.len().max(1) as f64;
        let mean = |day: usize| {
            let sum = Self::sum(replays.iter().filter_map(|run| run.get(day)));
            Self::of_values(sum.values().map(|value| share * value))
        };
        (0..days).map(mean).collect()
    }

    /// The sum of some days.
    pub fn sum<'a>(days: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = [0.0; 10];
        for day in days {
            sum.iter_mut().zip(day.values()).for_each(|(sum, value)| *sum += value);
        }
        Self::of_values(sum)
    }

    /// The cost beyond that of the autoscaler alone, as a share of the price of the latter's
    /// waiting, as in [`simulator::Figures::extra_cost`]. It is NaN if nothing waited.
    pub fn extra_cost(&self, reactive: &Self) -> f64 {
        (self.bill.cost() - reactive.bill.cost()) / reactive.bill.waiting
    }

    /// The share of pods that waited no longer than one scan.
    pub fn hidden_share(&self) -> f64 {
        self.pods_hidden / self.pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_have_the_order_of_the_fields() {
        let totals = Totals::of_values(std::array::from_fn(|at| at as f64));
        let fields = serde_json::to_value(totals).unwrap();
        for (name, value) in COLUMNS.into_iter().zip(totals.values()) {
            assert_eq!(fields[name], value, "{name}");
        }
        assert_eq!(Totals::of_values(totals.values()), totals);
    }

    #[test]
    fn means_are_by_day() {
        let day = |pods: f64| Totals { pods, ..Totals::default() };
        let means = Totals::means_of(&[vec![day(1.0), day(2.0)], vec![day(3.0), day(6.0)]]);
        assert_eq!(means, [day(2.0), day(4.0)]);
        assert_eq!(Totals::means_of(&[]), []);
    }
}
