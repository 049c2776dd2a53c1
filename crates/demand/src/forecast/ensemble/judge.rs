//! The scores of the experts in one bucket: what following each of them would have cost.

use placeholders::Objective;

use super::median::carrying;
use super::share::FixedShare;
use super::stock::{Account, Stock};
use crate::forecast::hyperparameters::{HALF_LIFE_SECONDS, LEVEL_RATIOS};
use crate::forecast::lead::Lead;
use crate::record::BucketTick;

/// Scores the experts of one bucket.
#[derive(Clone)]
pub(super) struct Judge {
    /// One shadow stock per expert, in the order of the experts.
    pub(super) shadows: Vec<Shadow>,
    /// One panel for the price of the objective, or, with a service level as the objective, one
    /// panel per price of [`LEVEL_RATIOS`], the same in all buckets, and one per expert that is
    /// held alone.
    panels: Vec<Panel>,
    lead: Lead,
    /// The price of an instance-hour, in dollars.
    idle: f64,
    /// Decayed sums: the pods that arrived, and the nodes that these pods fill.
    pods: (f64, f64),
}

/// The experts, weighted at one price of waiting.
#[derive(Clone)]
pub(super) struct Panel {
    /// The price of a pending pod-hour, in dollars.
    pub(super) wait: f64,
    weights: FixedShare,
    /// The shadow stock of the panel's own headroom.
    shadow: Shadow,
}

/// The shadow stock of one headroom, with sums that decay with `HALF_LIFE_SECONDS`.
#[derive(Clone)]
pub(super) struct Shadow {
    stock: Stock,
    /// Pods that wait for the missing nodes, now.
    waiting: f64,
    /// The mean weight of these pods: the multiple of the price of waiting that one costs.
    weight: f64,
    /// Days in which there was a forecast.
    days: f64,
    /// Pending pod-hours, each multiplied by the weight of the pod.
    pending: f64,
    /// Dollars for the nodes that idle or launch.
    idled: f64,
    /// Pods that arrived, each multiplied by its weight.
    pods: f64,
    /// Pods that arrived and waited for a node, each multiplied by its weight.
    waited: f64,
}

/// The pods that arrived since the last tick.
#[derive(Clone, Copy)]
struct Arrived {
    pods: f64,
    /// The mean number of pods that share a node, at least 1: so many pods wait for a missing node.
    pods_per_node: f64,
    /// The mean weight of the pods.
    weight: f64,
}

/// The values of a tick that all shadows of a bucket share.
#[derive(Clone, Copy)]
struct Shared {
    /// The factor by which sums decay in a tick.
    keep: f64,
    /// The length of a tick in hours.
    hours: f64,
    /// The price of an instance-hour in dollars.
    idle: f64,
}

impl Shadow {
    fn new(stock: Stock) -> Self {
        Self {
            stock,
            waiting: 0.0,
            weight: 1.0,
            days: 0.0,
            pending: 0.0,
            idled: 0.0,
            pods: 0.0,
            waited: 0.0,
        }
    }

    /// Dollars for waiting, idling and launching, per day, if a pending pod-hour costs `wait`
    /// dollars; 0 before the first tick.
    pub(super) fn dollars_a_day(&self, wait: f64) -> f64 {
        if self.days > 0.0 { (wait * self.pending + self.idled) / self.days } else { 0.0 }
    }

    /// Advances by one tick, and returns the weighted pending pod-hours of the tick and the dollars
    /// for idling and launching. Returns `None` if there is no forecast, `want`, of the headroom
    /// from now on, in nodes.
    fn step(
        &mut self,
        demand: (u64, u64),
        want: Option<u64>,
        arrived: Arrived,
        Shared { keep, hours, idle }: Shared,
    ) -> Option<(f64, f64)> {
        let Account { missing, beyond } = self.stock.step(demand, want.unwrap_or_default());
        want?;
        // The pods that arrived since the first node was missing wait: at least one pod per missing
        // node, and at most as many pods as the missing nodes hold.
        let (missing, before) = (missing as f64, self.waiting);
        let most = arrived.pods_per_node * missing;
        let joined = before + arrived.pods;
        let weights = before * self.weight + arrived.pods * arrived.weight;
        self.weight = if joined > 0.0 { weights / joined } else { 1.0 };
        self.waiting = joined.clamp(missing, most);
        let pending = hours * self.waiting * self.weight;
        let idled = hours * idle * beyond as f64;
        self.days = keep * self.days + hours / 24.0;
        self.pending = keep * self.pending + pending;
        self.idled = keep * self.idled + idled;
        self.pods = keep * self.pods + arrived.pods * arrived.weight;
        let waited = (self.waiting - before).max(0.0) * arrived.weight;
        self.waited = keep * self.waited + waited;
        Some((pending, idled))
    }
}

impl Judge {
    /// Starts to score experts. `priors` has the weight of each before the first tick. With a
    /// service level as the objective, an expert with the weight 0 is a panel of its own. A shadow
    /// begins with a copy of `stock`. The prices are those of a pending pod-hour and of an
    /// instance-hour, in dollars.
    pub(super) fn new(
        priors: &[f64],
        stock: &Stock,
        lead: Lead,
        objective: Objective,
        (wait, idle): (f64, f64),
    ) -> Self {
        let panel_of = |wait, priors: &[f64]| Panel {
            wait,
            weights: FixedShare::new(priors, lead.tick_seconds),
            shadow: Shadow::new(stock.clone()),
        };
        let panel = |wait| panel_of(wait, priors);
        let panels = match objective {
            Objective::WaitCost(_) | Objective::WaitRatio(_) => vec![panel(wait)],
            Objective::Quantile(_) => {
                let price = |ratio: f64| ratio / Objective::WAIT_RATIO * wait;
                let weighed = LEVEL_RATIOS.map(|ratio| panel(price(ratio)));
                let dearest = price(LEVEL_RATIOS[LEVEL_RATIOS.len() - 1]);
                let alone = (0..priors.len()).filter(|expert| priors[*expert] == 0.0);
                let alone = alone.map(|expert| {
                    let mut only = vec![0.0; priors.len()];
                    only[expert] = 1.0;
                    panel_of(dearest, &only)
                });
                weighed.into_iter().chain(alone).collect()
            }
        };
        Self {
            shadows: priors.iter().map(|_| Shadow::new(stock.clone())).collect(),
            panels,
            lead,
            idle,
            pods: (0.0, 0.0),
        }
    }

    /// Learns from a tick.
    ///
    /// `wants` is the headroom of each expert from now on, in nodes, or `None` where the expert has
    /// no forecast. `pods` is the number of pods that arrived and the nodes that these pods fill,
    /// and `weight` the mean weight of these pods.
    pub(super) fn learn(
        &mut self,
        tick: BucketTick,
        wants: &[Option<u64>],
        pods: (f64, f64),
        weight: f64,
    ) {
        let tick_seconds = self.lead.tick_seconds as f64;
        let keep = (-tick_seconds / HALF_LIFE_SECONDS).exp2();
        let shared = Shared { keep, hours: tick_seconds / 3_600.0, idle: self.idle };
        self.pods = (keep * self.pods.0 + pods.0, keep * self.pods.1 + pods.1);
        let pods_per_node = self.pods_per_node();
        let arrived = Arrived { pods: pods.0, pods_per_node, weight };
        let demand = (tick.demand, tick.planned);
        let experts = self.shadows.iter_mut().zip(wants);
        let costs: Vec<Option<(f64, f64)>> =
            experts.map(|(shadow, want)| shadow.step(demand, *want, arrived, shared)).collect();
        let mut losses = vec![None; costs.len()];
        let has_choice = self.panels.len() > 1;
        for Panel { wait, weights, shadow } in &mut self.panels {
            for (loss, cost) in losses.iter_mut().zip(&costs) {
                *loss = cost.map(|(pending, idled)| *wait * pending + idled);
            }
            weights.learn(&losses);
            if has_choice {
                let carrying = carrying(wants, weights.weights());
                let want = carrying.and_then(|expert| wants[expert]);
                shadow.step(demand, want, arrived, shared);
            }
        }
    }

    /// The mean number of pods that fill a node, at least 1.
    pub(super) fn pods_per_node(&self) -> f64 {
        if self.pods.1 > 0.0 { (self.pods.0 / self.pods.1).max(1.0) } else { 1.0 }
    }

    /// Returns the weights of the experts in a panel, which sum to 1, and the price of a pending
    /// pod-hour at which they hold, in dollars.
    pub(super) fn shares(&self, panel: usize) -> (&[f64], f64) {
        let Panel { wait, weights, .. } = &self.panels[panel];
        (weights.weights(), *wait)
    }
}

/// Returns the panel that holds in each bucket, so that a level is reached over the pods of all
/// buckets together and the least is paid for nodes without need; or, if no choice reaches the
/// level, the panels with the fewest pods that waited. 0 for a bucket without a judge.
///
/// A pod that waited has one price in all buckets, and each bucket has the panel with the least sum
/// of that price and of its nodes without need. So a bucket whose nodes hide more pods for a dollar
/// gets more of them. The price is the lowest at which the level is reached.
pub(super) fn leanest(judges: &[Option<Judge>], level: f64) -> Vec<usize> {
    let cheapest = |judge: &Judge, price: f64| {
        let cost = |panel: &Panel| panel.shadow.idled + price * panel.shadow.waited;
        let costs = judge.panels.iter().map(cost).enumerate();
        costs.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at)
    };
    let at = |price: f64| -> Vec<usize> {
        let panel =
            |judge: &Option<Judge>| judge.as_ref().map_or(0, |judge| cheapest(judge, price));
        judges.iter().map(panel).collect()
    };
    let reached = |panels: &[usize]| {
        let held = judges.iter().zip(panels);
        let held = held.filter_map(|(judge, panel)| Some(&judge.as_ref()?.panels[*panel].shadow));
        let (pods, waited) = held.fold((0.0, 0.0), |(pods, waited), shadow| {
            (pods + shadow.pods, waited + shadow.waited)
        });
        waited <= (1.0 - level) * pods
    };
    let (mut low, mut high) = PRICES_OF_A_WAIT;
    for _ in 0..PRICE_STEPS {
        let middle = (low * high).sqrt();
        if reached(&at(middle)) { high = middle } else { low = middle }
    }
    let mut panels = at(high);
    // At one price, a bucket skips panels that are cheaper and still suffice.
    for (bucket, judge) in judges.iter().enumerate() {
        let Some(judge) = judge else { continue };
        let idled = |panel: &usize| judge.panels[*panel].shadow.idled;
        let held = panels[bucket];
        let mut cheaper: Vec<usize> =
            (0..judge.panels.len()).filter(|panel| idled(panel) < idled(&held)).collect();
        cheaper.sort_by(|a, b| idled(a).total_cmp(&idled(b)));
        let suffices = |panel: &usize| {
            panels[bucket] = *panel;
            reached(&panels)
        };
        panels[bucket] = cheaper.into_iter().find(suffices).unwrap_or(held);
    }
    panels
}

/// The lowest and the highest price of a pod that waited, in dollars, and the steps of the search
/// between them. Each halves the logarithm of the ratio of both, so the result is within 1 %.
const PRICES_OF_A_WAIT: (f64, f64) = (1e-6, 1e9);
const PRICE_STEPS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// Scores experts over three days, in which a pod needs a node of its own in five of every
    /// twenty minutes, and returns the judge.
    fn judge(level: f64, wants: &[Option<u64>]) -> Judge {
        let prices = (9.0, 1.0);
        let (stock, priors) = (Stock::new(sample::LEAD, 600), vec![1.0; wants.len()]);
        let objective = Objective::Quantile(level);
        let mut judge = Judge::new(&priors, &stock, sample::LEAD, objective, prices);
        for minute in 0..3 * 1_440_u64 {
            let demand = 1 + u64::from(minute % 20 < 5);
            let tick = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            let pods = if minute % 20 == 0 { (1.0, 1.0) } else { (0.0, 0.0) };
            judge.learn(tick, wants, pods, 1.0);
        }
        judge
    }

    #[test]
    fn a_level_is_reached_with_the_least_idling() {
        let held = |level| {
            let wants = [Some(0), Some(1), Some(9), None];
            let judge = judge(level, &wants);
            let judges = [Some(judge)];
            let panel = leanest(&judges, level)[0];
            let judge = judges[0].as_ref().unwrap();
            carrying(&wants, judge.shares(panel).0).and_then(|expert| wants[expert])
        };
        assert_eq!((held(0.99), held(0.01)), (Some(1), Some(0)));
    }

    /// Both experts hold no node while a pod arrives. Between arrivals, the second one launches
    /// nodes that no pod uses.
    #[test]
    fn an_unused_launch_raises_no_level() {
        let stock = Stock::new(sample::LEAD, 600);
        let objective = Objective::Quantile(0.9);
        let mut judge = Judge::new(&[1.0; 2], &stock, sample::LEAD, objective, (9.0, 1.0));
        for minute in 0..1_440_u64 {
            let demand = u64::from(minute % 120 < 5);
            let tick = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            let pods = if minute % 120 == 0 { (1.0, 1.0) } else { (0.0, 0.0) };
            let unused = if (40..60).contains(&(minute % 120)) { 5 } else { 0 };
            judge.learn(tick, &[Some(0), Some(unused)], pods, 1.0);
        }
        let level = |shadow: &Shadow| 1.0 - shadow.waited / shadow.pods;
        let levels: Vec<f64> = judge.shadows.iter().map(level).collect();
        assert!(levels[0] < 0.01 && levels[1] <= levels[0], "{levels:?}");
        assert!(judge.shadows[1].idled > 10.0 * judge.shadows[0].idled.max(0.1));
    }
}
