//! Stabilisers: they limit how fast targets move, by the rules of a HorizontalPodAutoscaler's
//! `behavior`. Of several rates the strictest counts.
//!
//! The limits of the policy are applied after the stabilisers, so a limit that an operator lowers
//! takes effect at once.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{BucketId, Catalog};

use crate::policy::{Behavior, ScalingRules, WINDOW_SECONDS_MAX};
use crate::reason::Reason;
use crate::want::Step;

/// The memory of the stabilisers, per bucket. It is restored from the history and from the standing
/// placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// `None` for a bucket without a target so far. Its first target moves away from the number of
    /// standing placeholders.
    buckets: Vec<Option<Memory>>,
}

/// The targets and changes of one bucket, for no longer than the longest window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    target: u64,
    /// Whether the target was read from the history and no decision has been made since.
    is_recalled: bool,
    /// Targets before the stabilisers, in descending order of value. The first is the highest of
    /// the scale-down window.
    highs: VecDeque<(DateTime<Utc>, u64)>,
    /// Targets before the stabilisers, in ascending order of value. The first is the lowest of the
    /// scale-up window.
    lows: VecDeque<(DateTime<Utc>, u64)>,
    /// Times and numbers of added placeholders.
    grown: VecDeque<(DateTime<Utc>, u64)>,
    /// Times and numbers of removed placeholders.
    shrunk: VecDeque<(DateTime<Utc>, u64)>,
}

impl Steady {
    /// Moves the target of a bucket as far as the rules allow. Each rule that limits it adds its
    /// step.
    ///
    /// `wanted` is the target before the stabilisers. `stands` is the number of standing
    /// placeholders of the bucket.
    pub(crate) fn settle(
        &mut self,
        bucket: BucketId,
        wanted: u64,
        stands: u64,
        behavior: &Behavior,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let Behavior { scale_up, scale_down } = behavior;
        let memory = self.memory(bucket).get_or_insert_with(|| Memory::of(stands));
        if std::mem::take(&mut memory.is_recalled) {
            // The standing placeholders may have changed since the history was written.
            memory.target = stands;
        }
        let target = memory.windowed(wanted, scale_up, scale_down, now, why);
        memory.limited(target, scale_up, scale_down, now, why)
    }

    /// Records the final target of a bucket, after the limits and the groups.
    pub(crate) fn remember(&mut self, bucket: BucketId, target: u64, now: DateTime<Utc>) {
        self.memory(bucket).get_or_insert_with(|| Memory::of(target)).follow(target, now);
    }

    /// Records the targets, by bucket, of a time in the past. Calls must be in the order of time.
    ///
    /// The history stores final targets, not targets before the stabilisers. So a window that
    /// limited a target when the history was written can limit it for its length once more.
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

    /// Returns the memory for another catalog. Each bucket keeps its memory by its name.
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
    /// Creates the memory of a bucket whose target is the number of standing placeholders.
    fn of(stands: u64) -> Self {
        Self { target: stands, ..Self::default() }
    }

    /// Records a target before the stabilisers. Returns the highest target of the scale-down window
    /// and the lowest of the scale-up window.
    fn note(
        &mut self,
        wanted: u64,
        down_seconds: u32,
        up_seconds: u32,
        now: DateTime<Utc>,
    ) -> (u64, u64) {
        let highest = extreme(&mut self.highs, (now, wanted), down_seconds, |a, b| a <= b);
        let lowest = extreme(&mut self.lows, (now, wanted), up_seconds, |a, b| a >= b);
        (highest, lowest)
    }

    /// Sets the target and records the change.
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
        wanted: u64,
        up: &ScalingRules,
        down: &ScalingRules,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let (down_seconds, up_seconds) =
            (down.stabilization_window_seconds, up.stabilization_window_seconds);
        let (highest, lowest) = self.note(wanted, down_seconds, up_seconds, now);
        let have = self.target;
        let target = if wanted < have { highest.min(have) } else { lowest.max(have) };
        if target > wanted {
            why.push(Step { reason: Reason::ScaleDownWindow, target });
        } else if target < wanted {
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
        wanted: u64,
        up: &ScalingRules,
        down: &ScalingRules,
        now: DateTime<Utc>,
        why: &mut Vec<Step>,
    ) -> u64 {
        let have = self.target;
        let most = have.saturating_add(allowance(&mut self.grown, up, now));
        let least = have.saturating_sub(allowance(&mut self.shrunk, down, now));
        if wanted > most {
            why.push(Step { reason: Reason::ScaleUpRate, target: most });
        } else if wanted < least {
            why.push(Step { reason: Reason::ScaleDownRate, target: least });
        }
        wanted.clamp(least, most)
    }
}

/// Adds `new` to a queue and returns the extreme value of its window.
///
/// The queue keeps only the values that can still become the extreme. `gives_way(old, new)` is
/// whether `old` cannot.
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

/// Returns how many more placeholders may be added or removed now, by the strictest rate.
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
    // Entries later than `now` were made before the clock went back.
    queue.retain(|&(time, _)| time <= now);
    let since = now - TimeDelta::seconds(window_seconds.into());
    while queue.len() > 1 && queue.front().is_some_and(|&(time, _)| time <= since) {
        queue.pop_front();
    }
}
