//! Property tests: invariants of the simulated cluster, checked at every second of small random
//! worlds.

use std::collections::{BTreeSet, HashMap};
use std::iter;

use base::span::Span;
use base::tier::{Tier, Tiers};
use demand::forecast::{Baseline, Method};
use demand::record::ShapeId;
use embedder::{Bucket, Catalog, Group, PodRequest, Resources, Split, UNLIMITED, share};
use placeholders::{Objective, Prices};
use proptest::prelude::*;
use testkit::{bucket, catalog, catalog_of, cpus, group};
use traces::{Admits, Job, Work};

use super::figures::{Figures, Pricing};
use super::input::{SimulationInput, first_decision};
use super::log::RunLog;
use super::named_policy::{KnownJobs, NamedPolicy, PaperForecast};
use super::settings::{GangMode, LaunchLatency, SimulationSettings};
use super::spot::{Interrupted, Interruptions, NOTICE_SECONDS};
use super::tiers::TierFigures;
use super::warm_up::WarmUp;
use super::world::{Simulation, simulate};
use crate::replay::SchedulerKind;
use crate::replay::Workload;
use crate::replay::{PlacedPods, Placements, SimulatedCluster, place};
use crate::replay::{Series, offered};

impl Simulation<'_> {
    /// Checks that no node is over capacity, that pods run on ready nodes only, that no job runs
    /// before its submission, that gangs are placed whole, and that no pending job fits.
    fn audit(&mut self, now: i64) {
        let mut used: HashMap<usize, Resources> = HashMap::new();
        for (&job, pods) in self.placements.jobs() {
            let entry = &self.workload.jobs[job];
            assert!(entry.submit <= now, "job {job} runs before its submission");
            for &PlacedPods { node, shape, pods } in pods {
                let sum = used.entry(node).or_default();
                *sum = sum.give_back(self.workload.shapes[shape as usize].requests.times(pods));
            }
            let placed: u64 = pods.iter().map(|placed| placed.pods).sum();
            let whole: u64 = self.workload.classes[entry.class].pods.iter().map(|(_, n)| n).sum();
            let by_pod = self.world.settings.gang == GangMode::PodByPod;
            assert!(
                placed == whole || by_pod && placed < whole,
                "job {job} has {placed} of {whole} pods"
            );
            let groups = pods.iter().map(|placed| self.cluster.home(placed.node));
            let groups: BTreeSet<_> = groups.collect();
            let one_group = self.world.settings.gang == GangMode::OneGroup;
            assert!(groups.len() == 1 || !one_group, "job {job} is in the groups {groups:?}");
        }
        self.cluster.audit(&used);
        // There are no counts before the first turn.
        if let Some(counts) = self.policy.counts().filter(|counts| !counts.is_empty()) {
            assert_eq!(counts, self.instances_of_unended(), "at {now}");
        }
        let mut cursor = None;
        while let Some((head, waiting)) = self.queue.after(cursor) {
            // Other placements than those of the simulation have refused no class yet.
            let fits =
                place(waiting, &mut self.cluster, &mut Placements::default(), &self.workload, now);
            assert!(!fits, "job {} is pending at {now}, but it fits", waiting.job);
            cursor = Some(head);
        }
    }

    /// Counts the pods of all submitted jobs that have not ended, by Algorithm 2.
    fn instances_of_unended(&self) -> Vec<u64> {
        let unended = self.unstarted.keys().chain(self.running.keys());
        let pods =
            unended.flat_map(|&job| &self.workload.classes[self.workload.jobs[job].class].pods);
        let request = |&(shape, count): &(ShapeId, u64)| PodRequest {
            shape: self.workload.shapes[shape as usize].clone(),
            count,
        };
        share(&pods.map(request).collect::<Vec<_>>(), self.world.catalog).instances
    }
}

impl SimulatedCluster<'_> {
    fn audit(&self, used: &HashMap<usize, Resources>) {
        for (id, node) in self.nodes.iter().enumerate() {
            let allocatable = self.catalog.buckets()[node.bucket].allocatable;
            let Some(&used) = used.get(&id) else {
                assert!(!node.has_pods(), "node {id} counts pods that no job has");
                continue;
            };
            assert!(node.is_ready(), "pods on node {id}, which is not ready");
            assert!(!node.has_placeholder(), "pods beside a placeholder on node {id}");
            assert_eq!(
                allocatable.take(used),
                Some(node.free()),
                "node {id} is over capacity or miscounted"
            );
        }
        for (bucket, entry) in self.catalog.buckets().iter().enumerate() {
            for (at, group) in entry.groups.iter().enumerate() {
                assert!(
                    self.nodes_in(bucket, at) <= group.max.max(group.min),
                    "group {} is over its maximum",
                    group.name
                );
            }
        }
    }
}

fn job(
    submit: i64,
    runtime: i64,
    units: u64,
    unit: Resources,
    split: Option<Split>,
    priority: i32,
) -> Job {
    let job = testkit::job("", submit, runtime, unit);
    Job { priority, work: Work { units, split, ..job.work }, ..job }
}

fn any_job() -> impl Strategy<Value = Job> {
    let unit = prop_oneof![
        3 => Just(cpus(1_000)),
        1 => Just(Resources { accelerators: 1, cpu_millis: 500, ..Resources::default() }),
    ];
    let split = prop_oneof![Just(None), Just(Some(Split::Full)), Just(Some(Split::Even))];
    (0..6_000_i64, 1..2_500_i64, 1..14_u64, unit, split, -1..2_i32).prop_map(
        |(submit, runtime, units, unit, split, priority)| {
            job(submit, runtime, units, unit, split, priority)
        },
    )
}

/// A group of `min` to `max` nodes.
fn limited(name: &str, max: u64, min: u64) -> Group {
    Group { min, ..group(name, max) }
}

/// A type with accelerators, whose group has at most this many nodes.
fn gpu(dollars_per_hour: f64, max: u64) -> Bucket {
    let gpu = bucket("gpu", 8_000, dollars_per_hour);
    let allocatable = Resources { accelerators: 4, ..gpu.allocatable };
    Bucket { allocatable, groups: vec![group("c", max)], ..gpu }
}

fn two_types(most: u64, least: u64) -> Catalog {
    let groups = vec![limited("a", most, least), group("b", most)];
    catalog_of([Bucket { groups, ..bucket("small", 4_000, 1.0) }, gpu(5.0, most)])
}

/// The two types, and the small one as spot instances.
fn spot_and_two_types(least: u64) -> Catalog {
    let small = Bucket { groups: vec![group("a", 12)], ..bucket("small", 4_000, 1.0) };
    let groups = vec![limited("s", 12, least)];
    let spot = Bucket { groups, ..bucket("small/spot", 4_000, 0.4) };
    catalog_of([small, spot, gpu(5.0, 12)])
}

/// A type whose one group has at most this many nodes.
fn one_type(max: u64) -> Catalog {
    catalog_of([Bucket { groups: vec![group("a", max)], ..bucket("one", 4_000, 1.0) }])
}

fn any_settings() -> impl Strategy<Value = SimulationSettings> {
    let latency = prop_oneof![
        Just(LaunchLatency::Constant(Span::seconds(300))),
        Just(LaunchLatency::Constant(Span::seconds(0))),
        Just("lognormal:4m:9m".parse().unwrap()),
    ];
    let scheduler = prop_oneof![Just(SchedulerKind::Pack), Just(SchedulerKind::Spread)];
    let gang =
        prop_oneof![Just(GangMode::Whole), Just(GangMode::OneGroup), Just(GangMode::PodByPod)];
    (latency, scheduler, gang, prop_oneof![Just(0.0), Just(0.3)], 0..700_u32, any::<u64>())
        .prop_map(|(launch_latency, scheduler, gang, launch_failure_share, delay, seed)| {
            SimulationSettings {
                launch_latency,
                scheduler,
                gang,
                launch_failure_share,
                scale_down_delay_after_add: Span::seconds(delay),
                seed,
                ..SimulationSettings::default()
            }
        })
}

fn any_policy() -> impl Strategy<Value = NamedPolicy> {
    prop_oneof![
        Just(NamedPolicy::Reactive),
        (0..5_u64).prop_map(NamedPolicy::Constant),
        Just(NamedPolicy::StaticMax),
        Just(NamedPolicy::ByHour(2)),
        Just(NamedPolicy::Burst { period: Span::seconds(600), most: Some(4) }),
        prop::sample::select(&Method::QUANTILES)
            .prop_map(|method| NamedPolicy::Forecast(method, Some(0.9))),
        prop::sample::select(&Baseline::ALL)
            .prop_map(|baseline| NamedPolicy::Baseline(baseline, None)),
        Just(NamedPolicy::Ladder),
        Just(NamedPolicy::Paper(PaperForecast::HoltWinters)),
        Just(NamedPolicy::Rates(0.9)),
        Just(NamedPolicy::Oracle),
        Just(NamedPolicy::Jobs(KnownJobs::Others)),
        Just(NamedPolicy::Ends),
        Just(NamedPolicy::WarmPool(2)),
        Just(NamedPolicy::Tiered(Some(1))),
        Just(NamedPolicy::Tiered(None)),
    ]
}

fn sorted(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.sort_by_key(|job| job.submit);
    jobs
}

/// Runs a world in this window, and keeps the ticks.
fn run(
    jobs: &[Job],
    catalog: &Catalog,
    settings: &SimulationSettings,
    named_policy: NamedPolicy,
    window: (i64, i64),
) -> RunLog {
    let workload = Workload::new(jobs, catalog);
    let world = SimulationInput {
        workload: &workload,
        catalog,
        settings,
        window,
        replay: 0,
        keep_ticks: true,
    };
    simulate(world, named_policy, &|_| ())
}

const ALL: (i64, i64) = (-1, 40_000);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_invariants_hold_at_every_second(
        jobs in prop::collection::vec(any_job(), 1..40),
        settings in any_settings(),
        named_policy in any_policy(),
        least in 0..3_u64,
    ) {
        let (jobs, catalog) = (sorted(jobs), two_types(12, least));
        let workload = Workload::new(&jobs, &catalog);
        let world = SimulationInput { workload: &workload, catalog: &catalog, settings: &settings, window: ALL, replay: 0, keep_ticks: true };
        let mut run = Simulation::new(world, named_policy);
        run.start_minimum();
        // The seconds of ready and of busy nodes, accumulated from moment to moment.
        let (mut ready_seconds, mut busy_seconds) = (0, 0);
        let mut last = ALL.0;
        while let Some(now) = run.next_moment() {
            let ready = run.cluster.nodes.iter().filter(|node| node.is_ready()).count();
            let busy = run.cluster.nodes.iter().filter(|node| node.has_pods()).count();
            let passed = (now.min(ALL.1) - last).max(0);
            ready_seconds += i64::try_from(ready).unwrap() * passed;
            busy_seconds += i64::try_from(busy).unwrap() * passed;
            last = last.max(now.min(ALL.1));
            run.moment(now);
            run.audit(now);
        }
        let log = run.finish();
        // Every job starts exactly once, not before its submission.
        prop_assert_eq!(log.jobs.len(), workload.jobs.len());
        let is_whole = |job: &super::log::JobRecord| job.ran.is_some_and(|(start, end)| {
            let quick = start - job.submit <= settings.scan.as_seconds();
            job.submit <= start && start < end && job.instances > 0
                && job.pods_hidden <= job.pods && (!quick || job.pods_hidden == job.pods)
        });
        prop_assert!(log.jobs.iter().all(is_whole));
        // Every node on which pods ran is used.
        prop_assert!(log.nodes.iter().all(|node| node.used || node.busy_seconds == 0));
        let mut indices: Vec<usize> = log.jobs.iter().map(|job| job.index).collect();
        indices.sort_unstable();
        indices.dedup();
        prop_assert_eq!(indices.len(), log.jobs.len());
        let alive = |node: &super::log::NodeRecord| {
            node.ready.map_or(0, |ready| node.gone.unwrap_or(last).min(last) - ready.max(ALL.0))
        };
        prop_assert_eq!(log.nodes.iter().map(alive).sum::<i64>(), ready_seconds);
        prop_assert_eq!(log.nodes.iter().map(|node| node.busy_seconds).sum::<i64>(), busy_seconds);
        prop_assert_eq!(log.busy_by_day.iter().flatten().sum::<i64>(), busy_seconds);
    }

    #[test]
    fn the_invariants_hold_while_spot_instances_are_interrupted(
        jobs in prop::collection::vec((any_job(), any::<bool>()), 1..30),
        settings in any_settings(),
        named_policy in any_policy(),
        (least, per_hour) in (0..3_u64, 0.2..6.0),
    ) {
        let mark = |(job, marked): (Job, bool)| if marked { interruptible(job) } else { job };
        let jobs = sorted(jobs.into_iter().map(mark).collect());
        let catalog = spot_and_two_types(least);
        let interruptions = Interruptions { per_hour, ..Interruptions::default() };
        let settings = SimulationSettings { interruptions, ..settings };
        let workload = Workload::new(&jobs, &catalog);
        let world = SimulationInput { workload: &workload, catalog: &catalog, settings: &settings, window: ALL, replay: 0, keep_ticks: true };
        let mut run = Simulation::new(world, named_policy);
        run.start_minimum();
        let mut busy_seconds = 0;
        let mut last = ALL.0;
        while let Some(now) = run.next_moment() {
            let busy = run.cluster.nodes.iter().filter(|node| node.has_pods()).count();
            busy_seconds += i64::try_from(busy).unwrap() * (now.min(ALL.1) - last).max(0);
            last = last.max(now.min(ALL.1));
            run.moment(now);
            run.audit(now);
        }
        // A job that is interrupted again and again may still run at the end of the window.
        let busy = run.cluster.nodes.iter().filter(|node| node.has_pods()).count();
        busy_seconds += i64::try_from(busy).unwrap() * (ALL.1 - last).max(0);
        let log = run.finish();
        prop_assert_eq!(log.jobs.len(), workload.jobs.len());
        prop_assert_eq!(log.nodes.iter().map(|node| node.busy_seconds).sum::<i64>(), busy_seconds);
        for job in &log.jobs {
            prop_assert!(job.pods_hidden <= job.pods && job.wait_seconds(ALL.1) >= 0, "{:?}", job);
            let tolerates = jobs[job.index].work.admits == Admits::Interruptible;
            prop_assert!(tolerates || job.interrupted == Interrupted::default(), "{:?}", job);
        }
    }

    #[test]
    fn reactive_is_no_placeholders(
        jobs in prop::collection::vec(any_job(), 1..40), settings in any_settings(),
    ) {
        let (jobs, catalog) = (sorted(jobs), two_types(12, 1));
        let bare = |named_policy| RunLog { ticks: vec![], ..run(&jobs, &catalog, &settings, named_policy, ALL) };
        let reactive = bare(NamedPolicy::Reactive);
        prop_assert_eq!(&reactive, &bare(NamedPolicy::Constant(0)));
        // The paper's rule, with the last value as its forecast, holds no placeholders.
        prop_assert_eq!(&reactive, &bare(NamedPolicy::Paper(PaperForecast::LastValue)));
    }

    #[test]
    fn the_parts_of_the_bill_add_up_to_the_price_of_the_nodes(
        jobs in prop::collection::vec(any_job(), 1..30), settings in any_settings(), named_policy in any_policy(),
    ) {
        let (jobs, catalog) = (sorted(jobs), two_types(12, 1));
        let own = figures(&run(&jobs, &catalog, &settings, named_policy, ALL), &catalog);
        let alone = figures(&run(&jobs, &catalog, &settings, NamedPolicy::Reactive, ALL), &catalog);
        let prices = Prices::new(Objective::default(), &catalog);
        let bill = own.beyond(&alone).bill;
        prop_assert!((bill.nodes() - (own.dollars - alone.dollars)).abs() < 0.005, "{bill:?}");
        let waiting = prices.wait() * (own.weighted_pod_hours - alone.weighted_pod_hours);
        prop_assert!((bill.waiting - waiting).abs() < 0.005, "{bill:?}");
    }

    #[test]
    fn a_run_repeats_itself(
        jobs in prop::collection::vec(any_job(), 1..30), settings in any_settings(), named_policy in any_policy(),
    ) {
        let (jobs, catalog) = (sorted(jobs), two_types(12, 1));
        let again = || run(&jobs, &catalog, &settings, named_policy, ALL);
        prop_assert_eq!(again(), again());
    }

    #[test]
    fn the_future_does_not_change_the_past(
        past in prop::collection::vec(any_job(), 1..30),
        future in prop::collection::vec(any_job(), 1..30),
        other in prop::collection::vec(any_job(), 0..30),
        settings in any_settings(),
        named_policy in any_policy().prop_filter("knows the future", |c| !c.knows_the_future()),
    ) {
        const NOW: i64 = 6_000;
        // The catalog is fixed, because one derived from the log would depend on future jobs.
        // Shapes are numbered in the order of their first arrival, so future jobs do not renumber
        // them.
        let catalog = two_types(12, 1);
        let later = |jobs: Vec<Job>| jobs.into_iter().map(|job| Job { submit: job.submit + NOW, ..job });
        let world = |future: Vec<Job>| {
            let jobs = sorted(past.iter().cloned().chain(later(future)).collect());
            let log = run(&jobs, &catalog, &settings, named_policy, ALL);
            let ticks: Vec<_> = log.ticks.into_iter().filter(|tick| tick.time < NOW).collect();
            let starts: Vec<_> = log.jobs.iter().filter_map(|job| Some((job.submit, start(job)?))).filter(|(_, start)| *start < NOW).collect();
            (ticks, starts)
        };
        prop_assert_eq!(world(future), world(other));
    }

    /// The world has one bucket, one pod per node, equal jobs, constant latency, no failures and no
    /// limits.
    #[test]
    fn more_placeholders_never_make_the_sum_of_waits_worse(
        submits in prop::collection::vec(0..9_000_i64, 1..40), runtime in 30..3_000_i64, fewer in 0..6_u64, more in 0..6_u64,
    ) {
        let jobs = sorted(submits.into_iter().map(|submit| job(submit, runtime, 1, cpus(1_000), None, 0)).collect());
        let catalog = catalog([("one", 1_000, 1.0)]);
        let waits = |n| {
            let log = run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Constant(n), ALL);
            log.jobs.iter().map(|job| job.wait_seconds(i64::MAX)).sum::<i64>()
        };
        prop_assert!(waits(fewer + more) <= waits(fewer));
    }

    /// The first job only begins the simulation: the oracle decides for the first time at the first
    /// tick, and its nodes are ready a lead time later. The world has one bucket, constant latency,
    /// no failures and no limits. Jobs come in even seconds and end in odd ones, because the oracle
    /// holds no node for a job that comes in the second in which others end, and takes their room:
    /// if it is placed on a node that is empty for another reason, a later job can wait.
    #[test]
    fn no_job_waits_under_the_oracle(
        jobs in prop::collection::vec(any_job(), 1..40), settings in any_settings(),
    ) {
        let settings = SimulationSettings { launch_latency: LaunchLatency::Constant(Span::seconds(300)), launch_failure_share: 0.0, scheduler: SchedulerKind::Pack, ..settings };
        let ready = 2 * settings.lead().seconds;
        let later = |job: Job| Job {
            priority: 0, submit: ready + job.submit / 2 * 2, runtime: job.runtime | 1, ..job
        };
        let first = job(0, 1, 1, cpus(1_000), None, 0);
        let jobs = sorted(iter::once(first).chain(jobs.into_iter().map(later)).collect());
        let catalog = catalog_of([gpu(1.0, UNLIMITED)]);
        let log = run(&jobs, &catalog, &settings, NamedPolicy::Oracle, ALL);
        for job in &log.jobs[1..] {
            prop_assert_eq!(job.wait_seconds(ALL.1), 0, "{:?}", job);
        }
    }

    /// Offered demand equals the nodes that a run without launch latency occupies.
    #[test]
    fn offered_demand_fits_all_jobs_at_once(jobs in prop::collection::vec(any_job(), 1..30)) {
        let (jobs, catalog) = (sorted(jobs), two_types(UNLIMITED, 0));
        let workload = Workload::new(&jobs, &catalog);
        let Series { buckets } = offered(&workload, &catalog, SchedulerKind::Pack);
        for steps in &buckets {
            prop_assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
            prop_assert_eq!(steps.last().map_or(0, |&(_, nodes)| nodes), 0);
        }
        let gpus_at = |time: i64| -> u64 {
            jobs.iter().filter(|j| (j.submit..j.submit + j.runtime).contains(&time)).map(|j| j.work.units * j.work.unit.accelerators).sum()
        };
        for job in &jobs {
            let steps = &buckets[1];
            let past = steps.partition_point(|&(time, _)| time <= job.submit);
            let nodes = past.checked_sub(1).map_or(0, |at| steps[at].1);
            prop_assert!(4 * nodes >= gpus_at(job.submit));
        }
    }
}

#[test]
fn a_group_at_its_maximum_leaves_jobs_waiting_and_says_so() {
    let jobs: Vec<Job> = (0..3).map(|i| job(i, 100_000, 4, cpus(1_000), None, 0)).collect();
    let catalog = one_type(2);
    let log =
        run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Reactive, (0, 50_000));
    let starts: Vec<i64> = log.jobs.iter().filter_map(start).collect();
    assert_eq!(starts, [310, 310, 100_310], "the third starts when the first has ended");
    assert_eq!(log.nodes.len(), 2);
}

/// When a job started, if it did.
fn start(job: &super::log::JobRecord) -> Option<i64> {
    job.ran.map(|(start, _)| start)
}

#[test]
fn higher_priority_goes_first() {
    let mut jobs: Vec<Job> = (0..2).map(|i| job(i, 1_000, 4, cpus(1_000), None, 0)).collect();
    jobs[1].priority = 10;
    let catalog = one_type(1);
    let log =
        run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Reactive, (0, 50_000));
    let starts: Vec<i64> = log.jobs.iter().filter_map(start).collect();
    assert_eq!(starts, [1_310, 310]);
}

/// Jobs of one tier arrive every 40 minutes, and each needs a node.
#[test]
fn no_placeholder_is_held_for_a_tier_without_weight() {
    let jobs = (0..100).map(|i| job(i * 2_400, 300, 4, cpus(1_000), None, 0));
    let jobs: Vec<Job> = jobs.collect();
    let catalog = one_type(UNLIMITED);
    let writes = |weight| {
        let tier = Tier { name: "free".into(), priority_min: 0, weight };
        let settings =
            SimulationSettings { tiers: vec![tier].into(), ..SimulationSettings::default() };
        let log = run(&jobs, &catalog, &settings, NamedPolicy::DEFAULT, (150_000, 240_000));
        let of_tier = TierFigures::of(&log, &settings.tiers);
        assert_eq!((of_tier.len(), of_tier[0].jobs), (1, log.jobs.len() as f64));
        (log.placeholder_writes > 0, of_tier[0].pods_hidden > 0.0)
    };
    assert_eq!((writes(0.0), writes(100.0)), ((false, false), (true, true)));
}

#[test]
fn nothing_is_removed_for_a_while_after_a_scale_up() {
    // The first node is empty from second 370 on. At second 810, a second node is requested for a
    // job that does not fit the first.
    let jobs = vec![
        job(0, 60, 4, cpus(1_000), None, 0),
        job(800, 5_000, 1, Resources { accelerators: 1, ..Resources::default() }, None, 0),
    ];
    let gone = |delay| {
        let settings = SimulationSettings {
            scale_down_delay_after_add: Span::seconds(delay),
            ..SimulationSettings::default()
        };
        run(&jobs, &two_types(12, 0), &settings, NamedPolicy::Reactive, (0, 20_000)).nodes[0].gone
    };
    assert_eq!((gone(0), gone(600)), (Some(970), Some(1_410)));
}

#[test]
fn the_unneeded_time_starts_when_a_node_is_empty_and_free_of_placeholders() {
    let jobs = vec![job(0, 60, 4, cpus(1_000), None, 0), job(900, 60, 4, cpus(1_000), None, 0)];
    let catalog = catalog([("one", 4_000, 1.0)]);
    let settings = SimulationSettings {
        scale_down_delay_after_add: Span::seconds(0),
        ..SimulationSettings::default()
    };
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Reactive, (0, 20_000));
    // The node is empty from second 370, busy from 900 to 960, and removed at the first scan 600 s
    // later.
    assert_eq!(log.nodes.iter().map(|node| node.gone).collect::<Vec<_>>(), [Some(1_560)]);
}

#[test]
fn what_a_full_group_cannot_take_goes_to_a_larger_type() {
    let jobs: Vec<Job> = (0..2).map(|i| job(i, 9_000, 1, cpus(4_000), None, 0)).collect();
    let small = Bucket { groups: vec![group("a", 1)], ..bucket("small", 4_000, 1.0) };
    let catalog = catalog_of([small, bucket("large", 8_000, 2.0)]);
    let log =
        run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Reactive, (0, 50_000));
    let buckets: Vec<usize> = log.nodes.iter().map(|node| node.bucket).collect();
    // The first job opens the small type. At the next scan, only the large type is available.
    assert_eq!((buckets, start(&log.jobs[1])), (vec![0, 1], Some(320)));
}

#[test]
fn a_gang_that_no_group_will_ever_hold_does_not_keep_a_run_going() {
    let jobs = vec![job(0, 60, 3, cpus(4_000), None, 0), job(10, 60, 1, cpus(1_000), None, 0)];
    let catalog = one_type(2);
    let log =
        run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Reactive, (0, 5_000));
    assert_eq!(log.jobs.iter().map(start).collect::<Vec<_>>(), [None, Some(310)]);
    assert_eq!(log.jobs[0].wait_seconds(log.window.1), 5_000);
}

#[test]
fn nodes_of_a_minimum_are_no_launches() {
    let jobs = vec![job(7, 60, 1, cpus(1_000), None, 0)];
    for from in [0, 7] {
        let log = run(
            &jobs,
            &two_types(12, 3),
            &SimulationSettings::default(),
            NamedPolicy::Reactive,
            (from, 5_000),
        );
        assert_eq!(log.nodes.len(), 3);
        assert!(log.nodes.iter().all(|node| node.requested < from));
    }
}

#[test]
fn the_static_maximum_ends_before_the_window() {
    let jobs =
        vec![job(0, 9_000, 4, cpus(1_000), None, 0), job(6_000, 60, 40, cpus(1_000), None, 0)];
    let log = run(
        &jobs,
        &two_types(90, 0),
        &SimulationSettings::default(),
        NamedPolicy::StaticMax,
        (6_000, 9_000),
    );
    assert!(log.ticks.iter().all(|tick| tick.headroom <= 1), "it knows the job of second 6000");
}

/// Each job needs a node of its own. User a submits a job every eight minutes, and user b one job.
#[test]
fn a_reference_knows_the_jobs_of_active_users_or_of_the_others() {
    let of = |user: &str, submit| Job {
        user: user.into(),
        ..job(submit, 10_000, 1, cpus(1_000), None, 0)
    };
    let mut jobs: Vec<Job> = (0..9).map(|n| of("a", 480 * n)).collect();
    jobs.push(of("b", 2_500));
    let jobs = sorted(jobs);
    let catalog = catalog([("one", 1_000, 1.0)]);
    let settings = SimulationSettings::default();
    let waiting = |known| {
        let log = run(&jobs, &catalog, &settings, NamedPolicy::Jobs(known), ALL);
        let late = log.jobs.iter().filter(|job| job.submit > 900 && job.wait_seconds(ALL.1) > 10);
        late.map(|job| jobs[job.index].user.to_string()).collect::<Vec<String>>()
    };
    assert_eq!(waiting(KnownJobs::Active), ["b"]);
    // The job of user a in second 2400 takes the node that is held for user b.
    assert_eq!(waiting(KnownJobs::Others), ["a", "a", "a", "b", "a", "a", "a"]);
}

/// The window in which the jobs of [`two_days`] count. The first 60,000 seconds of these days are
/// before the first decision.
const SECOND_DAY: (i64, i64) = (146_400, 180_000);

/// Two days of jobs, some of which tolerate interruption, with tiers and interruptions.
fn two_days() -> impl Strategy<Value = (Vec<Job>, SimulationSettings)> {
    let jobs = prop::collection::vec((any_job(), any::<bool>()), 40..90);
    (jobs, any_settings(), 0.0..0.5).prop_map(|(jobs, settings, per_hour)| {
        let jobs = jobs.into_iter().map(|(job, marked)| {
            let job = Job { submit: 30 * job.submit, ..job };
            if marked { interruptible(job) } else { job }
        });
        let interruptions = Interruptions { per_hour, ..Interruptions::default() };
        let tiers = Tiers::from(vec!["urgent=1:4".parse::<Tier>().unwrap()]);
        let expression = "max(forecast, newNodes(\"10m\") / 2)".parse().ok();
        let settings = SimulationSettings { expression, interruptions, tiers, ..settings };
        (sorted(jobs.collect()), settings)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(18))]

    #[test]
    fn a_replay_goes_on_as_if_it_had_run_from_the_start(
        (jobs, settings) in two_days(),
        policy in prop::sample::select(vec![
            NamedPolicy::DEFAULT,
            NamedPolicy::Ends,
            NamedPolicy::EXPRESSION,
            NamedPolicy::Forecast(Method::Ensemble, Some(0.9)),
            NamedPolicy::Forecast(Method::Onnx, Some(0.9)),
            NamedPolicy::Forecast(Method::ScenarioArrivals, Some(0.9)),
            NamedPolicy::Forecast(Method::State, Some(0.9)),
            NamedPolicy::Forecast(Method::Increments, Some(0.9)),
            NamedPolicy::Reactive,
            NamedPolicy::Constant(2),
            NamedPolicy::ByHour(4),
            NamedPolicy::Burst { period: Span::seconds(600), most: Some(4) },
            NamedPolicy::StaticMax,
        ]),
    ) {
        let catalog = spot_and_two_types(1);
        let workload = Workload::new(&jobs, &catalog);
        let moved = |seed| workload.jittered(30, seed, first_decision(SECOND_DAY));
        let replays = [1, 2, 3].map(moved);
        let world = |replay: usize| SimulationInput {
            workload: &replays[replay],
            catalog: &catalog,
            settings: &settings,
            window: SECOND_DAY,
            replay: u32::try_from(replay).unwrap(),
            keep_ticks: true,
        };
        let warm_up = WarmUp::of(world(0), policy, &|_| ()).unwrap();
        for replay in 0..3 {
            let log = warm_up.replay(world(replay), &|_| ()).unwrap();
            prop_assert_eq!(log, simulate(world(replay), policy, &|_| ()), "replay {}", replay);
        }
    }

    #[test]
    fn a_policy_that_does_not_learn_decides_the_same_after_a_warm_up_that_it_observed(
        (jobs, settings) in two_days(),
        policy in prop::sample::select(vec![
            NamedPolicy::Constant(2),
            NamedPolicy::Ladder,
            NamedPolicy::Paper(PaperForecast::LastValue),
            NamedPolicy::Rates(0.8),
            NamedPolicy::Jobs(KnownJobs::Active),
            NamedPolicy::Oracle,
        ]),
    ) {
        let catalog = spot_and_two_types(1);
        let workload = Workload::new(&jobs, &catalog);
        let world = SimulationInput {
            workload: &workload,
            catalog: &catalog,
            settings: &settings,
            window: SECOND_DAY,
            replay: 0,
            keep_ticks: true,
        };
        let mut run = Simulation::new(world, policy);
        prop_assert!(!run.policy.learns);
        run.policy.learns = true;
        prop_assert_eq!(run.complete(&|_| ()), simulate(world, policy, &|_| ()));
    }
}

/// Runs jobs on nodes of one type under a reference that knows ends. Returns the free millicores
/// that forecasts use, by time, and the end of the first job.
fn free_after_ends(jobs: &[Job], settings: &SimulationSettings) -> (Vec<(i64, u64)>, i64) {
    let catalog = catalog([("one", 1_000, 1.0)]);
    let workload = Workload::new(jobs, &catalog);
    let world = SimulationInput {
        workload: &workload,
        catalog: &catalog,
        settings,
        window: (0, 7_200),
        replay: 0,
        keep_ticks: false,
    };
    let mut free = Vec::new();
    let mut simulation = Simulation::new(world, NamedPolicy::Ends);
    simulation.witness = Some(Box::new(|_, observed, turn| {
        assert_eq!(observed.rooms.as_ref(), Some(&turn.demand.rooms));
        let cpus = turn.demand.rooms.iter().map(|room| room.nodes * room.free.cpu_millis).sum();
        free.push((observed.time.timestamp(), cpus));
    }));
    while let Some(now) = simulation.next_moment() {
        simulation.moment(now);
    }
    let (_, end) = simulation.finish().jobs[0].ran.unwrap();
    (free, end)
}

/// On one node, a job of half a node runs for an hour, and a job of a quarter for three. Shortly
/// before the first one ends, a job of half a node is submitted. It will take the room of the first
/// one, so the node that is launched for it will be empty.
#[test]
fn a_reference_counts_the_room_of_jobs_that_end_within_the_lead_time_as_free() {
    let settings = SimulationSettings::default();
    let of = |submit, time, cpu| job(submit, time, 1, cpus(cpu), None, 0);
    let mut jobs = vec![of(0, 3_600, 500), of(0, 10_800, 250)];
    let (_, end) = free_after_ends(&jobs, &settings);
    let submit = end - 200;
    jobs.push(of(submit, 10_800, 500));
    let (free, _) = free_after_ends(&jobs, &settings);
    let known_from = end - settings.lead().seconds;
    let expected = |time: i64| match time {
        _ if time < known_from => 250,
        _ if time < submit => 750,
        _ if time < end => 1_250,
        _ => 250,
    };
    assert!(free.iter().any(|(time, _)| (1..known_from).contains(time)), "{free:?}");
    assert!(free.iter().any(|(time, _)| (submit..end).contains(time)), "{free:?}");
    assert_eq!(free, free.iter().map(|&(time, _)| (time, expected(time))).collect::<Vec<_>>());
}

/// A type on demand and as spot instances, at half the price.
fn with_spot(spot_group: Group) -> Catalog {
    let spot = Bucket { groups: vec![spot_group], ..bucket("one/spot", 4_000, 0.5) };
    catalog_of([bucket("one", 4_000, 1.0), spot])
}

fn interruptible(job: Job) -> Job {
    let work = Work { admits: Admits::Interruptible, ..job.work };
    Job { work, ..job }
}

/// Settings with one interruption per hour of a spot instance, and without delays of scale-down.
fn interrupting(gang: GangMode) -> SimulationSettings {
    SimulationSettings {
        interruptions: Interruptions { per_hour: 1.0, ..Interruptions::default() },
        gang,
        ..SimulationSettings::default()
    }
}

/// When the notices of the first nodes come, in seconds after they became ready.
fn notices(settings: &SimulationSettings, catalog: &Catalog) -> Vec<i64> {
    let spot = &catalog.buckets()[0];
    assert_eq!(spot.name, "one/spot");
    let seed = settings.seed.wrapping_mul(1_000_003);
    let notice = |node| settings.interruptions.notice_after(spot, seed, node).unwrap();
    (0..8).map(notice).collect()
}

/// The job arrives in second 0, the scan of second 10 requests a spot node, and it is ready in
/// second 310. The job runs there until the node is taken away, two minutes after its notice, and
/// starts again from the start on the next node, 10 s and a launch later.
#[test]
fn an_interrupted_job_runs_again_from_the_start() {
    let catalog = with_spot(group("s", UNLIMITED));
    let settings = interrupting(GangMode::Whole);
    let notice = notices(&settings, &catalog);
    // The second node lives long enough for the job.
    let runtime = notice[1] + NOTICE_SECONDS - 1;
    let jobs = vec![interruptible(job(0, runtime, 4, cpus(1_000), None, 0))];
    assert!(notice[0] + NOTICE_SECONDS < runtime, "{notice:?}");
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Reactive, (0, 500_000));

    let gone = 310 + notice[0] + NOTICE_SECONDS;
    let scan = (gone / 10 + 1) * 10;
    let again = scan + 300;
    let of_node = |node: &super::log::NodeRecord| {
        (node.bucket, node.requested, node.ready, node.gone.filter(|_| node.interrupted))
    };
    assert_eq!(
        log.nodes.iter().map(of_node).collect::<Vec<_>>()[..2],
        [
            (0, 10, Some(310), Some(gone)),
            (0, scan, Some(again), Some(again + notice[1] + NOTICE_SECONDS))
        ]
    );
    let [job] = &log.jobs[..] else { panic!("{:?}", log.jobs) };
    assert_eq!(job.ran, Some((again, again + runtime)));
    // The first launch, and the time from the loss until the next start.
    assert_eq!(job.wait_seconds(log.window.1), 310 + (again - gone));
    let ran = notice[0] + NOTICE_SECONDS;
    let expected = Interrupted { pods: 4, lost_seconds: ran, lost_pod_seconds: 4 * ran };
    assert_eq!((job.interrupted, job.pods_hidden), (expected, 0));
    let figures = figures(&log, &catalog);
    assert_eq!((figures.interruptions, figures.interrupted_pods), (2.0, 4.0));
    assert!((3_600.0 * figures.lost_pod_hours - 4.0 * ran as f64).abs() < 1e-6);
}

/// The oracle knows of the notice a lead time before. No other job comes.
#[test]
fn the_oracle_holds_a_node_for_a_job_that_loses_its_own() {
    let catalog = with_spot(group("s", UNLIMITED));
    let settings = interrupting(GangMode::Whole);
    let notice = notices(&settings, &catalog);
    let gone = 310 + notice[0] + NOTICE_SECONDS;
    let jobs = vec![interruptible(job(0, gone, 4, cpus(1_000), None, 0))];
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Oracle, (0, 500_000));
    assert!(notice[0] > settings.lead().seconds, "{notice:?}");
    assert_eq!(log.jobs[0].ran.map(|(start, _)| start), Some(gone));
}

/// The first job ends in the second in which the other one comes, and leaves it a node.
#[test]
fn the_oracle_holds_no_node_where_a_job_ends_in_time() {
    let catalog = catalog([("one", 1_000, 1.0)]);
    let of_node = |submit, runtime| job(submit, runtime, 1, cpus(1_000), None, 0);
    let jobs = vec![of_node(0, 1_190), of_node(1_500, 60)];
    let log = run(&jobs, &catalog, &SimulationSettings::default(), NamedPolicy::Oracle, ALL);
    let waits = log.jobs.iter().map(|job| job.wait_seconds(ALL.1));
    assert_eq!((waits.collect::<Vec<_>>(), log.nodes.len()), (vec![310, 0], 1));
}

fn figures(log: &RunLog, catalog: &Catalog) -> Figures {
    let prices = Prices::new(Objective::default(), catalog);
    let tiers = Tiers::default();
    Figures::of(log, Pricing { prices: &prices, tiers: &tiers, warm_share: 0.02 }, 10)
}

/// The pool has an instance when the first job comes, so its node is ready 75 seconds after the
/// scan. The instance in its place is not prepared when the second job comes.
#[test]
fn nodes_come_from_warm_pools_where_these_have_a_stopped_instance() {
    let of_node = |submit| job(submit, 600, 1, cpus(4_000), None, 0);
    let jobs = vec![of_node(100_000), of_node(100_100)];
    let settings = SimulationSettings::default();
    let window = (90_000, 120_000);
    let log = run(&jobs, &one_type(9), &settings, NamedPolicy::WarmPool(1), window);
    let waits: Vec<i64> = log.jobs.iter().map(|job| job.wait_seconds(window.1)).collect();
    assert_eq!(waits, [85, 310]);
    let nodes: Vec<_> = log.nodes.iter().map(|node| (node.requested, node.ready)).collect();
    assert_eq!(nodes, [(100_010, Some(100_085)), (100_110, Some(100_410))]);
    let times = log.warm.iter().map(|one| (one.requested, one.stopped, one.gone));
    let first = first_decision(window);
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(first, Some(first + 300), Some(100_010)), (100_010, Some(100_310), None)]
    );
    let stopped = (100_010 - 90_000) + (120_000 - 100_310);
    let dollars = (300.0 + 0.02 * f64::from(stopped)) / 3_600.0;
    let pool = figures(&log, &one_type(9)).bill.warm_pool;
    assert!((pool - dollars).abs() < 1e-9, "{pool} {dollars}");
}

/// The jobs of a node come each ten minutes, so the pool has one instance once this was learnt. A
/// group with one node has no room for it.
#[test]
fn warm_pools_have_as_many_instances_as_pay_off_and_the_group_has_room_for() {
    let jobs: Vec<Job> = (0..300).map(|at| job(600 * at, 60, 1, cpus(4_000), None, 0)).collect();
    let window = (120_000, 180_000);
    let settings =
        SimulationSettings { scale_down_unneeded_time: Span::seconds(60), ..Default::default() };
    let settings = SimulationSettings { scale_down_delay_after_add: Span::seconds(10), ..settings };
    let pools = |max| {
        let log = run(&jobs, &one_type(max), &settings, NamedPolicy::Tiered(None), window);
        log.warm.len()
    };
    assert!(pools(9) > 0);
    assert_eq!(pools(1), 0);
}

/// Two pods that fill a node each start in second 310. Only the pod on the node that is taken away
/// first starts again, and the job ends when it has run.
#[test]
fn pods_that_are_placed_one_by_one_are_lost_one_by_one() {
    let catalog = with_spot(group("s", UNLIMITED));
    let settings = interrupting(GangMode::PodByPod);
    let notice = notices(&settings, &catalog);
    let (first, second) = (notice[0].min(notice[1]), notice[0].max(notice[1]));
    let gone = 310 + first + NOTICE_SECONDS;
    let again = (gone / 10 + 1) * 10 + 300;
    let runtime = (first + NOTICE_SECONDS + 1).max(10);
    assert!(second > again - 310 + runtime && notice[2] > runtime, "{notice:?}");
    let jobs = vec![interruptible(job(0, runtime, 2, cpus(4_000), None, 0))];
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Reactive, (0, 500_000));
    let [job] = &log.jobs[..] else { panic!("{:?}", log.jobs) };
    let lost_seconds = first + NOTICE_SECONDS;
    let expected = Interrupted { pods: 1, lost_seconds, lost_pod_seconds: lost_seconds };
    assert_eq!((job.ran, job.interrupted), (Some((again, again + runtime)), expected));
    assert_eq!(job.wait_seconds(log.window.1), 310 + again - gone);
}

/// A job that does not tolerate interruption runs on demand, and costs twice as much.
#[test]
fn only_jobs_that_tolerate_interruption_run_on_spot_instances() {
    let catalog = with_spot(group("s", UNLIMITED));
    let plain = job(0, 1_000, 4, cpus(1_000), None, 0);
    let settings = SimulationSettings::default();
    let of = |job: Job| {
        let log = run(&[job], &catalog, &settings, NamedPolicy::Reactive, (0, 2_000));
        (
            log.nodes.iter().map(|node| node.bucket).collect::<Vec<_>>(),
            figures(&log, &catalog).dollars,
        )
    };
    let (on_demand, dear) = of(plain.clone());
    let (spot, cheap) = of(interruptible(plain));
    assert_eq!((on_demand, spot), (vec![1], vec![0]));
    assert!((dear - 2.0 * cheap).abs() < 1e-9, "{dear} {cheap}");
}

/// The launches of spot instances fail: the group is full with a node that a long job holds.
#[test]
fn a_job_that_tolerates_interruption_goes_on_demand_where_spot_is_full() {
    let catalog = with_spot(group("s", 1));
    let jobs: Vec<Job> =
        (0..2).map(|at| interruptible(job(at, 9_000, 4, cpus(1_000), None, 0))).collect();
    let settings = SimulationSettings::default();
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Reactive, (0, 50_000));
    assert_eq!(log.nodes.iter().map(|node| node.bucket).collect::<Vec<_>>(), [0, 1]);
}

/// An Auto Scaling group replaces an instance below its minimum by itself.
#[test]
fn a_group_below_its_minimum_gets_a_node_in_place_of_one_that_was_taken_away() {
    let catalog = with_spot(limited("s", 1, 1));
    let settings = interrupting(GangMode::Whole);
    let notice = notices(&settings, &catalog);
    let jobs = vec![job(0, 60, 1, cpus(1_000), None, 0), job(400_000, 60, 1, cpus(1_000), None, 0)];
    let log = run(&jobs, &catalog, &settings, NamedPolicy::Reactive, (0, 400_001));
    let spot: Vec<_> = log.nodes.iter().filter(|node| node.bucket == 0).collect();
    let gone = spot[0].ready.unwrap() + notice[0] + NOTICE_SECONDS;
    assert_eq!(spot[0].gone, Some(gone));
    assert_eq!((spot[1].requested, spot[1].ready), (gone, Some(gone + 300)));
}
