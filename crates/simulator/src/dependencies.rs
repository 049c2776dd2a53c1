//! Jobs of a log that wait for others, and what policies see of them.
//!
//! A job that waits for others is submitted when they have ended in the simulation, and not before
//! its time in the log. Policies know such jobs in advance only where the settings say so: as steps
//! of a workflow, from the submission of its first job on.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map};
use std::sync::Arc;

use control::{Step, StepState, Workflow};
use demand::record::StepRun;
use embedder::PodRequest;

use super::settings::{GangHeadroom, SimulationSettings};
use crate::replay::Workload;

/// The index of a job in the log, by which it is the same in all replays.
type LogIndex = usize;

/// How many jobs after a running one policies see.
const DEPTH: usize = 3;

/// The number of jobs of a user, in the mean, from which the run times of each user are learnt.
const JOBS_OF_USER: usize = 30;

/// The template of the time between the end of a job and the submission of the next one.
const DELAY: &str = "delay";

/// The jobs that wait for others, and those that others wait for.
#[derive(Debug, Default)]
struct Links {
    /// The place in the workload of each of these jobs.
    places: BTreeMap<LogIndex, usize>,
    before: HashMap<LogIndex, Vec<LogIndex>>,
    followers: HashMap<LogIndex, Vec<LogIndex>>,
    /// The first job of the workflow of each job.
    first: HashMap<LogIndex, LogIndex>,
    /// Whether the run times of each user are learnt by themselves: each user has many jobs.
    by_user: bool,
}

/// The state of the jobs that wait for others, and of those that others wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    links: Arc<Links>,
    /// The jobs whose time in the log came, and which still wait for others.
    held_back: BTreeSet<LogIndex>,
    /// When jobs were submitted that were held back, in seconds.
    released: HashMap<LogIndex, i64>,
    /// The jobs that were not submitted although all jobs before them ended.
    ready: BTreeSet<LogIndex>,
    /// The jobs that were submitted and did not end, by the time of their submission in seconds.
    running: BTreeMap<LogIndex, i64>,
    /// When jobs ended, in seconds, and how many jobs that wait for them were not submitted.
    ended: HashMap<LogIndex, (i64, usize)>,
}

impl Dependencies {
    pub(crate) fn new(workload: &Workload) -> Self {
        let mut all = Links::default();
        for job in &workload.jobs {
            for before in &job.after {
                all.followers.entry(*before).or_default().push(job.index);
                all.before.entry(job.index).or_default().push(*before);
            }
        }
        for (place, job) in workload.jobs.iter().enumerate() {
            if all.before.contains_key(&job.index) || all.followers.contains_key(&job.index) {
                all.places.insert(job.index, place);
            }
        }
        let users = all.places.values().filter_map(|place| workload.jobs[*place].user);
        let users = users.collect::<BTreeSet<u32>>().len();
        all.by_user = users * JOBS_OF_USER < all.places.len();
        for first in all.places.keys().copied() {
            let mut open = vec![first];
            while let Some(job) = open.pop() {
                if let hash_map::Entry::Vacant(entry) = all.first.entry(job) {
                    entry.insert(first);
                    open.extend(neighbours(&all.before, job));
                    open.extend(neighbours(&all.followers, job));
                }
            }
        }
        Self { links: Arc::new(all), ..Self::default() }
    }

    /// Goes on in another replay, whose jobs are the same until now.
    pub(crate) fn succeed(self, before: &Self) -> Self {
        Self { links: self.links, ..before.clone() }
    }

    /// Holds a job back whose time in the log has come, if it waits for others. Returns whether it
    /// does.
    pub(crate) fn hold_back(&mut self, index: LogIndex) -> bool {
        let waits = !self.is_ready(index);
        if waits {
            self.held_back.insert(index);
        }
        waits
    }

    /// When a job was submitted that was held back, in seconds. `None` for other jobs.
    pub(crate) fn released(&self, index: LogIndex) -> Option<i64> {
        self.released.get(&index).copied()
    }

    /// Whether a job is held back.
    pub(crate) fn any_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Notes that a job was submitted. Returns how long after the end of the jobs before it this
    /// was. `None` if it waited for none.
    pub(crate) fn submitted(&mut self, index: LogIndex, now: i64) -> Option<StepRun> {
        if !self.links.places.contains_key(&index) {
            return None;
        }
        let since = self.ready_since(index);
        self.running.insert(index, now);
        self.ready.remove(&index);
        for before in neighbours(&self.links.before, index) {
            if let hash_map::Entry::Occupied(mut entry) = self.ended.entry(before) {
                entry.get_mut().1 -= 1;
                if entry.get().1 == 0 {
                    entry.remove();
                }
            }
        }
        Some(run(DELAY.into(), now - since?))
    }

    /// Notes that a job ended, or that it never comes. Returns how long it took if others wait for
    /// it, and the places in the workload of those that were held back only for it.
    pub(crate) fn ended(
        &mut self,
        index: LogIndex,
        workload: &Workload,
        now: i64,
    ) -> (Option<StepRun>, Vec<usize>) {
        let submitted = self.running.remove(&index);
        self.released.remove(&index);
        let Some(followers) = self.links.followers.get(&index) else { return (None, Vec::new()) };
        self.ended.insert(index, (now, followers.len()));
        let next = followers.iter().copied().filter(|follower| self.is_ready(*follower));
        let next: Vec<LogIndex> = next.collect();
        self.ready.extend(&next);
        let released: Vec<LogIndex> =
            next.into_iter().filter(|follower| self.held_back.remove(follower)).collect();
        self.released.extend(released.iter().map(|follower| (*follower, now)));
        let places = released.iter().filter_map(|follower| self.links.places.get(follower));
        let run = submitted.map(|submitted| run(self.template(workload, index), now - submitted));
        (run, places.copied().collect())
    }

    /// The name of a job among the expected steps.
    pub(crate) fn plan(&self, index: LogIndex) -> Option<String> {
        let waited = self.links.before.contains_key(&index);
        let first = self.links.first.get(&index).filter(|_| waited)?;
        Some(format!("{first}/{index}"))
    }

    /// The workflows of which a job runs, or ended just now, with the next jobs.
    pub(crate) fn workflows(
        &self,
        workload: &Workload,
        settings: &SimulationSettings,
        now: i64,
    ) -> Vec<Workflow> {
        let mut of_first: BTreeMap<LogIndex, BTreeSet<LogIndex>> = BTreeMap::new();
        let mut shown: BTreeSet<LogIndex> = self.running.keys().copied().collect();
        let mut newest: Vec<LogIndex> = shown.iter().copied().collect();
        for _ in 0..DEPTH {
            let next = newest.iter().flat_map(|job| neighbours(&self.links.followers, *job));
            newest = next.filter(|job| shown.insert(*job)).collect();
        }
        // A job may follow some time after all jobs before it ended.
        shown.extend(&self.ready);
        for job in shown {
            of_first.entry(self.links.first[&job]).or_default().insert(job);
        }
        let workflow = |(first, jobs): (LogIndex, BTreeSet<LogIndex>)| Workflow {
            parallelism: None,
            name: first.to_string(),
            author: String::new(),
            steps: self.steps(&jobs, workload, settings, now),
        };
        of_first.into_iter().map(workflow).collect()
    }

    fn steps(
        &self,
        jobs: &BTreeSet<LogIndex>,
        workload: &Workload,
        settings: &SimulationSettings,
        now: i64,
    ) -> Vec<Step> {
        let at: HashMap<LogIndex, usize> =
            jobs.iter().enumerate().map(|(at, job)| (*job, at)).collect();
        let mut delays = Vec::new();
        let mut steps = Vec::new();
        for job in jobs {
            let place = self.links.places[job];
            let mut step = Step {
                name: job.to_string(),
                template: self.template(workload, *job),
                after: Vec::new(),
                state: StepState::Waiting,
                requests: Vec::new(),
                gang: None,
                lead_seconds: settings.lead().seconds,
            };
            if let Some(submitted) = self.running.get(job) {
                step.state = StepState::Running(now - submitted);
            } else {
                // Jobs that are not shown ended, or are far away.
                let before = || neighbours(&self.links.before, *job);
                let far = before().any(|of| !self.ended.contains_key(&of) && !at.contains_key(&of));
                let after: Vec<usize> = before().filter_map(|of| at.get(&of).copied()).collect();
                let mut delay = Step { after: after.clone(), ..step.clone() };
                (delay.name, delay.template) = (format!("{DELAY} {job}"), DELAY.into());
                delay.state = match self.ready_since(*job) {
                    _ if far => StepState::Blocked,
                    Some(since) => StepState::Running(now - since),
                    None => StepState::Waiting,
                };
                step.after = after;
                step.after.push(jobs.len() + delays.len());
                delays.push(delay);
            }
            let class = &workload.classes[workload.jobs[place].class];
            let request = |&(shape, count): &(u32, u64)| PodRequest {
                shape: workload.shapes[shape as usize].clone(),
                count,
            };
            step.requests = class.pods.iter().map(request).collect();
            let one_group = settings.gang_headroom == GangHeadroom::OneGroup;
            step.gang = class.virtual_instance.filter(|_| one_group);
            steps.push(step);
        }
        steps.extend(delays);
        steps
    }

    /// Jobs of equal pods take about the same time, also by user where users have many jobs.
    fn template(&self, workload: &Workload, index: LogIndex) -> String {
        let job = &workload.jobs[self.links.places[&index]];
        let user = job.user.filter(|_| self.links.by_user);
        user.map_or_else(|| job.class.to_string(), |user| format!("{user}/{}", job.class))
    }

    /// Whether all jobs before a job ended.
    fn is_ready(&self, index: LogIndex) -> bool {
        neighbours(&self.links.before, index).all(|before| self.ended.contains_key(&before))
    }

    /// When the last of the jobs before a job ended. `None` if it waits for none, or still for one.
    fn ready_since(&self, index: LogIndex) -> Option<i64> {
        let end = |before: LogIndex| self.ended.get(&before).map(|(at, _)| *at);
        let ends = neighbours(&self.links.before, index).map(end);
        ends.collect::<Option<Vec<i64>>>()?.into_iter().max()
    }
}

fn neighbours(
    of: &HashMap<LogIndex, Vec<LogIndex>>,
    index: LogIndex,
) -> impl Iterator<Item = LogIndex> {
    of.get(&index).into_iter().flatten().copied()
}

fn run(template: String, seconds: i64) -> StepRun {
    StepRun { template, seconds: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use traces::Job;

    use super::*;
    use crate::input::SimulationInput;
    use crate::log::RunLog;
    use crate::named_policy::NamedPolicy;
    use crate::world::simulate;

    /// A job of a whole node that is submitted at a second and waits for others.
    fn job(name: &str, submit: i64, runtime: i64, after: &[&str]) -> Job {
        let after = after.iter().map(|name| (*name).into()).collect();
        Job { after, ..testkit::job(name, submit, runtime, testkit::cpus(8_000)) }
    }

    /// Runs jobs in a window, under a policy that holds nothing but what is known.
    fn run(jobs: &[Job], window: (i64, i64), successors: bool) -> RunLog {
        let catalog = testkit::catalog([("node", 8_000, 1.0)]);
        let workload = Workload::new(jobs, &catalog);
        let mut settings = SimulationSettings::default();
        settings.announced.successors = successors;
        let policy: NamedPolicy = "constant:0".parse().unwrap();
        let (catalog, workload, settings) = (&catalog, &workload, &settings);
        let input =
            SimulationInput { workload, catalog, settings, window, replay: 0, keep_ticks: false };
        simulate(input, policy, &|_| ())
    }

    /// Checks when jobs are submitted and start.
    #[track_caller]
    fn check(jobs: &[Job], expected: &[(i64, i64)]) {
        let log = run(jobs, (0, 86_400), false);
        let found = log.jobs.iter().map(|job| (job.submit, job.ran.unwrap().0));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_job_is_submitted_when_those_before_it_ended() {
        // The first job waits for its node until 310, and ends at 910. The second one takes its
        // node.
        let first = job("a", 0, 600, &[]);
        check(&[first.clone(), job("b", 600, 60, &["a"])], &[(0, 310), (910, 910)]);
        check(&[first.clone(), job("b", 1_000, 60, &["a"])], &[(0, 310), (1_000, 1_000)]);
        let both = [first.clone(), job("b", 5, 900, &[]), job("c", 600, 60, &["a", "b"])];
        check(&both, &[(0, 310), (5, 310), (1_210, 1_210)]);
        // A job that waits for itself, for a later one or for an unknown one does not wait.
        let others = [first, job("b", 600, 60, &["b", "c", "d"]), job("c", 700, 60, &[])];
        check(&others, &[(0, 310), (600, 910), (700, 910)]);
    }

    /// Every hour, a job of ten minutes precedes four jobs of a node each. One of them takes over
    /// its node.
    #[test]
    fn known_successors_find_their_nodes() {
        let of_hour = |hour: i64| {
            let first = job(&format!("{hour}"), 3_600 * hour, 600, &[]);
            let next = (0..4).map(move |at| {
                job(&format!("{hour}.{at}"), 3_600 * hour + 600, 300, &[&hour.to_string()])
            });
            std::iter::once(first).chain(next)
        };
        let jobs: Vec<Job> = (0..72).flat_map(of_hour).collect();
        let waits = |successors: bool| -> Vec<i64> {
            let log = run(&jobs, (2 * 86_400, 3 * 86_400), successors);
            let hours = log.jobs.chunks(5);
            hours
                .map(|jobs| jobs[1..].iter().map(|job| job.ran.unwrap().0 - job.submit).sum())
                .collect()
        };
        assert!(waits(false).iter().all(|sum| (900..1_000).contains(sum)), "{:?}", waits(false));
        assert!(waits(true).iter().all(|sum| *sum <= 30), "{:?}", waits(true));
    }

    #[test]
    fn jobs_that_wait_are_shown_as_steps() {
        let catalog = testkit::catalog([("node", 8_000, 1.0)]);
        let jobs = [
            job("a", 0, 600, &[]),
            job("b", 600, 60, &["a"]),
            job("c", 700, 60, &["b"]),
            job("d", 800, 60, &["c"]),
            job("e", 900, 60, &["d", "a"]),
            job("f", 1_000, 60, &[]),
        ];
        let workload = Workload::new(&jobs, &catalog);
        let mut all = Dependencies::new(&workload);
        assert_eq!(all.submitted(0, 0), None);
        assert_eq!(all.submitted(5, 10), None);
        let shown = |all: &Dependencies, now: i64| -> Vec<String> {
            let workflows = all.workflows(&workload, &SimulationSettings::default(), now);
            let steps = workflows.iter().flat_map(|of| &of.steps);
            steps.map(|step| format!("{} {:?} {:?}", step.name, step.state, step.after)).collect()
        };
        let first = [
            "0 Running(40) []",
            "1 Waiting [0, 5]",
            "2 Waiting [1, 6]",
            "3 Waiting [2, 7]",
            "4 Waiting [3, 0, 8]",
            "delay 1 Waiting [0]",
            "delay 2 Waiting [1]",
            "delay 3 Waiting [2]",
            "delay 4 Waiting [3, 0]",
        ];
        let mut sorted = first.map(|line| line.replace("[3, 0", "[0, 3"));
        sorted.sort();
        let mut found = shown(&all, 40);
        found.sort();
        assert_eq!(found, sorted);
        let (ran, released) = all.ended(0, &workload, 700);
        assert_eq!((ran.unwrap().seconds, released), (700, vec![]));
        assert!(shown(&all, 720).contains(&"delay 1 Running(20) []".to_owned()));
        assert!(!all.hold_back(1) && all.hold_back(2));
        assert_eq!(all.submitted(1, 730).unwrap().seconds, 30);
        assert_eq!(all.ended(1, &workload, 800).1, [2]);
    }
}
