//! Tests of a policy's view: one row is one set of nodes and pods.

use std::sync::Arc;

use embedder::{Bucket, CapacityType, Catalog, Group, MicroDollars, Resources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::catalog::{INSTANCE_TYPE_LABEL, spot_labels};
use crate::observe::{Announcement, Requirement, SpotFor};

const TYPE: &str = "m5.xlarge";

/// One bucket with one group.
pub(super) fn offers() -> Arc<Offers> {
    let labels = BTreeMap::from([(INSTANCE_TYPE_LABEL.to_owned(), TYPE.to_owned())]);
    let bucket = testkit::bucket(TYPE, 4_000, 0.000_001);
    let bucket = Bucket {
        allocatable: Resources { pods: 10, ..bucket.allocatable },
        groups: vec![testkit::group("a", 5)],
        ..bucket
    };
    let offer = Offer {
        instance_types: [TYPE.into()].into(),
        members: vec![],
        pins: labels.clone(),
        labels,
        taints: vec![],
        unneeded_seconds: None,
        described: true,
        disk_known: true,
        devices: BTreeMap::from([("vpc.amazonaws.com/efa".to_owned(), 4)]),
        choices: BTreeMap::new(),
        pool: None,
        launched_by: crate::catalog::LaunchedBy::ClusterAutoscaler,
        requested_devices: BTreeMap::new(),
    };
    Arc::new(Offers {
        catalog: testkit::catalog_of([bucket]),
        groups: vec![vec![offer]],
        prices: Vec::new(),
        ranking: Vec::new(),
        problems: vec![],
    })
}

/// A ready node, with `more` in its spec.
pub(super) fn node(name: &str, more: &Value) -> Value {
    let labels = json!({INSTANCE_TYPE_LABEL: TYPE});
    let mut node = testkit::ready_node(name, &labels, &json!({"cpu": "4", "pods": "10"}));
    node["spec"] = more.clone();
    node
}

pub(super) fn placeholder(node: &str) -> Value {
    testkit::placeholder(&format!("on-{node}"), "set", node)
}

/// A pod of a namespace, on a node unless its name is empty.
pub(super) fn pod(name: &str, namespace: &str, node: &str) -> Value {
    testkit::pod(namespace, name, node)
}

pub(super) fn index(nodes: &[Value], pods: &[Value]) -> Index {
    let mut index = Index::default();
    for node in nodes {
        index.apply_node(&serde_json::from_value(node.clone()).unwrap());
    }
    for pod in pods {
        index.apply_pod(&serde_json::from_value(pod.clone()).unwrap());
    }
    index
}

/// What a policy sees that selects the namespace `jobs`.
fn seen(nodes: &[Value], pods: &[Value]) -> Seen {
    seen_of(&offers(), nodes, pods)
}

/// The same, with these offers.
pub(super) fn seen_of(offers: &Arc<Offers>, nodes: &[Value], pods: &[Value]) -> Seen {
    seen_in(offers, &index(nodes, pods))
}

fn seen_in(offers: &Arc<Offers>, index: &Index) -> Seen {
    let workloads = Workloads {
        namespaces: vec!["jobs".into()],
        priority_min: i32::MIN,
        priority_max: i32::MAX,
        preempting_schedulers: ["preempting".to_owned()].into(),
        ..Workloads::default()
    };
    let set = Key { namespace: "prophet".into(), name: "set".into() };
    let places = BTreeMap::from([(set, (0, 0))]);
    View::default().gather(index, offers, &workloads, &places, &|_, _| None, (0, &[]))
}

/// Checks whether a placeholder on a node counts.
#[track_caller]
fn check_headroom(node: &Value, expected: u64) {
    let seen = seen(std::slice::from_ref(node), &[placeholder("n")]);
    assert_eq!(seen.standing.placeholders(0), expected);
    assert_eq!(seen.ready, [[expected]]);
}

#[test]
fn a_placeholder_on_a_node_that_pods_cannot_use_is_no_headroom() {
    check_headroom(&node("n", &json!({})), 1);
    check_headroom(&node("n", &json!({"unschedulable": true})), 0);
    let tainted = |key: &str| node("n", &json!({"taints": [{"key": key, "effect": "NoSchedule"}]}));
    check_headroom(&tainted("ToBeDeletedByClusterAutoscaler"), 0);
    check_headroom(&tainted("aws-node-termination-handler/spot-itn"), 0);
    check_headroom(&tainted("node.cloudprovider.kubernetes.io/shutdown"), 0);
    check_headroom(&tainted("DeletionCandidateOfClusterAutoscaler"), 1);
    let mut not_ready = node("n", &json!({}));
    not_ready["status"]["conditions"][0]["status"] = json!("Unknown");
    check_headroom(&not_ready, 0);
}

/// A node with a batch pod counts as occupied, and its free room only if pods may be bound to it.
#[test]
fn a_node_that_keeps_pods_off_has_no_room() {
    let check = |key: &str, effect: &str, of_pool: bool, rooms: usize| {
        let mut offers = Offers::clone(&offers());
        let pool = Pool { name: "batch".into(), limits: <_>::default(), of_node: <_>::default() };
        offers.groups[0][0].pool = of_pool.then_some(pool);
        let node = node("n", &json!({"taints": [{"key": key, "effect": effect}]}));
        let seen = seen_of(&Arc::new(offers), &[node], &[pod("a", "jobs", "n")]);
        assert_eq!((seen.cluster.occupied[0], seen.cluster.rooms.len()), (1, rooms), "{key}");
    };
    check("node.kubernetes.io/disk-pressure", "NoSchedule", false, 0);
    check("node.kubernetes.io/pid-pressure", "NoSchedule", false, 0);
    check("node.kubernetes.io/memory-pressure", "NoSchedule", false, 0);
    check("maintenance", "NoSchedule", true, 0);
    check("maintenance", "PreferNoSchedule", true, 1);
    check("karpenter.sh/unregistered", "NoExecute", true, 1);
    // Tags may not name all taints of a group.
    check("maintenance", "NoSchedule", false, 1);
}

/// The kubelet of a lost node does not report the end of a pod, for which there is another one.
#[test]
fn a_pod_that_ends_on_a_lost_node_occupies_no_node() {
    let occupied = |ends: Option<bool>| {
        let mut lost = node("n", &json!({}));
        lost["metadata"]["creationTimestamp"] = json!("2026-11-30T09:00:00Z");
        let condition = &mut lost["status"]["conditions"][0];
        condition["status"] = json!("Unknown");
        condition["lastTransitionTime"] = json!("2026-11-30T10:00:00Z");
        let runs = pod("a", "jobs", "n");
        let mut ending = runs.clone();
        ending["metadata"]["deletionTimestamp"] = json!("2026-11-30T10:05:00Z");
        let first = if ends == Some(true) { &ending } else { &runs };
        let mut index = index(&[lost], &[first.clone(), pod("b", "jobs", "")]);
        index.expect_nodes_back("2026-11-30T10:00:30Z".parse().unwrap());
        assert_eq!(seen_in(&offers(), &index).cluster.occupied, [1]);
        index.expect_nodes_back("2026-11-30T10:06:00Z".parse().unwrap());
        if ends == Some(false) {
            index.apply_pod(&serde_json::from_value(ending).unwrap());
        }
        let seen = seen_in(&offers(), &index);
        (seen.cluster.occupied[0], seen.cluster.pending[0].count)
    };
    // The pod is deleted before its node is given up, or afterwards.
    let all = [None, Some(true), Some(false)];
    assert_eq!(all.map(occupied), [(1, 1), (0, 1), (0, 1)]);
}

#[test]
fn nodes_that_placeholders_cannot_use_are_counted() {
    let names = ["batch", "other", "both", "free", "held", "cordoned", "stranded", "joining"];
    let spec = |name: &str| json!({"unschedulable": matches!(name, "cordoned" | "stranded")});
    let mut nodes: Vec<Value> = names.iter().map(|name| node(name, &spec(name))).collect();
    nodes[7]["status"]["conditions"][0]["status"] = json!("False");
    let pods = [
        pod("a", "jobs", "batch"),
        pod("b", "web", "other"),
        pod("c", "jobs", "both"),
        pod("d", "web", "both"),
        placeholder("held"),
        placeholder("stranded"),
    ];
    let group = seen(&nodes, &pods).standing.buckets[0][0];
    let expected = GroupStanding {
        placeholders: 1,
        occupied: 2,
        unusable: 3,
        stranded: 1,
        ..Default::default()
    };
    assert_eq!(group, expected);
}

/// A node whose device plugin found an accelerator unhealthy offers fewer than its capacity.
#[test]
fn the_free_room_of_a_degraded_node_is_what_is_allocatable() {
    let mut degraded = node("n", &json!({}));
    degraded["status"]["allocatable"]["nvidia.com/gpu"] = json!("7");
    degraded["status"]["capacity"] = json!({"cpu": "4", "pods": "10", "nvidia.com/gpu": "8"});
    let mut running = pod("p", "jobs", "n");
    running["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("2");
    let rooms = seen(&[degraded], &[running]).cluster.rooms;
    assert_eq!(rooms.iter().map(|room| room.free.accelerators).collect::<Vec<_>>(), [5]);
}

/// Checks a pending pod that requests one unit of a resource, with `more` in its spec: whether it
/// is demand, or else the reason.
#[track_caller]
fn check_device(resource: &str, more: &Value, expected: Result<u64, &str>) {
    let mut pod = pod("a", "jobs", "");
    pod["spec"]["containers"][0]["resources"]["requests"][resource] = json!("1");
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let Seen { cluster, unfit, .. } = seen(&[], &[pod]);
    let pending = cluster.pending.first().map(|request| request.count);
    let reason = unfit.first().map(|(_, _, why)| why.label());
    assert_eq!(pending.ok_or(reason), expected.map_err(|why| Some(why.to_owned())));
}

#[test]
fn a_pod_that_needs_a_device_that_no_bucket_offers_is_unplaced() {
    check_device("memory", &json!({}), Ok(1));
    check_device("vpc.amazonaws.com/efa", &json!({}), Ok(1));
    check_device("example.com/fpga", &json!({}), Err("no_bucket_offers: example.com/fpga"));
    check_device("hugepages-2Mi", &json!({}), Err("no_bucket_offers: hugepages-2Mi"));
    let claim = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
    check_device("memory", &claim, Err("no_bucket_offers: ResourceClaim gpu"));
    // A pod that fits nowhere in any case keeps its reason.
    let elsewhere = json!({"nodeSelector": {"zone": "moon"}});
    check_device("example.com/fpga", &elsewhere, Err("no_bucket_admits"));
}

/// Checks why a pending pod with this node selector fits nowhere, where no source describes the
/// labels and taints of the only group.
#[track_caller]
fn check_undescribed(selector: &Value, cpu: &str, expected: &str) {
    let mut pod = pod("a", "jobs", "");
    pod["spec"]["nodeSelector"] = selector.clone();
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
    let mut offers = Arc::unwrap_or_clone(offers());
    offers.groups[0][0].described = false;
    let seen = seen_of(&Arc::new(offers), &[], &[pod]);
    let reason = seen.unfit.first().map(|(_, _, why)| why.label());
    assert_eq!(reason.as_deref(), Some(expected));
}

#[test]
fn a_pod_that_a_group_of_unknown_labels_may_admit_names_the_group() {
    check_undescribed(&json!({"team": "blue"}), "1", "labels_unknown_of: a");
    // The group has another value, or is too small.
    check_undescribed(&json!({INSTANCE_TYPE_LABEL: "m5.large"}), "1", "no_bucket_admits");
    check_undescribed(&json!({"team": "blue"}), "5", "no_bucket_admits");
}

/// Checks why a pending pod with `more` in its spec is held back, or that it counts as demand. The
/// scheduler `volcano` does not preempt, and `preempting` does.
#[track_caller]
fn check_held_back(more: &Value, expected: Option<HeldBack>) {
    let mut pod = pod("a", "jobs", "");
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let Seen { cluster, held_back, .. } = seen(&[], &[pod]);
    assert_eq!(cluster.pending.is_empty(), expected.is_some(), "{more}");
    assert_eq!(held_back, expected.map(|reason| (reason, 1)).into_iter().collect(), "{more}");
}

#[test]
fn a_pod_that_cannot_take_a_placeholders_node_is_no_demand() {
    let polite = Some(HeldBack::CannotPreempt);
    check_held_back(&json!({}), None);
    check_held_back(&json!({"preemptionPolicy": "PreemptLowerPriority"}), None);
    check_held_back(&json!({"preemptionPolicy": "Never"}), polite);
    check_held_back(&json!({"schedulerName": "default-scheduler"}), None);
    check_held_back(&json!({"schedulerName": "preempting"}), None);
    check_held_back(&json!({"schedulerName": "volcano"}), polite);
    check_held_back(&json!({"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}), polite);
}

#[test]
fn a_pod_whose_node_other_pods_or_volumes_decide_is_no_demand() {
    let tied = Some(HeldBack::OwnConstraints);
    let (zone, host) = ("topology.kubernetes.io/zone", "kubernetes.io/hostname");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity =
        |kind: &str, key: &str| json!({"affinity": {kind: {required: [{"topologyKey": key}]}}});
    check_held_back(&affinity("podAffinity", zone), tied);
    check_held_back(&affinity("podAffinity", host), tied);
    check_held_back(&affinity("podAntiAffinity", zone), tied);
    let weighted = json!([{"weight": 1, "podAffinityTerm": {"topologyKey": zone}}]);
    check_held_back(&json!({"affinity": {"podAffinity": {preferred: weighted}}}), None);
    // A new node has no pods, so these cannot forbid it.
    check_held_back(&affinity("podAntiAffinity", host), None);
    let spread = |key: &str, when: &str| json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}]});
    check_held_back(&spread(zone, "DoNotSchedule"), tied);
    check_held_back(&spread(host, "DoNotSchedule"), None);
    check_held_back(&spread(zone, "ScheduleAnyway"), None);
    let volume = |source: &str| json!({"volumes": [{"name": "data", source: {}}]});
    check_held_back(&volume("persistentVolumeClaim"), tied);
    check_held_back(&volume("emptyDir"), None);
    check_held_back(&volume("ephemeral"), None);

    let mut with_claim = pod("a", "jobs", "");
    with_claim["spec"]["volumes"] = volume("persistentVolumeClaim")["volumes"].clone();
    let class = PodClass::of(&serde_json::from_value(with_claim).unwrap(), &BTreeSet::new());
    let workloads =
        Workloads { priority_max: i32::MAX, volumes_in_any_zone: true, ..Workloads::default() };
    assert!(workloads.select(&class));
}

/// A CronJob of one pod that fires every hour, with the last firing of its status.
fn cron(fired: Option<&str>) -> Value {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "metadata": {"name": "hourly", "namespace": "jobs"},
        "spec": {
            "schedule": "0 * * * *", "concurrencyPolicy": "Allow",
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}},
        },
        "status": {"lastScheduleTime": fired, "active": [{}]},
    })
}

/// Checks how many pods of an hourly CronJob are announced at a time.
#[track_caller]
fn check_cron(fired: Option<&str>, now: &str, expected: u64) {
    let announcement = Announcement::of_cron_job(&serde_json::from_value(cron(fired)).unwrap());
    let mut index = Index::default();
    let key = Key { namespace: "jobs".into(), name: "hourly".into() };
    index.announce("cronjobs", key, announcement);
    let workloads = Workloads { priority_max: i32::MAX, ..Workloads::default() };
    let now = now.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp();
    let lead_seconds = [180];
    let seen = View::default().gather(
        &index,
        &offers(),
        &workloads,
        &Places::new(),
        &|_, _| None,
        (now, &lead_seconds),
    );
    assert_eq!(seen.cluster.announced.iter().map(|pods| pods.count).sum::<u64>(), expected);
    // The watch of CronJobs has been failing for long.
    index.set_stale(["cronjobs".to_owned()].into());
    assert_eq!(index.announcements().count(), 0);
}

#[test]
fn a_firing_is_announced_until_its_job_exists() {
    check_cron(None, "2026-03-01T09:56:59Z", 0);
    check_cron(Some("2026-03-01T09:00:00Z"), "2026-03-01T09:57:00Z", 1);
    // The CronJob controller may be late.
    check_cron(Some("2026-03-01T09:00:00Z"), "2026-03-01T10:00:05Z", 1);
    check_cron(Some("2026-03-01T09:00:00Z"), "2026-03-01T10:00:11Z", 0);
    // The job exists, so its pods are present demand.
    check_cron(Some("2026-03-01T10:00:00Z"), "2026-03-01T10:00:00Z", 0);
    check_cron(Some("2026-03-01T10:00:00Z"), "2026-03-01T10:00:05Z", 0);
    check_cron(Some("2026-03-01T10:00:00Z"), "2026-03-01T10:57:00Z", 1);
}

/// Launches of the spot bucket take an hour, and those of the bucket on demand three minutes.
#[test]
fn a_cron_job_is_announced_within_the_lead_time_of_its_bucket() {
    let offers = spot_offers();
    let lead_seconds: Vec<i64> = offers
        .catalog
        .buckets()
        .iter()
        .map(|bucket| if bucket.capacity_type == CapacityType::Spot { 3_600 } else { 180 })
        .collect();
    let announcement = Announcement::of_cron_job(&serde_json::from_value(cron(None)).unwrap());
    let mut index = Index::default();
    index.announce(
        "cronjobs",
        Key { namespace: "jobs".into(), name: "hourly".into() },
        announcement,
    );
    let workloads = Workloads { priority_max: i32::MAX, ..Workloads::default() };
    let announced = |now: &str| {
        let now = now.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp();
        let none = |_: BucketId, _: usize| None;
        let window = (now, lead_seconds.as_slice());
        let seen =
            View::default().gather(&index, &offers, &workloads, &Places::new(), &none, window);
        seen.cluster.announced.len()
    };
    assert_eq!((announced("2026-03-01T09:56:30Z"), announced("2026-03-01T09:57:00Z")), (0, 1));
}

/// A Workload of two pods with quota of these flavors.
fn workload(flavors: &Value) -> Announcement {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    let set =
        json!({"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}});
    let assigned = json!({"podSetAssignments": [{"name": "main", "flavors": flavors, "count": 2}]});
    let workload = json!({
        "spec": {"podSets": [set]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": assigned,
        },
    });
    let workload = serde_json::from_value(workload).unwrap();
    Announcement::of_workload(&ObjectMeta::default(), &workload).unwrap()
}

/// The flavor `spot` selects spot nodes and tolerates their taint, as Kueue adds both to its pods.
#[test]
fn the_assigned_flavor_of_a_workload_decides_its_bucket() {
    let offers = spot_offers();
    let spot_for = SpotFor {
        node_labels: vec![("karpenter.sh/capacity-type".into(), "spot".into())],
        ..SpotFor::default()
    };
    let workloads = Workloads { priority_max: i32::MAX, spot_for, ..Workloads::default() };
    let seen = |flavors: Value| {
        let mut index = Index::default();
        let flavor = json!({
            "nodeLabels": {"karpenter.sh/capacity-type": "spot"},
            "tolerations": [{"key": SPOT_TAINT, "operator": "Exists"}],
        });
        for (name, flavor) in [("spot", flavor), ("default", json!({}))] {
            let key = Key { namespace: String::new(), name: name.into() };
            index.flavors().insert(key, serde_json::from_value(flavor).unwrap());
        }
        index.announce("workloads", Key::default(), Some(workload(&flavors)));
        let none = |_: BucketId, _: usize| None;
        let window = (0, &[][..]);
        View::default().gather(&index, &offers, &workloads, &Places::new(), &none, window)
    };
    let capacity = |flavors: Value| {
        let seen = seen(flavors);
        assert_eq!((seen.cluster.announced[0].count, seen.held_back.len()), (2, 0));
        let fitting = offers.catalog.buckets_for(&seen.cluster.announced[0].shape).unwrap();
        let fitting = (0..offers.catalog.len()).filter(|id| fitting.contains(*id));
        fitting.map(|id| offers.catalog.buckets()[id].capacity_type).collect::<Vec<_>>()
    };
    assert_eq!(capacity(json!({"cpu": "default"})), [CapacityType::OnDemand]);
    assert_eq!(capacity(json!({"cpu": "spot"})), [CapacityType::Spot]);
    // The nodes of a flavor that is not listed yet are not known.
    let early = seen(json!({"cpu": "spot", "memory": "later"}));
    assert_eq!(early.cluster.announced, []);
    assert_eq!(early.held_back, [(HeldBack::UnknownFlavor, 2)].into());
}

/// A Job of four pods with this spec, of the kind that its label gives.
fn job(name: &str, kind: &str, spec: &Value) -> Option<Announcement> {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    let mut job = json!({
        "metadata": {"name": name, "namespace": "jobs", "labels": {"kind": kind}},
        "spec": {
            "parallelism": 4, "completions": 4, "template": {"spec": {"containers": [container]}},
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    Announcement::of_job(&serde_json::from_value(job).unwrap())
}

/// With `manageJobsWithoutQueueName`, Kueue manages Jobs without the label of a queue.
#[test]
fn a_job_of_which_kueue_has_a_workload_is_announced_once() {
    let mut index = Index::default();
    let key = |name: &str| Key { namespace: "jobs".into(), name: name.into() };
    for name in ["queued", "other"] {
        index.announce("jobs", key(name), job(name, "", &json!({"suspend": true})));
    }
    let metadata: ObjectMeta = serde_json::from_value(json!({"namespace": "jobs",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "queued", "uid": "1"}]}))
    .unwrap();
    let workload =
        json!({"spec": {"podSets": [{"name": "main", "count": 4, "template": {"spec": {}}}]}});
    let workload = serde_json::from_value(workload).unwrap();
    let announced = Announcement::of_workload(&metadata, &workload);
    index.announce("workloads", key("job-queued-1"), announced);
    let names: Vec<&str> = index.announcements().map(|(key, _)| key.name.as_str()).collect();
    assert_eq!(names, ["other", "job-queued-1"]);
}

/// Workloads whose Jobs of the kind `mpi` are gangs.
fn with_gang_jobs() -> Workloads {
    let mpi = Requirement { key: "kind".into(), operator: "In".into(), values: vec!["mpi".into()] };
    Workloads {
        priority_max: i32::MAX,
        released_jobs: Some(vec![]),
        gang_jobs: Some(vec![mpi]),
        ..Workloads::default()
    }
}

/// A suspended Job is a gang if its pods have indexes and the policy selects it.
#[test]
fn a_job_with_indexes_is_a_gang_where_the_policy_says_so() {
    let gangs = |mode: &str, kind: &str| {
        let mut index = Index::default();
        let spec = json!({"suspend": true, "completionMode": mode});
        index.announce("jobs", Key::default(), job("job", kind, &spec));
        let none = |_: BucketId, _: usize| None;
        let (offers, window) = (offers(), (0, &[][..]));
        let workloads = with_gang_jobs();
        let seen =
            View::default().gather(&index, &offers, &workloads, &Places::new(), &none, window);
        (seen.cluster.gangs.len(), seen.cluster.announced.len())
    };
    assert_eq!(gangs("Indexed", "mpi"), (1, 0));
    assert_eq!(gangs("NonIndexed", "mpi"), (0, 1));
    assert_eq!(gangs("Indexed", "other"), (0, 1));
}

/// A Job is recorded as a gang once, whether or not it was suspended first, and again only if it is
/// postponed. Its pods are present demand as soon as it runs.
#[test]
fn a_gang_of_a_job_is_counted_once() {
    let (mut index, mut view) = (Index::default(), View::default());
    let (offers, workloads) = (offers(), with_gang_jobs());
    let mut turn = |index: &Index, postpones: bool| {
        let none = |_: BucketId, _: usize| None;
        let seen = view.gather(index, &offers, &workloads, &Places::new(), &none, (0, &[]));
        let pods = |gang: &Gang| gang.requests.iter().map(|pods| pods.count).sum::<u64>();
        assert_eq!(seen.held_back, BTreeMap::new());
        assert_eq!(seen.cluster.announced, []);
        let first = seen.announced_first.iter().map(|(_, gang)| pods(gang)).sum();
        if postpones {
            view.postpone(&seen.announced_first);
        }
        (first, seen.cluster.gangs.iter().map(pods).sum())
    };
    let announce = |index: &mut Index, name: &str, kind: &str, suspend: bool| {
        let key = Key { namespace: "jobs".into(), name: name.into() };
        let spec = json!({"suspend": suspend, "completionMode": "Indexed"});
        index.announce("jobs", key, job(name, kind, &spec));
    };
    announce(&mut index, "before", "mpi", false);
    assert_eq!(turn(&index, false), (0, 0));
    announce(&mut index, "direct", "mpi", false);
    announce(&mut index, "single", "other", false);
    assert_eq!(turn(&index, true), (4, 0));
    assert_eq!(turn(&index, false), (4, 0));
    assert_eq!(turn(&index, false), (0, 0));
    announce(&mut index, "suspended", "mpi", true);
    assert_eq!(turn(&index, false), (4, 4));
    announce(&mut index, "suspended", "mpi", false);
    assert_eq!(turn(&index, false), (0, 0));
}

/// The PriorityClass may be listed after the Job that names it.
#[test]
fn an_announced_pod_has_the_priority_of_its_class() {
    let mut index = Index::default();
    let template = json!({"spec": {"priorityClassName": "high"}});
    let spec = json!({"suspend": true, "template": template});
    index.announce("jobs", Key::default(), job("job", "any", &spec));
    let of = |index: &Index| {
        let (_, announcement) = index.announcements().next().unwrap();
        let (class, _) = index.announced_pods(announcement).next().unwrap();
        (class.priority, class.may_preempt)
    };
    assert_eq!(of(&index), (0, true));
    let version = index.version;
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    let class = serde_json::from_value(class).unwrap();
    let key = Key { namespace: String::new(), name: "high".into() };
    index.admission().priorities.insert(key, crate::observe::Priority::of(&class));
    index.readmit(None);
    assert_eq!(of(&index), (7, false));
    assert_ne!(index.version, version);
}

/// The taint of the spot group in [`spot_offers`].
const SPOT_TAINT: &str = "example.com/spot";

/// An on-demand bucket, and a spot bucket whose nodes have a taint.
fn spot_offers() -> Arc<Offers> {
    let plain = offers();
    let on_demand = plain.catalog.buckets()[0].clone();
    let spot = Bucket {
        name: format!("{TYPE}/spot"),
        capacity_type: CapacityType::Spot,
        hourly: MicroDollars(0),
        groups: vec![Group { name: "b".into(), ..on_demand.groups[0].clone() }],
        ..on_demand.clone()
    };
    let mut offer = plain.groups[0][0].clone();
    offer.labels.insert("karpenter.sh/capacity-type".into(), "spot".into());
    offer.taints = vec![crate::observe::Taint {
        key: SPOT_TAINT.into(),
        value: String::new(),
        effect: "NoSchedule".into(),
    }];
    Arc::new(Offers {
        catalog: Catalog::new(vec![on_demand, spot]).unwrap(),
        // The spot bucket costs less, so it comes first.
        groups: vec![vec![offer], plain.groups[0].clone()],
        prices: Vec::new(),
        ranking: Vec::new(),
        problems: vec![],
    })
}

/// Checks the present demand, on demand and spot, of a pending pod with these labels and `more` in
/// its spec, or why it has none.
#[track_caller]
fn check_spot(spot_for: &SpotFor, labels: &Value, more: &Value, expected: Result<[u64; 2], &str>) {
    let mut pod = pod("p", "jobs", "");
    pod["metadata"]["labels"] = labels.clone();
    for (field, value) in more.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    let workloads =
        Workloads { priority_max: i32::MAX, spot_for: spot_for.clone(), ..Workloads::default() };
    let mut index = Index::new(workloads.label_keys().collect());
    index.apply_pod(&serde_json::from_value(pod).unwrap());
    let offers = spot_offers();
    let none = |_: BucketId, _: usize| None;
    let seen =
        View::default().gather(&index, &offers, &workloads, &BTreeMap::new(), &none, (0, &[]));
    let present = embedder::embed(&seen.cluster, &offers.catalog).present;
    let found =
        seen.unfit.first().map_or(Ok([present[1], present[0]]), |(.., why)| Err(why.label()));
    assert_eq!(found, expected.map_err(str::to_owned));
}

#[test]
fn spot_buckets_admit_only_pods_that_tolerate_interruption() {
    let absent = SpotFor {
        node_labels: spot_labels().map(|(key, value)| (key.into(), value.into())).collect(),
        ..SpotFor::default()
    };
    let by_toleration = SpotFor { tolerations: vec![SPOT_TAINT.into()], ..SpotFor::default() };
    let label = Requirement {
        key: "interruptible".into(),
        operator: "In".into(),
        values: vec!["true".into()],
    };
    let by_label = SpotFor { selector: Some(vec![label]), ..SpotFor::default() };
    let all = SpotFor { selector: Some(vec![]), ..SpotFor::default() };
    let by_pool =
        SpotFor { node_labels: vec![("pool".into(), "cheap".into())], ..SpotFor::default() };

    let (plain, none) = (&json!({}), &json!({}));
    let tolerates = &json!({"tolerations": [{"key": SPOT_TAINT, "operator": "Exists"}]});
    let tolerates_all = &json!({"tolerations": [{"operator": "Exists"}]});
    let selects = &json!({
        "nodeSelector": {"karpenter.sh/capacity-type": "spot"},
        "tolerations": [{"key": SPOT_TAINT, "operator": "Exists"}],
    });
    let accepts = &json!({
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]}]},
                {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "DoesNotExist"}]},
            ],
        }}},
        "tolerations": [{"key": SPOT_TAINT, "operator": "Exists"}],
    });
    let labelled = &json!({"interruptible": "true"});

    // A pod without constraints gets no spot bucket by default, and one that tolerates the taint of
    // spot nodes neither.
    check_spot(&absent, none, plain, Ok([1, 0]));
    check_spot(&absent, none, tolerates, Ok([1, 0]));
    check_spot(&absent, none, selects, Ok([0, 1]));
    check_spot(&absent, none, accepts, Ok([0, 1]));

    check_spot(&by_toleration, none, plain, Ok([1, 0]));
    check_spot(&by_toleration, none, tolerates, Ok([0, 1]));
    check_spot(&by_toleration, none, tolerates_all, Ok([1, 0]));
    check_spot(&by_label, labelled, tolerates, Ok([0, 1]));
    check_spot(&by_label, none, tolerates, Ok([1, 0]));
    // A pod that tolerates interruption and not the taint cannot run on a spot node.
    check_spot(&by_label, labelled, plain, Ok([1, 0]));
    check_spot(&all, none, tolerates, Ok([0, 1]));
    // What the policy names replaces the default.
    check_spot(&by_pool, none, selects, Err("only_spot_buckets"));
    check_spot(&SpotFor::default(), none, selects, Err("only_spot_buckets"));
}

/// A pod that already runs on a spot node occupies it, whether or not it tolerates interruption.
#[test]
fn a_node_of_a_spot_bucket_counts_as_occupied_by_any_batch_pod() {
    let mut spot = node("n", &json!({"taints": [{"key": SPOT_TAINT, "effect": "NoSchedule"}]}));
    spot["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("spot");
    let index = index(&[spot], &[pod("p", "jobs", "n")]);
    let workloads = Workloads { priority_max: i32::MAX, ..Workloads::default() };
    let mut offers = (*spot_offers()).clone();
    offers.groups[0][0].pins.insert("karpenter.sh/capacity-type".into(), "spot".into());
    let none = |_: BucketId, _: usize| None;
    let seen = View::default().gather(
        &index,
        &Arc::new(offers),
        &workloads,
        &BTreeMap::new(),
        &none,
        (0, &[]),
    );
    assert_eq!(seen.cluster.occupied, [1, 0]);
}

#[test]
fn a_pod_nominated_to_a_node_that_is_gone_waits() {
    let mut nominated = pod("a", "jobs", "");
    nominated["status"] = json!({"nominatedNodeName": "n"});
    let pending = |nodes: &[Value]| {
        let seen = seen(nodes, std::slice::from_ref(&nominated));
        (seen.cluster.occupied[0], seen.cluster.pending.iter().map(|pods| pods.count).sum::<u64>())
    };
    assert_eq!(pending(&[node("n", &json!({}))]), (1, 0));
    assert_eq!(pending(&[]), (0, 1));
    // A pod that is bound to a node that is gone does not wait for another.
    assert_eq!(seen(&[], &[pod("a", "jobs", "n")]).cluster.pending, []);
}

#[test]
fn a_pod_that_is_deleted_before_it_has_a_node_is_no_demand() {
    let mut deleted = pod("a", "jobs", "");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(seen(&[], &[deleted.clone()]).cluster.pending, []);
    deleted["spec"]["nodeName"] = json!("n");
    assert_eq!(seen(&[node("n", &json!({}))], &[deleted]).cluster.occupied, [1]);
}

#[test]
fn a_pod_for_which_a_new_node_does_not_help_is_held_back() {
    let mut waits = pod("a", "jobs", "");
    waits["status"] = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: persistentvolumeclaim \"gone\" not found.",
    }]});
    let seen = seen(&[], &[waits]);
    assert_eq!(seen.cluster.pending, []);
    assert_eq!(seen.held_back, [(HeldBack::OtherObstacle, 1)].into());
}

/// Checks the number of pods, each of two EFA interfaces, that the room of a node with four holds
/// beside a pod of one.
#[test]
fn the_free_room_of_a_node_has_its_devices() {
    let mut offers = (*offers()).clone();
    let mut buckets = offers.catalog.buckets().to_vec();
    buckets[0].allocatable.devices.set(0, 4);
    let names = vec!["vpc.amazonaws.com/efa".to_owned()];
    offers.catalog = Catalog::with_devices(buckets, names).unwrap();
    let with = |name: &str, on: &str, amount: u64| {
        let mut pod = pod(name, "jobs", on);
        pod["spec"]["containers"][0]["resources"]["requests"]["vpc.amazonaws.com/efa"] =
            json!(amount.to_string());
        pod
    };
    let mut node = node("n", &json!({}));
    node["status"]["allocatable"]["vpc.amazonaws.com/efa"] = json!("4");
    let offers = Arc::new(offers);
    let seen = seen_of(&offers, &[node], &[with("a", "n", 1), with("b", "", 2), with("c", "", 2)]);
    assert_eq!(seen.cluster.rooms[0].free.devices.get(0), 3);
    let demand = embedder::embed(&seen.cluster, &offers.catalog);
    assert_eq!(demand.present, [2], "one of the two fits beside the first pod");
}

/// A story of PlannedDemands of the namespace `jobs`, whose lead time is five minutes.
struct Planned {
    view: View,
    index: Index,
    offers: Arc<Offers>,
    lead_seconds: i64,
}

impl Planned {
    fn new() -> Self {
        let (view, offers, index) =
            (View::default(), offers(), index(&[node("n", &json!({}))], &[]));
        Self { view, index, offers, lead_seconds: 300 }
    }

    /// Writes a plan with this specification, or deletes it.
    fn plan(&mut self, name: &str, spec: Option<Value>) {
        let template = json!({"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "2"}}},
        ]}});
        let announced = spec.and_then(|mut spec| {
            spec["template"] = template;
            let metadata = ObjectMeta { namespace: Some("jobs".into()), ..ObjectMeta::default() };
            let spec = serde_json::from_value(spec).unwrap();
            Announcement::of_planned(&metadata, &spec, &<_>::default())
        });
        let key = Key { namespace: "jobs".into(), name: name.into() };
        self.index.announce(crate::observe::PLANNED_DEMANDS, key, announced);
    }

    /// Gathers at a minute. Returns the pods that are still to come, by plan, and what became of
    /// the plans that ended.
    fn at(&mut self, minute: i64) -> (Vec<u64>, Vec<(u64, u64)>) {
        let workloads = Workloads::default();
        let (window, leads) = (60 * minute, [self.lead_seconds]);
        let seen = self.view.gather(
            &self.index,
            &self.offers,
            &workloads,
            &Places::new(),
            &|_, _| None,
            (window, &leads),
        );
        let left = seen.planned.iter().map(|plan| plan.requests[0].count).collect();
        (left, seen.ended.iter().map(|kept| (kept.planned, kept.came)).collect())
    }

    /// Pods of the planned size arrive, on a node. Returns how many of them were planned.
    fn arrive(&mut self, names: &[&str]) -> u64 {
        let mut class = None;
        for name in names {
            let mut pod = pod(name, "jobs", "n");
            pod["spec"]["containers"] =
                json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]);
            let pod = serde_json::from_value(pod).unwrap();
            self.index.apply_pod(&pod);
            class = Some(PodClass::of(&pod, &BTreeSet::new()));
        }
        let (workloads, offers) = (Workloads::default(), Arc::clone(&self.offers));
        let count = names.len() as u64;
        self.view.planned_of(&class.unwrap(), count, (&offers, &workloads), &mut |_, pods| pods)
    }
}

/// 1970-01-01T01:00:00Z is minute 60.
fn once(pods: u64) -> Value {
    json!({"pods": pods, "at": "1970-01-01T01:00:00Z"})
}

#[test]
fn a_plan_is_open_from_a_lead_time_before_until_its_end_or_until_all_came() {
    let mut planned = Planned::new();
    planned.plan("a", Some(once(3)));
    assert_eq!(planned.at(54), (vec![], vec![]));
    assert_eq!(planned.at(55), (vec![3], vec![]));
    // A lead time that is shorter now closes no plan.
    planned.lead_seconds = 60;
    assert_eq!(planned.at(56), (vec![3], vec![]));
    assert_eq!(planned.arrive(&["one", "two"]), 2);
    assert_eq!(planned.at(57), (vec![1], vec![]));
    assert_eq!(planned.at(69), (vec![1], vec![]));
    assert_eq!(planned.at(70), (vec![], vec![(3, 2)]));
    assert_eq!(planned.at(71), (vec![], vec![]));

    let mut planned = Planned::new();
    planned.plan("a", Some(once(2)));
    planned.at(58);
    // The third pod is none of the planned ones.
    assert_eq!(planned.arrive(&["one", "two", "three"]), 2);
    assert_eq!(planned.at(59), (vec![], vec![(2, 2)]));
    assert_eq!(planned.at(61), (vec![], vec![]));
}

#[test]
fn an_open_plan_that_is_deleted_or_put_off_was_not_kept() {
    let mut planned = Planned::new();
    planned.plan("a", Some(once(3)));
    planned.at(58);
    planned.plan("a", None);
    assert_eq!(planned.at(59), (vec![], vec![(3, 0)]));
    planned.plan("a", Some(once(3)));
    planned.at(60);
    planned.plan("a", Some(json!({"pods": 4, "at": "1970-01-01T02:00:00Z"})));
    assert_eq!(planned.at(61), (vec![], vec![(3, 0)]));
    assert_eq!(planned.at(115), (vec![4], vec![]));
}

/// Every five minutes, although nodes are held for ten minutes.
#[test]
fn a_schedule_goes_on_before_the_end_of_its_tolerance() {
    let mut planned = Planned::new();
    planned.lead_seconds = 60;
    planned.plan("a", Some(json!({"pods": 1, "schedule": "*/5 * * * *"})));
    assert_eq!(planned.at(0), (vec![1], vec![]));
    assert_eq!(planned.arrive(&["one"]), 1);
    assert_eq!(planned.at(1), (vec![], vec![(1, 1)]));
    assert_eq!(planned.at(3), (vec![], vec![]));
    assert_eq!(planned.at(4), (vec![1], vec![]));
    assert_eq!(planned.at(9), (vec![1], vec![]));
    assert_eq!(planned.at(10), (vec![1], vec![(1, 0)]));
}

#[test]
fn plans_for_a_duration_share_the_pods_that_are_there() {
    let mut planned = Planned::new();
    let spec = json!({"pods": 3, "at": "1970-01-01T01:00:00Z", "duration": "1h"});
    planned.plan("a", Some(spec.clone()));
    planned.plan("b", Some(spec));
    planned.plan("c", Some(once(1)));
    assert_eq!(planned.at(58), (vec![3, 3, 1], vec![]));
    // The plan for one time comes first.
    assert_eq!(planned.arrive(&["one", "two", "three", "four", "five"]), 5);
    assert_eq!(planned.at(59), (vec![0, 1], vec![(1, 1)]));
    let (left, ended) = planned.at(120);
    assert_eq!((left, ended.len()), (vec![], 2));
    assert_eq!(ended[0], (3, 3));
}

#[test]
fn a_hundred_plans_of_a_namespace_count() {
    let mut planned = Planned::new();
    for name in 0..150 {
        planned.plan(&format!("p{name}"), Some(once(1)));
    }
    assert_eq!(planned.at(58).0.len(), 100);
    // A schedule that never fires is no plan, and is not searched for at each turn.
    planned.plan("z", Some(json!({"pods": 1, "schedule": "0 0 31 2 *"})));
    assert_eq!(planned.at(59).0.len(), 100);
}

impl Planned {
    /// Writes a JobSet whose job `fit` of four pods depends on `read` of one pod, or deletes it.
    fn job_set(&mut self, statuses: Option<Value>) {
        let job = |name: &str, pods: u32, on: Value| {
            let template = json!({"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": "2"}}},
            ]}});
            json!({"name": name, "dependsOn": on,
                "template": {"spec": {"parallelism": pods, "template": template}}})
        };
        let announced = statuses.and_then(|statuses| {
            let on = json!([{"name": "read", "status": "Complete"}]);
            let jobs = [job("read", 1, json!([])), job("fit", 4, on)];
            let set = json!({"spec": {"replicatedJobs": jobs},
                "status": {"replicatedJobsStatus": statuses}});
            let [name, namespace] = ["a", "jobs"].map(|text| Some(text.to_owned()));
            let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
            Announcement::of_job_set(&metadata, &serde_json::from_value(set).unwrap())
        });
        let key = Key { namespace: "jobs".into(), name: "a".into() };
        self.index.announce("jobsets", key, announced);
    }

    /// Gathers at a minute. Returns the states of the steps, the steps that ended with the time
    /// that they took, and what became of the steps that were expected.
    fn steps_at(&mut self, minute: i64) -> (String, String, Vec<(u64, u64)>) {
        let seen = self.view.gather(
            &self.index,
            &self.offers,
            &Workloads::default(),
            &Places::new(),
            &|_, _| None,
            (60 * minute, &[self.lead_seconds]),
        );
        let steps = seen.workflows.iter().flat_map(|workflow| &workflow.steps);
        let steps: Vec<String> =
            steps.map(|step| format!("{} {:?}", step.name, step.state)).collect();
        let runs: Vec<String> =
            seen.runs.iter().map(|run| format!("{} {}", run.template, run.seconds)).collect();
        let ended = seen.ended.iter().map(|kept| (kept.planned, kept.came)).collect();
        (steps.join(", "), runs.join(", "), ended)
    }
}

#[test]
fn the_steps_of_a_workflow_are_followed_to_their_end() {
    let mut story = Planned::new();
    let status = |name: &str, state: &str| json!({"name": name, state: 1});
    let check =
        |story: &mut Planned, minute: i64, steps: &str, runs: &str, ended: &[(u64, u64)]| {
            let found = story.steps_at(minute);
            assert_eq!(found, (steps.into(), runs.into(), ended.to_vec()), "at {minute}");
        };
    story.job_set(Some(json!([])));
    check(&mut story, 0, "read Waiting, fit Waiting", "", &[]);
    // Nodes were held for the pod of `read`, and for `fit`, which has pods of the same shape.
    assert_eq!(story.arrive(&["one"]), 1);
    story.job_set(Some(json!([status("read", "active")])));
    check(&mut story, 1, "read Running(0), fit Waiting", "", &[(1, 1)]);
    check(&mut story, 10, "read Running(540), fit Waiting", "", &[]);
    story.job_set(Some(json!([status("read", "succeeded")])));
    check(&mut story, 11, "read Ended, fit Waiting", "JobSet jobs/a/read 600", &[]);
    check(&mut story, 13, "read Ended, fit Waiting", "", &[]);
    // It waits for something else.
    check(&mut story, 14, "read Ended, fit Blocked", "", &[]);
    story.job_set(Some(json!([status("read", "succeeded"), status("fit", "active")])));
    check(&mut story, 15, "read Ended, fit Running(0)", "", &[(4, 4)]);
    story.job_set(None);
    check(&mut story, 16, "", "", &[]);
}

#[test]
fn steps_of_a_workflow_that_ends_early_did_not_come() {
    let mut story = Planned::new();
    let nothing = || (String::new(), String::new(), vec![]);
    story.job_set(Some(json!([{"name": "read", "active": 1}])));
    story.steps_at(0);
    // Nothing is known of a workflow while its watch fails.
    story.index.set_stale(["jobsets".to_owned()].into());
    assert_eq!(story.steps_at(1), nothing());
    story.index.set_stale(BTreeSet::new());
    assert_eq!(story.steps_at(2).2, []);
    // `fit` could not start yet.
    story.job_set(None);
    assert_eq!(story.steps_at(3), nothing());
    // When `read` began was not seen, so nothing is learnt of its end.
    story.job_set(Some(json!([{"name": "read", "active": 1}])));
    story.steps_at(4);
    story.job_set(Some(json!([{"name": "read", "succeeded": 1}])));
    assert_eq!(story.steps_at(5).1, "");
    story.job_set(None);
    assert_eq!(story.steps_at(6), (String::new(), String::new(), vec![(4, 0)]));
    assert_eq!(story.steps_at(7).2, []);
}

/// The status of a workflow may be behind its pods.
#[test]
fn pods_of_a_step_that_came_are_not_held_again() {
    let mut story = Planned::new();
    story.job_set(Some(json!([{"name": "read", "succeeded": 1}])));
    let pods = |story: &mut Planned, minute: i64| -> u64 {
        let (window, leads) = (60 * minute, [story.lead_seconds]);
        let Planned { view, index, offers, .. } = story;
        let nowhere = |_, _| None;
        let (workloads, places) = (Workloads::default(), Places::new());
        let seen = view.gather(index, offers, &workloads, &places, &nowhere, (window, &leads));
        let fit = seen.workflows[0].steps.iter().find(|step| step.name == "fit").unwrap();
        fit.requests.iter().map(|request| request.count).sum()
    };
    assert_eq!(pods(&mut story, 0), 4);
    assert_eq!(story.arrive(&["one", "two", "three"]), 3);
    assert_eq!(pods(&mut story, 1), 1);
}

/// Gated pods whose PodGroup was not seen yet wait ten seconds for it, and then count one by one.
#[test]
fn pods_of_a_pod_group_that_was_not_seen_yet_wait_for_it() {
    let workloads = Workloads {
        namespaces: vec!["jobs".into()],
        released_gates: vec!["example.com/data".into()],
        ..Workloads::default()
    };
    let gated = |name: &str| {
        let mut pod = pod(name, "jobs", "");
        pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "ring"});
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/data"}]);
        pod
    };
    let mut index = index(&[], &[]);
    let offers = offers();
    let (mut waiting, mut alone) = (View::default(), View::default());
    let places = BTreeMap::new();
    let at = |view: &mut View, index: &Index, now: i64| {
        let window = (now, &[60][..]);
        let seen = view.gather(index, &offers, &workloads, &places, &|_, _| None, window);
        let held = seen.held_back.get(&HeldBack::PartOfGang).copied().unwrap_or(0);
        (held, seen.cluster.announced.len(), seen.cluster.gangs.len())
    };
    // All objects are listed before the first turn, so a PodGroup that is not there does not come.
    let mut listed = index.clone();
    listed.apply_pod(&serde_json::from_value(gated("a")).unwrap());
    assert_eq!(at(&mut View::default(), &listed, 99), (0, 1, 0));
    for view in [&mut waiting, &mut alone] {
        assert_eq!(at(view, &index, 99), (0, 0, 0));
    }
    for name in ["a", "b"] {
        index.apply_pod(&serde_json::from_value(gated(name)).unwrap());
    }
    assert_eq!(at(&mut alone, &index, 100), (2, 0, 0));
    assert_eq!(at(&mut alone, &index, 109), (2, 0, 0));
    assert_eq!(at(&mut alone, &index, 110), (0, 1, 0));
    assert_eq!(at(&mut waiting, &index, 100), (2, 0, 0));
    index.gangs(0).insert(Key { namespace: "jobs".into(), name: "ring".into() }, 3);
    assert_eq!(at(&mut waiting, &index, 200), (2, 0, 0));
    index.apply_pod(&serde_json::from_value(gated("c")).unwrap());
    assert_eq!(at(&mut waiting, &index, 201), (0, 0, 1));
    // A PodGroup that is no gang does not wait.
    let mut plain = View::default();
    assert_eq!(at(&mut plain, &Index::default(), 300), (0, 0, 0));
    index.gangs(0).insert(Key { namespace: "jobs".into(), name: "ring".into() }, 1);
    assert_eq!(at(&mut plain, &index, 301), (0, 1, 0));
}
