//! The standing placeholders: those on nodes, and those that are pending without a gate.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{BucketId, Catalog, MicroDollars};

/// The standing placeholders, per bucket of the catalog and group of the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The groups, by bucket and then by group.
    pub buckets: Vec<Vec<GroupStanding>>,
    /// The limits that several groups share.
    pub shared: Vec<SharedLimit>,
    /// The instances that are paid whether they run or not. A group is in at most one of these.
    pub prepaid: Vec<Prepaid>,
}

/// Instances that are paid whether they run or not, such as reserved ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepaid {
    /// The number of those that no pod needs. So many placeholders of the groups cost nothing
    /// extra.
    pub left: u64,
    /// The groups whose instances they are, by bucket and group.
    pub groups: BTreeSet<(BucketId, usize)>,
}

impl Standing {
    /// Returns the number of placeholders of a bucket over all its groups, or 0 for an unknown
    /// bucket.
    pub fn placeholders(&self, bucket: BucketId) -> u64 {
        let groups = self.buckets.get(bucket).map_or(&[][..], Vec::as_slice);
        groups.iter().fold(0, |sum, group| sum.saturating_add(group.placeholders))
    }
}

impl Standing {
    /// Returns the number of stranded placeholders of these buckets.
    pub fn stranded(&self, buckets: &[BucketId]) -> u64 {
        let groups = buckets.iter().filter_map(|id| self.buckets.get(*id)).flatten();
        groups.fold(0, |sum: u64, group| sum.saturating_add(group.stranded))
    }

    /// Returns, by bucket, how many placeholders cost nothing extra, because their instances are
    /// paid anyway. `placeholders` are those of each bucket and group.
    pub fn prepaid(&self, placeholders: &[Vec<u64>]) -> Vec<u64> {
        let mut free: Vec<Vec<u64>> = placeholders.iter().map(|of| vec![0; of.len()]).collect();
        for Prepaid { left, groups } in &self.prepaid {
            let mut left = *left;
            for &(bucket, at) in groups {
                let all = placeholders.get(bucket).and_then(|of| of.get(at)).copied().unwrap_or(0);
                let Some(free) = free.get_mut(bucket).and_then(|of| of.get_mut(at)) else {
                    continue;
                };
                let more = left.min(all - *free);
                *free += more;
                left -= more;
            }
        }
        free.iter().map(|of| of.iter().fold(0, |sum: u64, &n| sum.saturating_add(n))).collect()
    }

    /// Whether instances of a group are paid anyway and left.
    pub(crate) fn is_prepaid(&self, bucket: BucketId, at: usize) -> bool {
        self.prepaid.iter().any(|of| of.left > 0 && of.groups.contains(&(bucket, at)))
    }

    /// The placeholders of each bucket and group.
    pub(crate) fn by_group(&self) -> Vec<Vec<u64>> {
        let of_bucket =
            |groups: &Vec<GroupStanding>| groups.iter().map(|group| group.placeholders).collect();
        self.buckets.iter().map(of_bucket).collect()
    }

    /// Returns what the stranded placeholders cost per hour.
    pub(crate) fn stranded_hourly(&self, catalog: &Catalog) -> MicroDollars {
        let each = catalog.buckets().iter().enumerate();
        MicroDollars(each.fold(0, |sum: u64, (id, bucket)| {
            sum.saturating_add(bucket.hourly.times(self.stranded(&[id])).0)
        }))
    }
}

/// A limit that groups share, such as that of a Karpenter NodePool on the resources of all its
/// nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLimit {
    /// Of each limited resource, the amount that is left for nodes of placeholders.
    pub left: Vec<u64>,
    /// The groups, by bucket and group, with the amounts of one node in the order of `left`.
    pub groups: BTreeMap<(BucketId, usize), Vec<u64>>,
}

impl SharedLimit {
    /// How many further nodes of a group are within the limit, beside these of all groups.
    pub(crate) fn spare(&self, group: (BucketId, usize), nodes: &[Vec<u64>]) -> u64 {
        let Some(each) = self.groups.get(&group) else { return u64::MAX };
        let spare = self.left.iter().zip(each).enumerate().filter(|(_, (_, each))| **each > 0);
        let spare = spare.map(|(of, (left, each))| {
            let used = self.groups.iter().fold(0, |sum: u64, (&(bucket, at), each)| {
                sum.saturating_add(each[of].saturating_mul(nodes[bucket][at]))
            });
            left.saturating_sub(used) / each
        });
        spare.min().unwrap_or(u64::MAX)
    }
}

/// The state of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStanding {
    /// The number of placeholders that are on nodes, or pending without a gate.
    pub placeholders: u64,
    /// The number of nodes that batch pods occupy.
    pub occupied: u64,
    /// The number of further nodes that placeholders cannot use: those of other workloads, and
    /// those that are cordoned or will be gone soon. They count towards the maximum of the group.
    pub unusable: u64,
    /// The number of placeholders on nodes that other pods cannot use, because the nodes are not
    /// ready or cordoned. They are no headroom. They count towards limits on placeholders and on
    /// dollars, because their nodes cost as much as others.
    pub stranded: u64,
    /// Whether the group backs off, because recent launches failed.
    pub backoff: bool,
    /// Whether nothing launches nodes of the group, so that its maximum is the number of its nodes.
    pub fixed: bool,
}
