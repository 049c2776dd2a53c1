//! Warm pools of Auto Scaling groups: what policies want, and what stands.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::crd::WarmPoolState;

/// The warm pools that the policies want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedPools {
    /// By the name of the Auto Scaling group.
    pub pools: BTreeMap<String, WantedPool>,
    /// The UIDs of the policies whose pools stay as they are, because they decide nothing at
    /// present.
    pub kept: BTreeSet<String>,
    /// The groups of these policies, whose pools stay, too, whichever policy sized them before.
    pub kept_groups: BTreeSet<String>,
    /// The namespaces of the policies that count. Pools that a policy of another namespace sizes
    /// belong to another installation.
    pub namespaces: BTreeSet<String>,
}

impl WantedPools {
    /// Adds what a policy wants for its groups. Without `wanted`, it decides nothing at present.
    pub fn add(
        &mut self,
        uid: &str,
        groups: impl Iterator<Item = String>,
        wanted: Option<&BTreeMap<String, WantedPool>>,
    ) {
        if let Some(wanted) = wanted {
            self.pools.extend(wanted.clone());
        } else {
            self.kept.insert(uid.to_owned());
            self.kept_groups.extend(groups);
        }
    }

    /// Whether the pool of a group is restored to what was there before a policy sized it.
    pub fn restores(&self, group: &str, (namespace, uid): (&str, &str)) -> bool {
        !self.pools.contains_key(group)
            && !self.kept.contains(uid)
            && !self.kept_groups.contains(group)
            && self.namespaces.contains(namespace)
    }
}

/// The warm pool that a policy wants for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPool {
    /// The namespace of the policy.
    pub namespace: String,
    /// The UID of the policy.
    pub policy: String,
    /// How many prepared instances the pool shall have.
    pub size: u64,
    /// The state of the prepared instances.
    pub state: WarmPoolState,
}

/// The warm pool of a group that Prophet sizes, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingPool {
    /// The UID of the policy that sizes it.
    pub policy: String,
    /// The size that is set.
    pub size: u64,
    /// The instances that are prepared.
    pub prepared: u64,
    /// The instances that are being prepared.
    pub preparing: u64,
}

/// What was read of warm pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingPools {
    /// The pools that Prophet sizes, by the name of their Auto Scaling group.
    pub pools: BTreeMap<String, StandingPool>,
    /// Why the pool of a group is not as it is wanted, by the name of the group.
    pub faults: BTreeMap<String, String>,
    /// The IDs of instances that are or were in a pool, with the time at which they were last seen
    /// there.
    pub instances: BTreeMap<String, DateTime<Utc>>,
}

impl StandingPools {
    /// Whether both have the same pools, faults and instances, whatever the times are.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self { pools, faults, instances } = self;
        *pools == other.pools
            && *faults == other.faults
            && instances.keys().eq(other.instances.keys())
    }

    /// The instances of the pools of a policy, prepared or not.
    pub fn of_policy(&self, uid: &str) -> u64 {
        let pools = self.pools.values().filter(|pool| pool.policy == uid);
        pools.fold(0, |sum: u64, pool| sum.saturating_add(pool.held()))
    }
}

impl StandingPool {
    /// The instances that count: those that are prepared or being prepared, or those that are set
    /// if they are more.
    pub fn held(&self) -> u64 {
        self.size.max(self.prepared.saturating_add(self.preparing))
    }
}
