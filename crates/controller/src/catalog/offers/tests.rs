//! Tests of the buckets that live nodes and groups give: one row is one set of nodes.

use std::collections::BTreeMap;

use embedder::{Resources, UNLIMITED};
use serde_json::{Value, json};

use super::super::group::LaunchedBy;
use super::super::{Known, Launchers, OtherTypes, joined, live_groups};
use super::{Comparison, NodeGroup, Offer, Offers, Pricing, Sizes, offers};
use crate::observe::{Constraints, Index};

const LABEL: &str = "placement-group";

/// A taint that the operator names as a startup taint.
const STARTUP: &str = "ebs.csi.aws.com/agent-not-ready";

/// A ready node with GPUs: those that are allocatable, of its capacity.
fn gpu_node(name: &str, allocatable: u64, capacity: u64) -> Value {
    let resources = |gpus: u64| json!({"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string()});
    json!({
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": "p4d.24xlarge"}},
        "spec": {},
        "status": {
            "allocatable": resources(allocatable),
            "capacity": resources(capacity),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn index(nodes: &[Value]) -> Index {
    let mut index = Index::default();
    for node in nodes {
        index.apply_node(&serde_json::from_value(node.clone()).unwrap());
    }
    index
}

/// Calls `use_it` with a comparison by these labels.
fn with_comparison<T>(selected: &[&str], use_it: impl FnOnce(&Comparison<'_>) -> T) -> T {
    use_it(&Comparison {
        placement_group_label: LABEL,
        startup_taints: &[STARTUP.to_owned()].into(),
        selected_labels: &selected.iter().map(ToString::to_string).collect(),
        named_parts: &[].into(),
    })
}

/// The offers of groups without nodes.
fn of_groups(groups: &[NodeGroup]) -> Offers {
    with_comparison(&[], |comparison| {
        let pricing = (comparison, &Pricing::of_table());
        offers(groups, index(&[]).nodes(), &[], pricing, &mut Sizes::new()).unwrap()
    })
}

/// The offers of the groups that the nodes themselves form.
fn of_nodes(nodes: &[Value], sizes: &mut Sizes) -> Offers {
    of_selected(nodes, &[], sizes)
}

/// The same, where pods select nodes by these labels.
fn of_selected(nodes: &[Value], selected: &[&str], sizes: &mut Sizes) -> Offers {
    let index = index(nodes);
    with_comparison(selected, |comparison| {
        let groups: Vec<NodeGroup> =
            live_groups(index.nodes(), &[], comparison, &Launchers::default());
        offers(&groups, index.nodes(), &[], (comparison, &Pricing::of_table()), sizes).unwrap()
    })
}

/// Checks the accelerators of the bucket of GPU nodes, each given as (allocatable, capacity), and
/// the names of the nodes that a problem lists.
#[track_caller]
fn check_gpus(nodes: &[(u64, u64)], expected: u64, degraded: &[&str]) {
    let named = nodes.iter().enumerate();
    let nodes: Vec<Value> =
        named.map(|(at, (has, of))| gpu_node(&format!("n{at}"), *has, *of)).collect();
    let offers = of_nodes(&nodes, &mut Sizes::new());
    assert_eq!(offers.catalog.buckets()[0].allocatable.accelerators, expected);
    for at in 0..nodes.len() {
        let name = format!("n{at}");
        let listed = offers.problems.iter().any(|problem| problem.contains(&name));
        assert_eq!(listed, degraded.contains(&name.as_str()), "{:?}", offers.problems);
    }
}

#[test]
fn a_degraded_node_does_not_define_the_size_of_its_bucket() {
    check_gpus(&[(8, 8), (8, 8)], 8, &[]);
    // A device plugin lowers the allocatable amount when it finds an accelerator unhealthy.
    check_gpus(&[(8, 8), (7, 8), (8, 8)], 8, &["n1"]);
    check_gpus(&[(7, 8)], 8, &["n0"]);
    check_gpus(&[(0, 8), (8, 8)], 8, &["n0"]);
    // An accelerator that is lost at the boot of the node is missing in the capacity, too.
    check_gpus(&[(8, 8), (7, 7)], 8, &["n1"]);
    // The device plugin has not started yet.
    check_gpus(&[(0, 0), (8, 8)], 8, &[]);
    // All nodes share their accelerators in the same way.
    check_gpus(&[(4, 4), (4, 4)], 4, &[]);
}

/// The GPUs of the bucket of a group of m5.large whose tag promises two, and whose only node, if
/// there is one, has this many. Its last node had none.
fn gpus_of_tagged_group(gpus: Option<u64>) -> u64 {
    let none = Resources { accelerators: 0, ..Resources::UNLIMITED };
    let known = Known { instance_type: "m5.large".into(), size: Some(none), ..Known::default() };
    let mut sizes = Sizes::from([("gpus".to_owned(), known)]);
    let nodes = gpus.map(node_of_tagged_group);
    let capacity = instances::instance_type("m5.large").unwrap().capacity();
    let group = NodeGroup {
        launched_by: LaunchedBy::ClusterAutoscaler,
        resources: [("nvidia.com/gpu".into(), "2".into())].into(),
        ..NodeGroup::of_type("gpus", "m5.large", capacity)
    };
    let index = index(nodes.as_slice());
    let offers = with_comparison(&[], |comparison| {
        let pricing = Pricing::of_table();
        offers(&[group], index.nodes(), &[], (comparison, &pricing), &mut sizes).unwrap()
    });
    offers.catalog.buckets()[0].allocatable.accelerators
}

/// A ready node of m5.large with this many GPUs, and without the resource if there are none.
fn node_of_tagged_group(gpus: u64) -> Value {
    let mut node = gpu_node("n0", gpus, gpus);
    if gpus == 0 {
        for amounts in ["allocatable", "capacity"] {
            node["status"][amounts].as_object_mut().unwrap().remove("nvidia.com/gpu");
        }
    }
    node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("m5.large");
    node
}

#[test]
fn a_node_before_its_device_plugin_does_not_define_the_size_of_a_group_with_tagged_gpus() {
    for gpus in [Some(2), Some(0), None] {
        assert_eq!(gpus_of_tagged_group(gpus), 2, "{gpus:?}");
    }
}

/// A ready node with taints of these keys.
fn tainted(name: &str, keys: &[&str]) -> Value {
    let mut node = gpu_node(name, 8, 8);
    let taints = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"}));
    node["spec"]["taints"] = taints.collect();
    node
}

/// Checks the taints of the group of one node with taints of these keys.
#[track_caller]
fn check_taints(keys: &[&str], expected: &[&str]) {
    let offers = of_nodes(&[tainted("n0", keys)], &mut Sizes::new());
    let taints: Vec<&str> =
        offers.groups[0][0].taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(taints, expected);
}

#[test]
fn taints_that_come_and_go_are_no_taints_of_a_group() {
    check_taints(&["nvidia.com/gpu", "team"], &["nvidia.com/gpu", "team"]);
    check_taints(&["node.kubernetes.io/disk-pressure", "team"], &["team"]);
    check_taints(&["DeletionCandidateOfClusterAutoscaler", "team"], &["team"]);
    check_taints(&[STARTUP, "startup-taint.cluster-autoscaler.kubernetes.io/net"], &[]);
    check_taints(&["node.cloudprovider.kubernetes.io/uninitialized"], &[]);
    check_taints(&["karpenter.sh/unregistered"], &[]);
}

/// A pod may select each zone in which nodes are.
#[test]
fn a_group_of_live_nodes_has_the_zones_of_its_nodes() {
    let zones = |zones: &[&str]| {
        let named = zones.iter().enumerate().map(|(at, zone)| {
            let mut node = gpu_node(&format!("n{at}"), 8, 8);
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
            node
        });
        let offers = of_nodes(&named.collect::<Vec<_>>(), &mut Sizes::new());
        let constraints = |zone: &str| {
            let spec = json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}});
            Constraints::of(&serde_json::from_value(spec).unwrap())
        };
        ["a", "b", "c"].map(|zone| offers.groups[0][0].admits(&constraints(zone)))
    };
    assert_eq!(zones(&["a"]), [true, false, false]);
    assert_eq!(zones(&["a", "b"]), [true, true, false]);
    assert_eq!(zones(&["a", "b", "a", "c"]), [true; 3]);
}

/// Checks how many live nodes, each given by the key of its taint, define a group.
#[track_caller]
fn check_defining(keys: &[&str], expected: Option<u64>) {
    let named = keys.iter().enumerate();
    let nodes: Vec<Value> = named.map(|(at, key)| tainted(&format!("n{at}"), &[*key])).collect();
    let index = index(&nodes);
    let groups = with_comparison(&[], |comparison| {
        live_groups(index.nodes(), &[], comparison, &Launchers::default())
    });
    assert_eq!(groups.first().map(|group| group.desired), expected);
    assert!(groups.iter().all(|group| group.taints.iter().all(|taint| taint.key == "team")));
}

#[test]
fn nodes_that_will_be_gone_do_not_define_a_group() {
    check_defining(&["team", "team"], Some(2));
    check_defining(&["ToBeDeletedByClusterAutoscaler", "team"], Some(1));
    check_defining(&["team", "karpenter.sh/disrupted"], Some(1));
    check_defining(&["aws-node-termination-handler/spot-itn"], None);
    check_defining(&["ToBeDeletedByClusterAutoscaler"], None);
    // cluster-autoscaler may still keep a candidate.
    check_defining(&["DeletionCandidateOfClusterAutoscaler"], Some(1));
}

#[test]
fn a_bucket_offers_the_devices_of_its_nodes_and_of_its_former_nodes() {
    let mut sizes = Sizes::new();
    let mut node = gpu_node("n0", 8, 8);
    node["status"]["allocatable"]["vpc.amazonaws.com/efa"] = json!("4");
    node["status"]["allocatable"]["hugepages-2Mi"] = json!("0");
    let expected = BTreeMap::from([("vpc.amazonaws.com/efa".to_owned(), 4)]);
    assert_eq!(of_nodes(&[node], &mut sizes).groups[0][0].devices, expected);
    // The device plugin of a new node has not started yet.
    assert_eq!(of_nodes(&[gpu_node("n1", 8, 8)], &mut sizes).groups[0][0].devices, expected);
}

/// A ready node with labels and taints, given as kubectl prints them.
fn marked(name: &str, labels: &[&str], taints: &[&str]) -> Value {
    let mut node = gpu_node(name, 8, 8);
    for label in labels {
        let (key, value) = label.split_once('=').unwrap();
        node["metadata"]["labels"][key] = json!(value);
    }
    let taint = |text: &&str| {
        let (key, effect) = text.split_once(':').unwrap();
        json!({"key": key, "effect": effect})
    };
    node["spec"]["taints"] = taints.iter().map(taint).collect();
    node
}

/// Checks the buckets, each as `NAME: GROUPS`, of nodes given by labels and taints, where pods
/// select nodes by these labels.
#[track_caller]
fn check_buckets(nodes: &[(&[&str], &[&str])], selected: &[&str], expected: &[&str]) {
    let named = nodes.iter().enumerate();
    let nodes: Vec<Value> =
        named.map(|(at, (labels, taints))| marked(&format!("n{at}"), labels, taints)).collect();
    let offers = of_selected(&nodes, selected, &mut Sizes::new());
    let buckets = offers.catalog.buckets().iter().map(|bucket| {
        let groups: Vec<&str> = bucket.groups.iter().map(|group| group.name.as_str()).collect();
        format!("{}: {}", bucket.name, groups.join(" "))
    });
    assert_eq!(buckets.collect::<Vec<_>>(), expected);
}

#[test]
fn groups_that_pods_can_tell_apart_are_different_buckets() {
    let (none, web) = (&[][..], &["web:NoSchedule"][..]);
    let (blue, red) = (&["team=blue"][..], &["team=red"][..]);
    check_buckets(&[(blue, none), (red, none)], &[], &["p4d.24xlarge: p4d.24xlarge"]);
    check_buckets(
        &[(blue, none), (red, none)],
        &["team"],
        &[
            "p4d.24xlarge/team=blue: p4d.24xlarge/team=blue",
            "p4d.24xlarge/team=red: p4d.24xlarge/team=red",
        ],
    );
    // Nodes without the label keep the plain name.
    check_buckets(
        &[(none, none), (red, none)],
        &["team"],
        &["p4d.24xlarge: p4d.24xlarge", "p4d.24xlarge/team=red: p4d.24xlarge/team=red"],
    );
    check_buckets(
        &[(none, none), (none, web)],
        &[],
        &["p4d.24xlarge: p4d.24xlarge", "p4d.24xlarge/web:NoSchedule: p4d.24xlarge/web:NoSchedule"],
    );
    // A taint of all groups distinguishes none, and a preference keeps no pod off.
    check_buckets(&[(none, web), (none, web)], &[], &["p4d.24xlarge: p4d.24xlarge"]);
    check_buckets(
        &[(none, none), (none, &["web:PreferNoSchedule"])],
        &[],
        &["p4d.24xlarge: p4d.24xlarge"],
    );
}

#[test]
fn zones_and_placement_groups_do_not_divide_a_bucket() {
    let zone = "topology.kubernetes.io/zone";
    let in_zone = |name: &str| format!("{zone}={name}");
    let (a, b) = (in_zone("a"), in_zone("b"));
    check_buckets(
        &[(&[a.as_str()], &[]), (&[b.as_str()], &[])],
        &[zone],
        &["p4d.24xlarge: p4d.24xlarge"],
    );
    check_buckets(
        &[(&["placement-group=a"], &[]), (&["placement-group=b"], &[])],
        &[LABEL],
        &["p4d.24xlarge: p4d.24xlarge/a p4d.24xlarge/b"],
    );
}

#[test]
fn groups_that_only_taints_distinguish_are_reported() {
    let nodes = [marked("n0", &[], &[]), marked("n1", &[], &["web:NoSchedule"])];
    let offers = of_nodes(&nodes, &mut Sizes::new());
    assert!(offers.problems.iter().any(|problem| problem.contains("only taints distinguish them")));
    let nodes = [marked("n0", &["a=1"], &[]), marked("n1", &["a=2"], &["web:NoSchedule"])];
    let offers = of_nodes(&nodes, &mut Sizes::new());
    assert!(offers.problems.is_empty(), "{:?}", offers.problems);
}

/// An Auto Scaling group of m5.xlarge without tags, of these instances.
fn group(name: &str, instances: &[&str], described: bool) -> NodeGroup {
    let labels = [("node.kubernetes.io/instance-type".to_owned(), "m5.xlarge".to_owned())];
    let capacity = Resources {
        devices: embedder::Devices::NONE,
        accelerators: 0,
        cpu_millis: 4_000,
        memory_bytes: 16 << 30,
        ephemeral_bytes: UNLIMITED,
        pods: 58,
    };
    NodeGroup {
        instances: instances.iter().map(ToString::to_string).collect(),
        described,
        labels: labels.into(),
        ..NodeGroup::of_type(name, "m5.xlarge", capacity)
    }
}

#[test]
fn a_group_of_several_sizes_is_a_bucket_of_its_own_by_its_first_type() {
    let of = |other_types: OtherTypes| {
        let mixed = NodeGroup { other_types, ..group("mixed", &[], true) };
        let groups = [group("plain", &[], true), mixed];
        of_groups(&groups)
    };
    let buckets = |offers: &Offers| -> Vec<(String, Vec<String>)> {
        let groups = offers.catalog.buckets().iter().zip(&offers.groups);
        let types = |groups: &[Offer]| {
            groups.iter().flat_map(|offer| offer.instance_types.iter().cloned()).collect()
        };
        groups.map(|(bucket, groups)| (bucket.name.clone(), types(groups))).collect()
    };
    let owned = |all: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
        let types = |types: &[&str]| types.iter().map(ToString::to_string).collect();
        all.iter().map(|(name, of)| (name.to_string(), types(of))).collect()
    };
    let same = of(OtherTypes::SameSize(["m5a.xlarge".to_owned()].into()));
    let one = [("m5.xlarge", &["m5.xlarge", "m5.xlarge", "m5a.xlarge"][..])];
    assert_eq!(buckets(&same), owned(&one));
    let others = of(OtherTypes::OtherSizes(["m5.large".to_owned()].into()));
    let two = [("m5.xlarge", &["m5.xlarge"][..]), ("m5.xlarge/mixed", &["m5.large", "m5.xlarge"])];
    assert_eq!(buckets(&others), owned(&two));
}

/// A group that launches m5.xlarge or m5.large, with live nodes of these allocatable CPUs.
#[track_caller]
fn check_mixed(nodes: &[(&str, &str)], expected: u64) {
    let others = OtherTypes::OtherSizes(["m5.large".to_owned(), "m5.2xlarge".to_owned()].into());
    let mixed = NodeGroup { other_types: others, ..group("mixed", &[], true) };
    let nodes = nodes.iter().enumerate().map(|(at, (instance_type, cpu))| {
        let mut node = marked(&at.to_string(), &[], &[]);
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(instance_type);
        for field in ["capacity", "allocatable"] {
            node["status"][field] = json!({"cpu": cpu, "memory": "14Gi", "pods": "58"});
        }
        node
    });
    let index = index(&nodes.collect::<Vec<_>>());
    let offers = with_comparison(&[], |comparison| {
        let pricing = (comparison, &Pricing::of_table());
        offers(&[mixed], index.nodes(), &[], pricing, &mut Sizes::new()).unwrap()
    });
    assert_eq!(offers.catalog.buckets()[0].allocatable.cpu_millis, expected);
}

#[test]
fn a_placeholder_of_several_sizes_is_as_large_as_the_smallest_node_that_came() {
    check_mixed(&[], 3_900);
    // cluster-autoscaler expects a node of the first type.
    check_mixed(&[("m5.2xlarge", "7910m")], 3_900);
    check_mixed(&[("m5.2xlarge", "7910m"), ("m5.large", "1930m")], 1_930);
}

/// A ready node of m5.xlarge on an instance, with labels and taints as kubectl prints them.
fn instance(id: &str, labels: &[&str], taints: &[&str]) -> Value {
    let mut node = marked(id, labels, taints);
    node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("m5.xlarge");
    node["spec"]["providerID"] = json!(format!("aws:///us-east-1a/{id}"));
    node["status"]["allocatable"] = json!({"cpu": "3900m", "memory": "14Gi", "pods": "58"});
    node["status"]["capacity"] = json!({"cpu": "4", "memory": "16Gi", "pods": "58"});
    node
}

/// Checks the labels that pods select and the taints of the groups `a` and `b` of the instances
/// `i-a` and `i-b`, after each of these sets of nodes, where pods select nodes by `team`.
#[track_caller]
fn check_joined(described: bool, steps: &[(&[Value], [&str; 2])]) {
    let mut sizes = Sizes::new();
    for (nodes, expected) in steps {
        let index = index(nodes);
        let groups = vec![group("a", &["i-a", "i-a2"], described), group("b", &["i-b"], described)];
        let groups = with_comparison(&["team"], |comparison| {
            joined(groups, index.nodes(), comparison, &mut sizes)
        });
        let text = groups.iter().map(|group| {
            let labels = group.labels.iter().filter(|(key, _)| !key.contains("instance-type"));
            let labels = labels.map(|(key, value)| format!("{key}={value}"));
            let all: Vec<String> =
                labels.chain(group.taints.iter().map(ToString::to_string)).collect();
            if group.described { all.join(" ") } else { format!("{}?", all.join(" ")) }
        });
        assert_eq!(text.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_group_has_the_labels_and_taints_of_its_live_and_former_nodes() {
    let blue = instance("i-a", &["team=blue", "kernel=6", LABELLED], &["web:NoSchedule"]);
    let red = instance("i-b", &["team=red", "eks.amazonaws.com/capacityType=SPOT"], &[]);
    let spot = "eks.amazonaws.com/capacityType=SPOT team=red";
    let first = "placement-group=x team=blue web:NoSchedule";
    check_joined(
        false,
        &[
            (&[], ["?", "?"]),
            // The label that no pod selects is left out.
            (std::slice::from_ref(&blue), [first, "?"]),
            (std::slice::from_ref(&red), [first, spot]),
            (&[], [first, spot]),
            // A node that has just joined lacks a label, and a taint that only one node has belongs
            // to the node.
            (
                &[blue.clone(), instance("i-a2", &[LABELLED], &["busy:NoSchedule"])],
                ["placement-group=x team=blue", spot],
            ),
            (&[blue.clone(), instance("i-a2", &["team=green"], &[])], ["placement-group=x", spot]),
        ],
    );
    // The taints of a described group are those of its source.
    let red = instance("i-a", &["team=red"], &["web:NoSchedule"]);
    check_joined(true, &[(&[red], ["team=red", ""]), (&[], ["team=red", ""])]);
    // Nodes that are set up or removed, and nodes of other instances, show nothing.
    let startup = instance("i-a", &[], &["ebs.csi.aws.com/agent-not-ready:NoSchedule"]);
    let leaving = instance("i-b", &["team=red"], &["ToBeDeletedByClusterAutoscaler:NoSchedule"]);
    let other = instance("i-c", &["team=red"], &[]);
    check_joined(false, &[(&[startup, leaving, other], ["", "?"])]);
}

const LABELLED: &str = "placement-group=x";

#[test]
fn nodes_of_another_instance_type_are_forgotten() {
    let old = Known {
        instance_type: "m5.large".into(),
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        ..Known::default()
    };
    let mut sizes = Sizes::from([("a".to_owned(), old)]);
    let index = index(&[]);
    let groups = with_comparison(&["team"], |comparison| {
        joined(vec![group("a", &[], true)], index.nodes(), comparison, &mut sizes)
    });
    assert!(!groups[0].labels.contains_key("team"));
}

/// A DaemonSet that requests half a core of the nodes with this label.
fn daemon(name: &str, selector: &str) -> Value {
    let (key, value) = selector.split_once('=').unwrap();
    json!({
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": {"template": {"spec": {
            "nodeSelector": {key: value},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}],
        }}},
    })
}

/// Checks the CPU of the bucket of one group after each of these sets of nodes.
#[track_caller]
fn check_daemons(daemons: &[Value], sizes: &mut Sizes, steps: &[(&[Value], u64)]) {
    for (nodes, expected) in steps {
        let mut index = index(nodes);
        for daemon in daemons {
            index.apply_daemon(&serde_json::from_value(daemon.clone()).unwrap());
        }
        let daemons = index.daemons();
        let made = with_comparison(&[], |comparison| {
            let groups = vec![group("a", &["i-a", "i-a2"], true)];
            let groups = joined(groups, index.nodes(), comparison, sizes);
            offers(&groups, index.nodes(), &daemons, (comparison, &Pricing::of_table()), sizes)
                .unwrap()
        });
        assert_eq!(made.catalog.buckets()[0].allocatable.cpu_millis, *expected);
    }
}

#[test]
fn a_daemon_set_of_labels_that_only_nodes_have_counts_also_at_zero_nodes() {
    let (gpu, plain) = (instance("i-a", &["nfd/gpu=true"], &[]), instance("i-a2", &[], &[]));
    let driver = daemon("driver", "nfd/gpu=true");
    let mut sizes = Sizes::new();
    // Without a node, the size is the capacity of the type less the kubelet's reservation, but no
    // more than what cluster-autoscaler assumes.
    check_daemons(std::slice::from_ref(&driver), &mut sizes, &[(&[], 3_900)]);
    let gone: &[Value] = &[];
    check_daemons(
        std::slice::from_ref(&driver),
        &mut sizes,
        &[
            (std::slice::from_ref(&plain), 3_900),
            (&[plain.clone(), gpu], 3_400),
            (gone, 3_400),
            // The label of a node that has just joined comes later.
            (std::slice::from_ref(&plain), 3_400),
        ],
    );
    // Another request counts at once, and a DaemonSet that is deleted no longer counts.
    let mut larger = driver;
    larger["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
        json!("1");
    check_daemons(&[larger], &mut sizes, &[(gone, 2_900)]);
    check_daemons(&[daemon("other", "nfd/fpga=true")], &mut sizes, &[(gone, 3_900)]);
}

#[test]
fn a_group_that_cannot_be_used_leaves_out_itself_alone() {
    let twice = group("a", &[], true);
    let inverted = NodeGroup { min: 5, max: 2, ..group("b", &[], true) };
    let mut large = group("c", &[], true);
    large.instance_type = "m5.2xlarge".into();
    large.labels.insert("node.kubernetes.io/instance-type".into(), "m5.2xlarge".into());
    let groups = [twice.clone(), twice, inverted, large];
    let made = of_groups(&groups);
    let names: Vec<&str> =
        made.catalog.buckets().iter().flat_map(|bucket| &bucket.groups).map(|g| &*g.name).collect();
    assert_eq!(names, ["a", "c"]);
    let left_out: Vec<&String> =
        made.problems.iter().filter(|problem| problem.contains("left out")).collect();
    assert_eq!(
        left_out,
        [
            "group a: left out, because another group has the same name",
            "group b: left out, because its minimum size, 5, exceeds its maximum size, 2",
        ]
    );
}
