//! Which size classes batch pods need of the pools that list no instance types.

use std::collections::{BTreeSet, HashSet};

use embedder::{AcceleratorKind, Resources};

use crate::catalog::PoolClasses;
use crate::observe::{Constraints, NodePool, PodClass};

/// The most kinds of pods that are remembered: 10,000. Beyond them, all are looked at again.
const KINDS_MAX: usize = 10_000;

/// The size classes of the flexible pools, and the pods that were looked at.
#[derive(Debug, Default)]
pub(super) struct PodSizes {
    pools: Vec<PoolClasses>,
    seen: HashSet<(Constraints, Resources, AcceleratorKind)>,
}

impl PodSizes {
    /// Reads the pools again if they changed.
    pub(super) fn refresh<'a>(&mut self, pools: impl Iterator<Item = &'a NodePool> + Clone) {
        let flexible = pools.clone().filter(|pool| PoolClasses::is_flexible(pool));
        let same = flexible.clone().count() == self.pools.len()
            && flexible.zip(&self.pools).all(|(pool, known)| known.are_of(pool));
        if !same {
            self.pools = pools.filter_map(PoolClasses::of).collect();
            self.seen.clear();
        }
    }

    /// Adds the size classes that pods of a class need to `named`, which has those of before.
    pub(super) fn add(&mut self, pods: &PodClass, named: &mut BTreeSet<String>) {
        if self.pools.is_empty() {
            return;
        }
        if self.seen.len() >= KINDS_MAX {
            self.seen.clear();
        }
        let kind = (pods.constraints.clone(), pods.requests, pods.accelerator_kind.clone());
        if self.seen.insert(kind) {
            let pools = self.pools.iter();
            let new = pools.filter_map(|pool| pool.class_for(pods, named).map(str::to_owned));
            let new: Vec<String> = new.collect();
            named.extend(new);
        }
    }
}
