//! Successors: the steps of a workflow that start when earlier steps end.
//!
//! The object of a workflow names its next steps while the first ones run. When a step ends is not
//! known, but how long the steps of its template took. So a successor is expected with a chance: it
//! starts within a lead time if all of its predecessors end within this time.
//!
//! A successor takes over the room of its predecessors, so it needs new nodes for the other pods
//! only. How many of the expected pods are held is decided for all pods of one shape together: the
//! quantile of their number that the price of waiting implies (the newsvendor's). The pods of
//! successors with the greatest chances are held first.
//!
//! A successor may not start although its predecessors ended, for example because of a condition.
//! So its chance is multiplied by the share of the expected pods of its author that came before.

use std::collections::{BTreeMap, BTreeSet};

use demand::record::StepRun;
use embedder::{Catalog, PodRequest, Resources, Shape, UNLIMITED, VirtualInstance};
use placeholders::Prices;

use crate::planned::{NOTICE_MAX, PlannedPods, Plans, number};
use crate::run_times::RunTimes;

/// A workflow: steps that start when others end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Identifies the workflow, as long as it is observed.
    pub name: String,
    /// Of the expected pods of one author, the share that came weighs what is expected next.
    pub author: String,
    /// The steps.
    pub steps: Vec<Step>,
    /// The most pods that run at once. `None` without a limit.
    pub parallelism: Option<u64>,
}

/// A step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name, unique in the workflow.
    pub name: String,
    /// Steps of one template take about the same time.
    pub template: String,
    /// The steps after whose end it starts, by their indices in the workflow.
    pub after: Vec<usize>,
    /// Its state.
    pub state: StepState,
    /// Its pods.
    pub requests: Vec<PodRequest>,
    /// The instances that the pods take together. `None` if they fit on one, or if they may start
    /// one by one.
    pub gang: Option<VirtualInstance>,
    /// How long the launch of a node for its pods takes, in seconds.
    pub lead_seconds: i64,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Its pods do not exist yet.
    Waiting,
    /// Its pods were created this number of seconds ago.
    Running(i64),
    /// It ended, and so will not run again.
    Ended,
    /// It waits for something other than its predecessors, for an unknown time.
    Blocked,
}

/// A step that is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The name of the workflow and the name of the step.
    pub plan: String,
    /// Whose it is.
    pub author: String,
    /// The chance that its pods come within the time of a launch, in (0, 1].
    pub chance: f64,
    /// The number of its pods.
    pub pods: u64,
    /// The pods for which the predecessors leave no room.
    requests: Vec<PodRequest>,
    gang: Option<VirtualInstance>,
}

/// The chances that are too small to be of interest.
const CHANCE_MIN: f64 = 0.001;

/// The number of moments within a lead time at which chances are computed.
const MOMENTS: usize = 24;

/// The chances that something happened by each of the [`MOMENTS`], the first one now and the last
/// one a lead time from now.
type Chances = [f64; MOMENTS + 1];

/// The successors that are expected, and how long steps take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Successors {
    run_times: RunTimes,
}

impl Successors {
    /// Learns from a step that ended.
    pub(crate) fn learn(&mut self, run: &StepRun) {
        self.run_times.learn(run);
    }

    /// The steps that are expected within the time of a launch, in the order of their workflows.
    pub(crate) fn expected(
        &self,
        workflows: &[Workflow],
        plans: &Plans,
        catalog: &Catalog,
    ) -> Vec<Expected> {
        let of_workflow = |workflow: &Workflow| {
            let kept = plans.kept(&workflow.author).unwrap_or(1.0);
            let mut expected = self.of_workflow(workflow, catalog);
            for step in &mut expected {
                step.chance *= kept;
            }
            expected.retain(|step| step.chance >= CHANCE_MIN);
            expected
        };
        workflows.iter().flat_map(of_workflow).collect()
    }

    fn of_workflow(
        &self,
        Workflow { name, author, steps, parallelism }: &Workflow,
        catalog: &Catalog,
    ) -> Vec<Expected> {
        let waiting = steps.iter().filter(|step| step.state == StepState::Waiting);
        let Some(horizon) = waiting.map(|step| step.lead_seconds.max(1)).max() else {
            return Vec::new();
        };
        let horizon = horizon as f64;
        let starts = self.starts(steps, horizon);
        let mut rooms: Vec<Vec<PodRequest>> =
            steps.iter().map(|step| step.requests.clone()).collect();
        let (mut expected, mut before) = (Vec::new(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            let Some(starts) = starts[at].filter(|_| step.state == StepState::Waiting) else {
                continue;
            };
            let chance = by(&starts, step.lead_seconds as f64 / horizon);
            if chance < CHANCE_MIN {
                continue;
            }
            let mut requests = step.requests.clone();
            for before in
                step.after.iter().filter_map(|before| Some((*before, steps.get(*before)?)))
            {
                if before.1.state != StepState::Ended {
                    take_room(&mut requests, &mut rooms[before.0], catalog);
                }
            }
            before.push(&step.after);
            let plan = format!("{name}/{}", step.name);
            let (author, pods) = (author.clone(), number(&step.requests));
            expected.push(Expected { plan, author, chance, pods, requests, gang: step.gang });
        }
        if let Some(most) = *parallelism {
            // Steps that run on beside the expected ones, and the pods that take over their room.
            let ends: BTreeSet<usize> = before.into_iter().flatten().copied().collect();
            let stays = |at: usize| matches!(steps[at].state, StepState::Running(_));
            let staying = (0..steps.len()).filter(|at| stays(*at) && !ends.contains(at));
            let staying = staying.map(|at| number(&steps[at].requests));
            let placed = expected.iter().map(|step| step.pods - number(&step.requests));
            let taken = staying.chain(placed).fold(0, u64::saturating_add);
            limit(&mut expected, most.saturating_sub(taken));
        }
        expected
    }

    /// By step: the chances that it started by each moment. `None` for steps of which a
    /// predecessor is unknown, or that wait for each other. The chances that a step ends are
    /// computed only where another one waits for it and it may have started.
    fn starts(&self, steps: &[Step], horizon: f64) -> Vec<Option<Chances>> {
        let mut starts: Vec<Option<Chances>> = vec![None; steps.len()];
        let mut ends: Vec<Option<Chances>> = vec![None; steps.len()];
        // The number of predecessors whose chances are not known yet.
        let mut open: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for before in step.after.iter().filter(|before| **before < steps.len()) {
                followers[*before].push(at);
            }
        }
        let is_waiting = |at: &usize| steps[*at].state == StepState::Waiting;
        let mut ready: Vec<usize> =
            (0..steps.len()).filter(|at| !is_waiting(at) || open[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            let step = &steps[at];
            let times = self.run_times.of(&step.template);
            let seconds = |moment: usize| horizon * moment as f64 / MOMENTS as f64;
            let waits = |follower: &&usize| is_waiting(follower);
            let is_awaited = followers[at].iter().any(|follower| waits(&follower));
            let within = |age: i64| -> Chances {
                std::array::from_fn(|moment| times.ends_within(age.max(0) as f64, seconds(moment)))
            };
            let of_ends = match step.state {
                StepState::Ended => [1.0; MOMENTS + 1],
                StepState::Running(age) if is_awaited => within(age),
                StepState::Running(_) | StepState::Blocked => continue,
                StepState::Waiting => {
                    let all = step.after.iter().map(|before| ends[*before].unwrap_or_default());
                    let started = all.fold([1.0; MOMENTS + 1], |mut product, ends| {
                        product.iter_mut().zip(ends).for_each(|(chance, end)| *chance *= end);
                        product
                    });
                    starts[at] = Some(started);
                    if is_awaited && started[MOMENTS] >= CHANCE_MIN {
                        later(&started, &within(0))
                    } else {
                        [0.0; MOMENTS + 1]
                    }
                }
            };
            ends[at] = Some(of_ends);
            for follower in followers[at].iter().filter(waits) {
                open[*follower] -= 1;
                if open[*follower] == 0 {
                    ready.push(*follower);
                }
            }
        }
        starts
    }

    /// Returns the pods of expected steps for which nodes are held, as planned pods. Those of one
    /// shape are decided together.
    pub(crate) fn held(
        expected: &[Expected],
        prices: &Prices,
        catalog: &Catalog,
    ) -> Vec<PlannedPods> {
        let mut of_shape: BTreeMap<&Shape, Vec<(f64, u64, usize)>> = BTreeMap::new();
        for (at, step) in expected.iter().enumerate() {
            for request in step.requests.iter().filter(|request| request.count > 0) {
                of_shape.entry(&request.shape).or_default().push((step.chance, request.count, at));
            }
        }
        let mut held: BTreeMap<usize, Vec<PodRequest>> = BTreeMap::new();
        for (shape, mut steps) in of_shape {
            let fitting = catalog.buckets_for(shape).ok();
            let bucket = fitting.and_then(|fitting| fitting.first()).unwrap_or_default();
            steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
            steps.truncate(STEPS_MAX);
            let mut most = quantile(&steps, prices.quantile(bucket));
            for (_, count, at) in steps {
                let count = count.min(most);
                most -= count;
                if count > 0 {
                    held.entry(at).or_default().push(PodRequest { shape: shape.clone(), count });
                }
            }
        }
        let planned = held.into_iter().map(|(at, requests)| {
            let Expected { plan, author, pods, requests: all, gang, .. } = &expected[at];
            PlannedPods {
                plan: plan.clone(),
                author: author.clone(),
                planned: *pods,
                came: 0,
                gang: gang.filter(|_| number(&requests) == number(all)),
                notice: NOTICE_MAX,
                certain: true,
                requests,
            }
        });
        planned.collect()
    }
}

/// Leaves this number of pods: those of the steps with the greatest chances.
fn limit(expected: &mut [Expected], mut most: u64) {
    let mut order: Vec<&mut Expected> = expected.iter_mut().collect();
    order.sort_by(|a, b| b.chance.total_cmp(&a.chance));
    for request in order.into_iter().flat_map(|step| &mut step.requests) {
        request.count = request.count.min(most);
        most -= request.count;
    }
}

/// The chance by a part of the horizon, in [0, 1].
fn by(chances: &Chances, part: f64) -> f64 {
    let at = part.clamp(0.0, 1.0) * MOMENTS as f64;
    let before = at.floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of moments"
    )]
    let index = before as usize;
    let next = chances[(index + 1).min(MOMENTS)];
    chances[index] + (at - before) * (next - chances[index])
}

/// The chances of the end of something that takes a random time and begins at a random moment: the
/// convolution of both.
fn later(begins: &Chances, takes: &Chances) -> Chances {
    std::array::from_fn(|moment| {
        let begun = |at: usize| if at == 0 { begins[0] } else { begins[at] - begins[at - 1] };
        (0..=moment).map(|at| begun(at) * takes[moment - at]).sum()
    })
}

/// Takes pods out of `requests` for which `room` of pods that end is enough, and takes this room.
/// The pods that end are assumed to be packed.
fn take_room(requests: &mut [PodRequest], room: &mut [PodRequest], catalog: &Catalog) {
    for request in requests {
        for ending in room.iter_mut() {
            let bucket =
                catalog.buckets_for(&ending.shape).ok().and_then(|fitting| fitting.first());
            let Some(id) = bucket.filter(|_| request.count > 0 && ending.count > 0) else {
                continue;
            };
            let bucket = &catalog.buckets()[id];
            if !request.shape.admitted_by(id, bucket) {
                continue;
            }
            // The pods of a full instance, and those that share the last instance with others.
            let of_instance = bucket.allocatable.holds(ending.shape.requests).max(1);
            let (whole, rest) = (ending.count / of_instance, ending.count % of_instance);
            let free = Resources { pods: UNLIMITED, ..ending.shape.requests.times(rest) };
            let fits = whole
                .saturating_mul(bucket.allocatable.holds(request.shape.requests))
                .saturating_add(free.holds(request.shape.requests));
            if fits == 0 {
                continue;
            }
            let taken = request.count.min(fits);
            request.count -= taken;
            // The part of the room that is taken, rounded up.
            let used = (u128::from(ending.count) * u128::from(taken)).div_ceil(u128::from(fits));
            ending.count -= u64::try_from(used).unwrap_or(ending.count).min(ending.count);
        }
    }
}

/// The most steps with pods of one shape for which nodes are held: those with the greatest chances.
const STEPS_MAX: usize = 1_000;

/// The most parts into which the pods of one shape are divided to compute their distribution.
const PARTS_MAX: u64 = 512;

/// The quantile of the number of pods that come, each of these (chance, number of pods, _) or none
/// of it, independently. The number is exact up to 512 pods, and else that of parts: each step has
/// the parts that end within it where all steps stand in a row.
fn quantile(steps: &[(f64, u64, usize)], quantile: f64) -> u64 {
    let total = steps.iter().fold(0, |sum: u64, (_, count, _)| sum.saturating_add(*count));
    let part = total.div_ceil(PARTS_MAX).max(1);
    let parts = |count: u64| usize::try_from(count.div_ceil(part)).unwrap_or(usize::MAX);
    let most = parts(total);
    let mut chances = vec![0.0; most + 1];
    chances[0] = 1.0;
    let (mut pods, mut so_far): (u64, usize) = (0, 0);
    for (chance, count, _) in steps {
        pods = pods.saturating_add(*count);
        let more = parts(pods) - so_far;
        so_far += more;
        for at in (0..=so_far).rev() {
            let with = if at >= more { chances[at - more] * chance } else { 0.0 };
            chances[at] = chances[at] * (1.0 - chance) + with;
        }
    }
    let mut sum = 0.0;
    let at = chances.iter().position(|chance| {
        sum += chance;
        sum >= quantile
    });
    (at.unwrap_or(most) as u64).saturating_mul(part).min(total)
}

#[cfg(test)]
mod tests {
    use demand::record::KeptPlan;
    use placeholders::Objective;
    use testkit::{catalog, cpus, pods};

    use super::*;

    /// A node has 8 cores.
    fn nodes() -> Catalog {
        catalog([("node", 8_000, 1.0)])
    }

    /// A step of pods of this many thousandths of a core.
    fn step(template: &str, after: &[usize], state: StepState, (count, cpu): (u64, u64)) -> Step {
        Step {
            name: template.into(),
            template: template.into(),
            after: after.to_vec(),
            state,
            requests: vec![pods(count, cpus(cpu))],
            gang: None,
            lead_seconds: 300,
        }
    }

    fn workflow(steps: &[Step]) -> Workflow {
        let (name, author) = ("flow".into(), "flows".into());
        Workflow { name, author, steps: steps.to_vec(), parallelism: None }
    }

    /// What is known after 30 runs of each template.
    fn learnt(templates: &[(&str, u32)]) -> Successors {
        let mut successors = Successors::default();
        for run in 0..30 * templates.len() {
            let (template, seconds) = templates[run % templates.len()];
            successors.learn(&StepRun { template: template.into(), seconds });
        }
        successors
    }

    /// Checks the expected steps, and how many pods of each are held.
    #[track_caller]
    fn check(successors: &Successors, steps: &[Step], expected: &[(&str, u64)]) {
        let (catalog, plans) = (nodes(), Plans::default());
        let prices = Prices::new(Objective::WaitRatio(9.0), &catalog);
        let found = successors.expected(&[workflow(steps)], &plans, &catalog);
        let held = Successors::held(&found, &prices, &catalog);
        let pods = |plan: &PlannedPods| plan.requests.iter().map(|request| request.count).sum();
        let held: Vec<(&str, u64)> =
            held.iter().map(|plan| (plan.plan.as_str(), pods(plan))).collect();
        assert_eq!(held, expected, "{found:?}");
    }

    use StepState::{Ended, Running, Waiting};

    #[test]
    fn no_more_pods_are_held_than_run_at_once() {
        let successors = learnt(&[("read", 900), ("fit", 900)]);
        let fits = |before: StepState| {
            let fit = |_| step("fit", &[0], Waiting, (1, 8_000));
            let mut steps = vec![step("read", &[], before, (1, 8_000))];
            steps.extend((0..3).map(fit));
            steps
        };
        let held = |steps: &[Step], parallelism, pods: u64| {
            let (catalog, plans) = (nodes(), Plans::default());
            let workflow = Workflow { parallelism, ..workflow(steps) };
            let found = successors.expected(&[workflow], &plans, &catalog);
            let counts = found.iter().flat_map(|step| &step.requests).map(|pods| pods.count);
            assert_eq!(counts.sum::<u64>(), pods, "{found:?}");
        };
        held(&fits(Ended), None, 3);
        held(&fits(Ended), Some(2), 2);
        // One of the three takes the room of its predecessor.
        held(&fits(Running(880)), None, 2);
        held(&fits(Running(880)), Some(2), 1);
        held(&fits(Running(880)), Some(1), 0);
        // The room of the predecessor is too small, and it has ended before.
        let mut small = fits(Running(880));
        small[0].requests = vec![pods(1, cpus(1_000))];
        held(&small, Some(1), 1);
        held(&small, Some(2), 2);
        small.push(step("other", &[], Running(10), (1, 1_000)));
        held(&small, Some(2), 1);
    }

    #[test]
    fn a_successor_is_held_once_its_predecessors_may_end_within_a_launch() {
        let successors = learnt(&[("read", 900), ("fit", 900)]);
        let of = |age, other| {
            [
                step("read", &[], Running(age), (1, 4_000)),
                step("read", &[], other, (1, 4_000)),
                step("fit", &[0, 1], Waiting, (40, 4_000)),
            ]
        };
        check(&successors, &of(0, Ended), &[]);
        check(&successors, &of(500, Ended), &[]);
        check(&successors, &of(700, Ended), &[("flow/fit", 39)]);
        check(&successors, &of(700, Running(10)), &[]);
        check(&successors, &of(700, Waiting), &[("flow/read", 1)]);
    }

    #[test]
    fn steps_of_a_chain_of_short_ones_are_expected_together() {
        let successors = learnt(&[("read", 60), ("join", 60), ("fit", 900)]);
        let steps = [
            step("read", &[], Running(0), (1, 1_000)),
            step("join", &[0], Waiting, (10, 4_000)),
            step("fit", &[1], Waiting, (20, 8_000)),
            step("end", &[2], Waiting, (20, 8_000)),
        ];
        // Ten pods of four cores leave five nodes for pods of eight.
        check(&successors, &steps, &[("flow/join", 10), ("flow/fit", 15)]);
    }

    /// Successors of one step share its room.
    #[test]
    fn successors_take_over_the_room_of_their_predecessors() {
        let successors = learnt(&[("read", 60)]);
        let steps = |ending, following| {
            [
                step("read", &[], Running(0), ending),
                step("a", &[0], Waiting, following),
                step("b", &[0], Waiting, following),
            ]
        };
        check(&successors, &steps((2, 4_000), (1, 4_000)), &[]);
        check(&successors, &steps((2, 4_000), (2, 4_000)), &[("flow/b", 2)]);
        check(&successors, &steps((2, 4_000), (1, 8_000)), &[("flow/b", 1)]);
        check(&successors, &steps((1, 4_000), (1, 8_000)), &[("flow/a", 1), ("flow/b", 1)]);
        check(&successors, &steps((1, 4_000), (4, 1_000)), &[("flow/b", 4)]);
    }

    #[test]
    fn steps_that_cannot_start_are_not_expected() {
        let successors = learnt(&[("read", 60)]);
        let steps = [
            step("read", &[], Running(0), (1, 1_000)),
            step("a", &[2], Waiting, (1, 4_000)),
            step("b", &[1], Waiting, (1, 4_000)),
            step("c", &[3], Waiting, (1, 4_000)),
            step("d", &[77], Waiting, (1, 4_000)),
            step("e", &[0, 0], Waiting, (4, 4_000)),
        ];
        check(&successors, &steps, &[("flow/e", 4)]);
        check(&successors, &[], &[]);
    }

    #[test]
    fn successors_that_never_start_are_not_held() {
        let (catalog, mut plans) = (nodes(), Plans::default());
        let steps = [step("read", &[], Ended, (1, 1_000)), step("fit", &[0], Waiting, (4, 8_000))];
        let mut chance = |came: u64, times: u32| {
            for _ in 0..times {
                plans.learn(&KeptPlan { author: "flows".into(), planned: 4, came });
            }
            Successors::default().expected(&[workflow(&steps)], &plans, &catalog)[0].chance
        };
        assert!(chance(4, 10) > 0.99);
        assert!(chance(0, 60) < 0.1);
    }

    /// A chain whose steps take a random time ends as often as such chains did.
    #[test]
    fn the_chance_of_a_chain_is_that_of_the_sum_of_its_times() {
        let seconds = |n: u32| 20 + 60 * (n * 37 % 13);
        let mut successors = Successors::default();
        (0..13 * 40).for_each(|n| {
            successors.learn(&StepRun { template: "any".into(), seconds: seconds(n) });
        });
        let steps = [
            step("any", &[], Running(0), (1, 1_000)),
            step("any", &[0], Waiting, (1, 1_000)),
            step("last", &[1], Waiting, (9, 1_000)),
        ];
        let found = successors.expected(&[workflow(&steps)], &Plans::default(), &nodes());
        let sums = (0..13).flat_map(|a| (0..13).map(move |b| seconds(a) + seconds(b)));
        let exact = sums.filter(|sum| *sum <= 300).count() as f64 / 169.0;
        let last = found.iter().find(|step| step.plan == "flow/last").unwrap().chance;
        assert!((last - exact).abs() < 0.06, "{last} of {exact}");
    }

    /// The oracle adds the probability of every combination.
    #[test]
    fn the_quantile_is_that_of_the_sum_of_independent_steps() {
        let steps = [(0.5, 3, 0), (0.1, 7, 1), (0.9, 1, 2), (0.05, 20, 3), (0.3, 3, 4)];
        for level in [0.05, 0.3, 0.5, 0.75, 0.9, 0.95, 0.99] {
            let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
            for subset in 0..1_u32 << steps.len() {
                let (mut sum, mut chance) = (0, 1.0);
                for (at, (likely, count, _)) in steps.iter().enumerate() {
                    let comes = subset >> at & 1 == 1;
                    sum += if comes { *count } else { 0 };
                    chance *= if comes { *likely } else { 1.0 - likely };
                }
                *sums.entry(sum).or_default() += chance;
            }
            let mut below = 0.0;
            let expected = sums.iter().find(|(_, chance)| {
                below += **chance;
                below >= level
            });
            assert_eq!(Some(quantile(&steps, level)), expected.map(|(sum, _)| *sum), "{level}");
        }
        assert_eq!(quantile(&[(0.5, u64::MAX, 0), (0.5, u64::MAX, 1)], 0.99), u64::MAX);
        assert_eq!(quantile(&[(0.95, 1_000_000, 0)], 0.9), 1_000_000);
        // Many small steps beside an improbable large one.
        let small = |at: usize| (0.95, 1, at);
        let mut many: Vec<(f64, u64, usize)> = (0..400).map(small).collect();
        many.push((0.01, 1_000, 400));
        let found = quantile(&many, 0.9);
        assert!((375..=400).contains(&found), "{found}");
        many[400].1 = 100_000;
        assert!(quantile(&many, 0.9) <= 400 + 200);
        assert_eq!(quantile(&[], 0.9), 0);
    }
}
