//! The watches: they apply events of the API server to the [`World`], in one task each, while the
//! controller runs.
//!
//! A watch that fails records its error and retries; the state that it reported before is kept.
//! Kinds that a cluster may lack are discovered once a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use watcher::Event;

use super::announced::{Announcement, Key, Reading};
use super::index::GANG_KINDS;
use super::karpenter::{NodeClaim, NodePool};
use super::objects::{BatchJob, CronJob, DaemonSet, JobSet, KueueWorkload, Node, Pod};
use super::world::{OwnedObject, World, backing_off};
use crate::crd::OverprovisioningPolicy;

/// The world that the watches update, and a notification of its changes.
#[derive(Debug, Default)]
pub struct Shared {
    world: Mutex<World>,
    changed: Notify,
}

impl Shared {
    /// Locks the world. The lock must be held only briefly, because events wait for it.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the world has changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Notifies [`Shared::changed`] of a change.
    pub fn ring(&self) {
        self.changed.notify_one();
    }
}

/// The namespaces of the policies and of the status of cluster-autoscaler.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespaces whose policies count.
    pub namespaces: Vec<String>,
    /// The namespace of the status of cluster-autoscaler.
    pub autoscaler_namespace: String,
}

/// The name of the ConfigMap with the status of cluster-autoscaler.
const AUTOSCALER_STATUS: &str = "cluster-autoscaler-status";

/// The interval at which kinds that a cluster may lack are discovered: one minute.
const DISCOVERY_INTERVAL: Duration = Duration::from_mins(1);

/// The watches that decisions need in any cluster. Decisions also need the policies and the
/// standing placeholders of each namespace.
const NEEDED: [&str; 4] = ["pods", "nodes", "daemonsets", "priorityclasses"];

/// The running watches. They end when this value is dropped.
pub struct Watches {
    client: Client,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    pods: Option<AbortHandle>,
}

impl Watches {
    /// Starts all watches.
    pub fn start(client: Client, shared: Arc<Shared>, scope: &Scope) -> Self {
        shared.world().need(NEEDED.map(str::to_owned));
        let mut watches = Self { client, shared, tasks: JoinSet::new(), pods: None };
        watches.restart_pods();
        watches.nodes();
        watches.daemons();
        watches.jobs();
        watches.cron_jobs();
        watches.priorities();
        watches.autoscaler(&scope.autoscaler_namespace);
        for namespace in &scope.namespaces {
            watches.policies(namespace);
            watches.sets(namespace);
        }
        let (client, shared) = (watches.client.clone(), Arc::clone(&watches.shared));
        watches.tasks.spawn(optional_kinds(client, shared, scope.namespaces.clone()));
        watches
    }

    /// Lists all pods again, because policies read other labels than before.
    pub fn restart_pods(&mut self) {
        if let Some(old) = self.pods.take() {
            old.abort();
        }
        let api: Api<Pod> = Api::all_with(self.client.clone(), &());
        self.pods = Some(self.follow(
            "pods",
            api,
            watcher::Config::default().streaming_lists(),
            |world, event| match event {
                Event::Init => world.index.begin_pods(),
                Event::InitApply(pod) | Event::Apply(pod) => world.index.apply_pod(&pod),
                Event::InitDone => world.index.end_pods(),
                Event::Delete(pod) => world.index.delete_pod(&pod),
            },
        ));
    }

    fn nodes(&mut self) {
        let api: Api<Node> = Api::all_with(self.client.clone(), &());
        self.follow("nodes", api, watcher::Config::default(), |world, event| match event {
            Event::Init => world.index.begin_nodes(),
            Event::InitApply(node) | Event::Apply(node) => world.index.apply_node(&node),
            Event::InitDone => world.index.end_nodes(),
            Event::Delete(node) => world.index.delete_node(&node),
        });
    }

    fn daemons(&mut self) {
        let api: Api<DaemonSet> = Api::all_with(self.client.clone(), &());
        let mut listed = BTreeSet::new();
        self.follow(
            "daemonsets",
            api,
            watcher::Config::default(),
            move |world, event| match event {
                Event::Init => listed.clear(),
                Event::InitApply(daemon) => {
                    listed.insert(Key::of(&daemon.metadata));
                    world.index.apply_daemon(&daemon);
                }
                Event::Apply(daemon) => world.index.apply_daemon(&daemon),
                Event::InitDone => world.index.retain_daemons(&listed),
                Event::Delete(daemon) => world.index.delete_daemon(&Key::of(&daemon.metadata)),
            },
        );
    }

    fn jobs(&mut self) {
        let api: Api<BatchJob> = Api::all_with(self.client.clone(), &());
        let read = |reading: &Reading<'_>, job: &BatchJob| reading.job(job);
        self.announcing("jobs", api, read);
    }

    fn cron_jobs(&mut self) {
        let api: Api<CronJob> = Api::all_with(self.client.clone(), &());
        let read = |reading: &Reading<'_>, cron: &CronJob| reading.cron_job(cron);
        self.announcing("cronjobs", api, read);
    }

    fn announcing<K>(
        &mut self,
        name: &'static str,
        api: Api<K>,
        read: impl Fn(&Reading<'_>, &K) -> Option<Announcement> + Send + 'static,
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        self.follow(name, api, watcher::Config::default(), announcer(name, read));
    }

    fn priorities(&mut self) {
        let api: Api<PriorityClass> = Api::all(self.client.clone());
        let apply = kept(
            None,
            |world| &mut world.priorities,
            |class: PriorityClass| class.value.or(Some(0)),
        );
        self.follow("priorityclasses", api, watcher::Config::default(), apply);
    }

    fn autoscaler(&mut self, namespace: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let config =
            watcher::Config::default().fields(&format!("metadata.name={AUTOSCALER_STATUS}"));
        self.follow("cluster-autoscaler-status", api, config, |world, event| match event {
            Event::InitApply(map) | Event::Apply(map) => {
                let status = map.data.as_ref().and_then(|data| data.get("status"));
                world.backoff = status.map(|status| backing_off(status)).unwrap_or_default();
            }
            Event::Delete(_) => world.backoff.clear(),
            Event::Init | Event::InitDone => {}
        });
    }

    fn policies(&mut self, namespace: &str) {
        let api: Api<OverprovisioningPolicy> = Api::namespaced(self.client.clone(), namespace);
        let name = format!("policies of {namespace}");
        self.shared.world().need([name.clone()]);
        let apply = kept(Some(namespace.to_owned()), |world| &mut world.policies, Some);
        self.follow(&name, api, watcher::Config::default(), apply);
    }

    fn sets(&mut self, namespace: &str) {
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().labels(OURS);
        let name = format!("replicasets of {namespace}");
        self.shared.world().need([name.clone()]);
        let apply = kept(
            Some(namespace.to_owned()),
            |world| &mut world.sets,
            |set| OwnedObject::of_set(&set),
        );
        self.follow(&name, api, config, apply);
    }

    fn follow<K>(
        &mut self,
        name: &str,
        api: Api<K>,
        config: watcher::Config,
        apply: impl FnMut(&mut World, Event<K>) + Send + 'static,
    ) -> AbortHandle
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        self.tasks.spawn(follow(name.to_owned(), api, config, Arc::clone(&self.shared), apply))
    }
}

/// The label selector of the objects that Prophet manages.
const OURS: &str = "app.kubernetes.io/managed-by=prophet";

/// Applies the events of one watch, until its task is aborted.
async fn follow<K>(
    name: String,
    api: Api<K>,
    config: watcher::Config,
    shared: Arc<Shared>,
    mut apply: impl FnMut(&mut World, Event<K>) + Send + 'static,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        {
            let mut world = shared.world();
            match event {
                Ok(event) => {
                    world.failing.remove(&name);
                    if matches!(event, Event::InitDone) {
                        world.unlisted.remove(&name);
                    }
                    apply(&mut world, event);
                }
                Err(error) => {
                    tracing::warn!(watch = name, %error, "watch failed");
                    world.failing.insert(name.clone(), error.to_string());
                }
            }
        }
        shared.ring();
    }
}

/// Returns a function that applies events of a kind whose objects are stored as they are.
///
/// `here` is the namespace of the watch, or `None` for all namespaces. Objects that a new list
/// lacks are removed only when the list has ended, so that existing objects never seem to be gone.
fn kept<K: Resource, V>(
    here: Option<String>,
    map: impl Fn(&mut World) -> &mut BTreeMap<Key, V>,
    of: impl Fn(K) -> Option<V>,
) -> impl FnMut(&mut World, Event<K>) {
    let mut listed = BTreeSet::new();
    move |world, event| {
        let map = map(world);
        let mut apply = |object: K| {
            let key = Key::of(object.meta());
            match of(object) {
                Some(value) => drop(map.insert(key.clone(), value)),
                None => drop(map.remove(&key)),
            }
            key
        };
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => drop(listed.insert(apply(object))),
            Event::Apply(object) => drop(apply(object)),
            Event::InitDone => {
                let of_list = |key: &Key| here.as_ref().is_none_or(|here| key.namespace == *here);
                map.retain(|key, _| !of_list(key) || listed.contains(key));
            }
            Event::Delete(object) => drop(map.remove(&Key::of(object.meta()))),
        }
    }
}

/// Returns a function that applies events of a kind that announces pods.
fn announcer<K: Resource + Send + 'static>(
    name: &'static str,
    read: impl Fn(&Reading<'_>, &K) -> Option<Announcement> + Send + 'static,
) -> impl FnMut(&mut World, Event<K>) + Send + 'static {
    let mut listed = BTreeSet::new();
    move |world, event| {
        let reading = Reading {
            label_keys: &world.index.label_keys().clone(),
            priorities: &world.priorities,
        };
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let (key, announcement) = (Key::of(object.meta()), read(&reading, &object));
                listed.insert(key.clone());
                world.index.announce(name, key, announcement);
            }
            Event::Apply(object) => {
                let announcement = read(&reading, &object);
                world.index.announce(name, Key::of(object.meta()), announcement);
            }
            Event::InitDone => world.index.retain_announced(name, &listed),
            Event::Delete(object) => world.index.announce(name, Key::of(object.meta()), None),
        }
    }
}

/// A kind that a cluster may lack.
struct OptionalKind {
    name: &'static str,
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
}

const OPTIONAL: [OptionalKind; 8] = [
    OptionalKind {
        name: "jobsets",
        group: "jobset.x-k8s.io",
        versions: &["v1alpha2"],
        kind: "JobSet",
    },
    OptionalKind {
        name: "workloads",
        group: "kueue.x-k8s.io",
        versions: &["v1beta2", "v1beta1"],
        kind: "Workload",
    },
    OptionalKind {
        name: GANGS[0],
        group: "scheduling.k8s.io",
        versions: &["v1alpha2"],
        kind: "PodGroup",
    },
    OptionalKind {
        name: GANGS[1],
        group: "scheduling.x-k8s.io",
        versions: &["v1alpha1"],
        kind: "PodGroup",
    },
    OptionalKind {
        name: GANGS[2],
        group: "scheduling.volcano.sh",
        versions: &["v1beta1"],
        kind: "PodGroup",
    },
    OptionalKind { name: "nodepools", group: "karpenter.sh", versions: &["v1"], kind: "NodePool" },
    OptionalKind {
        name: "nodeclaims",
        group: "karpenter.sh",
        versions: &["v1"],
        kind: "NodeClaim",
    },
    OptionalKind {
        name: "capacitybuffers",
        group: "autoscaling.x-k8s.io",
        versions: &["v1beta1"],
        kind: "CapacityBuffer",
    },
];

/// Watches the optional kinds while the cluster has them.
async fn optional_kinds(client: Client, shared: Arc<Shared>, namespaces: Vec<String>) {
    let mut running: [Option<JoinSet<()>>; OPTIONAL.len()] = [const { None }; OPTIONAL.len()];
    loop {
        for (kind, tasks) in OPTIONAL.iter().zip(&mut running) {
            match (served(&client, kind).await, tasks.is_some()) {
                (Ok(Some(resource)), false) => {
                    *tasks = Some(watch_optional(&client, &shared, &namespaces, kind, &resource));
                }
                (Ok(None), true) => {
                    *tasks = None;
                    let mut world = shared.world();
                    world.index.retain_announced(kind.name, &BTreeSet::new());
                    world.forget(kind.name);
                    match kind.kind {
                        "CapacityBuffer" => world.buffers = None,
                        "PodGroup" => {
                            let at = GANGS.iter().position(|name| *name == kind.name);
                            world.index.gangs(at.unwrap_or(0)).clear();
                        }
                        "NodePool" => world.node_pools.clear(),
                        "NodeClaim" => world.node_claims.clear(),
                        _ => {}
                    }
                }
                // If discovery fails, the watch of the kind stays as it is.
                _ => {}
            }
        }
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
    }
}

/// Returns the resource of a kind, or `None` if the cluster does not have the kind.
async fn served(client: &Client, kind: &OptionalKind) -> kube::Result<Option<ApiResource>> {
    for version in kind.versions {
        let found = client.list_api_group_resources(&format!("{}/{version}", kind.group)).await;
        match found {
            Ok(list) if list.resources.iter().any(|resource| resource.kind == kind.kind) => {
                return Ok(Some(ApiResource::from_gvk(&GroupVersionKind::gvk(
                    kind.group, version, kind.kind,
                ))));
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn watch_optional(
    client: &Client,
    shared: &Arc<Shared>,
    namespaces: &[String],
    kind: &OptionalKind,
    resource: &ApiResource,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let config = watcher::Config::default;
    let name = kind.name.to_owned();
    match kind.kind {
        "JobSet" => {
            let apply = announcer("jobsets", job_set);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "Workload" => {
            let apply = announcer("workloads", workload);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "PodGroup" => {
            let at = GANGS.iter().position(|name| *name == kind.name).unwrap_or(0);
            let apply = kept(None, move |world| world.index.gangs(at), |group| gang_min(&group));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "NodePool" => {
            shared.world().need([name.clone()]);
            let pool = |object: DynamicObject| NodePool::of(&object);
            let apply = kept(None, |world| &mut world.node_pools, pool);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "NodeClaim" => {
            shared.world().need([name.clone()]);
            let claim = |object: DynamicObject| NodeClaim::of(&object);
            let apply = kept(None, |world| &mut world.node_claims, claim);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        _ => {
            shared.world().buffers = Some(BTreeMap::new());
            for namespace in namespaces {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, resource);
                let apply = kept(
                    Some(namespace.clone()),
                    |world| world.buffers.get_or_insert_default(),
                    |buffer| OwnedObject::of_buffer(&buffer),
                );
                let name = format!("{} of {namespace}", kind.name);
                shared.world().need([name.clone()]);
                tasks.spawn(follow(name, api, config().labels(OURS), Arc::clone(shared), apply));
            }
        }
    }
    tasks
}

fn job_set(reading: &Reading<'_>, object: &DynamicObject) -> Option<Announcement> {
    let set: JobSet = serde_json::from_value(object.data.clone()).ok()?;
    reading.job_set(&object.metadata, &set)
}

/// The kinds of PodGroups, in the order of their indexes in the index.
const GANGS: [&str; GANG_KINDS] = [
    "podgroups.scheduling.k8s.io",
    "podgroups.scheduling.x-k8s.io",
    "podgroups.scheduling.volcano.sh",
];

/// Returns the number of pods of a PodGroup that start at once or not at all, or `None` if the
/// PodGroup is no gang.
fn gang_min(group: &DynamicObject) -> Option<u64> {
    let places = ["/spec/minMember", "/spec/schedulingPolicy/gang/minCount"];
    let least = places.iter().find_map(|place| group.data.pointer(place)?.as_u64())?;
    (least > 1 && group.metadata.deletion_timestamp.is_none()).then_some(least)
}

fn workload(reading: &Reading<'_>, object: &DynamicObject) -> Option<Announcement> {
    let workload: KueueWorkload = serde_json::from_value(object.data.clone()).ok()?;
    reading.workload(&object.metadata, &workload)
}
