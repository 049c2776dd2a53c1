//! Auto Scaling groups as groups of nodes, found by their tags as cluster-autoscaler finds them.
//!
//! ```text
//! discovery.rs    which groups: cluster-autoscaler's flag
//! calls.rs        the clients and the calls that are made, all of them
//! launch.rs       what a group launches: template, launch configuration or mixed instances
//! hardware.rs     what an instance type has
//! tags.rs         node-template tags
//! node_group.rs   all of it together
//! problem.rs      what is wrong with a group
//! ```
//!
//! It only reads. A group that cannot be understood is a [`Problem`] beside the result and hides no other group; a call
//! that fails is an [`AwsError`], and the caller keeps what it had.

mod calls;
mod discovery;
mod hardware;
mod launch;
mod node_group;
mod problem;
mod tags;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_autoscaling::types::AutoScalingGroup;
use futures::{StreamExt, TryStreamExt, stream};

pub use self::calls::{ACTIONS, AwsError, Clients, clients};
pub use self::discovery::{Discovery, DiscoveryFault};
pub use self::problem::{Fault, Problem};

use self::hardware::Hardware;
use self::launch::{Configuration, Origin, Template, TemplateKey};
use super::NodeGroup;

/// A refresh comes each minute: the one before must be over by then.
const DEADLINE: Duration = Duration::from_secs(45);

/// AWS lets an account read 20 templates a second for long: four calls of about 200 ms at once.
const TEMPLATES_AT_ONCE: usize = 4;

/// Reads Auto Scaling groups, and remembers what cannot change.
#[derive(Debug)]
pub struct AwsCatalog {
    clients: Clients,
    discovery: Discovery,
    deadline: Duration,
    /// The call that is under way.
    calling: &'static str,
    /// Instance types do not change.
    hardware: BTreeMap<String, Hardware>,
    /// Numbered versions of templates do not change; `$Latest` and `$Default` are asked for each time.
    templates: BTreeMap<TemplateKey, Template>,
}

/// What a refresh found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The groups that are understood, by name.
    pub groups: Vec<NodeGroup>,
    /// What is wrong with groups, by name. The group may be in `groups` all the same: see [`Fault`].
    pub problems: Vec<Problem>,
}

impl AwsCatalog {
    /// Reads the groups that have the tags, with these clients.
    pub fn new(clients: Clients, discovery: Discovery) -> Self {
        Self {
            clients,
            discovery,
            deadline: DEADLINE,
            calling: calls::GROUPS,
            hardware: BTreeMap::new(),
            templates: BTreeMap::new(),
        }
    }

    /// Gives up a refresh after this time; 45 seconds when not said.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The groups as they are now.
    ///
    /// # Errors
    /// A call failed after its retries, or all took too long. The next refresh goes on from what was learnt.
    pub async fn node_groups(&mut self) -> Result<Found, AwsError> {
        let outcome = tokio::time::timeout(self.deadline, self.gather()).await;
        outcome.unwrap_or(Err(AwsError::Deadline { action: self.calling, after: self.deadline }))
    }

    async fn gather(&mut self) -> Result<Found, AwsError> {
        self.calling = calls::GROUPS;
        let mut groups = self.clients.groups(&self.discovery).await?;
        groups.sort_by(|a, b| a.auto_scaling_group_name.cmp(&b.auto_scaling_group_name));
        let groups: Vec<_> = groups.into_iter().map(|group| (Origin::of(&group), group)).collect();
        let origins = || groups.iter().filter_map(|(origin, _)| origin.as_ref().ok());

        self.read_templates(origins().filter_map(Origin::template).collect()).await?;
        let configurations = origins().filter_map(Origin::configuration).collect();
        let configurations = self.read_configurations(configurations).await?;
        let launches: Vec<(AutoScalingGroup, _)> = groups
            .into_iter()
            .map(|(origin, group)| {
                (group, origin.and_then(|origin| origin.launch(&self.templates, &configurations)))
            })
            .collect();
        let types =
            launches.iter().filter_map(|(_, launch)| Some(launch.as_ref().ok()?.instance_type.clone()));
        self.read_hardware(types.collect()).await?;

        let mut found = Found::default();
        for (group, launch) in launches {
            node_group::add(&mut found, &group, launch, &self.hardware, self.clients.region());
        }
        Ok(found)
    }

    async fn read_templates(&mut self, wanted: BTreeSet<TemplateKey>) -> Result<(), AwsError> {
        self.calling = calls::TEMPLATES;
        self.templates.retain(|key, _| key.is_fixed() && wanted.contains(key));
        let missing = wanted.into_iter().filter(|key| !self.templates.contains_key(key));
        let missing: Vec<TemplateKey> = missing.collect();
        let read = stream::iter(missing).map(|key| self.clients.template(key));
        let read: Vec<_> = read.buffer_unordered(TEMPLATES_AT_ONCE).try_collect().await?;
        self.templates.extend(read.into_iter().flatten());
        Ok(())
    }

    async fn read_configurations(
        &mut self,
        wanted: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Configuration>, AwsError> {
        self.calling = calls::CONFIGURATIONS;
        self.clients.configurations(wanted.into_iter().collect()).await
    }

    async fn read_hardware(&mut self, wanted: BTreeSet<String>) -> Result<(), AwsError> {
        self.calling = calls::TYPES;
        let missing = wanted.into_iter().filter(|name| !self.hardware.contains_key(name)).collect();
        self.hardware.extend(self.clients.hardware(missing).await?);
        Ok(())
    }
}
