//! Planned pods: pods that were announced for a known time.
//!
//! Planned pods count as if they were pending from one launch before they come, so their nodes are
//! there in time, and forecasts see demand with them. The rise of demand that they cause was known
//! a launch ahead, so no forecast learns it, and neither do forecasts see these pods arrive. So
//! forecasts are of the rest of the arrivals, and both parts are held together.
//!
//! Pods that are planned later than a launch ahead arrive, for a forecast, when they are planned.
//! Without headroom they wait only for the rest of the launch, so experts weigh their waiting by
//! that rest.
//!
//! Not all planned pods come. The share that came of the plans of each author is known as a
//! distribution, of which the newest plans weigh most. What is held for the next plan of the author
//! is the quantile that the price of waiting implies (the newsvendor's): with the default price,
//! all of the pods while one of ten plans is kept, and none after eight plans in a row of which
//! nothing came.

use std::collections::BTreeMap;

use demand::record::{KeptPlan, Recorder};
use embedder::{Catalog, Cluster, Demand, PodRequest, VirtualInstance};
use placeholders::{Objective, Prices};

/// The pods of one plan that are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPods {
    /// Identifies the plan, as long as it is observed.
    pub plan: String,
    /// Who planned the pods.
    pub author: String,
    /// The pods that are still to come.
    pub requests: Vec<PodRequest>,
    /// The number of planned pods, with those that came.
    pub planned: u64,
    /// Of these, the pods that came, or that are there.
    pub came: u64,
    /// The instances that the pods take together. `None` if they fit on one, or if they may start
    /// one by one.
    pub gang: Option<VirtualInstance>,
    /// For how long the policy knew of the pods before they come, in thousandths of a launch, at
    /// most [`NOTICE_MAX`].
    pub notice: u64,
    /// Whether all pods are held, however many of the earlier plans of the author were kept.
    pub certain: bool,
}

/// The notice of pods that are planned a launch ahead, or earlier.
pub const NOTICE_MAX: u64 = 1_000;

impl PlannedPods {
    /// The number of pods that are still to come.
    fn left(&self) -> u64 {
        number(&self.requests)
    }
}

/// The number of pods.
pub(crate) fn number(requests: &[PodRequest]) -> u64 {
    requests.iter().fold(0, |sum, request| sum.saturating_add(request.count))
}

/// What became of the plans of each author, and the plans that have been seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    /// With the number of the last plan of each that ended.
    authors: BTreeMap<String, (Kept, u64)>,
    /// The number of plans that ended.
    ended: u64,
    /// By plan of the last observation: the pods for which nodes are held, and that did not come
    /// since. `None` before the first observation, in which no plan is new.
    held: Option<BTreeMap<String, u64>>,
    /// The plans that are observed no more, with the pods for which nodes were held, and when they
    /// were observed last, in Unix seconds: their pods may be seen to come later.
    past: BTreeMap<String, (u64, i64)>,
}

/// How long the pods of a plan that is observed no more are known to be planned, in seconds. A pod
/// is seen to come ten seconds after its creation at the latest.
const PAST_SECONDS: i64 = 60;

/// The most authors whose plans are remembered. A further one replaces the one of whom no plan
/// ended for the longest time.
const AUTHORS_MAX: usize = 1_000;

/// The shares of planned pods that came, as weights by tenths.
#[derive(Clone, Debug)]
struct Kept([f64; Kept::STEPS + 1]);

impl Kept {
    /// The number of steps of the shares.
    const STEPS: usize = 10;

    /// The weight of a plan relative to that of the next one.
    const DECAY: f64 = 0.95;

    /// Before the first plan: one that was kept.
    fn new() -> Self {
        let mut weights = [0.0; Self::STEPS + 1];
        weights[Self::STEPS] = 1.0;
        Self(weights)
    }

    fn learn(&mut self, KeptPlan { planned, came, .. }: &KeptPlan) {
        let steps = Self::STEPS as u64;
        let (planned, came) = (u128::from(*planned), u128::from(*came.min(planned)));
        let Some(tenths) = (came * u128::from(steps)).checked_div(planned) else { return };
        self.0.iter_mut().for_each(|weight| *weight *= Self::DECAY);
        self.0[usize::try_from(tenths).unwrap_or(Self::STEPS)] += 1.0;
    }

    /// The quantile of the shares, in tenths.
    fn quantile(&self, quantile: f64) -> u64 {
        let total: f64 = self.0.iter().sum();
        let mut below = 0.0;
        let at = self.0.iter().position(|weight| {
            below += weight;
            below >= quantile * total
        });
        at.unwrap_or(Self::STEPS) as u64
    }

    /// The mean share, in [0, 1].
    fn mean(&self) -> f64 {
        let sum = |weigh: &dyn Fn(usize) -> f64| -> f64 {
            self.0.iter().enumerate().map(|(tenths, weight)| weigh(tenths) * weight).sum()
        };
        sum(&|tenths| tenths as f64 / Self::STEPS as f64) / sum(&|_| 1.0)
    }
}

/// What is held for planned pods at one moment.
#[derive(Clone, Debug, Default)]
struct Held {
    /// The pods that are held, as if they were pending.
    pods: Vec<PodRequest>,
    /// Of these, the pods of plans that have been seen before.
    known: Vec<PodRequest>,
    /// The held gangs.
    gangs: Vec<VirtualInstance>,
    /// The pods of new plans that are planned less than a launch ahead, with their notice.
    late: Vec<(PodRequest, u64)>,
}

/// The planned part of demand.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// The demand without planned pods. `None` if there are no such pods.
    without: Option<Demand>,
    /// By bucket: the nodes for planned pods. Empty without such pods.
    pub(crate) nodes: Vec<u64>,
}

impl Planned {
    /// Counts the nodes for planned pods among the announced ones of `demand`, and not among those
    /// of present demand.
    pub(crate) fn announced_in(&self, mut demand: Demand) -> Demand {
        let Some(without) = &self.without else { return demand };
        demand.present.clone_from(&without.present);
        demand.unplaced.clone_from(&without.unplaced);
        for (announced, planned) in demand.announced.iter_mut().zip(&self.nodes) {
            *announced = announced.saturating_add(*planned);
        }
        demand
    }
}

impl Plans {
    /// Takes over what is held.
    pub(crate) fn succeed(&mut self, predecessor: &Self) {
        self.held.clone_from(&predecessor.held);
        self.past.clone_from(&predecessor.past);
    }

    /// By plan of the last observation: the pods for which nodes are held.
    pub(crate) fn held_pods(&self) -> Vec<(String, u64)> {
        self.held.clone().unwrap_or_default().into_iter().collect()
    }

    /// Notes that pods of a plan came. Returns for how many of them nodes were held.
    pub(crate) fn came(&mut self, plan: &str, count: u64) -> u64 {
        let held = self.held.as_mut().and_then(|held| held.get_mut(plan));
        let held = held.or_else(|| self.past.get_mut(plan).map(|(held, _)| held));
        let Some(held) = held else { return 0 };
        let of_held = count.min(*held);
        *held -= of_held;
        of_held
    }

    /// Learns what became of a plan.
    pub(crate) fn learn(&mut self, kept: &KeptPlan) {
        self.ended += 1;
        if !self.authors.contains_key(&kept.author) && self.authors.len() >= AUTHORS_MAX {
            let oldest = self.authors.iter().min_by_key(|(_, (_, at))| *at);
            let oldest = oldest.map(|(author, _)| author.clone());
            oldest.map(|author| self.authors.remove(&author));
        }
        let new = || (Kept::new(), 0);
        let (shares, at) = self.authors.entry(kept.author.clone()).or_insert_with(new);
        shares.learn(kept);
        *at = self.ended;
    }

    /// The mean share of the planned pods of an author that came, in [0, 1]. `None` before the
    /// first plan ended.
    pub(crate) fn kept(&self, author: &str) -> Option<f64> {
        self.authors.get(author).map(|(kept, _)| kept.mean())
    }

    /// Returns the demand of a cluster with the held planned pods, and what they are of it. Counts
    /// the plans that are new, and learns from those that ended. `embed` computes the demand of a
    /// cluster.
    pub(crate) fn demand(
        &mut self,
        (cluster, planned, kept): (&Cluster, &[PlannedPods], &[KeptPlan]),
        (objective, now): (Objective, i64),
        catalog: &Catalog,
        recorder: &mut Recorder,
        embed: impl Fn(&Cluster) -> Demand,
    ) -> (Demand, Planned) {
        for kept in kept {
            self.learn(kept);
            recorder.kept(kept.clone());
        }
        let without = embed(cluster);
        let prices = || Prices::new(objective, catalog);
        let held = self.hold(planned, prices, catalog, now);
        if held.pods.is_empty() {
            return (without, Planned::default());
        }
        for (PodRequest { shape, count }, notice) in &held.late {
            if let Some(id) = recorder.intern(shape) {
                recorder.arrived(id, *count);
            }
            recorder.noticed(shape, *count, *notice);
        }
        let mut demand = embed(&with(cluster, &held.pods));
        let more = |than: &Demand| -> Vec<u64> {
            let pairs = demand.present.iter().zip(&than.present);
            pairs.map(|(all, than)| all.saturating_sub(*than)).collect()
        };
        let nodes = more(&without);
        if held.known.is_empty() {
            recorder.planned(nodes.iter().copied());
        } else if held.known.len() < held.pods.len() {
            recorder.planned(more(&embed(&with(cluster, &held.known))));
        }
        demand.gangs.extend(held.gangs(&nodes));
        (demand, Planned { without: Some(without), nodes })
    }

    /// Returns what is held for the observed plans, and remembers the plans.
    fn hold(
        &mut self,
        planned: &[PlannedPods],
        prices: impl FnOnce() -> Prices,
        catalog: &Catalog,
        now: i64,
    ) -> Held {
        let mut held = Held::default();
        let of_plans: BTreeMap<String, u64> =
            planned.iter().map(|plan| (plan.plan.clone(), 0)).collect();
        let past = self
            .held
            .iter()
            .flatten()
            .filter(|(plan, held)| **held > 0 && !of_plans.contains_key(*plan));
        self.past.extend(past.map(|(plan, held)| (plan.clone(), (*held, now))));
        self.past.retain(|_, (_, last)| now.saturating_sub(*last) < PAST_SECONDS);
        let before = self.held.replace(of_plans);
        if planned.is_empty() {
            return held;
        }
        let prices = prices();
        for plan in planned.iter().filter(|plan| plan.left() > 0) {
            let requests = self.held(plan, &prices, catalog);
            let is_new = before.as_ref().is_some_and(|before| !before.contains_key(&plan.plan));
            let is_late = plan.notice < NOTICE_MAX;
            if is_new && is_late {
                held.late.extend(requests.iter().map(|request| (request.clone(), plan.notice)));
            }
            if !is_new || is_late {
                held.known.extend(requests.iter().cloned());
            }
            let is_whole = || requests == plan.requests && plan.came == 0;
            held.gangs.extend(plan.gang.filter(|_| is_whole()));
            self.held.get_or_insert_default().insert(plan.plan.clone(), number(&requests));
            held.pods.extend(requests);
        }
        held
    }

    /// The pods of a plan that are held.
    fn held(&self, plan: &PlannedPods, prices: &Prices, catalog: &Catalog) -> Vec<PodRequest> {
        let kept = self.authors.get(&plan.author).filter(|_| !plan.certain);
        let Some((kept, _)) = kept else { return plan.requests.clone() };
        let mut rest = u64::MAX;
        let mut requests = Vec::new();
        for request in &plan.requests {
            let fitting = catalog.buckets_for(&request.shape).ok();
            let bucket = fitting.and_then(|fitting| fitting.first()).unwrap_or_default();
            let tenths = u128::from(kept.quantile(prices.quantile(bucket)));
            let all = (u128::from(plan.planned) * tenths).div_ceil(Kept::STEPS as u128);
            let most = u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(plan.came);
            rest = rest.min(most);
            let count = request.count.min(rest);
            rest -= count;
            if count > 0 {
                requests.push(PodRequest { shape: request.shape.clone(), count });
            }
        }
        requests
    }
}

impl Held {
    /// The held gangs that the held nodes suffice for.
    fn gangs(&self, held: &[u64]) -> Vec<VirtualInstance> {
        let mut left = held.to_vec();
        let mut fitting = self.gangs.clone();
        fitting.retain(|gang| {
            let left = left.get_mut(gang.bucket).filter(|left| **left >= gang.instances);
            left.map(|left| *left -= gang.instances).is_some()
        });
        fitting
    }
}

fn with(cluster: &Cluster, pods: &[PodRequest]) -> Cluster {
    let pending = cluster.pending.iter().chain(pods).cloned().collect();
    Cluster { pending, ..cluster.clone() }
}

#[cfg(test)]
mod tests {
    use demand::record::{BucketState, BucketTick};
    use testkit::{catalog, cpus, pods};

    use super::*;

    fn plan(name: &str, count: u64, notice: u64) -> PlannedPods {
        PlannedPods {
            plan: name.into(),
            author: "team".into(),
            requests: vec![pods(count, cpus(4_000))],
            planned: 10,
            came: 10 - count,
            gang: None,
            notice,
            certain: false,
        }
    }

    fn kept(came: u64) -> KeptPlan {
        KeptPlan { author: "team".into(), planned: 10, came }
    }

    /// Checks how many pods of a plan of ten are held after plans of which these numbers of ten
    /// came. The price of waiting is nine times that of idling.
    #[track_caller]
    fn check(came: &[u64], certain: bool, expected: u64) {
        let catalog = catalog([("node", 4_000, 1.0)]);
        let prices = Prices::new(Objective::WaitRatio(9.0), &catalog);
        let mut plans = Plans::default();
        for came in came {
            plans.learn(&kept(*came));
        }
        let plan = PlannedPods { certain, ..plan("next", 10, NOTICE_MAX) };
        let held = plans.hold(&[plan], || prices, &catalog, 0);
        assert_eq!(held.pods.iter().map(|request| request.count).sum::<u64>(), expected);
    }

    #[test]
    fn what_came_before_decides_what_is_held() {
        check(&[], false, 10);
        // One of ten plans is enough for the price of waiting.
        check(&[10, 0, 0, 0, 0], false, 10);
        check(&[0; 7], false, 10);
        check(&[0; 8], false, 0);
        check(&[0; 8], true, 10);
        // An author whose plans are always too large gets what came.
        check(&[6; 12], false, 6);
        check(&[[0; 12].as_slice(), &[10, 10]].concat(), false, 10);
    }

    /// Forecasts learn the pods for which no node was held.
    #[test]
    fn as_many_pods_are_no_news_as_nodes_were_held_for() {
        let catalog = catalog([("node", 4_000, 1.0)]);
        let prices = Prices::new(Objective::WaitRatio(9.0), &catalog);
        let mut plans = Plans::default();
        assert_eq!(plans.came("next", 3), 0);
        (0..12).for_each(|_| plans.learn(&kept(6)));
        let hold = |plans: &mut Plans| {
            plans.hold(&[plan("next", 10, NOTICE_MAX)], || prices.clone(), &catalog, 0);
        };
        hold(&mut plans);
        assert_eq!(plans.held_pods(), [("next".to_owned(), 6)]);
        assert_eq!([4, 4, 4].map(|count| plans.came("next", count)), [4, 2, 0]);
        assert_eq!(plans.came("another", 4), 0);
        // The pods are seen after the plan ended.
        hold(&mut plans);
        plans.hold(&[], || prices.clone(), &catalog, 20);
        assert_eq!((plans.held_pods(), plans.came("next", 4)), (vec![], 4));
        plans.hold(&[], || prices.clone(), &catalog, 79);
        assert_eq!(plans.came("next", 1), 1);
        plans.hold(&[], || prices.clone(), &catalog, 80);
        assert_eq!(plans.came("next", 1), 0);
    }

    #[test]
    fn what_came_already_is_not_held_again() {
        let catalog = catalog([("node", 4_000, 1.0)]);
        let prices = Prices::new(Objective::WaitRatio(9.0), &catalog);
        let mut plans = Plans::default();
        (0..20).for_each(|_| plans.learn(&kept(6)));
        let held = |left| {
            let planned = [plan("next", left, NOTICE_MAX)];
            let held = plans.clone().hold(&planned, || prices.clone(), &catalog, 0);
            held.pods.iter().map(|request| request.count).sum::<u64>()
        };
        assert_eq!([10, 7, 4, 1].map(held), [6, 3, 0, 0]);
        assert!((plans.kept("team").unwrap() - 0.6).abs() < 0.2);
    }

    #[test]
    fn a_plan_without_pods_and_more_pods_than_planned_change_little() {
        let mut plans = Plans::default();
        plans.learn(&KeptPlan { author: "a".into(), planned: 0, came: 3 });
        plans.learn(&KeptPlan { author: "a".into(), planned: u64::MAX, came: u64::MAX });
        plans.learn(&KeptPlan { author: "a".into(), planned: 2, came: 9 });
        assert_eq!(plans.kept("a"), Some(1.0));
        for author in 0..2 * AUTHORS_MAX {
            plans.learn(&KeptPlan { author: author.to_string(), planned: 1, came: 0 });
        }
        assert_eq!(plans.authors.len(), AUTHORS_MAX);
    }

    #[test]
    fn only_new_plans_that_are_known_a_launch_ahead_are_new_demand() {
        let catalog = catalog([("node", 4_000, 1.0)]);
        let (mut plans, mut recorder) = (Plans::default(), Recorder::new(&catalog, 60));
        plans.held = Some(BTreeMap::new());
        let mut newly = |planned: &[PlannedPods]| {
            let embed = |cluster: &Cluster| embedder::embed(cluster, &catalog);
            let objective = Objective::WaitRatio(9.0);
            let (demand, planned) = plans.demand(
                (&Cluster::default(), planned, &[]),
                (objective, 0),
                &catalog,
                &mut recorder,
                embed,
            );
            let (time, state) = (chrono::DateTime::UNIX_EPOCH, BucketState::default());
            let tick = recorder.tick(time, &[state], &[]);
            let arrived = tick.arrivals.iter().map(|(_, count)| *count).sum();
            let BucketTick { planned: newly, notice, .. } = tick.buckets[0];
            assert_eq!(demand.present, planned.nodes);
            assert_eq!(planned.announced_in(demand).announced, planned.nodes);
            (planned.nodes[0], newly, (arrived, notice))
        };
        assert_eq!(newly(&[plan("a", 3, NOTICE_MAX)]), (3, 3, (0, 0)));
        assert_eq!(newly(&[plan("a", 3, NOTICE_MAX), plan("b", 2, NOTICE_MAX)]), (5, 2, (0, 0)));
        assert_eq!(newly(&[plan("a", 3, NOTICE_MAX), plan("c", 2, 400)]), (5, 0, (2, 800)));
        assert_eq!(newly(&[plan("c", 1, 400)]), (1, 0, (0, 0)));
    }
}
