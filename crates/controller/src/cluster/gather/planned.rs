//! Planned pods: those of PlannedDemands, of which some came already.

use std::collections::BTreeMap;

use control::{NOTICE_MAX, PlannedPods};
use embedder::{BucketSet, Gang, PodRequest, Shape, virtual_instance};

use super::{Seen, View, no_bucket};
use crate::catalog::Offers;
use crate::cluster::announced_share::AnnouncedShare;
use crate::cluster::known_plan::KnownPlan;
use crate::observe::{ClassId, HeldBack, Index, Key, PodClass, Workloads};
use crate::outcome::PlanSeen;

/// The most PlannedDemands of a namespace that count. The first ones by name count.
const PLANS_MAX: usize = 100;

impl View {
    /// Returns how many of the pods of a class that arrived were planned. These are counted as
    /// having come, those of the earliest plans first.
    pub fn planned_of(
        &mut self,
        class: &PodClass,
        count: u64,
        offers: &Offers,
        workloads: &Workloads,
    ) -> u64 {
        if !self.plans.values().any(|plan| plan.is_open) {
            return 0;
        }
        let shape = self.shape(class, offers, workloads);
        let mut open: Vec<&mut KnownPlan> = self
            .plans
            .iter_mut()
            .filter(|(key, plan)| {
                plan.is_open && key.namespace == class.namespace && plan.shape == shape
            })
            .map(|(_, plan)| plan)
            .collect();
        open.sort_by_key(|plan| plan.at);
        let mut rest = count;
        for plan in open {
            // While nodes are held for a duration, pods come again and again.
            let most = if plan.plan.for_duration { rest } else { plan.planned - plan.came };
            let came = rest.min(most);
            plan.came = plan.came.saturating_add(came);
            rest -= came;
        }
        count - rest
    }

    /// Adds the pods of plans that are still to come, and what became of plans that ended.
    pub(super) fn planned(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        ((now, lead_seconds), admitted): ((i64, &[i64]), &mut AnnouncedShare<'_>),
        seen: &mut Seen,
    ) {
        let before = std::mem::take(&mut self.plans);
        let mut of_namespace: BTreeMap<&str, usize> = BTreeMap::new();
        let mut running: Option<BTreeMap<ClassId, u64>> = None;
        for (key, announcement) in index.announcements() {
            let Some(plan) = &announcement.plan else { continue };
            let Some((class, pods)) = index.announced_pods(announcement).next() else { continue };
            if let Some(reason) = workloads.missed(&class) {
                seen.hold_back(reason, pods);
            }
            if !workloads.select(&class) {
                continue;
            }
            let known = before.get(key).filter(|known| known.plan == *plan);
            let shape = self.shape(&class, offers, workloads);
            let fitting = offers.catalog.buckets_for(&shape);
            let lead = fitting.as_ref().ok().and_then(BucketSet::first);
            let lead = lead.and_then(|id| lead_seconds.get(id)).copied().unwrap_or(0).max(0);
            let Some(mut known) = KnownPlan::next(plan, known, announcement, (&shape, pods), now)
            else {
                // Its last time is over.
                seen.expired.extend(plan.is_expired(now).then(|| key.clone()));
                seen.ended.extend(known.filter(|known| known.is_open).map(KnownPlan::kept));
                continue;
            };
            let earlier = before.get(key).filter(|earlier| earlier.at != known.at);
            seen.ended.extend(earlier.filter(|earlier| earlier.is_open).map(KnownPlan::kept));
            let is_due = known.at.saturating_sub(now) <= lead;
            let left = if plan.for_duration {
                let running = running.get_or_insert_with(|| bound(index));
                pods.saturating_sub(self.present(index, (key, &shape), running, offers, workloads))
            } else {
                pods.saturating_sub(known.came)
            };
            // What is still to come is decided at the end, unless all of it came.
            let was_open = known.is_open;
            known.is_open = is_due && (plan.for_duration || known.came < pods);
            if was_open && !known.is_open {
                seen.ended.push(known.kept());
            }
            let name = format!("{key}@{}", known.at);
            seen.plans.push(PlanSeen {
                key: key.clone(),
                plan: name.clone(),
                author: plan.author.clone(),
                at: known.at,
                end: plan.end(known.at),
                came: known.came,
                is_open: known.is_open,
            });
            let counted = of_namespace.entry(&key.namespace).or_default();
            *counted += 1;
            if known.is_open && *counted > PLANS_MAX {
                seen.hold_back(HeldBack::NamespaceShare, left);
            } else if known.is_open
                && let Err(unfit) = fitting
            {
                let spot = workloads.may_be_interrupted(&class);
                seen.unfit.push((shape.clone(), left, no_bucket(&class, spot, offers, unfit)));
            } else if known.is_open {
                let request = PodRequest { shape: shape.clone(), count: left };
                let count = admitted.admit(&key.namespace, &request);
                seen.hold_back(HeldBack::NamespaceShare, left - count);
                let request = PodRequest { count, ..request };
                let gang = Gang { requests: vec![request.clone()] };
                let gang = announcement.gang.then(|| virtual_instance(&gang, &offers.catalog).ok());
                let notice = known.at.saturating_sub(plan.created).clamp(0, lead);
                let notice = u64::try_from(notice).unwrap_or(0).saturating_mul(NOTICE_MAX);
                seen.planned.extend((count > 0).then(|| PlannedPods {
                    plan: name,
                    author: plan.author.clone(),
                    requests: vec![request],
                    planned: if plan.for_duration { count } else { pods },
                    gang: gang.flatten().filter(|gang| gang.instances > 1),
                    notice:
                        notice.checked_div(u64::try_from(lead).unwrap_or(0)).unwrap_or(NOTICE_MAX),
                    certain: plan.certain && workloads.certain_plans,
                }));
            }
            self.plans.insert(key.clone(), known);
        }
    }

    /// The pods of a namespace and a shape that wait or run.
    fn present(
        &mut self,
        index: &Index,
        (key, shape): (&Key, &Shape),
        running: &BTreeMap<ClassId, u64>,
        offers: &Offers,
        workloads: &Workloads,
    ) -> u64 {
        let mut present: u64 = 0;
        for (id, class) in index.classes().iter() {
            if class.namespace == key.namespace
                && workloads.select(class)
                && self.shape(class, offers, workloads) == *shape
            {
                let [pending, gated] = index.waiting(id);
                let bound = running.get(&id).copied().unwrap_or(0);
                present =
                    present.saturating_add(pending).saturating_add(gated).saturating_add(bound);
            }
        }
        present
    }
}

/// The pods on nodes, by class.
fn bound(index: &Index) -> BTreeMap<ClassId, u64> {
    let mut bound = BTreeMap::new();
    for (_, slot, _) in index.nodes().iter() {
        for pods in &slot.pods {
            *bound.entry(pods.class).or_default() += u64::from(pods.count);
        }
    }
    bound
}
