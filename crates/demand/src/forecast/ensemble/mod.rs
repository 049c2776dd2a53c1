//! The ensemble: experts, weighted by what following each of them would have cost.
//!
//! An expert is a method at a quantile, or a rule. For each bucket and expert, a shadow stock
//! (`stock.rs`) counts in hindsight how many nodes would have been missing and how many would have
//! been paid without need, while they launch and while they idle. A missing node makes as many pods
//! wait as share a node. A waiting pod has the price of the objective, a node without need the
//! price of the bucket's instances, and fixed share (`share.rs`) weights the experts by the sum of
//! both costs. The price of a waiting pod is multiplied by the weight of its tier.
//!
//! The ensemble holds the weighted median of the experts' headrooms, because no single expert can
//! move a median far. The carrier is the expert with the largest weight among those whose headroom
//! equals the median. A decision runs the methods with large weights first, and the others only
//! where they can change the median or the carrier (`median.rs`).
//!
//! With a service level as the objective, the price of waiting is not given but chosen. At each of
//! several prices, a panel weights the experts, and a shadow stock follows the panel's median. Some
//! constants are panels, too, so that a level is hardly dearer than with a constant. Each bucket
//! has the panel that is the cheapest at one price of a pod that waited, the lowest at which enough
//! pods of all buckets together waited for no node. So a level is reached where that is cheap, and
//! not in each bucket. The share of pods that is enough is corrected by the pods of the cluster
//! that waited (`feedback.rs`).
//!
//! A model is one method among others. An expert without a forecast, because its model is faulty or
//! slow or has no history of the bucket, keeps its share of the weights and is left out of the
//! median.
//!
//! The ensemble does not forecast demand itself. In a backtest, its demand ahead is a weighted
//! average over methods (`forecast/blend.rs`), and no decision uses it.
//!
//! The experts are scored when a score is read, several ticks at a time (`scores.rs`). All state is
//! learnt from ticks, so a replay of the history rebuilds it.

mod feedback;
mod judge;
mod median;
mod scores;
mod share;
mod stock;

use std::cell::OnceCell;
use std::sync::MutexGuard;

use base::tier::Tiers;
use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};
use placeholders::{Objective, Prices, Reason};

use self::judge::Judge;
use self::median::{Want, carrying, carrying_in_any_case};
use self::scores::{Scores, Unscored, UnscoredBucket};
use self::stock::Stock;
use crate::forecast::carrier::Carrier;
use crate::forecast::hyperparameters::{
    BURSTS, LEVEL_CONSTANTS, LEVEL_PATIENCE_SECONDS, LEVEL_QUANTILES, QUANTILES, WEIGHT_MIN,
};
use crate::forecast::{
    cache::{Cache, Copied},
    lead::Lead,
    methods::{
        Burst, Constant, Increments, Ladder, LadderForecaster, LastValue, Scenario, StateForecaster,
    },
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::forecast::{model_fault::ModelFault, onnx::Onnx};
use crate::record::History;

/// Forecasts with the experts, per bucket, by their past costs.
pub struct Ensemble {
    lead: Lead,
    objective: Objective,
    prices: Prices,
    /// The cost of waiting of each tier.
    tiers: Tiers,
    /// The methods with their names, except the model.
    methods: Vec<Named>,
    /// The method at the place [`Ensemble::model_at`].
    model: Option<Onnx>,
    experts: Vec<Expert>,
    /// By bucket, the shadow stock of an expert before the first tick.
    stocks: Vec<Stock>,
    scores: Cache<Scores>,
    /// The time from which experts are scored. Ticks before it only train the methods.
    since: DateTime<Utc>,
    /// Whether the ladder holds until the history suffices, and not the rule of thumb of the method
    /// of the cold start.
    ladder_first: bool,
    /// Whether the placeholders are those that the ensemble holds, so that the pods that started
    /// correct its service level.
    decides: bool,
}

/// A method with its name.
type Named = (&'static str, Box<dyn Forecaster>);

/// A method at a quantile, or a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Expert {
    /// The place of the method in `Ensemble::methods`, or [`Ensemble::model_at`].
    method: usize,
    /// The quantile that is held, between 0 and 1; `None` for a point forecast, which is held
    /// whole.
    quantile: Option<f64>,
    /// The weight before the first tick, relative to that of the other experts, or
    /// [`HELD_ALONE`].
    prior: f64,
}

/// The weight of an expert that no other one is weighed against: for a service level, it is a panel
/// of its own.
const HELD_ALONE: f64 = 0.0;

/// The place of `increments` among the methods. It has a rule of thumb for a short history, so the
/// ensemble returns its outlook until the history suffices. Later, no expert follows it, because it
/// added nothing to the others on the open windows of the evaluation.
const COLD_START: usize = 0;

/// The place of `ladder` among the methods.
const LADDER: usize = 2;

/// The place of `last-value` among the methods. It always forecasts that no new nodes are needed.
const NOTHING: usize = 1;

/// The largest quantile of a model that becomes an expert: 0.99 is the highest level of the
/// networks that `models/` trains, and nothing is known of their quantiles above.
const NETWORK_QUANTILE_MAX: f64 = 0.99;

/// The quantiles at which the ensemble follows a method.
fn quantiles(objective: Objective) -> &'static [f64] {
    match objective {
        Objective::Quantile(_) => &LEVEL_QUANTILES,
        Objective::WaitCost(_) | Objective::WaitRatio(_) => &QUANTILES,
    }
}

impl Expert {
    /// Returns the headroom in a bucket by the outlook of the method, in nodes. `None` if it has no
    /// forecast.
    fn want(&self, outlook: &Outlook, bucket: BucketId) -> Option<u64> {
        let BucketOutlook { new_nodes, reason, .. } = &outlook.buckets[bucket];
        (*reason == Reason::Forecast).then(|| new_nodes.quantile(self.quantile.unwrap_or(1.0)))
    }
}

impl Ensemble {
    /// Creates the ensemble for the buckets of a catalog.
    ///
    /// The objective is either a price of waiting, or a quantile: the share of pods that wait no
    /// longer than one scan of the autoscaler. The autoscaler removes a node that was unneeded for
    /// `unneeded_seconds`, by bucket.
    ///
    /// Each method with quantiles begins with the same weight, and the rules of bursts together
    /// have it, too.
    pub fn new(
        catalog: &Catalog,
        (lead, unneeded_seconds): (Lead, &[i64]),
        ladder: &Ladder,
        objective: Objective,
    ) -> Self {
        let window = match objective {
            Objective::Quantile(_) => lead.longer_by(LEVEL_PATIENCE_SECONDS),
            Objective::WaitCost(_) | Objective::WaitRatio(_) => lead,
        };
        let quantiles: Vec<Option<f64>> = quantiles(objective).iter().copied().map(Some).collect();
        let [scenario, scenario_arrivals] = Scenario::pair(window);
        let methods: [(Named, &[Option<f64>]); 6] = [
            (("increments", Box::new(Increments::new(catalog.len(), lead))), &[]),
            (("last-value", Box::new(LastValue)), &[None]),
            (("ladder", Box::new(LadderForecaster::new(ladder.clone(), catalog))), &[None]),
            (("state", Box::new(StateForecaster::new(catalog.len(), lead))), &quantiles),
            (("scenario", Box::new(scenario)), &quantiles),
            (("scenario+arrivals", Box::new(scenario_arrivals)), &quantiles),
        ];
        let mut ensemble = Self {
            lead,
            objective,
            prices: Prices::new(objective, catalog),
            tiers: Tiers::default(),
            methods: Vec::new(),
            model: None,
            experts: Vec::new(),
            stocks: unneeded_seconds.iter().map(|unneeded| Stock::new(lead, *unneeded)).collect(),
            scores: Cache::new(Scores::new(catalog.len())),
            since: DateTime::UNIX_EPOCH,
            ladder_first: false,
            decides: true,
        };
        for (method, levels) in methods {
            ensemble.add(ensemble.methods.len(), levels.iter().copied(), 1.0);
            ensemble.methods.push(method);
        }
        let each = quantiles.len() as f64 / BURSTS.len() as f64;
        for (name, seconds, most) in BURSTS {
            ensemble.add(ensemble.methods.len(), [None].into_iter(), each);
            ensemble.methods.push((name, Box::new(Burst::new(seconds, most))));
        }
        if let Objective::Quantile(_) = objective {
            for (name, nodes) in LEVEL_CONSTANTS {
                ensemble.add(ensemble.methods.len(), [None].into_iter(), HELD_ALONE);
                ensemble.methods.push((name, Box::new(Constant(nodes))));
            }
        }
        ensemble
    }

    /// Holds the placeholders of the ladder until the history suffices, as in the paper's initial
    /// stage (section 4.1).
    #[must_use]
    pub fn with_ladder_first(mut self) -> Self {
        self.ladder_first = true;
        self
    }

    /// Disables the correction of the service level, for an ensemble whose headroom is only an
    /// input of an expression. Pods then wait because of the expression.
    #[must_use]
    pub fn without_feedback(mut self) -> Self {
        self.decides = false;
        self
    }

    /// Weighs the waiting of pods by their tiers.
    #[must_use]
    pub fn with_tiers(mut self, tiers: Tiers) -> Self {
        self.tiers = tiers;
        self
    }

    /// Adds a model as a method. To be called once, before the first tick is learnt.
    #[must_use]
    pub fn with_model(mut self, model: Onnx) -> Self {
        let all = quantiles(self.objective);
        let kept = || all.iter().filter(|quantile| **quantile <= NETWORK_QUANTILE_MAX);
        let each = all.len() as f64 / kept().count() as f64;
        self.model = Some(model.only_new_nodes());
        self.add(self.model_at(), kept().copied().map(Some), each);
        self
    }

    /// Adds one expert per quantile of a method; `None` stands for a point forecast.
    fn add(&mut self, method: usize, quantiles: impl Iterator<Item = Option<f64>>, prior: f64) {
        self.experts.extend(quantiles.map(|quantile| Expert { method, quantile, prior }));
    }

    /// Returns the place of the model among the methods, which is after the others.
    fn model_at(&self) -> usize {
        self.methods.len()
    }

    /// Returns the name of a method.
    fn name(&self, method: usize) -> &'static str {
        self.methods.get(method).map_or("onnx", |(name, _)| name)
    }

    /// Scores experts from `since` on.
    ///
    /// Earlier ticks only train the methods, because scoring is slow and the decay makes old scores
    /// irrelevant.
    #[must_use]
    pub fn scoring_since(mut self, since: DateTime<Utc>) -> Self {
        self.since = since;
        self
    }

    /// Returns the headroom of each expert in a bucket, in nodes, by the outlooks of the methods.
    /// It is `None` for the experts of the model, and where the method has no forecast.
    fn wants(&self, outlooks: &[Outlook], bucket: BucketId) -> Vec<Option<u64>> {
        let want = |expert: &Expert| expert.want(outlooks.get(expert.method)?, bucket);
        self.experts.iter().map(want).collect()
    }

    /// Returns a method, or the model.
    fn method(&self, at: usize) -> Option<&dyn Forecaster> {
        let model = || self.model.as_ref().map(|model| model as &dyn Forecaster);
        self.methods.get(at).map(|(_, method)| &**method).or_else(model)
    }

    /// Returns the scores of all ticks.
    fn scores(&self) -> MutexGuard<'_, Scores> {
        let mut scores = self.scores.lock();
        self.score(&mut scores);
        scores
    }

    /// Scores the experts on the ticks on which they are not scored yet.
    fn score(&self, Scores { judges, feedback, ticks }: &mut Scores) {
        if let Some(model) = &self.model {
            model.compute(ticks.iter().filter_map(|tick| tick.pending.as_ref()));
        }
        for Unscored { pending, buckets } in ticks.drain(..) {
            let of_tick = self.model.as_ref().zip(pending);
            let outlook = of_tick.map(|(model, pending)| model.outlook(&pending));
            for mut at in buckets {
                let experts = self.experts.iter().zip(&mut at.wants);
                let of_model = experts.filter(|(expert, _)| expert.method == self.model_at());
                for (expert, want) in of_model {
                    *want = outlook.as_ref().and_then(|outlook| expert.want(outlook, at.bucket));
                }
                if let Some(judge) = &mut judges[at.bucket] {
                    judge.learn(at.tick, &at.wants, at.pods, at.weight);
                    if let Objective::Quantile(level) = self.objective {
                        feedback.learn(at.tick, level, judge.pods_per_node());
                    }
                }
            }
        }
    }

    /// Whether the experts of a method have together at least `WEIGHT_MIN` in some bucket. The
    /// method of the cold start always counts.
    fn has_weight(&self, Scored { judges, panels }: Scored<'_>, method: usize) -> bool {
        method == COLD_START
            || (method == LADDER && self.ladder_first)
            || judges.iter().zip(panels).any(|(judge, panel)| {
                let Some(judge) = judge else { return false };
                let experts = self.experts.iter().zip(judge.shares(*panel).0);
                experts
                    .filter(|(expert, _)| expert.method == method)
                    .map(|(_, share)| share)
                    .sum::<f64>()
                    >= WEIGHT_MIN
            })
    }

    /// Returns the expert that always forecasts 0 nodes.
    fn nothing(&self) -> Option<usize> {
        self.experts.iter().position(|expert| expert.method == NOTHING)
    }

    /// Returns the outlook of a bucket. Computes only those of `outlooks` that it needs.
    fn bucket(&self, outlooks: &Outlooks<'_>, bucket: BucketId) -> Option<BucketOutlook> {
        let Scored { judges, panels } = outlooks.scored;
        let cold = &outlooks.of(COLD_START)?.buckets[bucket];
        if cold.reason == Reason::TooLittleHistory && self.ladder_first {
            let BucketOutlook { new_nodes, .. } = outlooks.of(LADDER)?.buckets[bucket].clone();
            return Some(BucketOutlook::new(new_nodes, Reason::TooLittleHistory));
        }
        let Some(judge) = judges[bucket].as_ref().filter(|_| cold.reason == Reason::Forecast)
        else {
            return Some(cold.clone());
        };
        let (shares, wait) = judge.shares(panels[bucket]);
        let carrying = self.carrier_of(outlooks, bucket, shares)?;
        let Expert { method, quantile, .. } = self.experts[carrying];
        let BucketOutlook { new_nodes, reason, .. } = outlooks.of(method)?.buckets[bucket].clone();
        let carrier = Carrier {
            method: self.name(method),
            quantile,
            weight: shares[carrying],
            dollars: judge.shadows[carrying].dollars_a_day(wait),
            dollars_without: judge.shadows[self.nothing()?].dollars_a_day(wait),
        };
        Some(BucketOutlook { carrier: Some(carrier), ..BucketOutlook::new(new_nodes, reason) })
    }

    /// Returns the expert that [`carrying`] returns for the headrooms of all experts.
    ///
    /// Runs the methods in falling order of their largest share, until the result does not depend
    /// on the others. Outlooks that are computed already come first. If the result is never certain
    /// because of rounding, all headrooms are known in the end.
    fn carrier_of(
        &self,
        outlooks: &Outlooks<'_>,
        bucket: BucketId,
        shares: &[f64],
    ) -> Option<usize> {
        let mut largest = vec![0.0_f64; outlooks.cells.len()];
        for (expert, share) in self.experts.iter().zip(shares) {
            largest[expert.method] = largest[expert.method].max(*share);
        }
        let is_new = |method: usize| outlooks.cells[method].get().is_none();
        let mut order: Vec<usize> = (0..largest.len()).collect();
        order.sort_by(|&a, &b| {
            is_new(a).cmp(&is_new(b)).then_with(|| largest[b].total_cmp(&largest[a]))
        });
        let mut wants = vec![Want::Unknown; self.experts.len()];
        for method in order {
            let outlook = outlooks.of(method);
            for (want, expert) in wants.iter_mut().zip(&self.experts) {
                if expert.method == method {
                    *want = Want::Known(outlook.and_then(|outlook| expert.want(outlook, bucket)));
                }
            }
            if let Some(decided) = carrying_in_any_case(&wants, shares) {
                return Some(decided);
            }
        }
        let wants: Vec<Option<u64>> = wants.into_iter().map(Want::known).collect();
        carrying(&wants, shares)
    }
}

/// The judges of the buckets, and the panel that holds in each.
#[derive(Clone, Copy)]
struct Scored<'a> {
    judges: &'a [Option<Judge>],
    panels: &'a [usize],
}

/// The outlooks of the methods of an ensemble at one moment, each computed when it is read.
struct Outlooks<'a> {
    ensemble: &'a Ensemble,
    scored: Scored<'a>,
    history: &'a History,
    now: &'a Present<'a>,
    /// By method, empty before the outlook is read.
    cells: Vec<OnceCell<Option<Outlook>>>,
}

impl Outlooks<'_> {
    /// Returns the outlook of a method. `None` if the method does not take part in decisions.
    fn of(&self, method: usize) -> Option<&Outlook> {
        let Self { ensemble, scored, history, now, .. } = self;
        let outlook = || {
            let method =
                ensemble.method(method).filter(|_| ensemble.has_weight(*scored, method))?;
            Some(method.forecast(history, now))
        };
        self.cells.get(method)?.get_or_init(outlook).as_ref()
    }
}

impl Forecaster for Ensemble {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.methods.iter_mut().for_each(|(_, method)| method.learn(history));
        self.model.iter_mut().for_each(|model| model.learn(history));
        if tick.time < self.since {
            return;
        }
        let demand = history.shapes().demand(tick);
        let now = Present::at_tick(tick.time, &demand);
        let forecast = |(_, method): &Named| method.forecast(history, &now);
        let outlooks: Vec<Outlook> = self.methods.iter().map(forecast).collect();
        let mut scores = self.scores.lock();
        let Scores { judges, ticks, .. } = &mut *scores;
        let mut buckets = Vec::new();
        for (bucket, judge) in judges.iter_mut().enumerate() {
            if outlooks[COLD_START].buckets[bucket].reason != Reason::Forecast
                || demand.present.get(bucket).is_none_or(|&n| n == 0) && judge.is_none()
            {
                continue;
            }
            let wants = self.wants(&outlooks, bucket);
            let pods = history.shapes().pods(&tick.arrivals, bucket);
            let tiers = tick.tiers.iter().filter(|arrivals| arrivals.bucket == bucket);
            let tiers = tiers.map(|arrivals| (arrivals.tier.as_str(), arrivals.pods));
            // Planned pods wait only for the part of a launch of which the policy did not know.
            let noticed = tick.buckets[bucket].notice as f64 / 1_000.0;
            let weight = self.tiers.mean_weight(pods.0, tiers)
                * if pods.0 > 0.0 { (1.0 - noticed / pods.0).clamp(0.0, 1.0) } else { 1.0 };
            let (wait, idle) = (self.prices.wait(), self.prices.idle(bucket));
            let priors = || self.experts.iter().map(|expert| expert.prior).collect::<Vec<f64>>();
            let stock = &self.stocks[bucket];
            let fresh = || Judge::new(&priors(), stock, self.lead, self.objective, (wait, idle));
            judge.get_or_insert_with(fresh);
            let mut of_bucket = tick.buckets[bucket];
            if tick.rollout_percent.is_some() || !self.decides {
                // Without its placeholders, the policy is not the reason why pods waited.
                (of_bucket.pods_hidden, of_bucket.pods_waited) = (0, 0);
            }
            buckets.push(UnscoredBucket { bucket, tick: of_bucket, wants, pods, weight });
        }
        let pending = self.model.as_ref().map(|model| model.request(history));
        ticks.push(Unscored { pending, buckets });
        if scores.are_due() {
            self.score(&mut scores);
        }
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let scores = self.scores();
        let panels = scores.panels(self.objective);
        let held = Scored { judges: &scores.judges, panels: &panels };
        let cells = vec![OnceCell::new(); self.model_at() + 1];
        let outlooks = Outlooks { ensemble: self, scored: held, history, now, cells };
        let bucket = |id| self.bucket(&outlooks, id).unwrap_or_else(BucketOutlook::nothing);
        Outlook { buckets: (0..scores.judges.len()).map(bucket).collect() }
    }

    fn faults(&self) -> Vec<ModelFault> {
        let methods = self.methods.iter().flat_map(|(_, method)| method.faults());
        methods.chain(self.model.iter().flat_map(Onnx::faults)).collect()
    }

    fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        let scores = self.scores();
        let Some(judge) = scores.judges.get(bucket).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let name = |expert: &Expert| {
            let method = self.name(expert.method);
            expert.quantile.map_or_else(|| method.into(), |q| format!("{method}:{q}"))
        };
        let shares = judge.shares(scores.panels(self.objective)[bucket]).0;
        let named = self.experts.iter().map(name).zip(shares.iter().copied());
        let mut named: Vec<(String, f64)> = named.collect();
        named.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        named
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let copy =
            |(name, method): &Named| Some((*name, method.copy(copied)? as Box<dyn Forecaster>));
        let methods = self.methods.iter().map(copy).collect::<Option<Vec<_>>>()?;
        Some(Box::new(Self {
            methods,
            model: self.model.as_ref().map(|model| model.copy_with(copied)),
            prices: self.prices.clone(),
            tiers: self.tiers.clone(),
            experts: self.experts.clone(),
            stocks: self.stocks.clone(),
            scores: Cache::new(self.scores.lock().copy(copied)),
            ..*self
        }))
    }
}

impl DemandForecaster for Ensemble {}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::learners::Learners;
    use crate::forecast::onnx::ModelSource;
    use crate::forecast::sample;
    use crate::record::{BucketTick, Tick, TierArrivals};
    use base::tier::Tier;

    const UNNEEDED: [i64; 2] = [600; 2];

    fn ensemble(objective: Objective) -> Ensemble {
        Ensemble::new(&sample::catalog(), (sample::LEAD, &UNNEEDED), &Ladder::default(), objective)
    }

    fn learnt(objective: Objective) -> BucketOutlook {
        taught(&mut ensemble(objective), &sample::catalog(), 0).swap_remove(0)
    }

    /// Learns three days in which demand of every bucket is one node higher in five of every twenty
    /// minutes, when `pods` pods arrive that fill a node.
    fn taught(ensemble: &mut Ensemble, catalog: &Catalog, pods: u64) -> Vec<BucketOutlook> {
        taught_after(ensemble, catalog, pods, |_| ())
    }

    /// Learns the same ticks after a change.
    fn taught_after(
        ensemble: &mut Ensemble,
        catalog: &Catalog,
        pods: u64,
        change: impl Fn(&mut Tick),
    ) -> Vec<BucketOutlook> {
        let mut history = History::new(catalog);
        let shape = testkit::shape(testkit::cpus(8_000));
        for minute in 0..3 * 1_440 {
            let demand = 1 + u64::from(minute % 20 < 5);
            let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            let mut tick = sample::tick(minute, vec![bucket; catalog.len()]);
            if pods > 0 {
                tick.first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
                tick.arrivals = if minute % 20 == 0 { vec![(0, pods)] } else { vec![] };
                let tier = "production".to_owned();
                let of_tier = TierArrivals { bucket: 0, tier, pods };
                tick.tiers = if minute % 20 == 0 { vec![of_tier] } else { vec![] };
            }
            change(&mut tick);
            history.record(tick);
            ensemble.learn(&history);
        }
        let demand = Demand { present: vec![1; catalog.len()], ..Demand::default() };
        let now = history.last().unwrap().time;
        ensemble.forecast(&history, &Present::at_tick(now, &demand)).buckets
    }

    #[test]
    fn pods_that_waited_without_all_placeholders_do_not_raise_the_level() {
        let asked = |pods_waited, rollout_percent| {
            let mut ensemble = ensemble(Objective::Quantile(0.9));
            taught_after(&mut ensemble, &sample::catalog(), 1, |tick| {
                tick.rollout_percent = rollout_percent;
                (tick.buckets[0].ready, tick.buckets[0].pods_waited) = (1, pods_waited);
            });
            ensemble.scores().feedback.ask(0.9)
        };
        assert!(asked(1, None) > 0.95);
        assert!((asked(1, Some(25)) - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_ladder_holds_until_the_history_suffices() {
        let ladder = Ladder { nodes_to_replicas: vec![(0, 7)], ..Ladder::default() };
        let catalog = sample::catalog();
        let new =
            || Ensemble::new(&catalog, (sample::LEAD, &UNNEEDED), &ladder, Objective::default());
        let mut history = History::new(&catalog);
        let mut held = |ensemble: &mut Ensemble, minute: i64| {
            let bucket = BucketTick { demand: 1, demand_max: 1, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket; catalog.len()]));
            ensemble.learn(&history);
            let demand = Demand { present: vec![1; catalog.len()], ..Demand::default() };
            let now = history.last().unwrap().time;
            let outlook = ensemble.forecast(&history, &Present::at_tick(now, &demand));
            (outlook.buckets[0].headroom(0.9), outlook.buckets[0].reason)
        };
        let (mut plain, mut first) = (new(), new().with_ladder_first());
        assert_ne!(held(&mut plain, 0).0, 7);
        assert_eq!(held(&mut first, 1), (7, Reason::TooLittleHistory));
        let later: Vec<_> = (2..200).map(|minute| held(&mut first, minute)).collect();
        assert_eq!(later[50], (7, Reason::TooLittleHistory));
        assert_eq!(later.last(), Some(&(0, Reason::Forecast)));
    }

    #[test]
    fn a_model_has_weight_and_a_faulty_model_changes_no_forecast() {
        let with_model = |source: ModelSource| {
            let model = Onnx::new(source, &sample::catalog(), sample::LEAD);
            let mut ensemble = ensemble(Objective::default()).with_model(model);
            let outlook = taught(&mut ensemble, &sample::catalog(), 0).swap_remove(0);
            (ensemble, outlook)
        };
        let share = |ensemble: &Ensemble| {
            let scores = ensemble.scores();
            let shares = scores.judges[0].as_ref().unwrap().shares(0).0;
            let experts = ensemble.experts.iter().zip(shares);
            let model = experts.filter(|(expert, _)| ensemble.name(expert.method) == "onnx");
            model.map(|(_, share)| share).sum::<f64>()
        };
        let (working, _) = with_model(ModelSource::Pretrained);
        assert!(share(&working) > 0.1, "{}", share(&working));
        assert_eq!(working.faults(), []);
        let (faulty, outlook) = with_model(ModelSource::File("nowhere.onnx".into()));
        assert_eq!(faulty.faults()[0].field, "file");
        assert_eq!(outlook.headroom(0.5), learnt(faulty.objective).headroom(0.5));
    }

    /// The weights of one ensemble are read at each tick, and those of the other only at the end.
    /// Copies of the latter go on from two successive ticks, of which at least one is not scored.
    /// With two buckets, the output of the model does not depend on the number of rows of a run.
    #[test]
    fn scores_that_are_read_late_are_the_same() {
        let catalog = testkit::catalog([("a", 8_000, 1.0), ("b", 8_000, 1.0)]);
        let new = || -> Learners {
            let model = Onnx::patient(ModelSource::Pretrained, &catalog, sample::LEAD);
            let (ladder, objective) = (Ladder::default(), Objective::default());
            let ensemble = Ensemble::new(&catalog, (sample::LEAD, &UNNEEDED), &ladder, objective);
            Learners::new(Box::new(ensemble.with_model(model)), &catalog)
        };
        let (mut prompt, mut late) = (new(), new());
        let tick = |minute: i64| {
            let demand = 1 + minute.unsigned_abs() % 20 / 7;
            let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            sample::tick(minute, vec![bucket; catalog.len()])
        };
        let mut copies: Vec<Learners> = Vec::new();
        for minute in 0..500 {
            prompt.learn(tick(minute));
            prompt.weights(0);
            late.learn(tick(minute));
            for copy in &mut copies {
                copy.learn(tick(minute));
            }
            if [400, 401].contains(&minute) {
                copies.extend(late.copy());
            }
        }
        let weights = prompt.weights(0);
        assert!(weights.iter().any(|(name, weight)| name.starts_with("onnx") && *weight > 0.01));
        assert_eq!(copies.len(), 2);
        for one in copies.iter().chain([&late]) {
            assert_eq!(one.weights(0), weights);
        }
    }

    /// The weights are those after three days, and then most of the weight is given to one method
    /// after the other.
    #[test]
    fn a_decision_runs_only_the_methods_that_can_change_it() {
        let catalog = testkit::catalog([("a", 8_000, 1.0), ("b", 8_000, 10.0)]);
        let ladder = Ladder::default();
        let mut ensemble =
            Ensemble::new(&catalog, (sample::LEAD, &UNNEEDED), &ladder, Objective::default());
        taught(&mut ensemble, &catalog, 1);
        let mut history = History::new(&catalog);
        history.record(sample::tick(3 * 1_440, vec![BucketTick::default(); catalog.len()]));
        let demand = Demand { present: vec![1; catalog.len()], ..Demand::default() };
        let now = &Present::at_tick(history.last().unwrap().time, &demand);
        let judges = &ensemble.scores().judges;
        let panels = vec![0; judges.len()];
        let scored = Scored { judges, panels: &panels };
        let forecast = |(_, method): &(_, Box<dyn Forecaster>)| method.forecast(&history, now);
        let all: Vec<Outlook> = ensemble.methods.iter().map(forecast).collect();
        for (bucket, judge) in judges.iter().flatten().enumerate() {
            let mut wants = ensemble.wants(&all, bucket);
            for (want, expert) in wants.iter_mut().zip(&ensemble.experts) {
                *want = want.filter(|_| ensemble.has_weight(scored, expert.method));
            }
            let mut skipped = 0;
            // No expert follows the method of the cold start.
            for preferred in COLD_START + 1..ensemble.methods.len() {
                let mut shares = judge.shares(0).0.to_vec();
                let experts = ensemble.experts.iter().zip(&mut shares);
                for (_, share) in experts.filter(|(expert, _)| expert.method == preferred) {
                    *share += 1.0;
                }
                let sum: f64 = shares.iter().sum();
                for share in &mut shares {
                    *share /= sum;
                }
                let cells = vec![OnceCell::new(); ensemble.model_at() + 1];
                let outlooks =
                    Outlooks { ensemble: &ensemble, scored, history: &history, now, cells };
                let carrier = ensemble.carrier_of(&outlooks, bucket, &shares);
                assert_eq!(carrier, carrying(&wants, &shares));
                let run = |method: usize| outlooks.cells[method].get().is_some();
                assert!(run(preferred));
                skipped += (0..ensemble.methods.len()).filter(|method| !run(*method)).count();
            }
            assert!(skipped > 0);
        }
    }

    #[test]
    fn a_high_price_of_waiting_holds_a_node() {
        let dear = Objective::WaitCost(1_000.0);
        let cheap = Objective::WaitCost(0.001);
        assert_eq!((learnt(dear).headroom(0.5), learnt(cheap).headroom(0.5)), (1, 0));
    }

    #[test]
    fn the_weight_of_a_tier_multiplies_the_price_of_waiting() {
        let held = |weight| {
            let tier = Tier { name: "production".into(), priority_min: 0, weight };
            let mut ensemble = ensemble(Objective::WaitCost(0.01)).with_tiers(vec![tier].into());
            taught(&mut ensemble, &sample::catalog(), 1)[0].headroom(0.5)
        };
        assert_eq!((held(1.0), held(1_000.0)), (0, 1));
    }

    /// Pods that are planned almost a launch ahead hardly wait, so no node is held for them.
    #[test]
    fn the_notice_of_pods_lessens_the_price_of_waiting() {
        let held = |notice| {
            let mut ensemble = ensemble(Objective::WaitCost(1_000.0));
            let catalog = sample::catalog();
            let outlook = taught_after(&mut ensemble, &catalog, 1, |tick| {
                if !tick.arrivals.is_empty() {
                    tick.buckets[0].notice = notice;
                }
            });
            outlook[0].headroom(0.5)
        };
        assert_eq!([held(0), held(1_000)], [1, 0]);
    }

    #[test]
    fn a_high_level_holds_a_node_and_a_low_level_holds_none() {
        let outlook = |level| {
            let mut ensemble = ensemble(Objective::Quantile(level));
            taught(&mut ensemble, &sample::catalog(), 1).swap_remove(0)
        };
        let (high, low) = (outlook(0.99), outlook(0.01));
        assert_eq!((high.headroom(0.5), low.headroom(0.5)), (1, 0));
        let carrier = high.carrier.unwrap();
        assert!(carrier.weight > 0.0 && carrier.dollars > 0.0, "{carrier}");
    }

    /// The demand of both buckets is equal. An idle hour of the dear one costs as much as a day of
    /// waiting, and one of the cheap one as much as a minute.
    #[test]
    fn a_dear_bucket_gets_less_headroom_than_a_cheap_one() {
        let catalog = testkit::catalog([("cheap", 8_000, 0.1), ("dear", 8_000, 144.0)]);
        let objective = Objective::WaitCost(6.0);
        let mut ensemble =
            Ensemble::new(&catalog, (sample::LEAD, &UNNEEDED), &Ladder::default(), objective);
        let outlook = taught(&mut ensemble, &catalog, 0);
        assert_eq!([0, 1].map(|id: usize| outlook[id].headroom(0.5)), [1, 0]);
    }

    /// Each bucket gets a pod every twenty minutes, and a node of the dear one costs as much as a
    /// hundred of the cheap one. Half of the pods find a node in the cheap one.
    #[test]
    fn a_level_is_reached_in_all_buckets_together_where_that_is_cheap() {
        let catalog = testkit::catalog([("cheap", 8_000, 0.1), ("dear", 16_000, 10.0)]);
        let held = |level| {
            let objective = Objective::Quantile(level);
            let mut ensemble =
                Ensemble::new(&catalog, (sample::LEAD, &UNNEEDED), &Ladder::default(), objective);
            let outlook = taught_after(&mut ensemble, &catalog, 1, |tick| {
                if !tick.first_seen.is_empty() {
                    tick.first_seen.push((1, testkit::shape(testkit::cpus(16_000))));
                }
                if !tick.arrivals.is_empty() {
                    tick.arrivals.push((1, 1));
                }
            });
            [0, 1].map(|id: usize| outlook[id].headroom(0.5))
        };
        assert_eq!([held(0.4), held(0.9)], [[1, 0], [1, 1]]);
    }
}
