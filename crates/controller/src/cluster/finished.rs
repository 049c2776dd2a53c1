//! The part of the history about past workloads: the pods that ended, and the buckets on offer.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, SubsecRound as _, Utc};
use embedder::Catalog;
use history::{FinishedPods, Offered, shape_key};
use placeholders::Objective;
use serde_json::Map;

use super::gather::{View, by_type, place};
use super::turn_input::TurnContext;
use crate::catalog::Offers;
use crate::observe::{FinishedPod, Index, SCAN_SECONDS, Workloads};

/// The most bytes of ended pods in a line: 1 MiB. More of them wait for the next line, because the
/// length of a line is limited to 4 MiB.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The bytes of an entry without its shape, name and usage, at most.
const ENTRY_BYTES: usize = 400;

/// The bytes of a bin of usage in a line, at most: a boundary, a count, and what separates them.
const BIN_BYTES: usize = 20;

/// The most entries that wait for a line while further ones have their usage. Above it, entries are
/// recorded without, so that pods of one job are alike again and take one entry together.
const WITH_USAGE_MAX: usize = 10_000;

/// The most entries that wait for a line. Further ones are dropped, because they would fill the
/// memory.
const WAITING_MAX: usize = 100_000;

/// The pods that ended and are not in the policy's history yet, and the buckets on offer that the
/// history had last.
#[derive(Default)]
pub(super) struct Finished {
    pods: Vec<FinishedPods>,
    /// The buckets on offer that the history had last, and the day of their line.
    offered: Option<(NaiveDate, Offered)>,
}

impl Finished {
    /// Notes the policy's pods that ended since the last turn. Pods on nodes outside the buckets
    /// are left out.
    pub(super) fn note(
        &mut self,
        context: &TurnContext<'_>,
        (index, offers, workloads): (&Index, &Arc<Offers>, &Workloads),
        view: &mut View,
        now: DateTime<Utc>,
    ) {
        let by_type = by_type(offers);
        let before = self.pods.len();
        let mut without_usage = 0;
        for pod in context.occurred.finished.iter().filter(|pod| workloads.select(&pod.class)) {
            let facts = index.nodes().by_name(&pod.node).and_then(|slot| slot.facts.as_ref());
            let bucket = facts.and_then(|facts| place(facts, offers, &by_type));
            if facts.is_some() && bucket.is_none() {
                continue;
            }
            let bucket = bucket.map(|(bucket, _)| offers.catalog.buckets()[bucket].name.clone());
            let shape = shape_key(&view.shape(&pod.class, offers, workloads), &offers.catalog);
            let with_name = context.config.record_names;
            let record = record(pod, shape, bucket, with_name, now);
            let has_room = self.pods.len() < WITH_USAGE_MAX;
            without_usage += usize::from(record.usage.is_some() && !has_room);
            let usage = record.usage.filter(|_| has_room);
            self.pods.push(FinishedPods { usage, ..record });
        }
        if without_usage > 0 {
            tracing::warn!(without_usage, "usage of finished pods is not recorded: too many wait");
        }
        let mut new = self.pods.split_off(before);
        new.sort_by(|a, b| {
            let key = |pods: &FinishedPods| (pods.ended, pods.submitted, pods.started);
            (key(a), &a.job, &a.shape).cmp(&(key(b), &b.job, &b.shape))
        });
        for pods in new {
            match self.pods.last_mut().filter(|last| alike(last, &pods)) {
                Some(last) => last.pods = last.pods.saturating_add(pods.pods),
                None => self.pods.push(pods),
            }
        }
        if self.pods.len() > WAITING_MAX {
            let dropped = self.pods.len() - WAITING_MAX;
            tracing::warn!(dropped, "finished pods are not recorded: too many wait");
            self.pods.truncate(WAITING_MAX);
        }
    }

    /// Takes the ended pods of the next line.
    pub(super) fn take(&mut self) -> Vec<FinishedPods> {
        let mut bytes = 0_usize;
        let fits = |pods: &&FinishedPods| {
            let name = pods.name.as_ref().map_or(0, String::len);
            let bins = pods.usage.as_ref().map_or(0, |usage| usage.cpu_millis.len());
            bytes = bytes.saturating_add(ENTRY_BYTES + pods.shape.len() + name + BIN_BYTES * bins);
            bytes <= LINE_BYTES_MAX
        };
        // An entry that is too long by itself goes alone.
        let most = self.pods.iter().take_while(fits).count().max(1).min(self.pods.len());
        self.pods.drain(..most).collect()
    }

    /// The buckets on offer, if the line at `time` is to have them.
    pub(super) fn offered(
        &mut self,
        time: DateTime<Utc>,
        catalog: &Catalog,
        objective: Objective,
    ) -> Option<Offered> {
        let new = (time.date_naive(), Offered::new(catalog, objective));
        let changed = self.offered.as_ref() != Some(&new);
        changed.then(|| self.offered.insert(new).1.clone())
    }

    /// Forgets the ended pods, because another replica records them.
    pub(super) fn clear(&mut self) {
        self.pods.clear();
    }
}

fn record(
    pod: &FinishedPod,
    shape: String,
    bucket: Option<String>,
    with_name: bool,
    now: DateTime<Utc>,
) -> FinishedPods {
    let FinishedPod { class, job, owner_kind, owner_name, submitted, started, .. } = pod;
    FinishedPods {
        job: job.clone(),
        owner_kind: owner_kind.clone(),
        name: with_name.then(|| format!("{}/{owner_name}", class.namespace)),
        shape,
        priority: class.priority,
        bucket,
        pods: 1,
        submitted: *submitted,
        started: *started,
        ended: pod.ended.unwrap_or(now).min(now).trunc_subsecs(0).max(*started),
        waited: (*started - *submitted).num_seconds() > SCAN_SECONDS,
        usage: pod.usage.clone(),
        rest: Map::new(),
    }
}

/// Whether two records differ at most in the number of pods.
fn alike(a: &FinishedPods, b: &FinishedPods) -> bool {
    let one = |pods: &FinishedPods| FinishedPods { pods: 1, ..pods.clone() };
    one(a) == one(b)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_has_a_name_only_where_names_are_recorded() {
        let pod = json!({
            "metadata": {"name": "train-0", "namespace": "team-a", "labels": {"user": "ann"}},
        });
        let class = crate::observe::PodClass::of(
            &serde_json::from_value(pod).unwrap(),
            &["user".to_owned()].into(),
        );
        let now = DateTime::UNIX_EPOCH + TimeDelta::hours(1);
        let pod = FinishedPod {
            class,
            node: "ip-10-0-0-1".into(),
            job: "0e1f4a52".into(),
            owner_kind: "Job".into(),
            owner_name: "train".into(),
            submitted: now - TimeDelta::seconds(100),
            started: now - TimeDelta::seconds(60),
            ended: None,
            usage: None,
        };
        let with_names =
            |names| record(&pod, "pods=1".into(), Some("m5.xlarge".into()), names, now);
        assert_eq!(with_names(true).name.as_deref(), Some("team-a/train"));
        let text = serde_json::to_string(&with_names(false)).unwrap();
        for name in ["train", "team-a", "ann", "ip-10-0-0-1"] {
            assert!(!text.contains(name), "{name} in {text}");
        }
        assert!(text.contains(r#""job":"0e1f4a52""#), "{text}");
    }
}
