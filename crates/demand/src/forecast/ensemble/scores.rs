//! The scores of the experts, and the ticks on which they are not scored yet.

use std::sync::Arc;

use embedder::BucketId;
use placeholders::Objective;

use super::feedback::Feedback;
use super::judge::{Judge, leanest};
use crate::forecast::cache::Copied;
use crate::forecast::onnx::Pending;
use crate::record::BucketTick;

/// The scores of the experts.
pub(super) struct Scores {
    /// One judge per bucket; `None` for a bucket that was never in use.
    pub(super) judges: Vec<Option<Judge>>,
    /// The correction of the service level.
    pub(super) feedback: Feedback,
    /// The last ticks, on which the judges have not scored the experts yet, oldest first.
    pub(super) ticks: Vec<Unscored>,
}

/// A tick on which the experts are not scored yet.
///
/// The experts are scored when a score is read, or after several ticks ([`UNSCORED_MAX`]), because
/// the model then runs once for these ticks. Scores are read for a decision, and not while the
/// ensemble only learns.
pub(super) struct Unscored {
    /// The forecast of the model; `None` if there is no model.
    pub(super) pending: Option<Arc<Pending>>,
    /// The buckets that have a judge.
    pub(super) buckets: Vec<UnscoredBucket>,
}

/// The arguments of [`Judge::learn`] for one bucket.
#[derive(Clone)]
pub(super) struct UnscoredBucket {
    pub(super) bucket: BucketId,
    pub(super) tick: BucketTick,
    /// The headroom of each expert. Those of the model are missing.
    pub(super) wants: Vec<Option<u64>>,
    pub(super) pods: (f64, f64),
    pub(super) weight: f64,
}

/// The number of buckets, summed over the ticks, at which the experts are scored although no score
/// is read. With many buckets, a run of the model for several ticks takes as long as a run for
/// each.
const UNSCORED_MAX: usize = 32;

impl Scores {
    /// The scores for a number of buckets, before the first tick.
    pub(super) fn new(buckets: usize) -> Self {
        Self { judges: vec![None; buckets], feedback: Feedback::default(), ticks: Vec::new() }
    }

    /// The panel that holds in each bucket.
    pub(super) fn panels(&self, objective: Objective) -> Vec<usize> {
        match objective {
            Objective::WaitCost(_) | Objective::WaitRatio(_) => vec![0; self.judges.len()],
            Objective::Quantile(level) => leanest(&self.judges, self.feedback.ask(level)),
        }
    }

    /// Whether the experts are to be scored now.
    pub(super) fn are_due(&self) -> bool {
        self.ticks.iter().map(Unscored::size).sum::<usize>() >= UNSCORED_MAX
    }

    /// Returns a copy whose forecasts are computed apart from those of the original. Otherwise a
    /// run for the copy would have fewer rows where the original has computed some of them, and the
    /// output of a row differs by rounding between one row and several.
    pub(super) fn copy(&self, copied: &mut Copied) -> Self {
        let ticks = self.ticks.iter().map(|Unscored { pending, buckets }| Unscored {
            pending: pending.as_ref().map(|pending| copied.of(pending)),
            buckets: buckets.clone(),
        });
        Self {
            judges: self.judges.clone(),
            feedback: self.feedback.clone(),
            ticks: ticks.collect(),
        }
    }
}

impl Unscored {
    /// Returns the number of buckets that are scored or that the model runs for, at least 1.
    fn size(&self) -> usize {
        let of_model = self.pending.as_ref().map_or(0, |pending| pending.buckets_len());
        self.buckets.len().max(of_model).max(1)
    }
}
