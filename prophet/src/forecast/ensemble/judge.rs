//! The scores of the experts in one bucket: what following each of them would have cost.

use placeholders::Objective;

use super::feedback::Feedback;
use super::share::FixedShare;
use super::stock::{Account, Stock};
use crate::forecast::hyperparameters::{HALF_LIFE_SECONDS, OBSERVED_SHARE};
use crate::forecast::lead::Lead;
use crate::record::BucketTick;

/// Scores the experts of one bucket.
pub(super) struct Judge {
    /// One shadow stock per expert, in the order of the experts.
    pub(super) shadows: Vec<Shadow>,
    weights: FixedShare,
    feedback: Feedback,
    /// Decayed sums: the pods that arrived, and the nodes that these pods fill.
    pods: (f64, f64),
}

/// The shadow stock of an expert, with sums that decay with `HALF_LIFE_SECONDS`.
pub(super) struct Shadow {
    stock: Stock,
    /// Pods that wait for the missing nodes, now.
    waiting: f64,
    /// Days in which the expert had a forecast.
    days: f64,
    /// Dollars for waiting and idling.
    dollars: f64,
    /// Dollars for idling alone.
    idled: f64,
    /// Nodes that became ready.
    launched: f64,
    /// Nodes that became ready while no pod waited for them.
    hidden: f64,
    /// Whether the expert had a forecast at the last tick.
    has_forecast: bool,
}

impl Shadow {
    /// Dollars for waiting and idling, per day; 0 before the first tick.
    pub(super) fn dollars_a_day(&self) -> f64 {
        if self.days > 0.0 { self.dollars / self.days } else { 0.0 }
    }

    /// The share of launches that were hidden, 0 to 1; 1 before the first launch.
    fn level(&self) -> f64 {
        if self.launched > 0.0 { self.hidden / self.launched } else { 1.0 }
    }

    fn idled_a_day(&self) -> f64 {
        self.idled / self.days
    }
}

impl Judge {
    pub(super) fn new(experts: usize, lead: Lead) -> Self {
        let shadow = || Shadow {
            stock: Stock::new(lead),
            waiting: 0.0,
            days: 0.0,
            dollars: 0.0,
            idled: 0.0,
            launched: 0.0,
            hidden: 0.0,
            has_forecast: false,
        };
        Self {
            shadows: std::iter::repeat_with(shadow).take(experts).collect(),
            weights: FixedShare::new(experts, lead.tick_seconds),
            feedback: Feedback::default(),
            pods: (0.0, 0.0),
        }
    }

    /// Learns from a tick.
    ///
    /// `wants` is the headroom of each expert from now on, in nodes, or `None` where the expert has
    /// no forecast. `pods` is the number of pods that arrived and the nodes that these pods fill.
    pub(super) fn learn(
        &mut self,
        tick: BucketTick,
        wants: &[Option<u64>],
        pods: (f64, f64),
        objective: Objective,
        lead: Lead,
    ) {
        let keep = (-lead.tick_seconds as f64 / HALF_LIFE_SECONDS).exp2();
        self.pods = (keep * self.pods.0 + pods.0, keep * self.pods.1 + pods.1);
        let hours = lead.tick_seconds as f64 / 3_600.0;
        let (wait, idle) = match objective {
            Objective::Costs { wait, idle } => (wait, idle),
            Objective::Quantile(_) => (objective.wait_to_idle(), 1.0),
        };
        if let Objective::Quantile(level) = objective {
            self.feedback.learn(tick, level);
        }
        let pods_per_node = self.pods_per_node();
        let step = |(shadow, want): (&mut Shadow, &Option<u64>)| {
            let account = shadow.stock.step(tick.demand, want.unwrap_or_default());
            shadow.has_forecast = want.is_some();
            want.as_ref()?;
            let Account { missing, idle: idle_nodes, launched, hidden } = account;
            // The pods that arrived since the first node was missing wait: at least one pod per
            // missing node, and at most as many pods as the missing nodes hold.
            let missing = missing as f64;
            shadow.waiting = (shadow.waiting + pods.0).clamp(missing, pods_per_node * missing);
            let idled = hours * idle * idle_nodes as f64;
            let dollars = hours * wait * shadow.waiting + idled;
            shadow.days = keep * shadow.days + hours / 24.0;
            shadow.dollars = keep * shadow.dollars + dollars;
            shadow.idled = keep * shadow.idled + idled;
            shadow.launched = keep * shadow.launched + launched as f64;
            shadow.hidden = keep * shadow.hidden + hidden as f64;
            Some(dollars)
        };
        let losses: Vec<Option<f64>> = self.shadows.iter_mut().zip(wants).map(step).collect();
        self.weights.learn(&losses);
    }

    /// The mean number of pods that share a node, at least 1: so many pods wait for a missing node.
    fn pods_per_node(&self) -> f64 {
        if self.pods.1 > 0.0 { (self.pods.0 / self.pods.1).max(1.0) } else { 1.0 }
    }

    /// Returns the weights of the experts, which sum to 1.
    ///
    /// With costs as the objective, these are the weights of fixed share. With a service level, one
    /// expert has all the weight.
    pub(super) fn shares(&self, objective: Objective) -> Vec<f64> {
        match objective {
            Objective::Costs { .. } => self.weights.weights().to_vec(),
            Objective::Quantile(level) => {
                let mut shares = vec![0.0; self.shadows.len()];
                shares[self.leanest(self.feedback.ask(level))] = 1.0;
                shares
            }
        }
    }

    /// Returns the expert that reaches `level` with the least idling, or, if no expert reaches it,
    /// the expert that comes closest.
    ///
    /// An expert is eligible if it had a forecast at the last tick and was observed for at least
    /// `OBSERVED_SHARE` of the longest record, because a short record does not show that an expert
    /// reaches a level. Returns the first expert if none is eligible.
    fn leanest(&self, level: f64) -> usize {
        let most = self.shadows.iter().map(|shadow| shadow.days).fold(0.0, f64::max);
        let is_eligible =
            |shadow: &Shadow| shadow.has_forecast && shadow.days >= OBSERVED_SHARE * most;
        let eligible = || self.shadows.iter().enumerate().filter(|(_, shadow)| is_eligible(shadow));
        let reach = eligible().map(|(_, shadow)| shadow.level()).fold(0.0, f64::max).min(level);
        let reaching = eligible().filter(|(_, shadow)| shadow.level() >= reach);
        let leanest = reaching.min_by(|(_, a), (_, b)| a.idled_a_day().total_cmp(&b.idled_a_day()));
        leanest.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    const LEVEL: Objective = Objective::Quantile(0.9);

    /// Learns `minutes` ticks of a minute. Demand is one node higher in five of every twenty
    /// minutes.
    fn teach(judge: &mut Judge, minutes: u64, wants: &[Option<u64>]) {
        for minute in 0..minutes {
            let demand = 1 + u64::from(minute % 20 < 5);
            let tick = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            judge.learn(tick, wants, (0.0, 0.0), LEVEL, sample::LEAD);
        }
    }

    fn chosen(judge: &Judge) -> Option<usize> {
        judge.shares(LEVEL).iter().position(|share| *share > 0.0)
    }

    #[test]
    fn an_expert_without_a_forecast_or_with_a_short_record_is_not_chosen() {
        let mut judge = Judge::new(3, sample::LEAD);
        teach(&mut judge, 1_440, &[Some(2), Some(1), None]);
        assert_eq!(chosen(&judge), Some(1));
        teach(&mut judge, 1, &[Some(2), None, None]);
        assert_eq!(chosen(&judge), Some(0));
        teach(&mut judge, 1, &[Some(2), Some(1), Some(0)]);
        assert_eq!(chosen(&judge), Some(1));
    }
}
