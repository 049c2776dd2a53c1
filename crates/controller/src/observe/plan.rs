//! The plan of a PlannedDemand: when its pods come, and for how long nodes are held for them.

use std::collections::BTreeSet;

use base::span::Span;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::schedule::Schedule;
use crate::crd::PlannedDemandSpec;

/// When planned pods come, and who planned them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who planned the pods: the namespace, and the value of [`AUTHOR_LABEL`] if there is one.
    pub author: String,
    times: Times,
    /// How long after the time nodes are held for the pods, in seconds.
    hold_seconds: i64,
    /// Whether nodes are held for that long in any case, beside those of pods that run.
    pub for_duration: bool,
    /// Whether the author asks that all pods are held.
    pub certain: bool,
    /// When the plan was made, in Unix seconds.
    pub created: i64,
    /// How long after its end the object is deleted, in seconds.
    ttl_seconds: Option<u32>,
}

/// The label of a PlannedDemand that names its author within the namespace.
const AUTHOR_LABEL: &str = "prophet.dev/author";

/// How long after the time nodes are held for pods that did not come yet, in seconds.
const TOLERANCE_SECONDS: i64 = 600;

/// The most days without pods that are skipped one after the other.
const EXCEPT_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// Once, in Unix seconds.
    Once(i64),
    Repeated {
        schedule: Schedule,
        zone: TimeZone,
        except: BTreeSet<Date>,
    },
}

/// An earlier report of the controller on a plan, from which it goes on after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecalledPlan {
    /// The time at which the pods were to come, in Unix seconds.
    pub at: i64,
    /// The pods that came.
    pub came: u64,
}

impl Plan {
    /// Returns the plan, or `None` if its times cannot be read.
    pub(super) fn of(metadata: &ObjectMeta, spec: &PlannedDemandSpec) -> Option<Self> {
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(AUTHOR_LABEL));
        let seconds = |text: &Option<String>| {
            text.as_deref().and_then(|text| Some(text.parse::<Span>().ok()?.as_seconds()))
        };
        let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let duration = seconds(&spec.duration).unwrap_or(0);
        let tolerance = seconds(&spec.tolerance).unwrap_or(TOLERANCE_SECONDS);
        Some(Self {
            author: label.map_or(namespace.clone(), |label| format!("{namespace}/{label}")),
            times: Times::of(spec, created)?,
            hold_seconds: duration.max(tolerance),
            for_duration: duration > 0,
            certain: spec.certain,
            created,
            ttl_seconds: spec.ttl_seconds_after_end,
        })
    }

    /// The first time of the pods whose nodes are still held at `now`. `None` after the last one.
    /// Both are Unix seconds.
    pub fn next(&self, now: i64) -> Option<i64> {
        let from = now.saturating_sub(self.hold_seconds).saturating_add(1);
        match &self.times {
            Times::Once(at) => (*at >= from).then_some(*at),
            Times::Repeated { schedule, zone, except } => {
                let mut next = schedule.next(from)?;
                for _ in 0..EXCEPT_MAX {
                    let day = Timestamp::from_second(next).ok()?.to_zoned(zone.clone()).date();
                    if !except.contains(&day) {
                        return Some(next);
                    }
                    next = schedule.next(next.checked_add(1)?)?;
                }
                None
            }
        }
    }

    /// The first time after `at` whose nodes are still held at `now`. `None` if there is none. All
    /// are Unix seconds.
    pub fn after(&self, at: i64, now: i64) -> Option<i64> {
        let Times::Repeated { .. } = &self.times else { return None };
        let next = self.next(now)?;
        if next > at { Some(next) } else { self.next(at.saturating_add(self.hold_seconds)) }
    }

    /// The time of pods that come once.
    pub fn last(&self) -> Option<i64> {
        if let Times::Once(at) = &self.times { Some(*at) } else { None }
    }

    /// The end of the time for which nodes are held for pods that come at `at`, in Unix seconds.
    pub fn end(&self, at: i64) -> i64 {
        at.saturating_add(self.hold_seconds)
    }
}

impl Plan {
    /// Whether the object is to be deleted at `now`, in Unix seconds, because its end is long ago.
    pub fn is_expired(&self, now: i64) -> bool {
        let Times::Once(at) = &self.times else { return false };
        let ends = |ttl: u32| self.end(*at).saturating_add(ttl.into());
        self.ttl_seconds.is_some_and(|ttl| ends(ttl) <= now)
    }
}

impl Times {
    fn of(spec: &PlannedDemandSpec, created: i64) -> Option<Self> {
        if let Some(at) = &spec.at {
            return Some(Self::Once(at.parse::<Timestamp>().ok()?.as_second()));
        }
        let zone = spec.time_zone.as_deref();
        let schedule = Schedule::parse(spec.schedule.as_deref()?, zone, created)?;
        let zone = zone.map_or(Some(TimeZone::UTC), |name| TimeZone::get(name).ok())?;
        let except = spec.except.iter().map(|day| day.parse().ok());
        Some(Self::Repeated { schedule, zone, except: except.collect::<Option<_>>()? })
    }
}
