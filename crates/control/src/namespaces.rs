//! What each namespace submitted, and which share of the headroom stands for it.
//!
//! A forecast is of the arrivals of all namespaces together. A namespace that submits no more is
//! forgotten an hour after its usual gap, and while several namespaces submit, the headroom for one
//! of them is at most a share of the limits of the policy. So one namespace cannot hold the
//! placeholders of all others, and not for longer than it submits.
//!
//! Which part of a forecast is for a namespace is not known, because the methods do not tell
//! namespaces apart. It is taken to be its part of what was submitted, of which that of a day ago
//! counts half. So a namespace that submits at other hours than the others has too small or too
//! large a part at some hours.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::Outlook;
use demand::record::{NamespaceArrivals, Tick};
use embedder::Catalog;
use placeholders::{LimitShare, Policy, Prices, Reason};

/// How long after its usual gap a namespace that submits nothing is forgotten.
const PATIENCE: TimeDelta = TimeDelta::hours(1);

/// The usual gap of a namespace is the longest one that ended in this number of days: two weeks, so
/// that nights, weekends and a holiday do not make it forgotten.
const GAP_DAYS: i64 = 14;

/// The hours in which the weight of what was submitted halves.
const HALF_LIFE_HOURS: f64 = 24.0;

/// The longest time between two ticks that counts as silence: an hour, the longest tick. While the
/// controller does not run, nobody is known to be silent.
const UNSEEN: TimeDelta = TimeDelta::hours(1);

/// The most namespaces that are known. The one that has been silent for longest goes first.
const NAMESPACES_MAX: usize = 1_000;

/// What the namespaces submitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces {
    known: BTreeMap<String, Namespace>,
    /// The last tick, and the time that was observed until then.
    seen: Option<(DateTime<Utc>, TimeDelta)>,
}

/// What one namespace submitted.
#[derive(Clone, Debug)]
struct Namespace {
    /// By bucket: the instances that its pods fill, at the time `last`. What was submitted before
    /// weighs less.
    instances: Vec<f64>,
    /// The last tick before which it submitted pods, and the time that was observed until then.
    last: (DateTime<Utc>, TimeDelta),
    /// The longest observed gap between two ticks with pods, by the day on which it ended.
    gaps: BTreeMap<i64, TimeDelta>,
}

impl Namespace {
    /// By bucket: the weight of what was submitted, at this time.
    fn weights(&self, now: DateTime<Utc>) -> impl Iterator<Item = f64> {
        let hours = (now - self.last.0).num_seconds().max(0) as f64 / 3_600.0;
        let factor = (-hours / HALF_LIFE_HOURS).exp2();
        self.instances.iter().map(move |instances| instances * factor)
    }

    /// `observed` is the time that was observed until now.
    fn is_forgotten(&self, observed: TimeDelta) -> bool {
        let usual = self.gaps.values().max().copied().unwrap_or_default();
        observed - self.last.1 > usual + PATIENCE
    }

    /// Notes that pods were submitted until a tick.
    fn submitted(&mut self, (time, observed): (DateTime<Utc>, TimeDelta)) {
        if time <= self.last.0 {
            return;
        }
        self.instances = self.weights(time).collect();
        let gap = observed - self.last.1;
        let day = time.timestamp().div_euclid(86_400);
        let longest = self.gaps.entry(day).or_insert(gap);
        *longest = gap.max(*longest);
        self.gaps.retain(|ended, _| day - *ended < GAP_DAYS);
        self.last = (time, observed);
    }
}

impl Namespaces {
    /// Learns from a tick; ticks come in the order of time. `buckets` is the number of buckets.
    pub(crate) fn learn(&mut self, tick: &Tick, buckets: usize) {
        let seen = (tick.time, self.observed(tick.time));
        self.seen = Some(seen);
        for NamespaceArrivals { bucket, namespace, millis } in &tick.namespaces {
            if !self.known.contains_key(namespace) {
                self.make_room();
                let (instances, gaps) = (vec![0.0; buckets], BTreeMap::new());
                let new = Namespace { instances, last: seen, gaps };
                self.known.insert(namespace.clone(), new);
            }
            let Some(known) = self.known.get_mut(namespace) else { continue };
            known.submitted(seen);
            if let Some(instances) = known.instances.get_mut(*bucket) {
                *instances += *millis as f64 / 1_000.0;
            }
        }
    }

    /// The time that was observed until now: of a pause between two ticks, [`UNSEEN`] at most.
    fn observed(&self, now: DateTime<Utc>) -> TimeDelta {
        let since = |(last, observed): (DateTime<Utc>, TimeDelta)| {
            observed + (now - last).clamp(TimeDelta::zero(), UNSEEN)
        };
        self.seen.map_or(TimeDelta::zero(), since)
    }

    /// Forgets the namespace that has been silent for longest, if there are too many.
    fn make_room(&mut self) {
        if self.known.len() < NAMESPACES_MAX {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.last);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.known.remove(&name);
        }
    }

    /// Lowers the share of each bucket's headroom to what the namespaces may have of it.
    pub(crate) fn weigh(
        &self,
        outlook: &mut Outlook,
        catalog: &Catalog,
        policy: &Policy,
        now: DateTime<Utc>,
    ) {
        let Some(share) = policy.namespace_share else { return };
        if self.known.is_empty() {
            return;
        }
        let observed = self.observed(now);
        let prices = Prices::new(policy.objective, catalog);
        let headroom: Vec<f64> = outlook
            .buckets
            .iter()
            .enumerate()
            .map(|(id, bucket)| bucket.headroom(prices.quantile(id)) as f64)
            .collect();
        let mut sums = vec![0.0; headroom.len()];
        for known in self.known.values() {
            sums.iter_mut().zip(known.weights(now)).for_each(|(sum, weight)| *sum += weight);
        }
        let submitting: Vec<&Namespace> =
            self.known.values().filter(|known| !known.is_forgotten(observed)).collect();
        let most =
            if submitting.len() > 1 { policy.limits.share(share) } else { LimitShare::default() };
        let mut shares = vec![0.0; headroom.len()];
        for known in &submitting {
            let ratio = |(weight, sum): (f64, &f64)| if *sum > 0.0 { weight / sum } else { 0.0 };
            let ratios: Vec<f64> = known.weights(now).zip(&sums).map(ratio).collect();
            let held: Vec<f64> =
                ratios.iter().zip(&headroom).map(|(ratio, nodes)| ratio * nodes).collect();
            let part = part(&held, most, catalog);
            shares.iter_mut().zip(ratios).for_each(|(share, ratio)| *share += ratio * part);
        }
        let buckets = outlook.buckets.iter_mut().zip(shares).zip(sums);
        // The sum of all parts differs from 1 by rounding. The ladder and the rule of thumb are not
        // learnt from namespaces.
        let lowered = buckets.filter(|((bucket, share), sum)| {
            bucket.reason == Reason::Forecast && *sum > 0.0 && *share < 1.0 - 1e-9
        });
        for ((bucket, share), _) in lowered {
            (bucket.share, bucket.reason) = (share, Reason::NamespaceShare);
        }
    }
}

/// The part of `held`, the placeholders for one namespace by bucket, that its share of the limits
/// allows, in [0, 1].
fn part(held: &[f64], most: LimitShare, catalog: &Catalog) -> f64 {
    let nodes: f64 = held.iter().sum();
    let hourly = held.iter().zip(catalog.buckets());
    let dollars: f64 = hourly.map(|(nodes, bucket)| nodes * bucket.hourly.dollars()).sum();
    let within = |most: Option<f64>, held: f64| {
        most.filter(|most| *most < held).map_or(1.0, |most| most / held)
    };
    within(most.placeholders, nodes).min(within(most.dollars, dollars))
}

#[cfg(test)]
mod tests {
    use demand::forecast::{BucketOutlook, Distribution, sample};
    use placeholders::Limits;

    use super::*;

    /// A namespace that submits pods: its name, the bucket, the first and the last minute and the
    /// minutes between, and the instances that the pods of each time fill.
    type Submitted = (&'static str, usize, [i64; 3], u64);

    const DAY: i64 = 1_440;

    fn learnt(all: &[Submitted]) -> Namespaces {
        learnt_with(all, BTreeMap::new())
    }

    /// As [`learnt`], with a tick every minute until this one.
    fn learnt_until(all: &[Submitted], end: i64) -> Namespaces {
        learnt_with(all, (0..end).map(|minute| (minute, vec![])).collect())
    }

    fn learnt_with(
        all: &[Submitted],
        mut ticks: BTreeMap<i64, Vec<NamespaceArrivals>>,
    ) -> Namespaces {
        for &(name, bucket, [first, last, every], instances) in all {
            let mut minute = first;
            while minute <= last {
                let (namespace, millis) = (name.to_owned(), 1_000 * instances);
                let arrivals = NamespaceArrivals { bucket, namespace, millis };
                ticks.entry(minute).or_default().push(arrivals);
                minute += every;
            }
        }
        let mut known = Namespaces::default();
        for (minute, namespaces) in ticks {
            known.learn(&Tick { namespaces, ..sample::tick(minute, vec![]) }, 2);
        }
        known
    }

    /// What is left of a headroom of 100 nodes of a dollar and 10 nodes of four dollars.
    fn headroom(known: &Namespaces, minute: i64, limits: Limits, share: Option<f64>) -> [u64; 2] {
        let catalog = testkit::catalog([("small", 4_000, 1.0), ("large", 16_000, 4.0)]);
        let certain = [100, 10]
            .map(|nodes| BucketOutlook::new(Distribution::certain(nodes), Reason::Forecast));
        let mut outlook = Outlook { buckets: certain.to_vec() };
        let policy = Policy { limits, namespace_share: share, ..Policy::default() };
        let now = sample::tick(minute, vec![]).time;
        known.weigh(&mut outlook, &catalog, &policy, now);
        for bucket in &outlook.buckets {
            assert_eq!(bucket.share < 1.0, bucket.reason == Reason::NamespaceShare, "{bucket:?}");
        }
        [0, 1].map(|id| outlook.buckets[id].headroom(0.9))
    }

    fn of(total: Option<u64>, dollars_per_hour: Option<f64>) -> Limits {
        Limits { total, dollars_per_hour, ..Limits::default() }
    }

    /// Checks what is left without limits, at this minute.
    #[track_caller]
    fn check_forgotten(all: &[Submitted], minute: i64, expected: [u64; 2]) {
        let known = learnt_until(all, minute);
        assert_eq!(headroom(&known, minute, of(None, None), Some(0.5)), expected, "{all:?}");
    }

    #[test]
    fn a_namespace_that_submits_no_more_is_forgotten_an_hour_after_its_usual_gap() {
        let half_hourly = [("a", 0, [0, DAY, 30], 8)];
        check_forgotten(&half_hourly, DAY + 90, [100, 10]);
        check_forgotten(&half_hourly, DAY + 91, [0, 10]);
        // It paused for a night before.
        let nights = [("a", 0, [0, 480, 30], 8), ("a", 0, [DAY, DAY + 480, 30], 8)];
        check_forgotten(&nights, 2 * DAY, [100, 10]);
        check_forgotten(&nights, 2 * DAY + 480 + 61, [0, 10]);
        check_forgotten(&[("a", 0, [0, 0, 1], 8)], 60, [100, 10]);
        check_forgotten(&[("a", 0, [0, 0, 1], 8)], 61, [0, 10]);
        // A gap of three weeks ago does not count.
        let later = [("a", 0, [0, 0, 1], 1), ("a", 0, [5 * DAY, 30 * DAY, 30], 1)];
        check_forgotten(&later, 30 * DAY + 91, [0, 10]);
        // Nobody was observed for a day, of which an hour counts.
        let unseen = learnt(&[("a", 0, [0, 0, 1], 8)]);
        assert_eq!(headroom(&unseen, DAY, of(None, None), Some(0.5)), [100, 10]);
        // Another namespace has a quarter of what was submitted.
        let two = [("a", 0, [0, DAY, 30], 3), ("b", 0, [0, DAY + 60, 30], 1)];
        check_forgotten(&two, DAY + 91, [27, 10]);
        check_forgotten(&[], 0, [100, 10]);
    }

    #[test]
    fn of_several_namespaces_none_has_more_than_its_share_of_the_limits() {
        let many = Limits::default;
        let two = learnt(&[("a", 0, [0, DAY, 30], 9), ("b", 0, [0, DAY, 30], 1)]);
        let of_two = |limits, share| headroom(&two, DAY, limits, share);
        assert_eq!(of_two(many(), Some(0.5)), [100, 10]);
        // 90 of the 100 nodes are for one namespace, which may have 50 of the limit of 100.
        assert_eq!(of_two(of(Some(100), None), Some(0.5)), [60, 10]);
        assert_eq!(of_two(of(Some(100), None), Some(1.0)), [100, 10]);
        assert_eq!(of_two(of(Some(100), None), None), [100, 10]);
        assert_eq!(of_two(of(None, Some(60.0)), Some(0.5)), [40, 10]);
        assert_eq!(of_two(of(Some(0), None), Some(0.5)), [0, 10]);
        let alone = learnt(&[("a", 0, [0, DAY, 30], 9)]);
        assert_eq!(headroom(&alone, DAY, of(Some(100), None), Some(0.5)), [100, 10]);
        // The dollars of all buckets of a namespace count together.
        let both = learnt(&[
            ("a", 0, [0, DAY, 30], 1),
            ("a", 1, [0, DAY, 30], 1),
            ("b", 1, [0, DAY, 30], 1),
        ]);
        assert_eq!(headroom(&both, DAY, of(None, Some(120.0)), Some(0.5)), [50, 8]);
    }

    #[test]
    fn a_limited_number_of_namespaces_is_known() {
        let mut known = Namespaces::default();
        for minute in 0..2_000 {
            let namespace = format!("n{minute}");
            let arrivals = NamespaceArrivals { bucket: 0, namespace, millis: u64::MAX };
            known.learn(&Tick { namespaces: vec![arrivals], ..sample::tick(minute, vec![]) }, 2);
        }
        assert_eq!(known.known.len(), NAMESPACES_MAX);
        assert!(known.known.contains_key("n1999") && !known.known.contains_key("n999"));
    }
}
