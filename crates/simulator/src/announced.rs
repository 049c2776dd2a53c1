//! Announced jobs in a run: the announcements that a policy sees, and what became of them.
//!
//! Some jobs of a log are announced some minutes ahead, and some announcements have no job. A
//! policy sees an announcement from when it is made, or from one launch before its job is submitted
//! if that is later, because no node is needed earlier.

use std::collections::{BTreeMap, BTreeSet};

use control::{NOTICE_MAX, PlannedPods};
use demand::record::KeptPlan;
use embedder::{PodRequest, VirtualInstance};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::announcements::{AnnouncedBy, Announcements};
use super::settings::{GangHeadroom, SimulationSettings};
use crate::replay::{JobClassId, Workload, WorkloadJob};

/// How far from an announced job a false announcement is, at most, in seconds: six hours. Bursts
/// and nights of the log are then those of false announcements, too.
const FALSE_APART_SECONDS: i64 = 6 * 3_600;

/// How long after the announced time a policy waits for the pods of an announcement, in seconds.
const TOLERANCE_SECONDS: i64 = 60;

/// Identifies an announcement in all replays: the index of a job in the log, and 0 for the
/// announcement of this job or the number of a false announcement that was drawn for it.
type AnnouncementId = (usize, u32);

/// One announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Announcement {
    id: AnnouncementId,
    class: JobClassId,
    user: Option<u32>,
    /// When the policy sees it, in seconds.
    seen: i64,
    /// When the job is announced to be submitted, in seconds.
    due: i64,
}

/// The announcements of a run, and those that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    /// In the order of the times at which the policy sees them.
    all: Vec<Announcement>,
    /// The index of the next one that the policy sees.
    next: usize,
    /// The announcements that the policy has seen, and whose job may still be submitted.
    open: BTreeMap<AnnouncementId, Announcement>,
    /// The ends of the open announcements, in seconds.
    ends: BTreeSet<(i64, AnnouncementId)>,
    /// As in [`PlannedPods::notice`].
    notice: u64,
    /// Whether gangs are held in one group.
    one_group: bool,
}

impl Announced {
    /// Draws the announcements for the jobs of a workload.
    pub(crate) fn new(workload: &Workload, settings: &SimulationSettings, seed: u64) -> Self {
        let Announcements { share, ahead, false_share, by, .. } = settings.announced;
        if settings.announced.are_none() {
            return Self::default();
        }
        let (launch, ahead) = (settings.launch_latency.typical(), ahead.as_seconds());
        let notice = u64::try_from(ahead.min(launch)).unwrap_or(0) * NOTICE_MAX;
        // A scan can pass before the autoscaler sees the placeholders.
        let before = ahead.min(launch.saturating_add(settings.scan.as_seconds()));
        let mut all = Vec::new();
        let mut add = |job: &WorkloadJob, copy: u32, due: i64| {
            let (number, from) = ((job.index, copy), due.saturating_sub(before));
            all.push(Announcement {
                id: number,
                class: job.class,
                user: job.user,
                seen: from,
                due,
            });
        };
        let largest = (by == AnnouncedBy::Largest).then(|| largest(workload, share));
        for job in &workload.jobs {
            let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
            let mut random = random(seed, number(job.index));
            let drawn: f64 = match (by, job.user) {
                (AnnouncedBy::Users, Some(user)) => self::random(!seed, user.into()).random(),
                _ => random.random(),
            };
            let is_announced =
                largest.as_ref().map_or(drawn < share, |known| known.contains(&job.index));
            if !is_announced {
                continue;
            }
            add(job, 0, job.submit);
            let mut copy = 1;
            while random.random::<f64>() < false_share {
                let apart = random.random_range(-FALSE_APART_SECONDS..=FALSE_APART_SECONDS);
                add(job, copy, job.submit.saturating_add(apart));
                copy += 1;
            }
        }
        all.sort_by_key(|one| (one.seen, one.id));
        Self {
            all,
            notice: notice.checked_div(u64::try_from(launch).unwrap_or(0)).unwrap_or(NOTICE_MAX),
            one_group: settings.gang_headroom == GangHeadroom::OneGroup,
            ..Self::default()
        }
    }

    /// Goes on with the announcements of another replay from `now` on.
    pub(crate) fn succeed(self, before: &Self, now: i64) -> Self {
        let next = self.all.partition_point(|one| one.seen < now);
        Self { next, open: before.open.clone(), ends: before.ends.clone(), ..self }
    }

    /// The next time at which an announcement is seen or ends, in seconds.
    pub(crate) fn next_moment(&self) -> Option<i64> {
        let seen = self.all.get(self.next).map(|one| one.seen);
        let ends = self.ends.first().map(|(end, _)| *end);
        seen.into_iter().chain(ends).min()
    }

    /// Advances to `now`. Returns whether an announcement was seen or ended, and those that ended
    /// because no job was submitted.
    pub(crate) fn advance(&mut self, now: i64, workload: &Workload) -> (bool, Vec<KeptPlan>) {
        let mut changed = false;
        while let Some(one) = self.all.get(self.next).filter(|one| one.seen <= now) {
            self.open.insert(one.id, *one);
            self.ends.insert((one.due.saturating_add(TOLERANCE_SECONDS), one.id));
            self.next += 1;
            changed = true;
        }
        let mut broken = Vec::new();
        while let Some(&(end, id)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, id));
            if let Some(one) = self.open.remove(&id) {
                broken.push(kept(&one, workload, false));
                changed = true;
            }
        }
        (changed, broken)
    }

    /// Ends the announcement of a job that is submitted. Returns its name and what became of it, or
    /// `None` if the policy has seen no announcement of the job.
    pub(crate) fn submitted(
        &mut self,
        job: usize,
        workload: &Workload,
    ) -> Option<(String, KeptPlan)> {
        let one = self.open.remove(&(workload.jobs[job].index, 0))?;
        self.ends.remove(&(one.due.saturating_add(TOLERANCE_SECONDS), one.id));
        Some((name(&one), kept(&one, workload, true)))
    }

    /// The pods of the open announcements.
    pub(crate) fn planned(&self, workload: &Workload) -> Vec<PlannedPods> {
        let plan = |one: &Announcement| {
            let class = &workload.classes[one.class];
            let request = |&(shape, count): &(u32, u64)| PodRequest {
                shape: workload.shapes[shape as usize].clone(),
                count,
            };
            let gang: Option<VirtualInstance> = class.virtual_instance;
            PlannedPods {
                plan: name(one),
                author: author(one),
                requests: class.pods.iter().map(request).collect(),
                planned: class.pod_count(),
                came: 0,
                gang: gang.filter(|_| self.one_group),
                notice: self.notice,
                certain: false,
            }
        };
        self.open.values().map(plan).collect()
    }
}

fn name(one: &Announcement) -> String {
    format!("{}-{}", one.id.0, one.id.1)
}

fn author(one: &Announcement) -> String {
    one.user.map_or_else(String::new, |user| user.to_string())
}

fn kept(one: &Announcement, workload: &Workload, came: bool) -> KeptPlan {
    let planned = workload.classes[one.class].pod_count();
    KeptPlan { author: author(one), planned, came: if came { planned } else { 0 } }
}

/// The random numbers of a job or a user.
fn random(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The indices in the log of this share of the jobs, the largest ones.
fn largest(workload: &Workload, share: f64) -> BTreeSet<usize> {
    let nodes = |job: &WorkloadJob| {
        let class = &workload.classes[job.class];
        let together = class.virtual_instance.map_or(1, |instance| instance.instances);
        (together, class.pod_count(), job.index)
    };
    let mut jobs: Vec<&WorkloadJob> = workload.jobs.iter().collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(nodes(job)));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let number = (share * jobs.len() as f64).round() as usize;
    jobs.into_iter().take(number).map(|job| job.index).collect()
}

#[cfg(test)]
mod tests {
    use base::span::Span;

    use super::*;
    use crate::input::SimulationInput;
    use crate::log::RunLog;
    use crate::named_policy::NamedPolicy;
    use crate::world::simulate;
    use traces::Job;

    /// A job of a whole node every hour of ten days, which runs for ten minutes. Every other job is
    /// of the user `b`.
    fn hourly() -> Vec<Job> {
        let job = |hour: i64| Job {
            user: if hour % 2 == 0 { "a".into() } else { "b".into() },
            ..testkit::job(&hour.to_string(), 3_600 * hour, 600, testkit::cpus(8_000))
        };
        (0..240).map(job).collect()
    }

    fn announced(share: f64, ahead: u32, false_share: f64) -> SimulationSettings {
        let by = AnnouncedBy::Jobs;
        let ahead = Span::seconds(ahead);
        let announced = Announcements { share, ahead, false_share, by, successors: false };
        SimulationSettings { announced, ..SimulationSettings::default() }
    }

    /// Runs the last day of the jobs.
    fn run(settings: &SimulationSettings, policy: &str) -> RunLog {
        let catalog = testkit::catalog([("node", 8_000, 1.0)]);
        let workload = Workload::new(&hourly(), &catalog);
        let policy: NamedPolicy = policy.parse().unwrap();
        let (catalog, workload) = (&catalog, &workload);
        let window = (9 * 86_400, 10 * 86_400);
        let world =
            SimulationInput { workload, catalog, settings, window, replay: 0, keep_ticks: false };
        simulate(world, policy, &|_| ())
    }

    /// Checks the longest wait of a job, in seconds, where policies hold nothing but announced
    /// jobs.
    #[track_caller]
    fn check(share: f64, ahead: u32, expected: std::ops::RangeInclusive<i64>) {
        let log = run(&announced(share, ahead, 0.0), "constant:0");
        let waits = log.jobs.iter().map(|job| job.ran.unwrap().0 - job.submit);
        let longest = waits.max().unwrap();
        assert!(expected.contains(&longest), "{longest} s");
    }

    #[test]
    fn an_announced_job_waits_for_the_rest_of_a_launch() {
        check(0.0, 600, 300..=310);
        check(1.0, 600, 0..=0);
        check(1.0, 300, 0..=10);
        check(1.0, 120, 180..=190);
    }

    /// The node of an announcement is launched when it is needed, however early it is announced.
    #[test]
    fn an_early_announcement_costs_no_more_than_one_a_launch_ahead() {
        let hours = |ahead| {
            let log = run(&announced(1.0, ahead, 0.0), "constant:0");
            let seconds = |node: &crate::log::NodeRecord| node.gone.unwrap() - node.requested;
            log.nodes.iter().filter(|node| node.gone.is_some()).map(seconds).sum::<i64>()
        };
        assert_eq!(hours(3_000), hours(600));
    }

    /// A forecast learns nothing from jobs that are announced, so it holds nothing beside them.
    #[test]
    fn a_forecast_is_of_the_jobs_that_are_not_announced() {
        let nodes = |share| run(&announced(share, 600, 0.0), "increments:0.9").nodes.len();
        let held = run(&announced(1.0, 600, 0.0), "constant:0").nodes.len();
        assert_eq!(nodes(1.0), held);
        assert!(nodes(0.0) > held);
    }

    #[test]
    fn a_node_is_launched_for_a_false_announcement() {
        let nodes = |share| run(&announced(1.0, 600, share), "constant:0").nodes.len();
        assert!(nodes(0.5) > nodes(0.0));
    }

    #[test]
    fn announcements_are_those_of_the_settings() {
        let catalog = testkit::catalog([("node", 8_000, 1.0)]);
        let workload = Workload::new(&hourly(), &catalog);
        let drawn = |settings: &SimulationSettings| {
            let all = Announced::new(&workload, settings, 7).all;
            let jobs = all.iter().filter(|one| one.id.1 == 0).count();
            (jobs, all.len() - jobs)
        };
        assert_eq!(drawn(&announced(0.0, 300, 0.5)), (0, 0));
        assert_eq!(drawn(&announced(1.0, 300, 0.0)), (240, 0));
        let (jobs, copies) = drawn(&announced(0.5, 300, 0.5));
        assert!((90..150).contains(&jobs) && (70..170).contains(&copies), "{jobs} and {copies}");
        let mut by = announced(0.5, 300, 0.0);
        by.announced.by = AnnouncedBy::Users;
        assert!([0, 120, 240].contains(&drawn(&by).0));
        by.announced.by = AnnouncedBy::Largest;
        assert_eq!(drawn(&by).0, 120);
    }
}
