//! An expression of the user, evaluated for each bucket, in place of a forecast or upon one.

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{BucketId, Catalog, UNLIMITED};
use placeholders::{Prices, Reason};

use super::reference::newly_needed;
use crate::forecast::cache::Copied;
use crate::forecast::distribution::Distribution;
use crate::forecast::expression::{Expression, Inputs, Statistic, StatisticKind};
use crate::forecast::model_fault::ModelFault;
use crate::forecast::question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present};
use crate::record::{History, Tick};

/// A forecaster whose headroom is the value of the expression that a user wrote.
pub struct ExpressionForecaster {
    expression: Expression,
    catalog: Catalog,
    prices: Prices,
    /// The ensemble, if the expression reads its forecast.
    ensemble: Option<Box<dyn DemandForecaster>>,
}

impl ExpressionForecaster {
    /// A forecaster for the buckets of `catalog`. `ensemble` is called only if the expression reads
    /// its forecast, of which `prices` select a quantile.
    pub fn new(
        expression: Expression,
        catalog: &Catalog,
        prices: Prices,
        ensemble: impl FnOnce() -> Box<dyn DemandForecaster>,
    ) -> Self {
        let ensemble = expression.reads_forecast().then(ensemble);
        Self { expression, catalog: catalog.clone(), prices, ensemble }
    }
}

impl Forecaster for ExpressionForecaster {
    fn learn(&mut self, history: &History) {
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.learn(history);
        }
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let mut outlook = match &self.ensemble {
            Some(ensemble) => ensemble.forecast(history, now),
            None => Outlook::certain(self.catalog.len(), |_| 0),
        };
        let statistics = self.expression.statistics();
        let ticks = earlier(history, now, statistics);
        for (id, bucket) in self.catalog.buckets().iter().enumerate() {
            let forecast = outlook.buckets[id].headroom(self.prices.quantile(id));
            let demand = demands(&ticks, now, id);
            let past: Vec<f64> = statistics.iter().map(|of| value(*of, now, &demand)).collect();
            let cpu_millis = bucket.allocatable.cpu_millis;
            #[expect(clippy::cast_precision_loss, reason = "counts of nodes and cores are small")]
            let inputs = Inputs {
                bucket: &bucket.name,
                demand: now.demand.present[id] as f64,
                cores: if cpu_millis == UNLIMITED { 0.0 } else { cpu_millis as f64 / 1_000.0 },
                price: self.prices.idle(id),
                forecast: forecast as f64,
                now: now.time,
                past: &past,
            };
            let placeholders = self.expression.placeholders(&inputs);
            // The outlook of the ensemble has more than the number: what each node is worth, and
            // the quantile for the sizes of gangs.
            if self.ensemble.is_none() || placeholders != forecast {
                let certain = Distribution::certain(placeholders);
                outlook.buckets[id] = BucketOutlook::new(certain, Reason::Expression);
            }
        }
        outlook
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.ensemble.as_ref().map_or_else(Vec::new, |ensemble| ensemble.faults())
    }

    fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        self.ensemble.as_ref().map_or_else(Vec::new, |ensemble| ensemble.weights(bucket))
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let ensemble = match &self.ensemble {
            Some(ensemble) => Some(ensemble.copy(copied)?),
            None => None,
        };
        Some(Box::new(Self {
            expression: self.expression.clone(),
            catalog: self.catalog.clone(),
            prices: self.prices.clone(),
            ensemble,
        }))
    }
}

impl DemandForecaster for ExpressionForecaster {}

/// The ticks before now within the longest period of the statistics, the latest first.
fn earlier<'a>(history: &'a History, now: &Present<'_>, statistics: &[Statistic]) -> Vec<&'a Tick> {
    let longest = statistics.iter().map(|statistic| statistic.seconds).max().unwrap_or(0);
    let since = now.time - TimeDelta::seconds(longest);
    let ticks = history.latest(history.len()).rev().take_while(|tick| tick.time >= since);
    // At a tick, present demand is that of the tick.
    ticks.filter(|tick| longest > 0 && tick.time < now.time).collect()
}

/// The demand of a bucket at one moment, and the part of its rise that is due to planned pods.
type DemandAt = (DateTime<Utc>, (u64, u64));

/// Present demand of a bucket and that of earlier ticks, the latest first.
fn demands(ticks: &[&Tick], now: &Present<'_>, id: BucketId) -> Vec<DemandAt> {
    let at = |tick: &&Tick| {
        let bucket = tick.buckets.get(id).copied().unwrap_or_default();
        (tick.time, (bucket.demand, bucket.planned))
    };
    let planned = now.planned.get(id).copied().unwrap_or(0);
    let present = (now.time, (now.demand.present[id], planned));
    std::iter::once(present).chain(ticks.iter().map(at)).collect()
}

/// Returns a statistic of the demand now and before, of which there is at least one value.
#[expect(clippy::cast_precision_loss, reason = "counts of nodes are small")]
fn value(statistic: Statistic, now: &Present<'_>, demand: &[DemandAt]) -> f64 {
    let since = now.time - TimeDelta::seconds(statistic.seconds);
    let within = demand.partition_point(|(time, _)| *time >= since);
    let all = || demand[..within].iter().map(|(_, (demand, _))| *demand);
    let count = within.max(1) as f64;
    match statistic.kind {
        StatisticKind::NewNodes => newly_needed(demand[..within].iter().map(|(_, at)| *at)) as f64,
        StatisticKind::Max => all().max().unwrap_or(0) as f64,
        StatisticKind::Min => all().min().unwrap_or(0) as f64,
        StatisticKind::Mean => all().map(|demand| demand as f64).sum::<f64>() / count,
        StatisticKind::Percentile(percent) => {
            let mut sorted: Vec<u64> = all().collect();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rank, from 1 to the number of values"
            )]
            let rank = (percent * count / 100.0).ceil() as usize;
            let at = rank.clamp(1, sorted.len()) - 1;
            *sorted.select_nth_unstable(at).1 as f64
        }
    }
}

#[cfg(test)]
#[cfg(feature = "kubernetes")]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::Carrier;
    use crate::forecast::methods::Burst;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// What an expression and, beside it, a burst of ten minutes hold half a minute after the last
    /// of these minutes.
    fn held(text: &str, demand: &[u64], present: u64) -> (u64, u64) {
        let catalog = sample::catalog();
        let mut history = History::new(&catalog);
        for (minute, &demand) in (0..).zip(demand) {
            let bucket = BucketTick { demand, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket]));
        }
        let demand = Demand { present: vec![present], ..Demand::default() };
        let now = history.last().unwrap().time + TimeDelta::seconds(30);
        let now = Present::at_tick(now, &demand);
        let prices = Prices::new(placeholders::Objective::default(), &catalog);
        let expression = text.parse().unwrap();
        let method = ExpressionForecaster::new(expression, &catalog, prices, || unreachable!());
        let of = |method: &dyn Forecaster| method.forecast(&history, &now).buckets[0].headroom(0.5);
        (of(&method), of(&Burst::new(600, 4)))
    }

    #[test]
    fn statistics_are_those_of_the_period_with_the_present() {
        let demand = [90, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let cases = [
            ("demand.percentile(50, \"9m\")", 5),
            ("demand.percentile(90, \"9m\")", 9),
            ("demand.percentile(100, \"9m\")", 10),
            ("demand.percentile(1, \"9m\")", 1),
            ("demand.max(\"9m\")", 10),
            ("demand.max(\"10m\")", 90),
            ("demand.min(\"9m\")", 1),
            ("demand.mean(\"9m\") * 10", 55),
            ("newNodes(\"9m\")", 9),
            ("demand.percentile(90, \"9m\") / 0.6 - demand", 5),
            ("cores", 8),
            ("price", 1),
        ];
        for (text, expected) in cases {
            assert_eq!(held(text, &demand, 10).0, expected, "{text}");
        }
    }

    /// An ensemble that always holds 3 nodes, by an expert.
    struct Three;

    impl Forecaster for Three {
        fn learn(&mut self, _: &History) {}

        fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
            let mut outlook = Outlook::certain(1, |_| 3);
            outlook.buckets[0].carrier = Some(Carrier {
                method: "state",
                quantile: Some(0.9),
                weight: 1.0,
                dollars: 1.0,
                dollars_without: 2.0,
            });
            outlook
        }
    }

    impl DemandForecaster for Three {}

    #[test]
    fn an_outlook_is_that_of_the_ensemble_where_the_number_is() {
        let catalog = sample::catalog();
        let demand = Demand { present: vec![1], ..Demand::default() };
        let now = Present::at_tick(DateTime::UNIX_EPOCH, &demand);
        let outlook = |text: &str| {
            let prices = Prices::new(placeholders::Objective::default(), &catalog);
            let expression = text.parse().unwrap();
            let method =
                ExpressionForecaster::new(expression, &catalog, prices, || Box::new(Three));
            let outlook = method.forecast(&History::new(&catalog), &now).buckets.remove(0);
            (outlook.headroom(0.5), outlook.reason, outlook.carrier.is_some())
        };
        assert_eq!(outlook("max(forecast, 2)"), (3, Reason::Forecast, true));
        assert_eq!(outlook("forecast + demand"), (4, Reason::Expression, false));
        assert_eq!(outlook("3"), (3, Reason::Expression, false));
    }

    /// The tick of this moment has the present demand, which counts once.
    #[test]
    fn at_a_tick_present_demand_counts_once() {
        let catalog = sample::catalog();
        let mut history = History::new(&catalog);
        for (minute, demand) in [(0, 4), (1, 8)] {
            let bucket = BucketTick { demand, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket]));
        }
        let demand = Demand { present: vec![8], ..Demand::default() };
        let now = Present::at_tick(history.last().unwrap().time, &demand);
        let mean = Statistic { kind: StatisticKind::Mean, seconds: 600 };
        let ticks = earlier(&history, &now, &[mean]);
        assert_eq!(value(mean, &now, &demands(&ticks, &now, 0)).to_string(), "6");
    }

    #[test]
    fn a_burst_can_be_written_as_an_expression() {
        let waves: Vec<u64> = (0..40_u64).map(|minute| minute * minute * 7 % 13).collect();
        for length in 1..=waves.len() {
            let (expression, burst) =
                held("min(newNodes(\"10m\") / 2, 4)", &waves[..length], waves[length % 40]);
            assert_eq!(expression, burst, "{length}");
        }
    }
}
