//! Where the groups of nodes are read from: Auto Scaling groups, Karpenter's pools and live nodes, or a file.

use crate::catalog::{CatalogFile, NodeGroup, live_groups, pool_groups};
use crate::observe::World;

/// A source of groups.
pub enum GroupSource {
    /// Auto Scaling groups by their tags.
    #[cfg(feature = "aws")]
    Aws(Box<crate::catalog::aws::AwsCatalog>),
    /// Karpenter's pools, and what the nodes that are there have in common.
    Nodes,
    /// A catalog file.
    File(CatalogFile),
}

/// Groups as they were last read.
#[derive(Debug, Default)]
pub struct Groups {
    /// `None` for live nodes, which are read anew each time.
    read: Option<Vec<NodeGroup>>,
    /// What is wrong with some.
    pub problems: Vec<String>,
    /// Why they could not be read the last time; what was read before counts on.
    pub failing: Option<String>,
    /// Changes when they do.
    pub version: u64,
}

impl Groups {
    /// Reads them anew. Where that fails, what was read before stays.
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

    /// The groups, with Karpenter's pools and live nodes where there is no other source; `None` while none were read.
    pub fn with(
        &self,
        source: &GroupSource,
        world: &World,
        placement_group_label: &str,
    ) -> Option<Vec<NodeGroup>> {
        match source {
            GroupSource::Nodes => {
                let nodes = world.index.nodes();
                let live: Vec<_> = nodes.iter().map(|(_, _, facts)| facts).collect();
                let claims: Vec<_> = world.node_claims.values().collect();
                let mut groups =
                    pool_groups(world.node_pools.values(), &claims, &live, placement_group_label);
                groups.extend(live_groups(nodes, &groups, placement_group_label));
                Some(groups)
            }
            _ => self.read.clone(),
        }
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
