//! The source of the groups of nodes: Auto Scaling groups, Karpenter's pools and live nodes, or a
//! file.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::clock;
use chrono::{DateTime, Utc};
use instances::CatalogFile;
use tokio::sync::watch;

use super::election::Leadership;
use crate::catalog::{
    Comparison, Launchers, NodeGroup, Offers, Pricing, Sizes, StandingPools, WantedPools, joined,
    live_groups, offers, pool_groups,
};
use crate::causes::chain;
use crate::observe::{POOL_LABEL, Shared, World};

/// A source of groups of nodes.
pub enum GroupSource {
    /// Auto Scaling groups, discovered by their tags.
    #[cfg(feature = "aws")]
    Aws(Box<crate::catalog::aws::AwsCatalog>),
    /// Karpenter's pools, and groups built from the live nodes.
    Nodes,
    /// A catalog file.
    File(CatalogFile),
}

/// The label with the name of the host of a node.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// How often the groups of nodes are read, in seconds: once a minute, as in cluster-autoscaler.
pub(super) const EVERY_SECONDS: i64 = 60;

/// Reads a source every minute, in a task of its own, so that a slow source delays no turn. Each
/// change of the groups notifies `shared`.
pub(super) fn follow_groups(
    mut source: GroupSource,
    placement_group_label: String,
    shared: Arc<Shared>,
    (wanted_pools, leadership): (watch::Receiver<Option<WantedPools>>, Arc<Leadership>),
) -> watch::Receiver<Arc<Groups>> {
    let of_nodes = matches!(source, GroupSource::Nodes);
    let mut groups = Groups { of_nodes, ..Groups::default() };
    let (sender, receiver) = watch::channel(Arc::new(groups.clone()));
    if of_nodes {
        return receiver;
    }
    tokio::spawn(async move {
        loop {
            let (version, failing) = (groups.version, groups.failing.clone());
            let closed_before = groups.closed.clone();
            groups.refresh(&mut source, &placement_group_label).await;
            let pools_before = groups.warm_pools.clone();
            let wanted = wanted_pools.borrow().clone();
            groups.follow_pools(&mut source, wanted.as_ref(), &leadership).await;
            let first = !std::mem::replace(&mut groups.tried, true);
            if let Some(error) = &groups.failing {
                tracing::warn!(error, "catalog not refreshed");
            }
            if groups.version != version {
                tracing::info!(version = groups.version, "catalog changed");
            }
            let changed =
                groups.closed != closed_before || !groups.warm_pools.is_like(&pools_before);
            if first || groups.version != version || groups.failing != failing || changed {
                if sender.send(Arc::new(groups.clone())).is_err() {
                    return;
                }
                shared.ring();
            }
            tokio::time::sleep(clock::until_next(clock::now(), EVERY_SECONDS)).await;
        }
    });
    receiver
}

/// The groups of nodes of the last successful read.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Whether the groups are built from the live nodes and Karpenter's pools.
    of_nodes: bool,
    /// Whether the source was read at least once, with or without success.
    tried: bool,
    /// The groups. `None` for live nodes, which are read at each use, and before the first read.
    read: Option<Vec<NodeGroup>>,
    /// Problems of groups, one message each.
    pub problems: Vec<String>,
    /// Why the last read failed. The groups of the last successful read stay in use.
    pub failing: Option<String>,
    /// The groups in which AWS could launch no instance, with the end of their backoff.
    closed: BTreeMap<String, DateTime<Utc>>,
    /// The warm pools that Prophet sizes.
    warm_pools: StandingPools,
    /// Increases when the groups or their problems change.
    pub version: u64,
}

impl Groups {
    /// The groups of one read of a source.
    #[cfg(test)]
    pub(super) async fn read_once(mut source: GroupSource, placement_group_label: &str) -> Self {
        let of_nodes = matches!(source, GroupSource::Nodes);
        let mut groups = Self { of_nodes, tried: true, ..Self::default() };
        groups.refresh(&mut source, placement_group_label).await;
        groups
    }

    /// Whether there is something to decide from: the source was read at least once.
    pub fn is_read(&self) -> bool {
        self.of_nodes || self.tried
    }

    /// Reads the groups again. If that fails, the groups of the last successful read stay.
    async fn refresh(&mut self, source: &mut GroupSource, placement_group_label: &str) {
        let read = match source {
            #[cfg(feature = "aws")]
            GroupSource::Aws(aws) => match aws.node_groups().await {
                Ok(found) => {
                    self.closed = found.closed;
                    Ok((found.groups, found.problems.iter().map(ToString::to_string).collect()))
                }
                Err(error) => Err(chain(&error)),
            },
            GroupSource::Nodes => return,
            GroupSource::File(file) => {
                match crate::catalog::file_groups(file, placement_group_label) {
                    Ok(groups) => Ok((groups, Vec::new())),
                    Err(error) => Err(chain(&error)),
                }
            }
        };
        match read {
            Ok((groups, problems)) => {
                self.failing = None;
                if self.read.as_ref() != Some(&groups) || self.problems != problems {
                    (self.read, self.problems) = (Some(groups), problems);
                    self.version += 1;
                }
            }
            Err(error) => self.failing = Some(error),
        }
    }

    /// Sets the warm pools that are wanted, and restores those that no policy wants any more. Does
    /// nothing for other sources than AWS, and while the groups cannot be read.
    async fn follow_pools(
        &mut self,
        source: &mut GroupSource,
        wanted: Option<&WantedPools>,
        leadership: &Arc<Leadership>,
    ) {
        match source {
            #[cfg(feature = "aws")]
            GroupSource::Aws(aws) if self.failing.is_none() => {
                let limit = || leadership.write_limit();
                self.warm_pools = aws.follow_pools(wanted, &limit, &self.warm_pools).await;
                for (group, fault) in &self.warm_pools.faults {
                    tracing::warn!(group, fault, "warm pool not as it is wanted");
                }
            }
            _ => _ = (wanted, leadership),
        }
    }

    /// The warm pools that Prophet sizes.
    pub fn warm_pools(&self) -> &StandingPools {
        &self.warm_pools
    }

    /// How many instances the warm pool of a group may have: as many as the group can still launch.
    /// `None` if it may have no pool.
    pub fn warm_pool_room(&self, group: &str) -> Option<u64> {
        let group = self.read.iter().flatten().find(|known| known.name == group)?;
        group.may_have_warm_pool.then(|| group.max.saturating_sub(group.desired))
    }

    /// The end of the backoff of a group at `now`, because AWS could launch no instance in it.
    pub fn closed_until(&self, group: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.closed.get(group).copied().filter(|until| now < *until)
    }

    /// Whether nodes have the label with this key: those of the groups that were read, of
    /// Karpenter's pools, or live nodes.
    ///
    /// A label that names one node, such as its hostname, is none of them: it would divide a bucket
    /// into one for each node.
    pub fn have(&self, label: &str, world: &World) -> bool {
        let nodes = world.index.nodes().iter();
        let values =
            nodes.filter_map(|(_, slot, facts)| Some((facts.labels.get(label)?, &slot.name)));
        let mut values = values.peekable();
        let names_nodes = values.peek().is_some() && values.all(|(value, name)| **value == **name);
        if names_nodes || label == HOSTNAME_LABEL {
            return false;
        }
        let mut read = self.read.iter().flatten();
        let mut live = world.index.nodes().iter();
        let mut pools = world.node_pools.values();
        read.any(|group| group.labels.contains_key(label))
            || pools.any(|pool| {
                label == POOL_LABEL
                    || pool.labels.contains_key(label)
                    || pool.choices.contains_key(label)
            })
            || live.any(|(_, _, facts)| facts.labels.contains_key(label))
    }

    /// The buckets of all groups, regardless of which groups the policies select.
    ///
    /// # Errors
    /// The groups were never read, or there are none.
    pub fn offers(
        &self,
        world: &World,
        comparison: &Comparison<'_>,
        pricing: &Pricing<'_>,
    ) -> anyhow::Result<Offers> {
        let (nodes, sizes) = (world.index.nodes(), &mut Sizes::default());
        let Some(groups) = self.with(world, comparison, sizes) else {
            anyhow::bail!(self.failing.clone().unwrap_or_default());
        };
        let daemons = world.index.daemons();
        Ok(offers(&groups, nodes, &daemons, (comparison, pricing), sizes)?)
    }

    /// The groups, with what their live and former nodes add; for [`GroupSource::Nodes`], they are
    /// built from `world`. Updates `sizes`. `None` until the first successful read.
    pub fn with(
        &self,
        world: &World,
        comparison: &Comparison<'_>,
        sizes: &mut Sizes,
    ) -> Option<Vec<NodeGroup>> {
        let nodes = world.index.nodes();
        if !self.of_nodes {
            return Some(joined(self.read.clone()?, nodes, comparison, sizes));
        }
        let live: Vec<_> = nodes.iter().map(|(_, _, facts)| facts).collect();
        let claims: Vec<_> = world.node_claims.values().collect();
        let pools = pool_groups(
            world.node_pools.values(),
            &world.node_overlays,
            (&claims, &live),
            comparison,
        );
        let launches = Launchers {
            pools: world.node_pools.values().map(|pool| (pool.name.as_str(), pool)).collect(),
            with_size_classes: pools
                .iter()
                .filter(|group| group.size_class.is_some())
                .filter_map(|group| Some(group.pool.as_ref()?.name.as_str()))
                .collect(),
            cluster_autoscaler: world.has_autoscaler_groups,
        };
        let of_nodes = live_groups(nodes, &pools, comparison, &launches);
        let mut groups = joined(pools, nodes, comparison, sizes);
        groups.extend(of_nodes);
        Some(groups)
    }
}
