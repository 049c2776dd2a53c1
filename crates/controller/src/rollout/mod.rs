//! A rollout: at first, only a part of the placeholders stands. The part grows step by step while
//! the service level and the cost allow it. Otherwise it goes back one step, and stays there until
//! the policy changes.
//!
//! Autopilot rolls out its recommendations in the same way (Rzadca et al. 2020, section 4): to a
//! part first, and back by itself. All decisions read the recorded ticks, so that a restart with a
//! stored history changes none of them.
//!
//! ```text
//! mod.rs    the steps, and what follows a step
//! level.rs  the service level of some pods, and the interval of a difference
//! ```

mod level;

use std::fmt;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use demand::record::{History, Tick};
use embedder::MicroDollars;
use level::Starts;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::crd::{RolloutPhase as Phase, RolloutStatus};

/// The settings of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// The percentages of the targets that stand, one step after the other: ascending, from 1 to
    /// 100, at least one.
    pub steps: Vec<u8>,
    /// The shortest duration of a step, in seconds, above 0.
    pub step_seconds: i64,
    /// The most that the placeholders on nodes may cost on average over a step, in dollars per
    /// hour.
    pub spend_cap: Option<f64>,
    /// Whether one of every two days has no placeholders until the rollout is complete. These
    /// control days are what the other days are compared with.
    pub control_days: bool,
}

/// The present step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The percentage of the targets that stands. 0 after the first step went back.
    pub percent: u8,
    /// Whether the rollout goes on after the step.
    pub phase: Phase,
    /// The beginning of the step.
    pub since: DateTime<Utc>,
    /// The generation of the policy at the last turn.
    pub generation: i64,
    /// Why the step began, for people.
    pub why: String,
}

impl Step {
    /// Returns the step that a policy's status of this generation has. `None` if its time is
    /// invalid.
    pub fn recalled(status: &RolloutStatus, generation: i64) -> Option<Self> {
        let RolloutStatus { percent, phase, since, message, measured: _ } = status;
        let since = DateTime::parse_from_rfc3339(since).ok()?.to_utc();
        Some(Self { percent: *percent, phase: *phase, since, generation, why: message.clone() })
    }

    /// Returns the status of the step. `measured` is empty until the first tick after a start.
    pub fn status(&self, measured: Option<&Measured>) -> RolloutStatus {
        let Self { percent, phase, since, generation: _, why } = self;
        RolloutStatus {
            percent: *percent,
            phase: *phase,
            since: since.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            message: why.clone(),
            measured: measured.map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// What was measured since the beginning of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Pods that started, without those of control days.
    pub pods: u64,
    /// Their service level: the fraction that waited no longer than one scan of the autoscaler.
    pub level: Option<f64>,
    /// Pods that started on control days, or without them, in the equally long time before the
    /// step.
    pub reference_pods: u64,
    /// The service level of those pods.
    pub reference_level: Option<f64>,
    /// The 95 % confidence interval of the difference of the two service levels. `None` if pods
    /// started in too few parts of the time.
    pub interval: Option<(f64, f64)>,
    /// The mean cost of the placeholders on nodes, in dollars per hour, without control days.
    pub dollars_per_hour: f64,
    /// Whether the placeholders of the reference cost more, as after a larger part that cost too
    /// much. Its service level is then no evidence against the step.
    pub reference_costs_more: bool,
}

/// The fewest pods from which a step is judged. Until so many pods started, the step goes on.
const PODS_MIN: u64 = 20;

/// The number of parts of a step between which pods vary, for the interval of a difference. With
/// control days, the parts are days.
const PARTS: i64 = 24;

const DAY: i64 = 86_400;

impl Rollout {
    /// Returns the first step.
    pub fn begin(&self, generation: i64, now: DateTime<Utc>) -> Step {
        let percent = self.steps.first().copied().unwrap_or(100);
        let why = format!("the rollout began with {percent} %");
        Step { percent, phase: Phase::Progressing, since: now, generation, why }
    }

    /// Returns the step that goes on from `step` if the policy has changed since a step back.
    pub fn resume(&self, step: &Step, generation: i64, now: DateTime<Utc>) -> Option<Step> {
        (step.phase == Phase::WentBack && step.generation != generation).then(|| {
            let percent = step.percent.min(self.last());
            let why = format!("goes on at {percent} %, because the policy changed");
            Step { percent, phase: Phase::Progressing, since: now, generation, why }
        })
    }

    /// Returns the percentage of the targets that stands at `now`. `None` if all of it does.
    pub fn percent(&self, step: &Step, now: DateTime<Utc>) -> Option<u8> {
        let percent = step.percent.min(self.last());
        let control = self.control_days && !self.is_complete(step) && is_control_day(now);
        Some(if control { 0 } else { percent }).filter(|percent| *percent < 100)
    }

    /// Whether no step follows.
    pub fn is_complete(&self, step: &Step) -> bool {
        step.phase == Phase::Complete && step.percent >= self.last()
    }

    /// Returns the step that follows `step` at `now`, or `None` while the step goes on.
    pub fn next(&self, step: &Step, measured: &Measured, now: DateTime<Utc>) -> Option<Step> {
        let is_over = now - step.since >= TimeDelta::seconds(self.step_seconds);
        if !is_over || step.phase == Phase::WentBack || self.is_complete(step) {
            return None;
        }
        let percent = step.percent.min(self.last());
        let to = |percent, phase, why: String| {
            let generation = step.generation;
            Some(Step { percent, phase, since: now, generation, why: format!("{why}: {measured}") })
        };
        let too_dear = self.spend_cap.filter(|cap| measured.dollars_per_hour > *cap);
        let against = match too_dear {
            Some(cap) => Some(format!("placeholders cost more than ${cap:.2} per hour")),
            // A step without placeholders has no effect to judge.
            None if percent > 0 && measured.pods < PODS_MIN => return None,
            None => (percent > 0 && measured.is_worse())
                .then(|| "the service level is lower than that of the compared pods".to_owned()),
        };
        if let Some(against) = against {
            let smaller = self.steps.iter().rev().find(|step| **step < percent);
            let smaller = smaller.copied().unwrap_or(0);
            let why = format!("went back from {percent} % to {smaller} %, because {against}");
            return to(smaller, Phase::WentBack, why);
        }
        match self.steps.iter().find(|step| **step > percent) {
            Some(&step) => to(step, Phase::Progressing, format!("went on to {step} %")),
            None => to(percent, Phase::Complete, format!("the rollout is complete at {percent} %")),
        }
    }

    /// Measures the step from the recorded ticks. `hourly` is the price of a node of each bucket.
    pub fn measure(&self, step: &Step, history: &History, hourly: &[MicroDollars]) -> Measured {
        let part_seconds = if self.control_days { DAY } else { (self.step_seconds / PARTS).max(1) };
        let before = step.since - TimeDelta::seconds(self.step_seconds);
        let (mut ours, mut reference) = (Starts::default(), Starts::default());
        let (mut our_costs, mut reference_costs) = (Mean::default(), Mean::default());
        let since = history.latest(history.len()).rev().take_while(|tick| tick.time > before);
        for tick in since {
            let part = tick.time.timestamp().div_euclid(part_seconds);
            if tick.time > step.since && !(self.control_days && is_control_day(tick.time)) {
                ours.add(part, tick);
                our_costs.add(cost(tick, hourly));
            } else if (tick.time > step.since) == self.control_days {
                reference.add(part, tick);
                reference_costs.add(cost(tick, hourly));
            }
        }
        Measured {
            pods: ours.pods(),
            level: ours.level(),
            reference_pods: reference.pods(),
            reference_level: reference.level(),
            interval: ours.difference(&reference),
            dollars_per_hour: our_costs.mean(),
            reference_costs_more: reference_costs.mean() > our_costs.mean(),
        }
    }

    fn last(&self) -> u8 {
        self.steps.last().copied().unwrap_or(100)
    }
}

impl Measured {
    /// Whether the service level is lower than that of the reference, beyond chance.
    fn is_worse(&self) -> bool {
        self.reference_pods >= PODS_MIN
            && !self.reference_costs_more
            && self.interval.is_some_and(|(_, high)| high < 0.0)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, level, reference_pods, reference_level, interval, .. } = self;
        match level {
            Some(level) => write!(f, "the service level of {pods} pods is {:.1} %", 100.0 * level)?,
            None => f.write_str("no pod started")?,
        }
        if let Some(level) = reference_level {
            write!(f, ", that of {reference_pods} compared pods is {:.1} %", 100.0 * level)?;
        }
        if let Some((low, high)) = interval {
            write!(f, " (difference {:+.1} to {:+.1} points)", 100.0 * low, 100.0 * high)?;
        }
        write!(f, ", and placeholders cost ${:.2} per hour", self.dollars_per_hour)
    }
}

/// The mean of numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    numbers: u32,
}

impl Mean {
    fn add(&mut self, number: f64) {
        self.sum += number;
        self.numbers += 1;
    }

    /// 0 without numbers.
    fn mean(self) -> f64 {
        if self.numbers > 0 { self.sum / f64::from(self.numbers) } else { 0.0 }
    }
}

/// Whether a day in UTC is the control day of its two days. It follows from the date alone, so that
/// a restart, another replica and a reader of the history find the same days. It is drawn for each
/// two days, because a fixed order could coincide with the days of the week.
fn is_control_day(time: DateTime<Utc>) -> bool {
    let day = time.timestamp().div_euclid(DAY);
    let second = Pcg64Mcg::seed_from_u64(day.div_euclid(2).cast_unsigned()).random::<bool>();
    (day.rem_euclid(2) == 1) == second
}

/// The cost of the placeholders on nodes at a tick, in dollars per hour.
fn cost(tick: &Tick, hourly: &[MicroDollars]) -> f64 {
    let of_bucket = tick.buckets.iter().zip(hourly);
    of_bucket.map(|(bucket, price)| price.times(bucket.ready).dollars()).sum()
}

#[cfg(test)]
mod tests;
