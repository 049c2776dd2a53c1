//! Experts that are (method, quantile) pairs, followed by what each would have cost.
//!
//! For each bucket and expert a shadow stock (`stock.rs`) tells, in hindsight, how many nodes would have been missing and how
//! many idle; waiting and idling have prices, and fixed share (`share.rs`) weighs the experts by the sum. What is held is
//! the weighted median of what the experts want: no expert alone can move it far. The heaviest expert that wants as much
//! carries it. Where a service level is asked for, the expert does that idles least of those whose shadow hid enough launches;
//! how many are enough follows what our own launches come to (`feedback.rs`).
//!
//! A network, where one is heard, is a method among others. What says nothing, for it is wrong, slow or new to a bucket, keeps its share
//! of the weights and has no say.
//!
//! Demand ahead, which no decision rests on, is a mean over methods (`blend.rs`).
//!
//! A missing node makes as many pods wait as share one. All is learnt from ticks: a replay of the history rebuilds it.

mod blend;
mod carrier;
mod feedback;
mod judge;
mod share;
mod stock;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};
use placeholders::{Objective, Reason};

pub use self::blend::Blend;
pub use self::carrier::Carrier;
use self::judge::Judge;
use super::hyperparameters::{PATIENCE_SECONDS, QUANTILES, WEIGHT_MIN};
use super::onnx::{ModelFault, Onnx};
use super::shapes::Shapes;
use super::{
    BucketOutlook, Forecaster, Increments, Ladder, LadderForecaster, LastValue, Lead, Outlook, Present,
    Scenario, State,
};
use crate::record::History;

/// See the module.
pub struct Ensemble {
    lead: Lead,
    objective: Objective,
    methods: Vec<(&'static str, Box<dyn Forecaster>)>,
    experts: Vec<Expert>,
    shapes: Shapes,
    /// By bucket; nothing is known of one that was never in use.
    judges: Vec<Option<Judge>>,
    /// Before it methods learn, and are not judged.
    since: DateTime<Utc>,
}

/// A method, and the quantile of it that is held; all that it says where it is a point.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Expert {
    method: usize,
    quantile: Option<f64>,
}

/// The place of the method that has a rule of thumb where there is no history: it carries until there is.
const COLD_START: usize = 0;

/// The place of the method that never expects anything.
const NOTHING: usize = 1;

/// Networks have levels up to this; beyond, nothing is known of them.
const NETWORK_QUANTILE_MAX: f64 = 0.99;

impl Ensemble {
    /// For the buckets of a catalog. Costs are the prices of waiting and idling; a quantile is the share of launches to hide.
    pub fn new(catalog: &Catalog, lead: Lead, ladder: &Ladder, objective: Objective) -> Self {
        let patient = Lead { seconds: lead.seconds + PATIENCE_SECONDS, ..lead };
        let methods: [(&'static str, Box<dyn Forecaster>, &[f64]); 6] = [
            ("increments", Box::new(Increments::new(catalog.len(), lead)), &QUANTILES),
            ("last-value", Box::new(LastValue), &[]),
            ("ladder", Box::new(LadderForecaster::new(ladder.clone(), catalog)), &[]),
            ("state", Box::new(State::new(catalog, lead)), &QUANTILES),
            ("scenario", Box::new(Scenario::new(catalog, patient, false)), &QUANTILES),
            ("scenario+arrivals", Box::new(Scenario::new(catalog, patient, true)), &QUANTILES),
        ];
        let mut ensemble = Self {
            lead,
            objective,
            methods: Vec::new(),
            experts: Vec::new(),
            shapes: Shapes::new(catalog),
            judges: std::iter::repeat_with(|| None).take(catalog.len()).collect(),
            since: DateTime::UNIX_EPOCH,
        };
        for (name, method, quantiles) in methods {
            ensemble.add(name, method, quantiles.iter().copied());
        }
        ensemble
    }

    /// Hears a network, too, before anything is learnt.
    #[must_use]
    pub fn hearing(mut self, network: Onnx) -> Self {
        let quantiles = QUANTILES.into_iter().filter(|quantile| *quantile <= NETWORK_QUANTILE_MAX);
        self.add("onnx", Box::new(network), quantiles);
        self
    }

    /// Adds a method, as an expert at each of the quantiles; as one where it says a point.
    fn add(&mut self, name: &'static str, method: Box<dyn Forecaster>, quantiles: impl Iterator<Item = f64>) {
        let at = self.methods.len();
        let before = self.experts.len();
        self.methods.push((name, method));
        self.experts.extend(quantiles.map(|quantile| Expert { method: at, quantile: Some(quantile) }));
        if self.experts.len() == before {
            self.experts.push(Expert { method: at, quantile: None });
        }
    }

    /// Leaves out what is too long ago to count, where a long log is replayed.
    #[must_use]
    pub fn judging_since(mut self, since: DateTime<Utc>) -> Self {
        self.since = since;
        self
    }

    /// What each expert wants of a bucket, where its method was asked and has an opinion.
    fn wants(&self, outlooks: &[Option<Outlook>], bucket: BucketId) -> Vec<Option<u64>> {
        let want = |expert: &Expert| {
            let BucketOutlook { new_nodes, basis, .. } = &outlooks[expert.method].as_ref()?.buckets[bucket];
            (*basis == Reason::Forecast).then(|| new_nodes.quantile(expert.quantile.unwrap_or(1.0)))
        };
        self.experts.iter().map(want).collect()
    }

    /// What the methods for which `asked` holds expect.
    fn ask(
        &self,
        asked: impl Fn(usize) -> bool,
        history: &History,
        now: &Present<'_>,
    ) -> Vec<Option<Outlook>> {
        let methods = self.methods.iter().enumerate();
        methods.map(|(at, (_, method))| asked(at).then(|| method.forecast(history, now))).collect()
    }

    fn is_heard(&self, method: usize) -> bool {
        method == COLD_START
            || self.judges.iter().flatten().any(|judge| {
                let experts = self.experts.iter().zip(judge.shares(self.objective));
                experts.filter(|(expert, _)| expert.method == method).map(|(_, share)| share).sum::<f64>()
                    >= WEIGHT_MIN
            })
    }

    /// The expert that never expects anything.
    fn nothing(&self) -> Option<usize> {
        self.experts.iter().position(|expert| expert.method == NOTHING)
    }

    fn bucket(&self, outlooks: &[Option<Outlook>], bucket: BucketId) -> Option<BucketOutlook> {
        let cold = &outlooks[COLD_START].as_ref()?.buckets[bucket];
        let Some(judge) = self.judges[bucket].as_ref().filter(|_| cold.basis == Reason::Forecast) else {
            return Some(cold.clone());
        };
        let shares = judge.shares(self.objective);
        let wants = self.wants(outlooks, bucket);
        let carrying = carrying(&wants, &shares)?;
        let Expert { method, quantile } = self.experts[carrying];
        let BucketOutlook { new_nodes, basis, .. } = outlooks[method].as_ref()?.buckets[bucket].clone();
        let carrier = Carrier {
            method: self.methods[method].0,
            quantile,
            weight: shares[carrying],
            dollars: judge.shadows[carrying].dollars_a_day(),
            dollars_without: judge.shadows[self.nothing()?].dollars_a_day(),
        };
        Some(BucketOutlook { new_nodes, basis, carrier: Some(carrier) })
    }
}

/// The heaviest of the experts that want the weighted median.
fn carrying(wants: &[Option<u64>], shares: &[f64]) -> Option<usize> {
    let mut heard: Vec<(u64, f64, usize)> = wants
        .iter()
        .zip(shares)
        .enumerate()
        .filter_map(|(at, (want, share))| Some(((*want)?, *share, at)))
        .collect();
    heard.sort_by_key(|&(want, _, at)| (want, at));
    let half = 0.5 * heard.iter().map(|(_, share, _)| share).sum::<f64>();
    let mut sum = 0.0;
    let passed = heard.iter().find(|(_, share, _)| {
        sum += share;
        sum >= half
    });
    let median = passed.or(heard.last())?.0;
    let alike = heard.iter().filter(|(want, ..)| *want == median);
    alike.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(.., at)| *at)
}

impl Forecaster for Ensemble {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.shapes.note(tick);
        self.methods.iter_mut().for_each(|(_, method)| method.learn(history));
        if tick.time < self.since {
            return;
        }
        let demand = self.shapes.demand(tick);
        let outlooks = self.ask(|_| true, history, &Present::at_tick(tick.time, &demand));
        for bucket in 0..self.judges.len() {
            let cold = outlooks[COLD_START].as_ref().map(|outlook| outlook.buckets[bucket].basis);
            if cold != Some(Reason::Forecast)
                || demand.present.get(bucket).is_none_or(|&n| n == 0) && self.judges[bucket].is_none()
            {
                continue;
            }
            let wants = self.wants(&outlooks, bucket);
            let pods = self.shapes.pods(&tick.arrivals, bucket);
            let fresh = || Judge::new(self.experts.len(), self.lead);
            let judge = self.judges[bucket].get_or_insert_with(fresh);
            judge.learn(tick.buckets[bucket], &wants, pods, self.objective, self.lead);
        }
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let outlooks = self.ask(|method| self.is_heard(method), history, now);
        let bucket = |id| self.bucket(&outlooks, id).unwrap_or_else(BucketOutlook::nothing);
        Outlook { buckets: (0..self.judges.len()).map(bucket).collect() }
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.methods.iter().flat_map(|(_, method)| method.faults()).collect()
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;

    use super::*;
    use crate::forecast::onnx::Source;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    #[track_caller]
    fn check(wants: &[u64], shares: &[f64], expected: usize) {
        let wants: Vec<Option<u64>> = wants.iter().copied().map(Some).collect();
        assert_eq!(carrying(&wants, shares), Some(expected));
    }

    #[test]
    fn the_heaviest_that_wants_the_median_carries() {
        check(&[0, 2, 9], &[0.4, 0.3, 0.3], 1);
        check(&[0, 2, 9], &[0.6, 0.2, 0.2], 0);
        check(&[3, 0, 3, 3], &[0.1, 0.2, 0.4, 0.3], 2);
        assert_eq!(carrying(&[None, Some(1)], &[0.9, 0.1]), Some(1));
    }

    fn ensemble(objective: Objective) -> Ensemble {
        Ensemble::new(&sample::catalog(), sample::LEAD, &Ladder::default(), objective)
    }

    fn learnt(objective: Objective) -> BucketOutlook {
        taught(&mut ensemble(objective))
    }

    /// For three days a node is needed for five minutes of every twenty.
    fn taught(ensemble: &mut Ensemble) -> BucketOutlook {
        let mut history = History::default();
        for minute in 0..3 * 1_440 {
            let demand = 1 + u64::from(minute % 20 < 5);
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }],
            ));
            ensemble.learn(&history);
        }
        let demand = Demand { present: vec![1], ..Demand::default() };
        let now = history.last().unwrap().time;
        ensemble.forecast(&history, &Present::at_tick(now, &demand)).buckets[0].clone()
    }

    #[test]
    fn a_network_is_an_expert_and_one_that_is_wrong_has_no_vote() {
        let hearing = |source: Source| {
            let network = Onnx::new(source, &sample::catalog(), sample::LEAD);
            let mut ensemble = ensemble(Objective::default()).hearing(network);
            let outlook = taught(&mut ensemble);
            (ensemble, outlook)
        };
        let share = |ensemble: &Ensemble| {
            let shares = ensemble.judges[0].as_ref().unwrap().shares(ensemble.objective);
            let experts = ensemble.experts.iter().zip(shares);
            let network = experts.filter(|(expert, _)| ensemble.methods[expert.method].0 == "onnx");
            network.map(|(_, share)| share).sum::<f64>()
        };
        let (heard, _) = hearing(Source::Pretrained);
        assert!(share(&heard) > 0.1, "{}", share(&heard));
        assert_eq!(heard.faults(), []);
        let (deaf, outlook) = hearing(Source::File("nowhere.onnx".into()));
        assert_eq!(deaf.faults()[0].field, "file");
        assert_eq!(outlook.headroom(deaf.objective), learnt(deaf.objective).headroom(deaf.objective));
    }

    #[test]
    fn prices_decide() {
        let dear = Objective::Costs { wait: 1_000.0, idle: 1.0 };
        let cheap = Objective::Costs { wait: 0.001, idle: 1.0 };
        assert_eq!((learnt(dear).headroom(dear), learnt(cheap).headroom(cheap)), (1, 0));
    }

    #[test]
    fn a_level_is_reached_by_the_cheapest_that_reaches_it() {
        let (high, low) = (Objective::Quantile(0.99), Objective::Quantile(0.01));
        assert_eq!((learnt(high).headroom(high), learnt(low).headroom(low)), (1, 0));
        let carrier = learnt(high).carrier.unwrap();
        assert!(carrier.weight > 0.99 && carrier.dollars > 0.0, "{carrier}");
    }
}
