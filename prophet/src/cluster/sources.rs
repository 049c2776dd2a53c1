//! The source of the groups of nodes: Auto Scaling groups, Karpenter's pools and live nodes, or a
//! file.

use crate::catalog::{CatalogFile, Comparison, NodeGroup, live_groups, pool_groups};
use crate::observe::World;

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

/// The groups of nodes of the last successful read.
#[derive(Debug, Default)]
pub struct Groups {
    /// The groups. `None` for live nodes, which are read at each use, and before the first read.
    read: Option<Vec<NodeGroup>>,
    /// Problems of groups, one message each.
    pub problems: Vec<String>,
    /// Why the last read failed. The groups of the last successful read stay in use.
    pub failing: Option<String>,
    /// Increases when the groups or their problems change.
    pub version: u64,
}

impl Groups {
    /// Reads the groups again. If that fails, the groups of the last successful read stay.
    pub async fn refresh(&mut self, source: &mut GroupSource, placement_group_label: &str) {
        let read = match source {
            #[cfg(feature = "aws")]
            GroupSource::Aws(aws) => match aws.node_groups().await {
                Ok(found) => {
                    Ok((found.groups, found.problems.iter().map(ToString::to_string).collect()))
                }
                Err(error) => Err(chain(&error)),
            },
            GroupSource::Nodes => return,
            GroupSource::File(file) => match file.node_groups(placement_group_label) {
                Ok(groups) => Ok((groups, Vec::new())),
                Err(error) => Err(chain(&error)),
            },
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

    /// Whether nodes have the label with this key: those of the groups that were read, or live
    /// nodes.
    pub fn have(&self, label: &str, world: &World) -> bool {
        let mut read = self.read.iter().flatten();
        let mut live = world.index.nodes().iter();
        read.any(|group| group.labels.contains_key(label))
            || live.any(|(_, _, facts)| facts.labels.contains_key(label))
    }

    /// The groups of a source, which for [`GroupSource::Nodes`] are built from `world`. `None`
    /// until the first successful read.
    pub fn with(
        &self,
        source: &GroupSource,
        world: &World,
        comparison: &Comparison<'_>,
    ) -> Option<Vec<NodeGroup>> {
        match source {
            GroupSource::Nodes => {
                let nodes = world.index.nodes();
                let live: Vec<_> = nodes.iter().map(|(_, _, facts)| facts).collect();
                let claims: Vec<_> = world.node_claims.values().collect();
                let label = comparison.placement_group_label;
                let mut groups = pool_groups(world.node_pools.values(), &claims, &live, label);
                let of_nodes = live_groups(nodes, &groups, comparison);
                groups.extend(of_nodes);
                Some(groups)
            }
            _ => self.read.clone(),
        }
    }
}

/// An error's message, followed by the messages of its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
