//! Which size classes batch pods need of the pools that list no instance types.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::catalog::{PoolClasses, is_flexible};
use crate::observe::{Daemon, NodePool, PodClass};

/// The most kinds of pods that are remembered, by their hashes. Beyond them, all are looked at
/// again.
const KINDS_MAX: usize = 200_000;

/// The size classes of the flexible pools, and the pods that were looked at.
#[derive(Debug, Default)]
pub(super) struct PodSizes {
    pools: Vec<PoolClasses>,
    /// The hashes of constraints and requests.
    seen: HashSet<u64>,
}

impl PodSizes {
    /// Reads the pools again if they changed.
    pub(super) fn refresh<'a>(&mut self, pools: impl Iterator<Item = &'a NodePool> + Clone) {
        let flexible = pools.clone().filter(|pool| is_flexible(pool));
        let same = flexible.clone().count() == self.pools.len()
            && flexible.zip(&self.pools).all(|(pool, known)| known.are_of(pool));
        if !same {
            self.pools = pools.filter_map(PoolClasses::of).collect();
            self.seen.clear();
        }
    }

    /// Adds the size classes that pods of a class need beside `daemons` to `named`, which has those
    /// of before.
    pub(super) fn add(
        &mut self,
        pods: &PodClass,
        daemons: &[Daemon],
        named: &mut BTreeSet<String>,
    ) {
        if self.pools.is_empty() {
            return;
        }
        if self.seen.len() >= KINDS_MAX {
            self.seen.clear();
        }
        let mut kind = DefaultHasher::new();
        (&pods.constraints, pods.requests, &pods.accelerator_kind).hash(&mut kind);
        if self.seen.insert(kind.finish()) {
            let pools = self.pools.iter();
            let new = pools.filter_map(|pool| pool.class_for(pods, daemons, named));
            let new: Vec<String> = new.map(str::to_owned).collect();
            named.extend(new);
        }
    }
}
