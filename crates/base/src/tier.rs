//! Tiers: bands of priority, each with its own cost of waiting.
//!
//! Workloads of several tiers share nodes ("Borg: the next generation", section 3). All of them are
//! demand, and each of them can take a placeholder's node. The weights decide how many placeholders
//! are worth their cost.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A band of priorities: from its minimum up to the minimum of the next tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Tier {
    /// The name, unique among the tiers.
    pub name: String,
    /// The lowest priority of its pods.
    pub priority_min: i32,
    /// The cost of a waiting pod of the tier, as a multiple of the objective's: from 0 to
    /// [`Tier::WEIGHT_MAX`].
    pub weight: f64,
}

impl Tier {
    /// The largest weight.
    pub const WEIGHT_MAX: f64 = 1_000.0;
}

impl FromStr for Tier {
    type Err = String;

    /// Parses NAME=PRIORITY:WEIGHT, such as `production=200:4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(name, rest)| {
            let (priority_min, weight) = rest.split_once(':')?;
            let (priority_min, weight) = (priority_min.parse().ok()?, weight.parse().ok()?);
            Some(Self { name: name.into(), priority_min, weight })
        });
        parsed.ok_or_else(|| {
            format!("expected NAME=PRIORITY:WEIGHT such as production=200:4, got {text:?}")
        })
    }
}

/// The tiers of a policy, in any order. Pods below the lowest tier have the weight 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tiers(Vec<Tier>);

/// The most tiers of a policy. Borg has four, and each adds rows to the status, the metrics and the
/// history.
pub const TIERS_MAX: usize = 8;

/// The longest name of a tier: that of a label's value.
const NAME_LENGTH_MAX: usize = 63;

impl From<Vec<Tier>> for Tiers {
    fn from(tiers: Vec<Tier>) -> Self {
        Self(tiers)
    }
}

impl Tiers {
    /// Whether there is no tier.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the tiers.
    pub fn iter(&self) -> impl Iterator<Item = &Tier> {
        self.0.iter()
    }

    /// The tier of pods with this priority. `None` below the lowest tier.
    pub fn of(&self, priority: i32) -> Option<&Tier> {
        let reached = self.0.iter().filter(|tier| tier.priority_min <= priority);
        reached.max_by_key(|tier| tier.priority_min)
    }

    /// The weight of pods with this priority.
    pub fn weight_at(&self, priority: i32) -> f64 {
        self.of(priority).map_or(1.0, |tier| tier.weight)
    }

    /// Whether the waiting of pods with this priority has a cost.
    pub fn count(&self, priority: i32) -> bool {
        self.weight_at(priority) > 0.0
    }

    /// The tiers for a service level, which is a share of pods: a pod counts once, or not at all if
    /// the weight of its tier is 0.
    #[must_use]
    pub fn for_level(&self) -> Self {
        let once = |tier: &Tier| Tier { weight: f64::from(tier.weight > 0.0), ..tier.clone() };
        Self(self.0.iter().map(once).collect())
    }

    /// The mean weight of `pods` pods, of which `of_tiers` has those of each tier, by name. A tier
    /// of the history that the policy no longer has counts with the weight 1.
    pub fn mean_weight<'a>(
        &self,
        pods: f64,
        of_tiers: impl Iterator<Item = (&'a str, u64)>,
    ) -> f64 {
        let weight = |name: &str| {
            self.0.iter().find(|tier| tier.name == name).map_or(1.0, |tier| tier.weight)
        };
        let beyond: f64 = of_tiers.map(|(name, n)| (weight(name) - 1.0) * n as f64).sum();
        if pods > 0.0 { (1.0 + beyond / pods).max(0.0) } else { 1.0 }
    }

    /// The values that are out of range: the index of the tier with the name of its field, and the
    /// problem.
    pub fn faults(&self) -> Vec<((usize, &'static str), String)> {
        let mut faults = Vec::new();
        if self.0.len() > TIERS_MAX {
            faults.push(((TIERS_MAX, "name"), format!("there are more than {TIERS_MAX} tiers")));
        }
        for (at, Tier { name, priority_min, weight }) in self.0.iter().enumerate() {
            let mut fault = |field, problem| faults.push(((at, field), problem));
            if name.is_empty() || name.len() > NAME_LENGTH_MAX {
                fault("name", format!("has to have 1 to {NAME_LENGTH_MAX} characters"));
            }
            if !(0.0..=Tier::WEIGHT_MAX).contains(weight) {
                fault("weight", format!("{weight} is not in 0 to {}", Tier::WEIGHT_MAX));
            }
            let before = &self.0[..at];
            if before.iter().any(|tier| tier.name == *name) {
                fault("name", format!("{name:?} is the name of two tiers"));
            }
            if before.iter().any(|tier| tier.priority_min == *priority_min) {
                fault("priorityMin", format!("{priority_min} is the minimum of two tiers"));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(of: &[(&str, i32, f64)]) -> Tiers {
        let tier = |&(name, priority_min, weight): &(&str, i32, f64)| Tier {
            name: name.into(),
            priority_min,
            weight,
        };
        of.iter().map(tier).collect::<Vec<_>>().into()
    }

    #[test]
    fn a_pod_belongs_to_the_highest_tier_whose_minimum_it_reaches() {
        let tiers = tiers(&[("free", 0, 0.0), ("production", 200, 4.0), ("batch", 100, 1.0)]);
        let name = |priority| tiers.of(priority).map(|tier| tier.name.as_str());
        assert_eq!(name(-1), None);
        assert_eq!(name(0), Some("free"));
        assert_eq!(name(199), Some("batch"));
        assert_eq!(name(i32::MAX), Some("production"));
        assert_eq!((tiers.count(-1), tiers.count(99), tiers.count(100)), (true, false, true));
        assert!((tiers.weight_at(-1) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_mean_weight_is_over_all_pods() {
        let tiers = tiers(&[("production", 200, 4.0), ("free", 0, 0.0)]);
        let mean = |pods, of: &[(&'static str, u64)]| tiers.mean_weight(pods, of.iter().copied());
        assert!((mean(10.0, &[("production", 5)]) - 2.5).abs() < 1e-9);
        assert!((mean(10.0, &[("free", 10)])).abs() < 1e-9);
        assert!((mean(10.0, &[("gone", 10)]) - 1.0).abs() < 1e-9);
        assert!((mean(0.0, &[]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn faults_name_the_tier_and_the_field() {
        let faults = |of: &[(&str, i32, f64)]| {
            let faults = tiers(of).faults().into_iter();
            faults
                .map(|((at, field), problem)| format!("{at} {field}: {problem}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(faults(&[("a", 0, 0.0), ("b", 1, 1_000.0)]), Vec::<String>::new());
        assert_eq!(
            faults(&[("", 2, 1.0), ("a", 1, -1.0), ("a", 1, f64::NAN)]),
            [
                "0 name: has to have 1 to 63 characters",
                "1 weight: -1 is not in 0 to 1000",
                "2 weight: NaN is not in 0 to 1000",
                "2 name: \"a\" is the name of two tiers",
                "2 priorityMin: 1 is the minimum of two tiers",
            ]
        );
    }
}
