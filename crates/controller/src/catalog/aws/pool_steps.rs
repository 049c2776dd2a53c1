//! The steps from a warm pool that stands to the one that is wanted.
//!
//! A tag of the group has the policy that sizes its pool, and what was there before, so that this
//! can be restored after the policy, or the cluster, is gone. The tag is written before the pool,
//! and removed after it.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{WantedPool, WantedPools};

/// The key of the tag of a group whose pool a policy sizes.
pub(super) const WARM_POOL_TAG: &str = "prophet.dev/warm-pool";

/// The settings of a warm pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolSettings {
    /// `MinSize`: the fewest instances of the pool.
    pub(super) min_size: i32,
    /// `MaxGroupPreparedCapacity`: the most instances of group and pool together, or -1 for the
    /// group's maximum.
    pub(super) max_prepared: i32,
    /// `PoolState`: the state of the instances.
    pub(super) state: String,
    /// `ReuseOnScaleIn`: whether instances that the group removes return to the pool.
    pub(super) reuse: bool,
}

/// The value of the tag of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The namespace of the policy that sizes the pool.
    pub(super) namespace: String,
    /// The UID of the policy that sizes the pool.
    pub(super) policy: String,
    /// The settings of the pool that was there before. `None` if there was none.
    pub(super) before: Option<PoolSettings>,
}

/// A step towards the pool that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolStep {
    /// Writes the tag.
    Mark(Mark),
    /// Creates or changes the pool.
    Put(PoolSettings),
    /// Deletes the pool with its instances.
    Delete,
    /// Removes the tag.
    Unmark,
}

/// What was read of a group's pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolFacts {
    /// `None` without a pool.
    pub(super) settings: Option<PoolSettings>,
    /// Whether the pool is being deleted.
    pub(super) is_being_deleted: bool,
    /// The value of the tag.
    pub(super) tag: Option<String>,
}

impl PoolFacts {
    /// The steps towards the pool of a group that is wanted, in order. Without one, the steps back
    /// to what was there before, unless the pool stays. A group without the tag is left alone then.
    ///
    /// # Errors
    /// The tag cannot be read, so that nothing may be changed.
    pub(super) fn steps(&self, group: &str, wanted: &WantedPools) -> Result<Vec<PoolStep>, String> {
        let mark = self.tag.as_deref().map(str::parse::<Mark>).transpose()?;
        let is_restored = |mark: &Mark| wanted.restores(group, (&mark.namespace, &mark.policy));
        if let Some(wanted) = wanted.pools.get(group) {
            // A pool that is being deleted cannot be changed.
            return Ok(if self.is_being_deleted { Vec::new() } else { self.towards(wanted, mark) });
        }
        let Some(mark) = mark.filter(is_restored) else {
            return Ok(Vec::new());
        };
        Ok(match (mark.before, &self.settings) {
            (None, None) => vec![PoolStep::Unmark],
            (None, Some(_)) if self.is_being_deleted => vec![PoolStep::Unmark],
            (None, Some(_)) => vec![PoolStep::Delete, PoolStep::Unmark],
            (Some(before), Some(now)) if before == *now => vec![PoolStep::Unmark],
            (Some(_), _) if self.is_being_deleted => Vec::new(),
            (Some(before), _) => vec![PoolStep::Put(before), PoolStep::Unmark],
        })
    }

    /// Notes that a step was taken.
    pub(super) fn take(&mut self, step: PoolStep) {
        match step {
            PoolStep::Mark(mark) => self.tag = Some(mark.to_string()),
            PoolStep::Put(settings) => self.settings = Some(settings),
            PoolStep::Delete => self.is_being_deleted = true,
            PoolStep::Unmark => self.tag = None,
        }
    }

    fn towards(&self, wanted: &WantedPool, mark: Option<Mark>) -> Vec<PoolStep> {
        let is_marked = mark
            .as_ref()
            .is_some_and(|mark| mark.policy == wanted.policy && mark.namespace == wanted.namespace);
        let before = mark.map_or_else(|| self.settings.clone(), |mark| mark.before);
        let size = i32::try_from(wanted.size).unwrap_or(i32::MAX);
        let settings = PoolSettings {
            // With two equal numbers, the pool has this size whatever the group has.
            min_size: size,
            max_prepared: size,
            state: wanted.state.label().into(),
            reuse: before.as_ref().is_some_and(|before| before.reuse),
        };
        let (namespace, policy) = (wanted.namespace.clone(), wanted.policy.clone());
        let mark = Mark { namespace, policy, before };
        let mark = (!is_marked).then_some(PoolStep::Mark(mark));
        let put = (self.settings.as_ref() != Some(&settings)).then_some(PoolStep::Put(settings));
        mark.into_iter().chain(put).collect()
    }
}

/// AWS allows letters, digits, spaces and `+ - = . _ : / @` in tags.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy={}/{} before=", self.namespace, self.policy)?;
        match &self.before {
            None => f.write_str("none"),
            Some(PoolSettings { min_size, max_prepared, state, reuse }) => {
                let reuse = if *reuse { "reuse" } else { "terminate" };
                write!(f, "{min_size}:{max_prepared}:{state}:{reuse}")
            }
        }
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "its tag {WARM_POOL_TAG} has the unknown value {text:?}, so its warm pool is left alone: restore the pool by hand, and remove the tag"
            )
        };
        let rest = text.strip_prefix("policy=").ok_or_else(fault)?;
        let (policy, before) = rest.split_once(" before=").ok_or_else(fault)?;
        let before = match before.split(':').collect::<Vec<_>>()[..] {
            ["none"] => None,
            [min_size, max_prepared, state, reuse @ ("reuse" | "terminate")] => {
                Some(PoolSettings {
                    min_size: min_size.parse().map_err(|_| fault())?,
                    max_prepared: max_prepared.parse().map_err(|_| fault())?,
                    state: state.into(),
                    reuse: reuse == "reuse",
                })
            }
            _ => return Err(fault()),
        };
        let (namespace, policy) = policy.split_once('/').ok_or_else(fault)?;
        Ok(Self { namespace: namespace.into(), policy: policy.into(), before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::WarmPoolState;

    fn settings(size: i32) -> PoolSettings {
        PoolSettings { min_size: size, max_prepared: size, state: "Stopped".into(), reuse: false }
    }

    fn theirs() -> PoolSettings {
        PoolSettings { min_size: 1, max_prepared: -1, state: "Running".into(), reuse: true }
    }

    fn facts(now: Option<PoolSettings>, tag: Option<&str>) -> PoolFacts {
        PoolFacts { settings: now, is_being_deleted: false, tag: tag.map(Into::into) }
    }

    fn mark(policy: &str, before: Option<PoolSettings>) -> PoolStep {
        PoolStep::Mark(Mark { namespace: "prophet".into(), policy: policy.into(), before })
    }

    /// What the policy `one` of the namespace `prophet` wants for the group `a`.
    fn wanted(size: Option<u64>) -> WantedPools {
        let pool = size.map(|size| WantedPool {
            namespace: "prophet".into(),
            policy: "one".into(),
            size,
            state: WarmPoolState::Stopped,
        });
        WantedPools {
            pools: pool.into_iter().map(|pool| ("a".to_owned(), pool)).collect(),
            kept: ["kept".to_owned()].into(),
            kept_groups: ["stays".to_owned()].into(),
            namespaces: ["prophet".to_owned()].into(),
        }
    }

    const OF_NONE: &str = "policy=prophet/one before=none";
    const OF_THEIRS: &str = "policy=prophet/one before=1:-1:Running:reuse";

    #[test]
    fn the_tag_has_what_was_there_before_and_comes_first() {
        let steps = |facts: PoolFacts| facts.steps("a", &wanted(Some(3)));
        let put = || PoolStep::Put(settings(3));
        let reused = PoolSettings { reuse: true, ..settings(3) };
        let cases = [
            (facts(None, None), vec![mark("one", None), put()]),
            (
                facts(Some(theirs()), None),
                vec![mark("one", Some(theirs())), PoolStep::Put(reused.clone())],
            ),
            (facts(Some(settings(2)), Some(OF_NONE)), vec![put()]),
            (facts(Some(settings(3)), Some(OF_NONE)), vec![]),
            // Another policy takes the pool over, with what was there before the first one.
            (
                facts(Some(settings(3)), Some("policy=prophet/two before=none")),
                vec![mark("one", None)],
            ),
            (facts(Some(reused), Some(OF_THEIRS)), vec![]),
            (PoolFacts { is_being_deleted: true, ..facts(Some(settings(2)), None) }, vec![]),
        ];
        for (facts, expected) in cases {
            assert_eq!(steps(facts.clone()), Ok(expected), "{facts:?}");
        }
    }

    #[test]
    fn what_was_there_before_is_restored_once_no_policy_wants_a_pool() {
        let steps = |facts: &PoolFacts| facts.steps("a", &wanted(None)).unwrap();
        let (put, delete) = (PoolStep::Put(theirs()), PoolStep::Delete);
        let gone = || PoolStep::Unmark;
        let deleted = |tag| PoolFacts { is_being_deleted: true, ..facts(Some(settings(3)), tag) };
        let cases = [
            (facts(Some(theirs()), None), vec![]),
            (facts(Some(settings(3)), Some(OF_NONE)), vec![delete, gone()]),
            (facts(None, Some(OF_NONE)), vec![gone()]),
            (deleted(Some(OF_NONE)), vec![gone()]),
            (facts(Some(settings(3)), Some(OF_THEIRS)), vec![put.clone(), gone()]),
            (facts(None, Some(OF_THEIRS)), vec![put, gone()]),
            (facts(Some(theirs()), Some(OF_THEIRS)), vec![gone()]),
            (deleted(Some(OF_THEIRS)), vec![]),
            (facts(Some(settings(3)), Some("policy=prophet/kept before=none")), vec![]),
            // Another installation has policies in another namespace.
            (facts(Some(settings(3)), Some("policy=theirs/two before=none")), vec![]),
        ];
        for (facts, expected) in cases {
            assert_eq!(steps(&facts), expected, "{facts:?}");
        }
        // The new policy of a group decides nothing yet.
        let replaced = facts(Some(settings(3)), Some(OF_NONE));
        assert_eq!(replaced.steps("stays", &wanted(None)), Ok(vec![]));
    }

    #[test]
    fn a_pool_with_an_unknown_tag_is_left_alone() {
        let malformed = ["", "by hand", "policy=prophet/one", "policy=prophet/one before=1:2"];
        let others = ["policy=one before=none", "policy=prophet/one before=a:2:b:reuse"];
        for tag in malformed.into_iter().chain(others) {
            for wanted in [wanted(None), wanted(Some(3))] {
                let steps = facts(Some(theirs()), Some(tag)).steps("a", &wanted);
                assert!(steps.unwrap_err().contains("is left alone"), "{tag}");
            }
        }
    }

    /// AWS allows few characters in tags, and 256 of them.
    #[test]
    fn a_tag_is_read_as_it_was_written_and_suits_aws() {
        let policy = "0fcd2d0e-1d0e-4e52-9d2a-3f5b5f0f8f7d".to_owned();
        let long = PoolSettings { min_size: i32::MIN, max_prepared: i32::MAX, ..theirs() };
        for before in [None, Some(theirs()), Some(settings(0)), Some(long)] {
            let namespace = "n".repeat(63);
            let mark = Mark { namespace, policy: policy.clone(), before };
            let text = mark.to_string();
            let suits = |c: char| c.is_ascii_alphanumeric() || " +-=._:/@".contains(c);
            assert!(text.chars().all(suits) && text.len() <= 256, "{text}");
            assert_eq!(text.parse(), Ok(mark));
        }
    }
}
