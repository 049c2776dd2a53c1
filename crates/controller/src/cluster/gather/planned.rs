//! Planned pods: those of PlannedDemands, of which some came already.

use std::collections::BTreeMap;

use control::{NOTICE_MAX, PlannedPods};
use embedder::{BucketSet, Gang, PodRequest, Shape, virtual_instance};

use super::{Seen, View, no_bucket};
use crate::catalog::Offers;
use crate::cluster::announced_share::AnnouncedShare;
use crate::cluster::known_plan::KnownPlan;
use crate::observe::{ClassId, HeldBack, Index, Key, PLANNED_DEMANDS, PodClass, Workloads};
use crate::outcome::PlanSeen;

/// The most PlannedDemands of a namespace that count. The first ones by name count.
const PLANS_MAX: usize = 100;

impl View {
    /// Notes pods of a class that arrived: those of a plan that expects such pods have come, for
    /// the earliest plan first, then those of steps of workflows. Returns for how many of them
    /// nodes were held, as `came` returns it for the name of a plan and the number of its pods.
    pub fn planned_of(
        &mut self,
        class: &PodClass,
        count: u64,
        (offers, workloads): (&Offers, &Workloads),
        came: &mut dyn FnMut(&str, u64) -> u64,
    ) -> u64 {
        if self.expected.is_empty() && !self.plans.values().any(|plan| plan.is_open) {
            return 0;
        }
        let shape = self.shape(class, offers, workloads);
        let mut open: Vec<(&Key, &mut KnownPlan)> = self
            .plans
            .iter_mut()
            .filter(|(key, plan)| {
                plan.is_open && key.namespace == class.namespace && plan.shape == shape
            })
            .collect();
        open.sort_by_key(|(_, plan)| (plan.plan.for_duration, plan.at));
        let (mut rest, mut held) = (count, 0);
        for (key, plan) in open {
            // While nodes are held for a duration, pods come again and again.
            let left = plan.planned.saturating_sub(plan.came);
            let ours = rest.min(if plan.plan.for_duration { rest } else { left });
            held += came(&plan.name(key), ours);
            plan.came = plan.came.saturating_add(ours);
            rest -= ours;
        }
        held + self.expected_of((&class.namespace, &shape), rest, came)
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
        if index.is_stale(PLANNED_DEMANDS) {
            return;
        }
        let mut before = std::mem::take(&mut self.plans);
        let is_first = before.is_empty();
        let mut of_namespace: BTreeMap<&str, usize> = BTreeMap::new();
        let mut running: Option<BTreeMap<ClassId, u64>> = None;
        let mut present_left: BTreeMap<(&str, Shape), u64> = BTreeMap::new();
        for (key, announcement) in index.announcements() {
            let Some(plan) = &announcement.plan else { continue };
            let Some((class, pods)) = index.announced_pods(announcement).next() else { continue };
            let is_missed = workloads.missed(&class);
            if is_missed.is_none() && !workloads.select(&class) {
                continue;
            }
            let counted = of_namespace.entry(&key.namespace).or_default();
            *counted += 1;
            if *counted > PLANS_MAX {
                continue;
            }
            let earlier = before.remove(key);
            let shape = self.shape(&class, offers, workloads);
            let known = earlier.as_ref().filter(|known| known.plan == *plan);
            let since = if is_first { plan.created } else { now };
            let mut known =
                KnownPlan::next(plan, known, announcement, (&shape, pods), (now, since));
            let ended = earlier.filter(|earlier| earlier.is_open && earlier.at != known.at);
            seen.ended.extend(ended.as_ref().map(KnownPlan::kept));
            let fitting = offers.catalog.buckets_for(&shape);
            let lead = fitting.as_ref().ok().and_then(BucketSet::first);
            let lead = lead.and_then(|id| lead_seconds.get(id)).copied().unwrap_or(0).max(0);
            let is_over = now >= known.end;
            let was_open = known.is_open;
            let mut left = 0;
            known.is_open = !is_over && (was_open || known.at.saturating_sub(now) <= lead);
            if known.is_open && plan.for_duration {
                let running = running.get_or_insert_with(|| bound(index));
                let of_shape = present_left.entry((&key.namespace, shape.clone()));
                let present = of_shape.or_insert_with(|| {
                    self.present(index, (key, &shape), running, offers, workloads)
                });
                let ours = pods.min(*present);
                *present -= ours;
                known.came = known.came.max(ours);
                left = pods - ours;
            } else if known.is_open {
                left = pods.saturating_sub(known.came);
                known.is_open = left > 0;
            }
            if was_open && !known.is_open {
                seen.ended.push(known.kept());
            }
            if is_over && plan.is_expired(now) {
                seen.expired.push((key.clone(), announcement.resource_version.clone()));
            }
            seen.plans.push(PlanSeen {
                key: key.clone(),
                plan: known.name(key),
                author: plan.author.clone(),
                at: known.at,
                end: known.end,
                came: known.came,
                is_open: known.is_open,
                is_over: is_over || !known.is_open && known.came >= pods,
            });
            if let Some(reason) = is_missed.filter(|_| known.is_open) {
                seen.hold_back(reason, left);
            } else if known.is_open
                && let Err(unfit) = fitting
            {
                let spot = workloads.may_be_interrupted(&class);
                seen.unfit.push((shape.clone(), left, no_bucket(&class, spot, offers, unfit)));
            } else if known.is_open {
                let request = PodRequest { shape, count: left };
                let count = admitted.admit(&key.namespace, &request);
                seen.hold_back(HeldBack::NamespaceShare, left - count);
                let request = PodRequest { count, ..request };
                let gang = Gang { requests: vec![request.clone()] };
                let gang = announcement.gang.then(|| virtual_instance(&gang, &offers.catalog).ok());
                let notice = known.at.saturating_sub(known.since).clamp(0, lead);
                let notice = u64::try_from(notice).unwrap_or(0).saturating_mul(NOTICE_MAX);
                seen.planned.push(PlannedPods {
                    plan: known.name(key),
                    author: plan.author.clone(),
                    requests: vec![request],
                    planned: pods,
                    came: pods - left,
                    gang: gang.flatten().filter(|gang| gang.instances > 1),
                    notice: notice
                        .checked_div(u64::try_from(lead).unwrap_or(0))
                        .unwrap_or(NOTICE_MAX),
                    certain: plan.certain && workloads.certain_plans,
                });
            }
            self.plans.insert(key.clone(), known);
        }
        // Plans that were deleted while pods were expected.
        seen.ended.extend(before.values().filter(|known| known.is_open).map(KnownPlan::kept));
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
