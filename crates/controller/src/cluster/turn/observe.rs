//! Reads the watched objects: the policy's view of the cluster, and what happened since the last
//! turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::GIVE_UP;
use chrono::{DateTime, TimeDelta, Utc};
use control::{NamespaceArrival, Observed, TierArrival};
use demand::record::PodStarts;
use embedder::{Bucket, BucketId, Gang, PodRequest, Shape, VirtualInstance, virtual_instance};
use history::{EndedLaunch, LaunchEnd};

use super::PolicyController;
use crate::catalog::{Offer, Offers};
use crate::cluster::backoff::backoff;
use crate::cluster::checks::check_watches;
use crate::cluster::gather::{Places, Seen, by_type, place};
use crate::cluster::known_workflow::without_names;
use crate::cluster::launch_tracker::LaunchSources;
use crate::cluster::preemptions::Taken;
use crate::cluster::settings::PolicySettings;
use crate::cluster::standing::Stands;
use crate::cluster::turn_input::{TurnContext, TurnInput};
use crate::cluster::unlearnt_arrivals::{Arrived, Lesson};
use crate::crd::PlaceholderKind;
use crate::observe::{Index, Key, PlaceholderPod, PodClass, World};
use crate::outcome::{Backoff, Cause, Faults, MESSAGES_MAX, Observation};

/// The most plans, and the most steps of workflows, that ended and that no control could learn yet.
const UNLEARNT_PLANS_MAX: usize = 1_000;

impl PolicyController {
    /// Reads the policy's view of the cluster, its standing placeholders, the launches that ended,
    /// and the nodes that other workloads took.
    pub(super) fn observe(
        &mut self,
        input: &TurnInput<'_>,
        settings: &PolicySettings,
        offers: &Arc<Offers>,
    ) -> (Observation, Stands, Faults) {
        let TurnInput { key, context, now, .. } = *input;
        let world = context.shared.world();
        let (index, workloads) = (&world.index, &settings.workloads);
        let (blind, mut faults) =
            check_watches(&world, key, settings, context.config.scope.karpenter);
        let stands = Stands::of(&world, key, &input.owner.uid);
        faults.append(self.note_placeholders(&world, input));
        let places = stands.places(&key.namespace, offers);
        // While watches fail, a launch may have ended without an event.
        let launches = if blind {
            Vec::new()
        } else {
            let backoffs = self.backoffs(&world, context, offers, now);
            self.ended_launches(&world, &places, settings, (offers, &backoffs), context, now)
        };
        let backoffs = self.backoffs(&world, context, offers, now);
        let lesson = self.lesson(context, settings, offers, blind, now);
        let mut seen = self.gather(&world, &places, settings, offers, &backoffs, now);
        if settings.placeholders.kind == PlaceholderKind::CapacityBuffer {
            for ((bucket, group), nodes) in stands.buffered(offers) {
                seen.standing.buckets[bucket][group].placeholders += nodes;
            }
        }
        let rules = (&context.config.prices, world.reservations.as_ref());
        let taken = context.prepaid_taken;
        self.view.note_prepaid(index, offers, rules, taken, now, &mut seen);
        self.blindness.note(blind, now, || {
            let buckets = offers.catalog.buckets().iter().enumerate();
            buckets
                .map(|(id, bucket)| (bucket.name.clone(), seen.standing.placeholders(id)))
                .collect()
        });
        if !context.config.record_names {
            seen.templates_mut().for_each(without_names);
        }
        let announced_first = std::mem::take(&mut seen.announced_first);
        let learns = matches!(lesson, Lesson::Learn(_));
        let rest = UNLEARNT_PLANS_MAX.saturating_sub(self.ended_plans.len());
        self.ended_plans.extend(seen.ended.drain(..).take(rest));
        let rest = UNLEARNT_PLANS_MAX.saturating_sub(self.ended_steps.len());
        self.ended_steps.extend(seen.runs.drain(..).take(rest));
        let kept = if learns { std::mem::take(&mut self.ended_plans) } else { Vec::new() };
        let runs = if learns { std::mem::take(&mut self.ended_steps) } else { Vec::new() };
        let arrivals = self.arrivals(lesson, settings, offers, announced_first);
        let starts = if blind { Vec::new() } else { starts(index, offers, settings, context) };
        if context.config.data.is_some() {
            let observed = (index, offers, workloads);
            self.history.finished.note(context, observed, &mut self.view, now);
        }
        let bucket_of = |set: &Key| {
            places.get(set).map(|&(bucket, _)| offers.catalog.buckets()[bucket].name.clone())
        };
        let Taken { charges, by_others } =
            self.preemptions.taken(&context.occurred.preempted, bucket_of, index, workloads, now);
        let used = self.launch_tracker.used(index, &places, (offers, workloads), now);
        self.history.ended(&launches, &used);
        let latency = |group: &embedder::Group| {
            self.launch_latencies
                .latency_seconds(&group.name)
                .unwrap_or(context.config.launch_seconds)
        };
        let latencies = |bucket: &embedder::Bucket| bucket.groups.iter().map(latency).collect();
        let Arrivals { pods, tiers, namespaces, gangs } = arrivals;
        let observation = Observation {
            blind,
            observed: Observed {
                time: now,
                cluster: seen.cluster,
                rooms: None,
                standing: seen.standing,
                ready: seen.ready.iter().map(|groups| groups.iter().sum()).collect(),
                arrivals: pods,
                tiers,
                namespaces,
                gangs,
                starts,
                planned: seen.planned,
                kept,
                workflows: seen.workflows,
                runs,
            },
            plans: seen.plans,
            expired: seen.expired,
            ready: seen.ready,
            tiers: seen.tiers,
            held_back: seen.held_back,
            unfit: seen.unfit,
            launches,
            used,
            launch_seconds: offers.catalog.buckets().iter().map(latencies).collect(),
            backoffs,
            charges,
            taken_by_other_workload: by_others,
        };
        (observation, stands, faults)
    }

    /// Compares the policy's placeholders with their templates. The faults are those that differ,
    /// and those for which an autoscaler launches no node.
    fn note_placeholders(&mut self, world: &World, input: &TurnInput<'_>) -> Faults {
        let (namespace, uid) = (&input.key.namespace, input.owner.uid.as_str());
        let placeholders =
            world.index.placeholders().filter(|(pod, _)| pod.namespace == *namespace);
        let set_of = |pod: &Key, placeholder: &PlaceholderPod| {
            let name = placeholder.replica_set.clone();
            let set = world.sets.get(&Key { namespace: pod.namespace.clone(), name })?;
            (set.owner == uid).then_some(set)
        };
        let sets = world.sets.values().filter(|set| set.owner == uid);
        self.shrinking.recall(uid, sets, input.now);
        let noted = self.shrinking.note(placeholders, set_of, &world.scale_ups_reported, input.now);
        let mut faults = Faults::default();
        let changed = noted.changed.into_iter().take(MESSAGES_MAX);
        faults.add_all(Cause::PlaceholdersChanged, changed);
        let not_triggering = noted.not_triggering.into_iter().take(MESSAGES_MAX);
        faults.add_all(Cause::PlaceholderNotTriggering, not_triggering);
        faults
    }

    /// The launches that ended since the last turn. Latencies and backoffs are learnt from them.
    fn ended_launches(
        &mut self,
        world: &World,
        places: &Places,
        settings: &PolicySettings,
        (offers, backoffs): (&Arc<Offers>, &[Vec<Option<Backoff>>]),
        context: &TurnContext<'_>,
        now: DateTime<Utc>,
    ) -> Vec<EndedLaunch> {
        let of = (&**offers, &settings.workloads);
        let sources = LaunchSources {
            scale_ups: &world.scale_ups,
            warm_instances: &context.groups.warm_pools().instances,
        };
        // The groups from which cluster-autoscaler itself backs off.
        let named = offers.catalog.buckets().iter().flat_map(|bucket| &bucket.groups);
        let of_autoscaler: BTreeSet<&str> = named
            .zip(backoffs.iter().flatten())
            .filter(|(_, backoff)| backoff.is_some_and(|of| !of.may_still_launch))
            .map(|(group, _)| group.name.as_str())
            .filter(|name| self.launch_latencies.backoff_until(name, now).is_none())
            .collect();
        let give_up = |bucket: usize, group: usize| {
            let name = &offers.catalog.buckets()[bucket].groups[group].name;
            match backoffs[bucket][group] {
                // Where launches are reported to fail, one that takes longer than usual has failed.
                Some(Backoff { may_still_launch: true, .. }) => {
                    let usual = self.launch_latencies.latency_seconds(name);
                    let usual = usual.unwrap_or(context.config.launch_seconds);
                    TimeDelta::seconds(usual).min(GIVE_UP)
                }
                Some(_) if of_autoscaler.contains(name.as_str()) => TimeDelta::zero(),
                _ => GIVE_UP,
            }
        };
        let mut ended =
            self.launch_tracker.ended(&world.index, places, of, &sources, &give_up, now);
        if settings.placeholders.kind == PlaceholderKind::CapacityBuffer {
            // The nodes that CapacityBuffers launched in time are not reported, so the nodes that
            // pods waited for would seem to be all launches.
            ended.retain(|launch| !matches!(launch.end, LaunchEnd::WaitedFor(_)));
        }
        // The backoff of cluster-autoscaler ends by its own time.
        let is_learnt = |launch: &&EndedLaunch| {
            !matches!(launch.end, LaunchEnd::Failed(_))
                || !of_autoscaler.contains(launch.group.as_str())
        };
        for launch in ended.iter().filter(is_learnt) {
            self.launch_latencies.learn(launch);
        }
        ended
    }

    /// The backoffs of groups, by bucket and then by group.
    fn backoffs(
        &self,
        world: &World,
        context: &TurnContext<'_>,
        offers: &Offers,
        now: DateTime<Utc>,
    ) -> Vec<Vec<Option<Backoff>>> {
        let of_bucket = |(bucket, groups): (&Bucket, &Vec<Offer>)| {
            let named = bucket.groups.iter().map(|group| group.name.as_str()).zip(groups);
            let launches = Some(&self.launch_latencies);
            named.map(|group| backoff(group, (world, context.groups), launches, now)).collect()
        };
        offers.catalog.buckets().iter().zip(&offers.groups).map(of_bucket).collect()
    }

    fn gather(
        &mut self,
        world: &World,
        places: &Places,
        settings: &PolicySettings,
        offers: &Arc<Offers>,
        backoffs: &[Vec<Option<Backoff>>],
        now: DateTime<Utc>,
    ) -> Seen {
        let backs_off = |bucket: usize, group: usize| backoffs[bucket][group];
        let control = self.control.as_ref();
        let leads = control.map_or_else(Vec::new, |(config, _)| {
            config.forecaster.leads.iter().map(|lead| lead.seconds).collect()
        });
        let window = (now.timestamp(), leads.as_slice());
        self.view.gather(&world.index, offers, &settings.workloads, places, &backs_off, window)
    }

    /// What to do with what arrived since a control last learnt, without the planned pods for which
    /// nodes were held.
    fn lesson(
        &mut self,
        context: &TurnContext<'_>,
        settings: &PolicySettings,
        offers: &Offers,
        blind: bool,
        now: DateTime<Utc>,
    ) -> Lesson {
        let can_learn = !blind && self.has_control_of(offers);
        let workloads = &settings.workloads;
        let mut control = self.control.as_mut();
        let mut came = |plan: &str, pods: u64| {
            control.as_mut().map_or(0, |(_, control)| control.came(plan, pods))
        };
        let mut pods = context.occurred.arrivals.clone();
        for (class, count) in pods.iter_mut().filter(|(class, _)| workloads.select(class)) {
            *count -= self.view.planned_of(class, *count, (offers, workloads), &mut came);
        }
        pods.retain(|(_, count)| *count > 0);
        let gangs = &context.occurred.gangs;
        self.unlearnt_arrivals.turn(&pods, gangs, can_learn, settings.tick_seconds, now)
    }

    /// What arrived since a control last learnt, and the gangs that are announced for the first
    /// time. Empty while nothing can be learnt.
    fn arrivals(
        &mut self,
        lesson: Lesson,
        settings: &PolicySettings,
        offers: &Offers,
        announced_first: Vec<(Key, Gang)>,
    ) -> Arrivals {
        let Lesson::Learn(Arrived { pods, gangs }) = lesson else {
            // An announced gang has not arrived yet, so it can be learnt later even if arrivals are
            // dropped.
            self.view.postpone(&announced_first);
            return Arrivals::default();
        };
        let workloads = &settings.workloads;
        let mut arrivals = Arrivals::default();
        for (class, count) in pods.iter().filter(|(class, _)| workloads.select(class)) {
            let shape = self.view.shape(class, offers, workloads);
            let tier = workloads.tier(class);
            arrivals.tiers.extend(tier.map(|name| (name.to_owned(), shape.clone(), *count)));
            arrivals.namespaces.push((class.namespace.clone(), shape.clone(), *count));
            arrivals.pods.push((shape, *count));
        }
        let announced = announced_first.into_iter().map(|(_, gang)| gang);
        let formed = gangs.iter().map(|pods| {
            let ours = pods.iter().filter(|(class, _)| workloads.select(class));
            let requests = ours.map(|(class, count)| PodRequest {
                shape: self.view.shape(class, offers, workloads),
                count: *count,
            });
            Gang { requests: requests.collect() }
        });
        let needs = announced
            .chain(formed)
            .filter_map(|gang| virtual_instance(&gang, &offers.catalog).ok());
        arrivals.gangs = needs.filter(|gang| gang.instances > 1).collect();
        arrivals
    }
}

/// What arrived of batch demand since a control last learnt.
#[derive(Default)]
struct Arrivals {
    pods: Vec<(Shape, u64)>,
    /// The pods that belong to a tier.
    tiers: Vec<TierArrival>,
    /// The pods by namespace.
    namespaces: Vec<NamespaceArrival>,
    /// The virtual instances of the gangs that are larger than an instance.
    gangs: Vec<VirtualInstance>,
}

/// The batch pods that started since the last turn, by bucket. Pods on nodes outside the buckets,
/// and those of a tier with the weight 0, are left out.
fn starts(
    index: &Index,
    offers: &Offers,
    settings: &PolicySettings,
    context: &TurnContext<'_>,
) -> Vec<(BucketId, PodStarts)> {
    let by_type = by_type(offers);
    let workloads = &settings.workloads;
    let counts =
        |class: &PodClass| workloads.select(class) && workloads.tiers.count(class.priority);
    let of_batch = context.occurred.starts.iter().filter(|(class, ..)| counts(class));
    let in_bucket = of_batch.filter_map(|(_, node, starts)| {
        let facts = index.nodes().by_name(node)?.facts.as_ref()?;
        let (bucket, _) = place(facts, offers, &by_type)?;
        Some((bucket, *starts))
    });
    in_bucket.collect()
}
