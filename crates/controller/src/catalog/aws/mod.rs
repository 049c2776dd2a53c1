//! Reads Auto Scaling groups, discovered by their tags as in cluster-autoscaler.
//!
//! ```text
//! discovery.rs    selects groups by cluster-autoscaler's flag
//! calls.rs        the clients, and all AWS calls
//! launch.rs       a group's instances: launch template, launch configuration, mixed instances
//! requirements.rs the instance types of groups that select them by attributes
//! hardware.rs     the resources of an instance type
//! tags.rs         node-template tags
//! eks.rs          labels and taints of EKS managed node groups
//! node_group.rs   builds a group of nodes from all of these
//! problem.rs      problems of a group
//! found.rs        the result of a refresh
//! pool_steps.rs   the steps from a warm pool that stands to the one that is wanted
//! warm_pools.rs   reads warm pools, and sets and restores them
//! activities.rs   the groups in which AWS could launch no instance
//! prices.rs       the prices of instance types
//! reservations.rs capacity reservations
//! ```
//!
//! Only `warm_pools.rs` changes anything in AWS. A group that cannot be used is reported as a
//! [`GroupProblem`] and does not affect other groups. A failed call is an [`AwsError`], after which
//! the caller keeps the groups of the last successful refresh.

mod activities;
mod calls;
mod discovery;
mod eks;
mod found;
mod hardware;
mod launch;
mod node_group;
mod pool_steps;
mod prices;
mod problem;
mod requirements;
mod reservations;
mod tags;
mod warm_pools;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_autoscaling::types::AutoScalingGroup;
use base::clock;
use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use instances::PodAddresses;

pub use self::calls::{ACTIONS, AwsError, Clients, clients};
pub use self::discovery::{Discovery, DiscoveryFault};
pub use self::found::Found;
pub use self::prices::PriceReader;
pub use self::problem::{GroupFault, GroupProblem};

use self::activities::Closed;
use self::eks::{Description, ManagedGroup};
use self::hardware::Hardware;
use self::launch::{Configuration, InstanceTemplate, Origin, TemplateKey};
use self::requirements::{Selected, Selection};
use crate::catalog::{StandingPools, WantedPools};
use crate::causes::chain;

/// Time limit of one refresh: 45 seconds, because a refresh starts every minute and must end before
/// the next one starts.
pub const DEADLINE: Duration = Duration::from_secs(45);

/// Concurrent reads of launch templates: four, because AWS allows an account 20 sustained reads per
/// second, and a call takes about 200 ms.
const TEMPLATES_AT_ONCE: usize = 4;

/// How many refreshes a description of a managed node group stays in use: ten, because its labels
/// and taints seldom change and EKS limits the rate of its calls.
const DESCRIBED_REFRESHES: u32 = 10;

/// How many refreshes the instance types of a group that selects them by attributes stay in use:
/// ten, because AWS seldom changes them.
const LISTED_REFRESHES: u32 = 10;

/// Concurrent reads of such lists, and the time limit of all of them in a refresh: ten seconds, so
/// that they leave time for the other calls.
const LISTED_AT_ONCE: usize = 4;
const LISTED_DEADLINE: Duration = Duration::from_secs(10);

/// Concurrent calls of EKS, and the time limit of all of them in a refresh: 15 seconds, so that an
/// unreachable endpoint of EKS, as in a network without internet, leaves time for the other calls.
const MANAGED_AT_ONCE: usize = 4;
const MANAGED_DEADLINE: Duration = Duration::from_secs(15);

/// Reads Auto Scaling groups, and caches what cannot change.
#[derive(Debug)]
pub struct AwsCatalog {
    clients: Clients,
    discovery: Discovery,
    deadline: Duration,
    pod_addresses: PodAddresses,
    /// The IAM action of the call in progress.
    calling: &'static str,
    /// Instance types that were read, by name. They do not change.
    hardware: BTreeMap<String, Hardware>,
    /// Launch template versions that were read. Numbered versions do not change. `$Latest` and
    /// `$Default` are read at every refresh.
    templates: BTreeMap<TemplateKey, InstanceTemplate>,
    /// The instance types of groups that select them by attributes.
    selected: Vec<Selected>,
    /// The groups in which AWS could launch no instance.
    closed: Closed,
    /// Why the scaling activities could not be read in the last refresh.
    activities_failing: Option<String>,
    /// What the groups of the last refresh say of their warm pools.
    pools: warm_pools::Pools,
    /// The managed node groups that were read, each with the number of refreshes since then.
    managed: BTreeMap<ManagedGroup, (u32, Managed)>,
}

/// The description of a managed node group, or why it could not be read.
type Managed = Result<Description, String>;

impl AwsCatalog {
    /// Creates a catalog of the groups that have the tags of `discovery`.
    /// `deadline` is the time limit of one refresh.
    pub fn new(clients: Clients, discovery: Discovery, deadline: Duration) -> Self {
        Self {
            clients,
            discovery,
            deadline,
            pod_addresses: PodAddresses::default(),
            calling: calls::GROUPS,
            hardware: BTreeMap::new(),
            templates: BTreeMap::new(),
            selected: Vec::new(),
            closed: Closed::default(),
            activities_failing: None,
            pools: BTreeMap::new(),
            managed: BTreeMap::new(),
        }
    }

    /// The same with another way in which the VPC CNI gives addresses to pods.
    #[must_use]
    pub fn with_pod_addresses(self, pod_addresses: PodAddresses) -> Self {
        Self { pod_addresses, ..self }
    }

    /// Reads the current groups.
    ///
    /// # Errors
    /// A call failed after its retries, or all calls together exceeded the time limit. The next
    /// refresh reuses the instance types and template versions that are cached.
    pub async fn node_groups(&mut self) -> Result<Found, AwsError> {
        let outcome = tokio::time::timeout(self.deadline, self.gather()).await;
        outcome.unwrap_or(Err(AwsError::Deadline { action: self.calling, after: self.deadline }))
    }

    /// Takes the steps from the warm pools of the last refresh to those that are wanted, each
    /// within `write_limit`, until that is zero. Without `wanted`, because it is not decided yet or
    /// another replica leads, nothing is changed. Returns what stands; `before` is what stood at
    /// the last call.
    pub async fn follow_pools(
        &mut self,
        wanted: Option<&WantedPools>,
        write_limit: &(dyn Fn() -> Duration + Sync),
        before: &StandingPools,
    ) -> StandingPools {
        let (clients, pools, now) = (&self.clients, &mut self.pools, clock::now());
        let end = tokio::time::Instant::now() + self.deadline;
        let late = |action| chain(&AwsError::Deadline { action, after: self.deadline });
        let mut faults = BTreeMap::new();
        if let Some(wanted) = wanted {
            let follow = warm_pools::follow(clients, pools, wanted, write_limit);
            if let Ok(found) = tokio::time::timeout_at(end, follow).await {
                faults = found;
            } else {
                let marked = pools.iter().filter(|(_, facts)| facts.tag.is_some());
                let late = |group: &String| (group.clone(), late(calls::PUT_POOL));
                faults.extend(marked.map(|(group, _)| group).map(late));
                faults.extend(wanted.pools.keys().map(late));
            }
        }
        let mut standing = warm_pools::standing(pools, before, now);
        standing.faults = faults;
        let read = warm_pools::read(clients, &mut standing, now);
        if tokio::time::timeout_at(end, read).await.is_err() {
            tracing::warn!(error = late(calls::POOL), "instances of warm pools not read");
        }
        standing
    }

    async fn gather(&mut self) -> Result<Found, AwsError> {
        self.calling = calls::GROUPS;
        let mut groups = self.clients.groups(&self.discovery).await?;
        groups.sort_by(|a, b| a.auto_scaling_group_name.cmp(&b.auto_scaling_group_name));
        let name = |group: &AutoScalingGroup| group.auto_scaling_group_name().map(str::to_owned);
        let pools =
            groups.iter().filter_map(|group| Some((name(group)?, warm_pools::facts(group))));
        self.pools = pools.collect();
        let groups: Vec<_> = groups.into_iter().map(|group| (Origin::of(&group), group)).collect();
        let origins = || groups.iter().filter_map(|(origin, _)| origin.as_ref().ok());

        self.read_templates(origins().filter_map(Origin::template).collect()).await?;
        let configurations = origins().filter_map(Origin::configuration).collect();
        let configurations = self.read_configurations(configurations).await?;
        let selections =
            origins().filter_map(|origin| origin.selection(&self.templates).ok().flatten());
        self.read_selected(selections.collect()).await;
        let Self { templates, selected, .. } = &*self;
        let launches: Vec<(AutoScalingGroup, _)> = groups
            .into_iter()
            .map(|(origin, group)| {
                let launch = |origin: Origin| origin.launch(templates, &configurations, selected);
                (group, origin.and_then(launch))
            })
            .collect();
        let specs = launches.iter().filter_map(|(_, launch)| launch.as_ref().ok());
        let types =
            specs.flat_map(|launch| launch.other_types.iter().chain([&launch.instance_type]));
        self.read_hardware(types.cloned().collect()).await?;

        self.read_managed(launches.iter().filter_map(|(group, _)| managed(group)).collect()).await;

        let mut found = Found { closed: self.closed().await, ..Found::default() };
        for (group, launch) in launches {
            let description = managed(&group).and_then(|managed| self.managed.get(&managed));
            let description = description.map(|(_, description)| description);
            let types = (&self.hardware, self.pod_addresses);
            let region = self.clients.region();
            node_group::add(&mut found, &group, launch, description, types, region);
        }
        Ok(found)
    }

    /// The groups in which AWS could launch no instance. A failure is only logged, because the
    /// permission is optional.
    async fn closed(&mut self) -> BTreeMap<String, DateTime<Utc>> {
        self.calling = calls::ACTIVITIES;
        let read = self.clients.activities().await;
        let failing = read.as_ref().err().map(|error| chain(error));
        if let Some(error) = failing.as_ref().filter(|_| failing != self.activities_failing) {
            tracing::warn!(error, "scaling activities not read");
        }
        self.activities_failing = failing;
        // After a failure, the groups that are closed stay so.
        self.closed.note(&read.unwrap_or_default());
        self.closed.at(clock::now())
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

    /// Reads descriptions that are missing or old. A failure affects only the groups that it names,
    /// because live nodes and tags may describe them, too.
    async fn read_managed(&mut self, wanted: BTreeSet<ManagedGroup>) {
        self.managed.retain(|group, _| wanted.contains(group));
        for (age, _) in self.managed.values_mut() {
            *age += 1;
        }
        let is_fresh = |group: &ManagedGroup| {
            let known = self.managed.get(group);
            known.is_some_and(|(age, read)| read.is_ok() && *age < DESCRIBED_REFRESHES)
        };
        let missing: Vec<_> = wanted.into_iter().filter(|group| !is_fresh(group)).collect();
        let clients = &self.clients;
        let read = |group: ManagedGroup| async move { (clients.managed(&group).await, group) };
        let reads = missing.clone().into_iter().map(read);
        for (read, group) in answers(reads, MANAGED_AT_ONCE, MANAGED_DEADLINE).await {
            // After a failure, the last description stays in use.
            let known = self.managed.get(&group);
            if read.is_ok() || known.is_none_or(|(_, known)| known.is_err()) {
                self.managed.insert(group, (0, read));
            }
        }
        for group in missing {
            let late = || (0, Err(format!("no time left after {MANAGED_DEADLINE:?}")));
            self.managed.entry(group).or_insert_with(late);
        }
    }

    /// Reads the lists of instance types that are missing or old. A failure affects only the groups
    /// that have these attributes, and the last list stays in use.
    async fn read_selected(&mut self, wanted: Vec<Selection>) {
        self.calling = calls::TYPES_FOR;
        self.selected.retain(|known| wanted.contains(&known.of));
        self.selected.iter_mut().for_each(|known| known.age += 1);
        let mut missing: Vec<Selection> = Vec::new();
        for of in wanted {
            let is_fresh = |known: &Selected| {
                known.of == of && known.listed.is_ok() && known.age < LISTED_REFRESHES
            };
            if !self.selected.iter().any(is_fresh) && !missing.contains(&of) {
                missing.push(of);
            }
        }
        let clients = &self.clients;
        let read = |of: Selection| async move { (clients.types_for(&of).await, of) };
        let reads = missing.clone().into_iter().map(read);
        let answers = answers(reads, LISTED_AT_ONCE, LISTED_DEADLINE).await;
        missing.retain(|of| answers.iter().all(|(_, answered)| answered != of));
        let late = missing.into_iter().map(|of| (Err("AWS did not answer in time".to_owned()), of));
        for (listed, of) in answers.into_iter().chain(late) {
            if let Err(error) = &listed {
                tracing::warn!(error, "instance types for attributes not read");
            }
            match self.selected.iter_mut().find(|known| known.of == of) {
                None => self.selected.push(Selected { of, age: 0, listed }),
                // One that failed, or is old, is read again at the next refresh.
                Some(known) if listed.is_ok() => (known.age, known.listed) = (0, listed),
                Some(_) => {}
            }
        }
    }

    async fn read_hardware(&mut self, wanted: BTreeSet<String>) -> Result<(), AwsError> {
        self.calling = calls::TYPES;
        let missing = wanted.into_iter().filter(|name| !self.hardware.contains_key(name)).collect();
        self.hardware.extend(self.clients.hardware(missing, self.pod_addresses).await?);
        Ok(())
    }
}

/// The answers of the calls that end within a time limit, of which so many run at once.
async fn answers<Call: Future>(
    calls: impl Iterator<Item = Call>,
    at_once: usize,
    limit: Duration,
) -> Vec<Call::Output> {
    let deadline = tokio::time::Instant::now() + limit;
    let mut calls = std::pin::pin!(stream::iter(calls).buffer_unordered(at_once));
    let mut answers = Vec::new();
    while let Ok(Some(answer)) = tokio::time::timeout_at(deadline, calls.next()).await {
        answers.push(answer);
    }
    answers
}

/// The managed node group of an Auto Scaling group, if it has one.
fn managed(group: &AutoScalingGroup) -> Option<ManagedGroup> {
    ManagedGroup::of(
        group.tags().iter().filter_map(|tag| Some((tag.key()?, tag.value().unwrap_or_default()))),
    )
}
