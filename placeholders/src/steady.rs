//! How fast targets move, in the terms of a HorizontalPodAutoscaler's `behavior`. Of several rates the strictest counts.
//!
//! Limits come after this: what an operator caps is capped at once.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{BucketId, Catalog};

use crate::policy::{Behavior, ScalingRules, WINDOW_SECONDS_MAX};
use crate::reason::Reason;
use crate::want::Step;

/// What the stabilisers remember, per bucket. Restored from the history and from what stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// `None` of a bucket without a target so far: its first target moves away from what stands.
    buckets: Vec<Option<Memory>>,
}

/// Targets and changes of one bucket, no longer than the longest window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    target: u64,
    /// Whether the target comes from the history, and no decision has been made since.
    is_recalled: bool,
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
    /// `stands` is how many placeholders of the bucket stand or are on their way.
    pub(crate) fn settle(
        &mut self,
        bucket: BucketId,
        asked: u64,
        stands: u64,
        behavior: &Behavior,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let Behavior { scale_up, scale_down } = behavior;
        let memory = self.memory(bucket).get_or_insert_with(|| Memory::of(stands));
        if std::mem::take(&mut memory.is_recalled) {
            // What stands may have changed since the history was written.
            memory.target = stands;
        }
        let target = memory.windowed(asked, scale_up, scale_down, now, why);
        memory.limited(target, scale_up, scale_down, now, why)
    }

    /// Remembers what came of a target once limits and groups had held it.
    pub(crate) fn remember(&mut self, bucket: BucketId, target: u64, now: DateTime<Utc>) {
        self.memory(bucket).get_or_insert_with(|| Memory::of(target)).follow(target, now);
    }

    /// Takes in the targets of a moment of the past, by bucket; moments come in the order of time. The history
    /// keeps targets, not what was asked for before the stabilisers: a window that had held a target up or
    /// back when the history was written can hold it for its length once more.
    pub fn recall(&mut self, targets: &[u64], time: DateTime<Utc>) {
        for (bucket, &target) in targets.iter().enumerate() {
            let memory = self.memory(bucket).get_or_insert_with(|| Memory::of(target));
            memory.is_recalled = true;
            memory.note(target, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MAX, time);
            memory.follow(target, time);
            forget(&mut memory.grown, time, WINDOW_SECONDS_MAX);
            forget(&mut memory.shrunk, time, WINDOW_SECONDS_MAX);
        }
    }

    /// The same for another catalog: each bucket keeps its memory by its name.
    #[must_use]
    pub fn renumbered(&self, from: &Catalog, to: &Catalog) -> Self {
        let place = |name: &str| from.buckets().iter().position(|bucket| bucket.name == name);
        let memory = |name: &str| self.buckets.get(place(name)?).cloned().flatten();
        Self { buckets: to.buckets().iter().map(|bucket| memory(&bucket.name)).collect() }
    }

    fn memory(&mut self, bucket: BucketId) -> &mut Option<Memory> {
        if self.buckets.len() <= bucket {
            self.buckets.resize_with(bucket + 1, || None);
        }
        &mut self.buckets[bucket]
    }
}

impl Memory {
    /// Of a bucket whose target is what stands.
    fn of(stands: u64) -> Self {
        Self { target: stands, ..Self::default() }
    }

    /// Notes a target that was asked for; returns the highest and the lowest of the windows.
    fn note(
        &mut self,
        asked: u64,
        down_seconds: u32,
        up_seconds: u32,
        now: DateTime<Utc>,
    ) -> (u64, u64) {
        let highest = extreme(&mut self.highs, (now, asked), down_seconds, |a, b| a <= b);
        let lowest = extreme(&mut self.lows, (now, asked), up_seconds, |a, b| a >= b);
        (highest, lowest)
    }

    /// Moves the target, and remembers by how much.
    fn follow(&mut self, target: u64, now: DateTime<Utc>) {
        let have = std::mem::replace(&mut self.target, target);
        if target > have {
            self.grown.push_back((now, target - have));
        } else if target < have {
            self.shrunk.push_back((now, have - target));
        }
    }

    fn windowed(
        &mut self,
        asked: u64,
        up: &ScalingRules,
        down: &ScalingRules,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let (down_seconds, up_seconds) =
            (down.stabilization_window_seconds, up.stabilization_window_seconds);
        let (highest, lowest) = self.note(asked, down_seconds, up_seconds, now);
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
fn allowance(
    changes: &mut VecDeque<(DateTime<Utc>, u64)>,
    rules: &ScalingRules,
    now: DateTime<Utc>,
) -> u64 {
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
