//! A decision of an ensemble: the outlooks of its buckets at one moment.
//!
//! A decision runs the methods with large weights first, and the others only where they can change
//! the median or the carrier (`median.rs`).

use std::cell::OnceCell;

use embedder::BucketId;
use placeholders::Reason;

use super::judge::Judge;
use super::median::{Want, carrying, carrying_in_any_case};
use super::{COLD_START, Ensemble, Expert, LADDER, NOTHING};
use crate::forecast::carrier::Carrier;
use crate::forecast::hyperparameters::WEIGHT_MIN;
use crate::forecast::question::{BucketOutlook, Forecaster, Outlook, Present};
use crate::record::History;

/// The outlooks of an ensemble and of its methods at one moment.
pub(super) struct Decision<'a> {
    ensemble: &'a Ensemble,
    judges: &'a [Option<Judge>],
    history: &'a History,
    now: &'a Present<'a>,
    /// By method: the outlook, or `None` if the method does not take part; empty until it is read.
    outlooks: Vec<OnceCell<Option<Outlook>>>,
}

impl<'a> Decision<'a> {
    /// A decision at the moment `now`, by these judges. No method has run yet.
    pub(super) fn new(
        ensemble: &'a Ensemble,
        judges: &'a [Option<Judge>],
        history: &'a History,
        now: &'a Present<'a>,
    ) -> Self {
        let outlooks = vec![OnceCell::new(); ensemble.model_at() + 1];
        Self { ensemble, judges, history, now, outlooks }
    }

    /// Returns the outlook of a bucket. Runs only the methods that it needs.
    pub(super) fn bucket(&self, bucket: BucketId) -> Option<BucketOutlook> {
        let Self { ensemble, judges, .. } = self;
        let cold = &self.outlook(COLD_START)?.buckets[bucket];
        if cold.reason == Reason::TooLittleHistory && ensemble.ladder_first {
            let BucketOutlook { new_nodes, .. } = self.outlook(LADDER)?.buckets[bucket].clone();
            return Some(BucketOutlook::new(new_nodes, Reason::TooLittleHistory));
        }
        let Some(judge) = judges[bucket].as_ref().filter(|_| cold.reason == Reason::Forecast)
        else {
            return Some(cold.clone());
        };
        let (shares, wait) = judge.shares();
        let carrying = self.carrier(bucket, shares)?;
        let Expert { method, quantile } = ensemble.experts[carrying];
        let BucketOutlook { new_nodes, reason, .. } = self.outlook(method)?.buckets[bucket].clone();
        let carrier = Carrier {
            method: ensemble.name(method),
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
    pub(super) fn carrier(&self, bucket: BucketId, shares: &[f64]) -> Option<usize> {
        let experts = &self.ensemble.experts;
        let mut largest = vec![0.0_f64; self.outlooks.len()];
        for (expert, share) in experts.iter().zip(shares) {
            largest[expert.method] = largest[expert.method].max(*share);
        }
        let mut order: Vec<usize> = (0..largest.len()).collect();
        order.sort_by(|&a, &b| {
            self.has_run(b).cmp(&self.has_run(a)).then_with(|| largest[b].total_cmp(&largest[a]))
        });
        let mut wants = vec![Want::Unknown; experts.len()];
        for method in order {
            let outlook = self.outlook(method);
            for (want, expert) in wants.iter_mut().zip(experts) {
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

    /// Returns the outlook of a method. `None` if the method does not take part.
    fn outlook(&self, method: usize) -> Option<&Outlook> {
        let Self { ensemble, history, now, .. } = self;
        let run = || {
            let model = || ensemble.model.as_ref().map(|model| model as &dyn Forecaster);
            let forecaster = ensemble.methods.get(method).map(|(_, method)| &**method);
            let forecaster = forecaster.or_else(model).filter(|_| self.has_weight(method))?;
            Some(forecaster.forecast(history, now))
        };
        self.outlooks.get(method)?.get_or_init(run).as_ref()
    }

    /// Whether a method has run, or is known not to take part.
    pub(super) fn has_run(&self, method: usize) -> bool {
        self.outlooks[method].get().is_some()
    }

    /// Whether the experts of a method have together at least `WEIGHT_MIN` in some bucket. The
    /// method of the cold start always counts.
    pub(super) fn has_weight(&self, method: usize) -> bool {
        let Self { ensemble, judges, .. } = self;
        method == COLD_START
            || (method == LADDER && ensemble.ladder_first)
            || judges.iter().flatten().any(|judge| {
                let experts = ensemble.experts.iter().zip(judge.shares().0);
                experts
                    .filter(|(expert, _)| expert.method == method)
                    .map(|(_, share)| share)
                    .sum::<f64>()
                    >= WEIGHT_MIN
            })
    }

    /// Returns the expert that always forecasts 0 nodes.
    fn nothing(&self) -> Option<usize> {
        self.ensemble.experts.iter().position(|expert| expert.method == NOTHING)
    }
}
