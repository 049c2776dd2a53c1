//! The watches of a cluster: they apply events of the API server to the [`World`], in one task
//! each, while the controller runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::{AbortHandle, JoinSet};
use watcher::Event;

use super::admission::{Admission, ContainerDefaults, NamespaceAdds};
use super::announced::{Announcement, CRON_JOBS, JOBS};
use super::class::Priority;
use super::follow::{OURS, Shared, announcer, apply_to, follow, kept};
use super::objects::{
    BatchJob, CronJob, DaemonSet, Key, LimitRange, Namespace, Node, Pod, RuntimeClass,
};
use super::optional::{KARPENTER, optional_kinds};
use super::stored::StoredPolicy;
use super::usage::follow_usage;
use super::world::{OFF_SWITCH, OwnedObject, World};
use super::{objects, scale_up_events, shortages};

/// The configurable part of what the controller watches. Beside it, the controller always watches
/// the objects that every cluster has, such as pods and nodes.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespaces whose policies count.
    pub namespaces: Vec<String>,
    /// The namespace of the off switch. `None` for a dry run, which does not read it.
    pub off_switch_namespace: Option<String>,
    /// The namespace of the status of cluster-autoscaler.
    pub autoscaler_namespace: String,
    /// Whether the groups of nodes come from Karpenter's NodePools and NodeClaims, if the cluster
    /// has them.
    pub karpenter: bool,
    /// Whether the usage of pods is read from the metrics API.
    pub usage: bool,
}

/// The name of the ConfigMap with the status of cluster-autoscaler.
const AUTOSCALER_STATUS: &str = "cluster-autoscaler-status";

/// The watches whose first list the controller awaits in any cluster. It also awaits the policies
/// and the standing placeholders of each namespace.
const AWAITED: [&str; 7] = [
    "pods",
    "nodes",
    "daemonsets",
    "priorityclasses",
    "limitranges",
    "runtimeclasses",
    "namespaces",
];

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
        shared.world().wait_for(AWAITED.map(str::to_owned));
        if scope.karpenter {
            // Without the pools, placeholders in their groups would seem to belong to no group.
            shared.world().wait_for(KARPENTER.map(str::to_owned));
        }
        let mut watches = Self { client, shared, tasks: JoinSet::new(), pods: None };
        watches.restart_pods();
        watches.nodes();
        watches.daemons();
        watches.jobs();
        watches.cron_jobs();
        watches.priorities();
        watches.admission();
        if let Some(namespace) = &scope.off_switch_namespace {
            watches.off_switch(namespace);
        }
        watches.autoscaler(&scope.autoscaler_namespace);
        watches.scale_up_events(&scope.autoscaler_namespace, scale_up_events::OF_STATUS);
        if scope.karpenter {
            watches.scale_up_events(shortages::NAMESPACE, shortages::SELECTOR);
        }
        for namespace in &scope.namespaces {
            watches.policies(namespace);
            watches.sets(namespace);
            for selector in scale_up_events::OF_PODS {
                watches.scale_up_events(namespace, selector);
            }
        }
        let (client, shared) = (watches.client.clone(), Arc::clone(&watches.shared));
        if scope.usage {
            watches.tasks.spawn(follow_usage(client.clone(), Arc::clone(&shared)));
        }
        watches.tasks.spawn(optional_kinds(client, shared, scope.namespaces.clone()));
        watches
    }

    /// No watches, where a test keeps the world.
    #[cfg(test)]
    pub(crate) fn none(client: Client, shared: Arc<Shared>) -> Self {
        Self { client, shared, tasks: JoinSet::new(), pods: None }
    }

    /// Lists all pods again, because policies read other labels than before. The pods count as not
    /// listed until that list is complete.
    pub fn restart_pods(&mut self) {
        if let Some(old) = self.pods.take() {
            old.abort();
        }
        self.shared.world().wait_for(["pods".to_owned()]);
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
        let mut announce = announcer(JOBS, Announcement::of_job);
        self.follow("jobs", api, watcher::Config::default(), move |world, event| {
            if let Event::InitApply(job) | Event::Apply(job) = &event {
                world.index.note_release(job);
            }
            announce(world, event);
        });
    }

    fn cron_jobs(&mut self) {
        let api: Api<CronJob> = Api::all_with(self.client.clone(), &());
        let apply = announcer(CRON_JOBS, Announcement::of_cron_job);
        self.follow(CRON_JOBS, api, watcher::Config::default(), apply);
    }

    fn priorities(&mut self) {
        let api: Api<PriorityClass> = Api::all(self.client.clone());
        let apply = admitting(
            |admission| &mut admission.priorities,
            |class: PriorityClass| Some(Priority::of(&class)),
            |_| None,
        );
        self.follow("priorityclasses", api, watcher::Config::default(), apply);
    }

    /// What admission adds to the pods of templates, besides priorities.
    fn admission(&mut self) {
        let config = watcher::Config::default;
        let api: Api<LimitRange> = Api::all_with(self.client.clone(), &());
        let apply = admitting(
            |admission| &mut admission.limit_ranges,
            ContainerDefaults::of,
            |key| Some(&key.namespace),
        );
        self.follow("limitranges", api, config(), apply);
        let api: Api<RuntimeClass> = Api::all_with(self.client.clone(), &());
        let apply = admitting(
            |admission| &mut admission.runtime_classes,
            |class: RuntimeClass| Some(class.adds),
            |_| None,
        );
        self.follow("runtimeclasses", api, config(), apply);
        let api: Api<Namespace> = Api::all_with(self.client.clone(), &());
        let apply = admitting(
            |admission| &mut admission.namespaces,
            |namespace: Namespace| NamespaceAdds::of(&namespace),
            |key| Some(&key.name),
        );
        self.follow("namespaces", api, config(), apply);
    }

    fn off_switch(&mut self, namespace: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={OFF_SWITCH}"));
        self.shared.world().wait_for([OFF_SWITCH.to_owned()]);
        self.follow(OFF_SWITCH, api, config, off_switch());
    }

    fn autoscaler(&mut self, namespace: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let config =
            watcher::Config::default().fields(&format!("metadata.name={AUTOSCALER_STATUS}"));
        self.follow("cluster-autoscaler-status", api, config, autoscaler_status());
    }

    /// Why autoscalers launch no nodes for pods of a namespace.
    fn scale_up_events(&mut self, namespace: &str, selector: &str) {
        let api: Api<objects::Event> = Api::namespaced_with(self.client.clone(), namespace, &());
        let config = watcher::Config::default().fields(selector);
        let name = format!("events of {namespace} with {selector}");
        self.follow(&name, api, config, |world, event| match event {
            Event::InitApply(event) | Event::Apply(event) => {
                world.scale_ups_reported.note(&event);
                world.shortages.note(&event);
            }
            Event::Init | Event::InitDone | Event::Delete(_) => {}
        });
    }

    fn policies(&mut self, namespace: &str) {
        let api: Api<StoredPolicy> = Api::namespaced(self.client.clone(), namespace);
        let name = format!("policies of {namespace}");
        self.shared.world().wait_for([name.clone()]);
        let apply = kept(
            Some(namespace.to_owned()),
            |world| &mut world.policies,
            |StoredPolicy(policy)| Some(policy),
        );
        self.follow(&name, api, watcher::Config::default(), apply);
    }

    fn sets(&mut self, namespace: &str) {
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().labels(OURS);
        let name = format!("replicasets of {namespace}");
        self.shared.world().wait_for([name.clone()]);
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

/// Returns a function that applies events of a kind that defines what admission adds to pods.
///
/// The pods are admitted again after a list that changed something, and after an event that did.
/// `namespace` returns the namespace whose pods an object concerns, or `None` for those of all.
fn admitting<K: Resource, V: Clone + PartialEq>(
    map: impl Fn(&mut Admission) -> &mut BTreeMap<Key, V> + Send + 'static,
    of: impl Fn(K) -> Option<V>,
    namespace: impl Fn(&Key) -> Option<&str>,
) -> impl FnMut(&mut World, Event<K>) {
    let (mut listed, mut before) = (BTreeSet::new(), BTreeMap::new());
    move |world, event| {
        let map = map(world.index.admission());
        if let Event::Apply(object) | Event::Delete(object) = &event {
            let key = Key::of(object.meta());
            let value = map.get(&key).cloned();
            apply_to(&mut listed, map, None, &of, event);
            if map.get(&key) != value.as_ref() {
                world.index.readmit(namespace(&key));
            }
            return;
        }
        if matches!(event, Event::Init) {
            before.clone_from(map);
        }
        let is_done = matches!(event, Event::InitDone);
        apply_to(&mut listed, map, None, &of, event);
        if is_done && *map != std::mem::take(&mut before) {
            world.index.readmit(None);
        }
    }
}

/// Returns a function that applies events of the off switch, which is set while it exists.
fn off_switch() -> impl FnMut(&mut World, Event<ConfigMap>) {
    let mut is_listed = false;
    move |world, event| match event {
        Event::Init => is_listed = false,
        Event::InitApply(_) => is_listed = true,
        Event::InitDone => world.is_off = is_listed,
        Event::Apply(_) => world.is_off = true,
        Event::Delete(_) => world.is_off = false,
    }
}

/// Returns a function that applies events of the status of cluster-autoscaler.
fn autoscaler_status() -> impl FnMut(&mut World, Event<ConfigMap>) {
    let mut is_listed = false;
    move |world, event| match event {
        Event::Init => is_listed = false,
        Event::InitApply(map) | Event::Apply(map) => {
            is_listed = true;
            let status = map.data.as_ref().and_then(|data| data.get("status"));
            world.read_autoscaler(status.map_or("", String::as_str));
        }
        // The status may have been deleted while the watch failed.
        Event::InitDone if is_listed => {}
        Event::InitDone | Event::Delete(_) => world.forget_autoscaler(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_a_new_list_lacks_is_forgotten() {
        let status = "nodeGroups: [{name: a, scaleUp: {status: Backoff}}]";
        let data = [("status".to_owned(), status.to_owned())].into();
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        let (mut world, mut apply) = (World::default(), autoscaler_status());
        for event in [Event::Init, Event::InitApply(map), Event::InitDone] {
            apply(&mut world, event);
        }
        assert_eq!(world.backoff, ["a".to_owned()].into());
        // The old status counts until the new list is complete.
        apply(&mut world, Event::Init);
        assert_eq!(world.backoff, ["a".to_owned()].into());
        apply(&mut world, Event::InitDone);
        assert_eq!(world.backoff, BTreeSet::new());
    }
}
