//! How fast targets move, in the terms of a HorizontalPodAutoscaler's `behavior`. Of several rates the strictest counts.
//!
//! Limits come after this: what an operator caps is capped at once.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};

use crate::plan::Step;
use crate::policy::{Behavior, ScalingRules};
use crate::reason::Reason;

/// What the stabilisers remember, per bucket. Rebuilt by replaying the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    buckets: Vec<Memory>,
}

/// Targets and changes of one bucket, no longer than the longest window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    target: u64,
    /// Targets asked for, falling in value: the first is the highest of the scale-down window.
    highs: VecDeque<(DateTime<Utc>, u64)>,
    /// Targets asked for, rising in value: the first is the lowest of the scale-up window.
    lows: VecDeque<(DateTime<Utc>, u64)>,
    /// Placeholders that came.
    grown: VecDeque<(DateTime<Utc>, u64)>,
    /// Placeholders that went.
    shrunk: VecDeque<(DateTime<Utc>, u64)>,
}

impl Steady {
    /// Lets the target of a bucket move as far as the rules allow; each rule that held it adds its step.
    pub(crate) fn settle(
        &mut self,
        bucket: usize,
        asked: u64,
        behavior: &Behavior,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let Behavior { scale_up, scale_down } = behavior;
        if *scale_up == ScalingRules::default() && *scale_down == ScalingRules::default() {
            return asked;
        }
        if self.buckets.len() <= bucket {
            self.buckets.resize_with(bucket + 1, Memory::default);
        }
        let memory = &mut self.buckets[bucket];
        let target = memory.windowed(asked, scale_up, scale_down, now, why);
        memory.limited(target, scale_up, scale_down, now, why)
    }

    /// Remembers what came of a target once limits and groups had held it.
    pub(crate) fn remember(&mut self, bucket: usize, target: u64, now: DateTime<Utc>) {
        let Some(memory) = self.buckets.get_mut(bucket) else { return };
        let have = std::mem::replace(&mut memory.target, target);
        if target > have {
            memory.grown.push_back((now, target - have));
        } else if target < have {
            memory.shrunk.push_back((now, have - target));
        }
    }
}

impl Memory {
    fn windowed(
        &mut self,
        asked: u64,
        up: &ScalingRules,
        down: &ScalingRules,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let highest =
            extreme(&mut self.highs, (now, asked), down.stabilization_window_seconds, |a, b| a <= b);
        let lowest = extreme(&mut self.lows, (now, asked), up.stabilization_window_seconds, |a, b| a >= b);
        let have = self.target;
        let target = if asked < have { highest.min(have) } else { lowest.max(have) };
        if target > asked {
            why.push(Step { reason: Reason::ScaleDownWindow, target });
        } else if target < asked {
            why.push(Step { reason: Reason::ScaleUpWindow, target });
        }
        let rules = if target < have { down } else { up };
        let change = target.abs_diff(have);
        if change > 0 && have > 0 && change as f64 <= rules.tolerance * have as f64 {
            why.push(Step { reason: Reason::SmallChange, target: have });
            return have;
        }
        target
    }

    fn limited(
        &mut self,
        asked: u64,
        up: &ScalingRules,
        down: &ScalingRules,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let have = self.target;
        let most = have.saturating_add(allowance(&mut self.grown, up, now));
        let least = have.saturating_sub(allowance(&mut self.shrunk, down, now));
        if asked > most {
            why.push(Step { reason: Reason::ScaleUpRate, target: most });
        } else if asked < least {
            why.push(Step { reason: Reason::ScaleDownRate, target: least });
        }
        asked.clamp(least, most)
    }
}

/// Adds `new` to a queue that keeps only what can still be the extreme of its window; returns that extreme.
fn extreme(
    queue: &mut VecDeque<(DateTime<Utc>, u64)>,
    new: (DateTime<Utc>, u64),
    window_seconds: u32,
    gives_way: impl Fn(u64, u64) -> bool,
) -> u64 {
    while queue.back().is_some_and(|&(_, value)| gives_way(value, new.1)) {
        queue.pop_back();
    }
    queue.push_back(new);
    forget(queue, new.0, window_seconds);
    queue.front().map_or(new.1, |&(_, value)| value)
}

/// How many more may come or go now, by the strictest rate.
fn allowance(changes: &mut VecDeque<(DateTime<Utc>, u64)>, rules: &ScalingRules, now: DateTime<Utc>) -> u64 {
    let longest = rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or(0);
    forget(changes, now, longest);
    let left = rules.policies.iter().map(|policy| {
        let since = now - TimeDelta::seconds(policy.period_seconds.into());
        let spent: u64 = changes.iter().filter(|(time, _)| *time > since).map(|(_, n)| n).sum();
        policy.value.saturating_sub(spent)
    });
    left.min().unwrap_or(u64::MAX)
}

fn forget(queue: &mut VecDeque<(DateTime<Utc>, u64)>, now: DateTime<Utc>, window_seconds: u32) {
    let since = now - TimeDelta::seconds(window_seconds.into());
    while queue.len() > 1 && queue.front().is_some_and(|&(time, _)| time <= since) {
        queue.pop_front();
    }
}
