//! The watches of kinds that a cluster may lack.
//!
//! The kinds are discovered once a minute, so that kinds that are installed later are watched too.
//! The controller waits for none of them, except for those of Karpenter where they give the groups
//! of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery::Discovery;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::announced::Announcement;
use super::follow::{OURS, Shared, announcer, follow, kept};
use super::index::GANG_KINDS;
use super::karpenter::{NodeClaim, NodeOverlay, NodePool};
use super::objects::{FlavorSpec, Key, ResourceFlavor};
use super::world::{OwnedObject, World};
use crate::crd::PlannedDemandSpec;

/// The interval at which kinds that a cluster may lack are discovered: one minute.
const DISCOVERY_INTERVAL: Duration = Duration::from_mins(1);

/// A kind that a cluster may lack.
struct OptionalKind {
    name: &'static str,
    group: &'static str,
    /// The versions that are read, the newest first.
    versions: &'static [&'static str],
    kind: &'static str,
}

const OPTIONAL: [OptionalKind; 15] = [
    OptionalKind {
        name: "jobsets",
        group: "jobset.x-k8s.io",
        versions: &["v1alpha2"],
        kind: "JobSet",
    },
    OptionalKind {
        name: "workflows",
        group: "argoproj.io",
        versions: &["v1alpha1"],
        kind: "Workflow",
    },
    OptionalKind {
        name: "cronworkflows",
        group: "argoproj.io",
        versions: &["v1alpha1"],
        kind: "CronWorkflow",
    },
    OptionalKind {
        name: "sparkapplications",
        group: "sparkoperator.k8s.io",
        versions: &["v1beta2"],
        kind: "SparkApplication",
    },
    OptionalKind {
        name: "scheduledsparkapplications",
        group: "sparkoperator.k8s.io",
        versions: &["v1beta2"],
        kind: "ScheduledSparkApplication",
    },
    OptionalKind {
        name: "planneddemands",
        group: "prophet.dev",
        versions: &["v1alpha1"],
        kind: "PlannedDemand",
    },
    OptionalKind {
        name: "workloads",
        group: "kueue.x-k8s.io",
        versions: &["v1beta2", "v1beta1"],
        kind: "Workload",
    },
    OptionalKind {
        name: "resourceflavors",
        group: "kueue.x-k8s.io",
        versions: &["v1beta2", "v1beta1"],
        kind: "ResourceFlavor",
    },
    OptionalKind {
        name: GANGS[0],
        group: "scheduling.k8s.io",
        versions: &["v1beta1", "v1alpha3", "v1alpha2"],
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
    OptionalKind { name: KARPENTER[0], group: "karpenter.sh", versions: &["v1"], kind: "NodePool" },
    OptionalKind {
        name: KARPENTER[1],
        group: "karpenter.sh",
        versions: &["v1"],
        kind: "NodeClaim",
    },
    OptionalKind {
        name: "nodeoverlays",
        group: "karpenter.sh",
        versions: &["v1alpha1"],
        kind: "NodeOverlay",
    },
    OptionalKind {
        name: "capacitybuffers",
        group: "autoscaling.x-k8s.io",
        versions: &["v1beta1"],
        kind: "CapacityBuffer",
    },
];

/// The watches of the kinds that name the steps of workflows.
pub const WORKFLOW_KINDS: [&str; 3] = ["jobsets", "workflows", "sparkapplications"];

/// The watches of Karpenter's NodePools and NodeClaims.
pub(super) const KARPENTER: [&str; 2] = ["nodepools", "nodeclaims"];

/// A running watch of an optional kind.
struct Running {
    /// The version of the kind that is watched.
    version: String,
    _tasks: JoinSet<()>,
}

/// Watches the optional kinds while the cluster has them.
pub(super) async fn optional_kinds(client: Client, shared: Arc<Shared>, namespaces: Vec<String>) {
    let mut running: [Option<Running>; OPTIONAL.len()] = [const { None }; OPTIONAL.len()];
    loop {
        match discover(&client).await {
            Ok(discovery) => {
                for (kind, running) in OPTIONAL.iter().zip(&mut running) {
                    let served = Served::of(&discovery, kind);
                    let start = |resource: &ApiResource| {
                        watch_optional(&client, &shared, &namespaces, kind, resource)
                    };
                    update(kind, served, running, &shared, start);
                }
            }
            // The watches stay as they are.
            Err(error) => tracing::warn!(%error, "kinds not discovered"),
        }
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
    }
}

/// Reads which kinds the groups of the optional kinds have: in one request where the API server
/// aggregates its discovery, as it does from Kubernetes 1.27 on.
async fn discover(client: &Client) -> kube::Result<Discovery> {
    let groups: BTreeSet<&str> = OPTIONAL.iter().map(|kind| kind.group).collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    let discovery = || Discovery::new(client.clone()).filter(&groups);
    match discovery().run_aggregated().await {
        // Each API server has this group.
        Ok(found) if found.has_group("scheduling.k8s.io") => Ok(found),
        _ => discovery().run().await,
    }
}

/// What a cluster serves of an optional kind.
#[derive(Debug, PartialEq)]
enum Served {
    /// The newest version that Prophet reads.
    Known(ApiResource),
    /// Only versions that Prophet cannot read, by name.
    Unknown(Vec<String>),
    /// No version.
    Nothing,
}

impl Served {
    fn of(discovery: &Discovery, kind: &OptionalKind) -> Self {
        let Some(group) = discovery.get(kind.group) else { return Self::Nothing };
        let resource = |version: &str| {
            let all = group.versioned_resources(version).into_iter();
            all.map(|(resource, _)| resource).find(|resource| resource.kind == kind.kind)
        };
        if let Some(known) = kind.versions.iter().find_map(|version| resource(version)) {
            return Self::Known(known);
        }
        let others = group.versions().filter(|version| resource(version).is_some());
        let others: Vec<String> = others.map(str::to_owned).collect();
        if others.is_empty() { Self::Nothing } else { Self::Unknown(others) }
    }
}

/// Starts or ends the watch of a kind, by what the cluster serves of it. A kind of which only
/// unknown versions are served counts as a watch that fails, so that a condition names it.
fn update(
    kind: &OptionalKind,
    served: Served,
    running: &mut Option<Running>,
    shared: &Arc<Shared>,
    start: impl FnOnce(&ApiResource) -> JoinSet<()>,
) {
    let failing = match served {
        Served::Known(resource) => {
            if running.as_ref().map(|running| &running.version) != Some(&resource.version) {
                // The watch of a version that is no longer served ends first.
                drop(running.take());
                shared.world().failing.remove(kind.name);
                let tasks = start(&resource);
                *running = Some(Running { version: resource.version, _tasks: tasks });
            }
            return;
        }
        // Without Karpenter's pools, live nodes give the groups.
        Served::Unknown(versions) if KARPENTER.contains(&kind.name) => {
            let (kind, served) = (kind.kind, versions.join(", "));
            tracing::warn!(kind, served, "not read, because no known version is served");
            None
        }
        Served::Unknown(versions) => {
            let (served, known) = (versions.join(", "), kind.versions.join(", "));
            let OptionalKind { group, kind, .. } = kind;
            Some(format!("{kind} of {group} is served as {served}, and this build reads {known}"))
        }
        Served::Nothing => None,
    };
    let was_running = running.take().is_some();
    let mut world = shared.world();
    let is_new = world.failing.get(kind.name) != failing.as_ref();
    if was_running || is_new || world.unlisted.contains(kind.name) {
        forget(&mut world, kind);
        world.failing.extend(failing.map(|why| (kind.name.to_owned(), why)));
        shared.ring();
    }
}

/// Removes what was observed of a kind that the cluster does not have.
fn forget(world: &mut World, kind: &OptionalKind) {
    world.index.retain_announced(kind.name, &BTreeSet::new());
    world.forget(kind.name);
    match kind.kind {
        "CapacityBuffer" => world.buffers = None,
        "PodGroup" => {
            let at = GANGS.iter().position(|name| *name == kind.name);
            world.index.gangs(at.unwrap_or(0)).clear();
        }
        "ResourceFlavor" => world.index.flavors().clear(),
        "NodePool" => world.node_pools.clear(),
        "NodeClaim" => world.node_claims.clear(),
        "NodeOverlay" => world.node_overlays.clear(),
        _ => {}
    }
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
            let apply = announcer("jobsets", read_as(Announcement::of_job_set));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "PlannedDemand" => {
            let apply = announcer("planneddemands", planned);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "Workflow" => {
            let apply = announcer("workflows", read_as(Announcement::of_argo));
            // Those that ended may be many.
            let running = config().labels("workflows.argoproj.io/completed!=true");
            tasks.spawn(follow(name, all, running, Arc::clone(shared), apply));
        }
        "CronWorkflow" => {
            let apply = announcer("cronworkflows", read_as(Announcement::of_cron_workflow));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "SparkApplication" => {
            let apply = announcer("sparkapplications", read_as(Announcement::of_spark));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "ScheduledSparkApplication" => {
            let apply =
                announcer("scheduledsparkapplications", read_as(Announcement::of_scheduled_spark));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "Workload" => {
            let apply = announcer("workloads", read_as(Announcement::of_workload));
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "ResourceFlavor" => {
            let apply = kept(None, |world| world.index.flavors(), flavor);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "PodGroup" => {
            let at = GANGS.iter().position(|name| *name == kind.name).unwrap_or(0);
            let least = |group: DynamicObject| Some(gang_min(&group).unwrap_or(1));
            let apply = kept(None, move |world| world.index.gangs(at), least);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "NodePool" => {
            shared.world().unlisted.insert(name.clone());
            let pool = |object: DynamicObject| NodePool::of(&object);
            let apply = kept(None, |world| &mut world.node_pools, pool);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "NodeOverlay" => {
            let overlay = |object: DynamicObject| NodeOverlay::of(&object);
            let apply = kept(None, |world| &mut world.node_overlays, overlay);
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        "NodeClaim" => {
            shared.world().unlisted.insert(name.clone());
            let claim = |object: DynamicObject| NodeClaim::of(&object);
            let mut keep = kept(None, |world| &mut world.node_claims, claim);
            let apply = move |world: &mut World, event: Event<DynamicObject>| {
                if let Event::InitApply(claim) | Event::Apply(claim) = &event {
                    world.shortages.note_claim(claim);
                }
                keep(world, event);
            };
            tasks.spawn(follow(name, all, config(), Arc::clone(shared), apply));
        }
        _ => {
            shared.world().buffers.get_or_insert_default();
            for namespace in namespaces {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, resource);
                let apply = kept(
                    Some(namespace.clone()),
                    |world| world.buffers.get_or_insert_default(),
                    |buffer| OwnedObject::of_buffer(&buffer),
                );
                let name = format!("{} of {namespace}", kind.name);
                shared.world().unlisted.insert(name.clone());
                tasks.spawn(follow(name, api, config().labels(OURS), Arc::clone(shared), apply));
            }
        }
    }
    tasks
}

/// Returns a function that reads an object as `T`, and then what it announces. An object that
/// cannot be read announces nothing.
fn read_as<T: DeserializeOwned>(
    announce: impl Fn(&ObjectMeta, &T) -> Option<Announcement>,
) -> impl Fn(&DynamicObject) -> Option<Announcement> {
    move |object| match serde_json::from_value(object.data.clone()) {
        Ok(read) => announce(&object.metadata, &read),
        Err(error) => {
            let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
            tracing::debug!(kind, object = %Key::of(&object.metadata), %error, "object not read");
            None
        }
    }
}

fn planned(object: &DynamicObject) -> Option<Announcement> {
    let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
    let spec: PlannedDemandSpec = serde_json::from_value(part("spec")).ok()?;
    let status = serde_json::from_value(part("status")).unwrap_or_default();
    Announcement::of_planned(&object.metadata, &spec, &status)
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

fn flavor(object: DynamicObject) -> Option<FlavorSpec> {
    let flavor: ResourceFlavor = serde_json::from_value(object.data).ok()?;
    Some(flavor.spec)
}
