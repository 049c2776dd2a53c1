//! What the experts would have cost in one bucket.

use placeholders::Objective;

use super::super::Lead;
use super::super::hyperparameters::{HALF_LIFE_SECONDS, HEARD_SHARE};
use super::feedback::Feedback;
use super::share::FixedShare;
use super::stock::{Account, Stock};
use crate::record::BucketTick;

/// See the module.
pub(super) struct Judge {
    pub(super) shadows: Vec<Shadow>,
    weights: FixedShare,
    feedback: Feedback,
    /// Decayed counts of pods that arrived, and the nodes that they fill.
    pods: (f64, f64),
}

/// An expert's shadow, with decayed sums.
pub(super) struct Shadow {
    stock: Stock,
    /// Pods that wait for nodes that are missing.
    waiting: f64,
    days: f64,
    dollars: f64,
    /// Those of them for idling.
    idled: f64,
    launched: f64,
    hidden: f64,
    /// Whether it had an opinion at the last tick.
    speaks: bool,
}

impl Shadow {
    pub(super) fn dollars_a_day(&self) -> f64 {
        if self.days > 0.0 { self.dollars / self.days } else { 0.0 }
    }

    /// The share of launches hidden; all while there was none.
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
            speaks: false,
        };
        Self {
            shadows: std::iter::repeat_with(shadow).take(experts).collect(),
            weights: FixedShare::new(experts, lead.tick_seconds),
            feedback: Feedback::default(),
            pods: (0.0, 0.0),
        }
    }

    /// A tick, with what each expert wants from now on, if it has an opinion, and the pods that arrived with the nodes that they fill.
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
            shadow.speaks = want.is_some();
            want.as_ref()?;
            let Account { missing, idle: idle_nodes, launched, hidden } = account;
            // Those that came since the first node was missing: one for each that is, at least, and as many as they hold.
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

    /// How many pods wait for a node that is missing: as many as share one.
    fn pods_per_node(&self) -> f64 {
        if self.pods.1 > 0.0 { (self.pods.0 / self.pods.1).max(1.0) } else { 1.0 }
    }

    /// What say each expert has; they sum to one.
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

    /// The expert that reaches a level with the least idling; where none does, the one that comes closest. Who says nothing,
    /// or was heard for a short while only, has nothing to show.
    fn leanest(&self, level: f64) -> usize {
        let most = self.shadows.iter().map(|shadow| shadow.days).fold(0.0, f64::max);
        let is_heard = |shadow: &Shadow| shadow.speaks && shadow.days >= HEARD_SHARE * most;
        let heard = || self.shadows.iter().enumerate().filter(|(_, shadow)| is_heard(shadow));
        let reach = heard().map(|(_, shadow)| shadow.level()).fold(0.0, f64::max).min(level);
        let reaching = heard().filter(|(_, shadow)| shadow.level() >= reach);
        let leanest = reaching.min_by(|(_, a), (_, b)| a.idled_a_day().total_cmp(&b.idled_a_day()));
        leanest.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    const LEVEL: Objective = Objective::Quantile(0.9);

    /// For so many minutes a node more is needed for five of every twenty.
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
    fn who_says_nothing_or_has_nothing_to_show_holds_no_level() {
        let mut judge = Judge::new(3, sample::LEAD);
        teach(&mut judge, 1_440, &[Some(2), Some(1), None]);
        assert_eq!(chosen(&judge), Some(1));
        teach(&mut judge, 1, &[Some(2), None, None]);
        assert_eq!(chosen(&judge), Some(0));
        teach(&mut judge, 1, &[Some(2), Some(1), Some(0)]);
        assert_eq!(chosen(&judge), Some(1));
    }
}
