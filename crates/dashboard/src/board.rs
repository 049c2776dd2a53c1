//! The state of the dashboard.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use placeholders::Step;

use super::series::{Range, Series};
use super::view::{BucketView, CURVES, PolicyView};

/// The decisions that are kept, over all policies.
const DECISIONS_MAX: usize = 100;
/// The most buckets that are kept, over all policies. A bucket takes about 35 kB, so all of them
/// take 70 MB.
const BUCKETS_MAX: usize = 2_000;
/// The most policies that are kept.
const POLICIES_MAX: usize = 50;

/// The texts of a dashboard.
#[derive(Clone, Copy, Debug)]
pub struct Captions {
    /// The title of the page.
    pub title: &'static str,
    /// What the page shows.
    pub lead: &'static str,
    /// The curves of each policy.
    pub curves: [Curve; CURVES],
    /// What the nodes of a bucket that are ready and launching are.
    pub nodes: &'static str,
    /// The time that is shown until a browser selects another.
    pub range: Range,
}

/// A curve of each policy.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// The heading above its plot, with which the text for screen readers begins, too.
    pub title: &'static str,
    /// The unit on its axis.
    pub unit: &'static str,
}

/// The values of a bucket that are kept over time.
pub(super) const DEMAND: usize = 0;
pub(super) const TARGET: usize = 1;
pub(super) const PLACEHOLDERS: usize = 2;
pub(super) const READY: usize = 3;
pub(super) const LAUNCHING: usize = 4;
/// The median, the 0.9 and the 0.99 quantile of the forecast, on top of demand.
pub(super) const BAND: [usize; 3] = [5, 6, 7];
const BUCKET_VALUES: usize = 8;

/// The last views, the series and the last decisions of all policies.
pub struct Dashboard {
    pub(super) captions: Captions,
    /// A page is rendered from the state of a moment, without the lock, so that it does not delay
    /// the controller.
    state: Mutex<Arc<State>>,
    changed: Condvar,
}

#[derive(Clone, Default)]
pub(super) struct State {
    /// The number of changes so far.
    pub(super) version: u64,
    /// The last moment of all views, in seconds.
    pub(super) now: i64,
    pub(super) headline: String,
    pub(super) policies: Vec<Arc<PolicyState>>,
    /// The last decisions, the newest first.
    pub(super) decisions: VecDeque<Arc<Decision>>,
}

/// A policy: its last view, and its values over time.
#[derive(Clone, Default)]
pub(super) struct PolicyState {
    pub(super) view: PolicyView,
    pub(super) curves: Series<CURVES>,
    pub(super) buckets: BTreeMap<String, Series<BUCKET_VALUES>>,
}

/// A change of a target.
pub(super) struct Decision {
    pub(super) time: i64,
    pub(super) policy: String,
    pub(super) bucket: String,
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) why: Vec<Step>,
}

impl Dashboard {
    /// A dashboard without policies.
    pub fn new(captions: Captions) -> Self {
        Self { captions, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Sets the lines at the top of the page.
    pub fn headline(&self, text: String) {
        self.change(|state| state.headline = text);
    }

    /// Adds the view of a policy at a moment.
    pub fn note(&self, view: PolicyView) {
        self.change(|state| state.note(view));
    }

    /// Adds a tick of a policy's history, oldest first, before its first view: by bucket, its
    /// demand, target and placeholders.
    pub fn recall(&self, policy: &str, time: i64, tick_seconds: i64, buckets: &[(&str, [u64; 3])]) {
        self.change(|state| {
            let Some((known, room)) = state.policy(policy) else { return };
            for (name, [demand, target, placeholders]) in buckets {
                let mut values = [f64::NAN; BUCKET_VALUES];
                values[DEMAND] = *demand as f64;
                values[TARGET] = *target as f64;
                values[PLACEHOLDERS] = *placeholders as f64;
                known.bucket_note(name, (time, tick_seconds), values, room);
            }
        });
    }

    /// Removes the policies for which `stays` is false.
    pub fn keep(&self, stays: impl Fn(&str) -> bool) {
        self.change(|state| state.policies.retain(|policy| stays(&policy.view.name)));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.locked();
        // Changes the state in place, unless a page is being rendered from it. In that case
        // `make_mut` copies the state first.
        let changed = Arc::make_mut(&mut state);
        change(changed);
        changed.version += 1;
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, Arc<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of this moment.
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.locked())
    }

    /// Waits until the version is no longer `version`, at most for `time`, and returns the state.
    pub(super) fn wait(&self, version: u64, time: Duration) -> Arc<State> {
        let unchanged = |state: &mut Arc<State>| state.version == version;
        let waited = self.changed.wait_timeout_while(self.locked(), time, unchanged);
        Arc::clone(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl State {
    /// The policy of this name, which is added if there is room, and the most buckets that it may
    /// have.
    fn policy(&mut self, name: &str) -> Option<(&mut PolicyState, usize)> {
        let at = self.policies.iter().position(|policy| policy.view.name == name);
        if at.is_none() && self.policies.len() < POLICIES_MAX {
            let view = PolicyView { name: name.into(), ..PolicyView::default() };
            self.policies.push(Arc::new(PolicyState { view, ..PolicyState::default() }));
        }
        let others = self.policies.iter().filter(|policy| policy.view.name != name);
        let room = BUCKETS_MAX.saturating_sub(others.map(|policy| policy.buckets.len()).sum());
        let policy = self.policies.iter_mut().find(|policy| policy.view.name == name)?;
        Some((Arc::make_mut(policy), room))
    }

    fn note(&mut self, mut view: PolicyView) {
        let Some((policy, room)) = self.policy(&view.name) else { return };
        view.buckets.truncate(room);
        let moment = (view.time, view.tick_seconds);
        policy.curves.note(moment.0, moment.1, view.curves);
        let mut decisions = Vec::new();
        for bucket in &view.buckets {
            policy.bucket_note(&bucket.name, moment, values(bucket), room);
            decisions.extend(decision(&policy.view, &view, bucket));
        }
        // Without a turn, the buckets of the last one stay.
        if view.buckets.is_empty() {
            view.buckets = std::mem::take(&mut policy.view.buckets);
        }
        let names: Vec<&str> = view.buckets.iter().map(|bucket| bucket.name.as_str()).collect();
        if !names.is_empty() {
            policy.buckets.retain(|name, _| names.contains(&name.as_str()));
        }
        let time = view.time;
        policy.view = view;
        self.now = self.now.max(time);
        for decision in decisions {
            self.decisions.push_front(Arc::new(decision));
        }
        self.decisions.truncate(DECISIONS_MAX);
    }
}

impl PolicyState {
    /// Adds the values of a bucket at a time, with the length of a tick. A new bucket is left out
    /// if there are `room` buckets already.
    fn bucket_note(
        &mut self,
        name: &str,
        (time, tick_seconds): (i64, i64),
        values: [f64; BUCKET_VALUES],
        room: usize,
    ) {
        if let Some(series) = self.buckets.get_mut(name) {
            series.note(time, tick_seconds, values);
        } else if self.buckets.len() < room {
            self.buckets.entry(name.into()).or_default().note(time, tick_seconds, values);
        }
    }
}

/// The decision of a view of a bucket, if its target changed. The first view of a bucket has none,
/// because an earlier process may have decided.
fn decision(before: &PolicyView, view: &PolicyView, bucket: &BucketView) -> Option<Decision> {
    let before = before.buckets.iter().find(|known| known.name == bucket.name)?.target;
    (before != bucket.target).then(|| Decision {
        time: view.time,
        policy: view.name.clone(),
        bucket: bucket.name.clone(),
        before,
        after: bucket.target,
        why: bucket.steps.clone(),
    })
}

fn values(bucket: &BucketView) -> [f64; BUCKET_VALUES] {
    let mut values = [f64::NAN; BUCKET_VALUES];
    values[DEMAND] = bucket.demand as f64;
    values[TARGET] = bucket.target as f64;
    values[PLACEHOLDERS] = bucket.placeholders as f64;
    values[READY] = bucket.ready as f64;
    values[LAUNCHING] = bucket.launching as f64;
    for (at, quantile) in BAND.into_iter().zip(bucket.band.into_iter().flatten()) {
        values[at] = (bucket.demand + quantile) as f64;
    }
    values
}

#[cfg(test)]
mod tests {
    use placeholders::Reason;

    use super::*;

    fn view(time: i64, buckets: &[(&str, u64)]) -> PolicyView {
        let bucket = |(name, target): &(&str, u64)| BucketView {
            name: (*name).into(),
            target: *target,
            steps: vec![Step { reason: Reason::Forecast, target: *target }],
            ..BucketView::default()
        };
        let buckets = buckets.iter().map(bucket).collect();
        PolicyView { name: "batch".into(), time, buckets, ..PolicyView::default() }
    }

    fn dashboard() -> Dashboard {
        let curve = Curve { title: "nodes", unit: "nodes" };
        Dashboard::new(Captions {
            title: "",
            lead: "",
            curves: [curve; CURVES],
            nodes: "",
            range: Range::Day,
        })
    }

    #[test]
    fn a_changed_target_is_a_decision_and_the_last_hundred_stay() {
        let dashboard = dashboard();
        for (time, target) in [(60, 1), (120, 1), (180, 2)] {
            dashboard.note(view(time, &[("small", target), ("large", 0)]));
        }
        let changes = |dashboard: &Dashboard| -> Vec<(i64, u64, u64)> {
            let state = dashboard.state();
            state.decisions.iter().map(|made| (made.time, made.before, made.after)).collect()
        };
        assert_eq!(changes(&dashboard), [(180, 1, 2)]);
        for time in 4..300 {
            dashboard.note(view(60 * time, &[("small", u64::from(time % 2 == 0))]));
        }
        assert_eq!(changes(&dashboard).len(), DECISIONS_MAX);
    }

    #[test]
    fn a_page_that_is_being_rendered_delays_no_view() {
        let dashboard = dashboard();
        dashboard.note(view(60, &[("small", 1)]));
        let rendered = dashboard.state();
        dashboard.note(view(120, &[("small", 2)]));
        let targets = |state: &State| state.policies[0].view.buckets[0].target;
        assert_eq!((targets(&rendered), targets(&dashboard.state())), (1, 2));
    }

    #[test]
    fn all_policies_together_have_a_limited_number_of_buckets() {
        let dashboard = dashboard();
        let names: Vec<String> = (0..1_500).map(|at| format!("bucket-{at}")).collect();
        let buckets: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        for policy in ["one", "two", "three"] {
            dashboard.note(PolicyView { name: policy.into(), ..view(60, &buckets) });
        }
        let state = dashboard.state();
        let kept: Vec<usize> = state.policies.iter().map(|policy| policy.buckets.len()).collect();
        assert_eq!(kept, [1_500, 500, 0]);
    }

    #[test]
    fn buckets_that_are_no_longer_on_offer_are_dropped_unless_there_was_no_turn() {
        let dashboard = dashboard();
        dashboard.recall("batch", 0, 60, &[("gone", [1, 0, 0]), ("small", [2, 1, 1])]);
        dashboard.note(view(60, &[("small", 1)]));
        dashboard.note(view(120, &[]));
        let state = dashboard.state();
        let policy = &state.policies[0];
        assert_eq!(policy.buckets.keys().collect::<Vec<_>>(), ["small"]);
        assert_eq!(policy.view.buckets[0].target, 1);
        let demand = policy.buckets["small"].points(Range::Hour, DEMAND, 120);
        assert_eq!(demand, [(0.0, 2.0), (60.0, 0.0)]);
    }
}
