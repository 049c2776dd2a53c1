//! Announced demand: gangs whose pods gates hold, and what suspended jobs, queued workloads and
//! CronJobs announce.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{Gang, PodRequest};

use super::{Seen, View, no_bucket};
use crate::catalog::Offers;
use crate::cluster::announced_share::AnnouncedShare;
use crate::observe::{ANNOUNCED_SECONDS, HeldBack, Index, Key, Schedule, WaitingState, Workloads};

/// How long after a CronJob's firing the firing still counts, in seconds, unless the CronJob's
/// status lists it. Until then the job's pods may not exist yet.
const FIRING_SECONDS: i64 = 10;

impl Seen {
    /// Counts pods that are not counted as demand.
    pub(super) fn hold_back(&mut self, reason: HeldBack, pods: u64) {
        if pods > 0 {
            let held_back = self.held_back.entry(reason).or_default();
            *held_back = held_back.saturating_add(pods);
        }
    }

    /// Counts announced pods of a namespace, as many as its share admits.
    pub(super) fn announce(
        &mut self,
        namespace: &str,
        request: PodRequest,
        share: &mut AnnouncedShare<'_>,
    ) {
        let count = share.admit(namespace, &request);
        self.hold_back(HeldBack::NamespaceShare, request.count - count);
        if count > 0 {
            self.cluster.announced.push(PodRequest { count, ..request });
        }
    }

    /// Counts an announced gang of a namespace, if its share admits all pods.
    fn announce_gang(
        &mut self,
        namespace: &str,
        requests: Vec<PodRequest>,
        share: &mut AnnouncedShare<'_>,
    ) {
        if share.admits_gang(namespace, &requests) {
            self.cluster.gangs.push(Gang { requests });
        } else {
            let pods = requests.iter().fold(0, |sum: u64, pods| sum.saturating_add(pods.count));
            self.hold_back(HeldBack::NamespaceShare, pods);
        }
    }
}

impl View {
    /// When a CronJob fires, in Unix seconds: the last firing while its job may not exist yet, else
    /// the next one. `fired` is the last firing whose job exists.
    fn fires(
        &mut self,
        key: &Key,
        schedule: &Schedule,
        fired: Option<i64>,
        now: i64,
    ) -> Option<i64> {
        let from = now.saturating_sub(FIRING_SECONDS);
        let from = fired.map_or(from, |fired| from.max(fired.saturating_add(1)));
        let known = self
            .firings
            .get(key)
            .filter(|(of, at)| of == schedule && at.is_none_or(|at| at >= from));
        if let Some((_, at)) = known {
            return *at;
        }
        let at = schedule.next(from);
        self.firings.insert(key.clone(), (schedule.clone(), at));
        at
    }

    /// Adds gangs, given by PodGroup and the minimum number of pods that start together.
    ///
    /// A gang counts once that many of its pods exist. A Job's pods are created one by one, and the
    /// first of them could be placed where the whole gang does not fit.
    pub(super) fn gangs(
        &mut self,
        gangs: BTreeMap<(Key, u64), Vec<PodRequest>>,
        admitted: &mut AnnouncedShare<'_>,
        seen: &mut Seen,
    ) {
        let before = std::mem::take(&mut self.whole);
        for ((group, fewest), requests) in gangs {
            let pods =
                requests.iter().fold(0, |sum: u64, request| sum.saturating_add(request.count));
            if pods < fewest && !before.contains(&group) {
                seen.hold_back(HeldBack::PartOfGang, pods);
                continue;
            }
            seen.announce_gang(&group.namespace, requests, admitted);
            self.whole.insert(group);
        }
    }

    pub(super) fn announced(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        ((now, lead_seconds), admitted): ((i64, &[i64]), &mut AnnouncedShare<'_>),
        seen: &mut Seen,
    ) {
        let known = self.announced.take();
        let is_new = |key: &Key| known.as_ref().is_some_and(|known| !known.contains(key));
        let mut gangs = BTreeSet::new();
        let others = index.announcements();
        let others = others.filter(|(_, of)| of.plan.is_none() && of.workflow.is_none());
        for (key, announcement) in others {
            let fires = match &announcement.schedule {
                Some(schedule) => self.fires(key, schedule, announcement.fired, now),
                None => Some(now),
            };
            let Some(within) = fires.map(|at| at.saturating_sub(now)) else { continue };
            if within > lead_seconds.iter().copied().max().unwrap_or(0).max(0) {
                continue;
            }
            let state = match workloads.announced(announcement) {
                WaitingState::Announced
                    if announcement.schedule.is_some() && index.creates_no_pods(key, now) =>
                {
                    WaitingState::HeldBack(HeldBack::NoPodsBefore)
                }
                WaitingState::Announced
                    if announcement.since.is_some_and(|since| since + ANNOUNCED_SECONDS <= now) =>
                {
                    WaitingState::HeldBack(HeldBack::Expired)
                }
                state => state,
            };
            let is_gang = announcement.gang || workloads.is_gang_of_job(announcement);
            // The pods of a running job are present demand. Their job matters only as a gang.
            if state == WaitingState::Pending && !is_gang {
                continue;
            }
            let pods: Vec<_> = index.announced_pods(announcement).collect();
            if state != WaitingState::Pending {
                let of_unknown = announcement.pods.iter().filter(|pods| index.lacks_flavor(pods));
                for pods in of_unknown.filter(|pods| workloads.select(&pods.class)) {
                    seen.hold_back(HeldBack::UnknownFlavor, pods.count);
                }
                for (class, count) in &pods {
                    if let Some(reason) = workloads.missed(class) {
                        seen.hold_back(reason, *count);
                    }
                }
            }
            let mut ours: Vec<PodRequest> = Vec::new();
            for (class, count) in pods.iter().filter(|(class, _)| workloads.select(class)) {
                let shape = self.shape(class, offers, workloads);
                match offers.catalog.buckets_for(&shape) {
                    Ok(fitting) => {
                        let lead = fitting.first().and_then(|id| lead_seconds.get(id)).copied();
                        if within <= lead.unwrap_or(0).max(0) {
                            ours.push(PodRequest { shape, count: *count });
                        }
                    }
                    Err(unfit) if state == WaitingState::Announced && *count > 0 => {
                        let spot = workloads.may_be_interrupted(class);
                        let why = no_bucket(class, spot, offers, unfit);
                        seen.unfit.push((shape, *count, why));
                    }
                    // The reason for which they are held back names them, too.
                    Err(_) => ours.push(PodRequest { shape, count: *count }),
                }
            }
            let count: u64 = ours.iter().fold(0, |sum, pods| sum.saturating_add(pods.count));
            if count == 0 {
                continue;
            }
            if let WaitingState::HeldBack(reason) = state {
                seen.hold_back(reason, count);
                // A gang that was announced before is not learnt again.
                gangs.extend(known.iter().filter_map(|known| known.get(key)).cloned());
            } else if is_gang {
                // The next job of a CronJob is counted when it exists.
                if announcement.schedule.is_none() {
                    if is_new(key) {
                        let gang = Gang { requests: ours.clone() };
                        seen.announced_first.push((key.clone(), gang));
                    }
                    gangs.insert(key.clone());
                }
                if state == WaitingState::Announced {
                    seen.announce_gang(&key.namespace, ours, admitted);
                }
            } else {
                for request in ours {
                    seen.announce(&key.namespace, request, admitted);
                }
            }
        }
        self.announced = Some(gangs);
    }
}
