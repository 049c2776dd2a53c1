//! Spot instances of a run: which jobs use them, and how often they are interrupted.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use embedder::{Bucket, CapacityType, Catalog};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Exp};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use traces::{Admits, Job};

/// The time from the notice of an interruption until the instance is taken away, in seconds: two
/// minutes, as on AWS.
pub const NOTICE_SECONDS: i64 = 120;

/// The longest time until an interruption that is drawn, in seconds: ten years, longer than any
/// log.
const LIFE_SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;

/// How often spot instances are interrupted, per hour in which one is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Interruptions {
    /// The rate of all spot buckets that `buckets` does not list.
    pub per_hour: f64,
    /// The rates of single spot buckets, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub buckets: BTreeMap<String, f64>,
}

impl Interruptions {
    /// The highest rate, per hour of an instance: the notice alone takes two minutes.
    pub const PER_HOUR_MAX: f64 = 30.0;

    /// Whether no instance is ever interrupted. It leaves the settings file of runs without
    /// interruptions as it is.
    pub(super) fn are_none(&self) -> bool {
        self.per_hour <= 0.0 && self.buckets.values().all(|rate| *rate <= 0.0)
    }

    /// The rates that are out of range: their field paths and problems.
    pub(super) fn faults(&self) -> impl Iterator<Item = (String, String)> {
        let all = [("interruptions.perHour".to_owned(), self.per_hour)].into_iter();
        let of_buckets = self.buckets.iter();
        let all = all
            .chain(of_buckets.map(|(name, rate)| (format!("interruptions.buckets.{name}"), *rate)));
        let most = Self::PER_HOUR_MAX;
        all.filter(move |(_, rate)| !(0.0..=most).contains(rate))
            .map(move |(field, rate)| (field, format!("{rate} is not in 0 to {most}")))
    }

    /// The names that are no spot bucket of a catalog, each with its problem.
    pub(super) fn unknown(&self, catalog: &Catalog) -> Vec<String> {
        let spot = catalog.buckets().iter().filter(|b| b.capacity_type == CapacityType::Spot);
        let spot: Vec<&str> = spot.map(|bucket| bucket.name.as_str()).collect();
        let unknown = self.buckets.keys().filter(|name| !spot.contains(&name.as_str()));
        let names = spot.join(", ");
        let fault = |name: &String| {
            format!(
                "interruptions.buckets.{name}: no spot bucket has this name; the names are {names}"
            )
        };
        // Without spot buckets, the whole field has no effect.
        unknown.filter(|_| !spot.is_empty()).map(fault).collect()
    }

    /// Returns the time from the readiness of a node until the notice of its interruption, in
    /// seconds. `None` if it is not interrupted.
    ///
    /// Times are exponentially distributed. They depend on the seed and on the number of the node
    /// only, so that policies that request the same nodes lose the same ones.
    pub(super) fn notice_after(&self, bucket: &Bucket, seed: u64, node: usize) -> Option<i64> {
        if bucket.capacity_type != CapacityType::Spot {
            return None;
        }
        let rate = self.buckets.get(&bucket.name).copied().unwrap_or(self.per_hour);
        let law = Exp::new(rate / 3_600.0).ok().filter(|_| rate > 0.0)?;
        let mut random = Pcg64Mcg::seed_from_u64(mixed(seed, node as u64));
        let seconds: f64 = law.sample(&mut random);
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        (seconds < LIFE_SECONDS_MAX).then(|| (seconds.round() as i64).max(1))
    }
}

/// Which jobs of a log tolerate interruption, in addition to those of which the log has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SpotFor {
    /// No further job.
    #[default]
    None,
    /// All jobs.
    All,
    /// A share of the jobs above 0 and below 1, drawn by the seed.
    Share(f64),
}

impl SpotFor {
    /// Marks the jobs that tolerate interruption. Jobs whose buckets are known stay as they are.
    pub fn mark(self, jobs: &mut [Job], seed: u64) {
        let share = match self {
            Self::None => return,
            Self::All => 1.0,
            Self::Share(share) => share,
        };
        for (at, job) in jobs.iter_mut().enumerate() {
            let drawn: f64 = Pcg64Mcg::seed_from_u64(mixed(seed, at as u64)).random();
            if job.work.admits == Admits::Assumed && drawn < share {
                job.work.admits = Admits::Interruptible;
            }
        }
    }
}

/// One seed of a seed and a number.
fn mixed(seed: u64, number: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03)
}

impl FromStr for SpotFor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = || text.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
        match text {
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            _ => match share() {
                Some(share) if share <= 0.0 => Ok(Self::None),
                Some(share) if share >= 1.0 => Ok(Self::All),
                Some(share) => Ok(Self::Share(share)),
                None => Err(format!("expected none, all or a share from 0 to 1, got {text:?}")),
            },
        }
    }
}

impl TryFrom<String> for SpotFor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SpotFor> for String {
    fn from(spot_for: SpotFor) -> Self {
        spot_for.to_string()
    }
}

impl fmt::Display for SpotFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all"),
            Self::Share(share) => share.fmt(f),
        }
    }
}

/// What interruptions did to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupted {
    /// The number of its pods that were lost with their node, and submitted again.
    pub pods: u64,
    /// The time that the job had run whenever pods of it were lost, in seconds. It is no waiting.
    pub lost_seconds: i64,
    /// The time that lost pods had run, in pod-seconds.
    pub lost_pod_seconds: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_come_at_the_rate_of_the_bucket() {
        let buckets = testkit::catalog([("a", 8_000, 1.0), ("a/spot", 8_000, 0.4)]);
        let [on_demand, spot] = [0, 1].map(|id| {
            let mut bucket = buckets.buckets()[id].clone();
            if bucket.name.ends_with("/spot") {
                bucket.capacity_type = CapacityType::Spot;
            }
            bucket
        });
        let (spot, on_demand) = if spot.capacity_type == CapacityType::Spot {
            (spot, on_demand)
        } else {
            (on_demand, spot)
        };
        let mean = |interruptions: &Interruptions, bucket: &Bucket| {
            let all = (0..4_000).filter_map(|node| interruptions.notice_after(bucket, 7, node));
            let all: Vec<i64> = all.collect();
            (all.len(), all.iter().sum::<i64>().unsigned_abs() / (all.len().max(1) as u64))
        };
        let half = Interruptions { per_hour: 0.5, ..Interruptions::default() };
        let (drawn, seconds) = mean(&half, &spot);
        assert_eq!(drawn, 4_000);
        assert!((6_900..7_500).contains(&seconds), "{seconds} s on average");
        assert_eq!(mean(&half, &on_demand).0, 0);
        let own = Interruptions { buckets: [("a/spot".to_owned(), 2.0)].into(), ..half };
        assert!((1_720..1_880).contains(&mean(&own, &spot).1));
        assert_eq!(mean(&Interruptions::default(), &spot).0, 0);
    }

    #[test]
    fn which_jobs_tolerate_interruption_is_a_word_or_a_share() {
        let parsed = |text: &str| text.parse::<SpotFor>().map(|spot_for| spot_for.to_string());
        assert_eq!(parsed("none").as_deref(), Ok("none"));
        assert_eq!(parsed("1").as_deref(), Ok("all"));
        assert_eq!(parsed("0.25").as_deref(), Ok("0.25"));
        assert!(parsed("1.5").is_err() && parsed("some").is_err() && parsed("NaN").is_err());
    }
}
