//! Tests of placeholders as they are sent to the API server.
//!
//! `UPDATE_EXPECT=1 cargo test -p placeholders` writes the golden files anew.

use embedder::{Resources, UNLIMITED};
use expect_test::{ExpectFile, expect_file};
use placeholders::{Owner, Template, Warm};
use proptest::prelude::*;

fn template() -> Template {
    Template {
        devices: std::collections::BTreeMap::new(),
        owner: Owner { namespace: "prophet".into(), name: "batch".into(), uid: "1b2c".into() },
        bucket: "g5.xlarge/spot".into(),
        group: "gpu-a".into(),
        requests: Resources {
            devices: embedder::Devices::NONE,
            accelerators: 1,
            cpu_millis: 3_910,
            memory_bytes: 15 << 30,
            ephemeral_bytes: UNLIMITED,
            pods: 1,
        },
        accelerator_kind: "nvidia.com/gpu".into(),
        pins: [
            ("node.kubernetes.io/instance-type", "g5.xlarge"),
            ("prophet.dev/placement-group", "a"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        instance_types: ["g5.xlarge".to_owned()].into(),
        taints: vec![
            ("nvidia.com/gpu".into(), String::new(), "NoSchedule".into()),
            ("team".into(), "batch".into(), "NoSchedule".into()),
        ],
        priority_class: "prophet-placeholder-4".into(),
        image: "registry.k8s.io/pause:3.10".into(),
        warm: Vec::new(),
        shrunk: None,
    }
}

fn check(golden: &ExpectFile, object: &serde_json::Value) {
    golden.assert_eq(&format!("{object:#}\n"));
}

#[test]
fn a_placeholder_has_no_privileges_and_takes_a_whole_node() {
    check(&expect_file!["data/replica-set.json"], &template().replica_set(2, Some("7")));
}

#[test]
fn a_buffer_has_the_same_pods_without_the_gate() {
    check(&expect_file!["data/capacity-buffer.json"], &template().capacity_buffer(2, None));
    check(&expect_file!["data/pod-template.json"], &template().pod_template());
}

#[test]
fn a_placeholder_of_a_mixed_instances_group_admits_all_its_instance_types() {
    let pins = [("prophet.dev/placement-group".to_owned(), "a".to_owned())].into();
    let instance_types = ["g5.xlarge", "g5n.xlarge"].map(str::to_owned).into();
    let mixed = Template { pins, instance_types, ..template() };
    let spec = &mixed.replica_set(1, None)["spec"]["template"]["spec"];
    let expected = serde_json::json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{
            "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge", "g5n.xlarge"],
        }]}]},
    }});
    assert_eq!(spec["affinity"], expected);
}

#[test]
fn init_containers_warm_the_node_before_the_placeholder_runs() {
    let warm = vec![
        Warm::Image { image: "example.com/torch:2".into(), command: vec!["true".into()] },
        Warm::Volume { image: "example.com/static:1".into() },
        Warm::Data {
            name: "weights".into(),
            image: "busybox".into(),
            command: vec!["sh".into(), "-c".into(), "fetch".into()],
            host_path: "/var/warm/weights/".into(),
            marker: ".done".into(),
        },
    ];
    let warmed = Template { warm, ..template() };
    check(
        &expect_file!["data/warmed.json"],
        &warmed.replica_set(1, None)["spec"]["template"]["spec"],
    );
    assert_ne!(warmed.name(), template().name(), "each template has its own ReplicaSet");
}

/// A change outside of the pods does not change the name, so it replaces no placeholders.
#[test]
fn the_name_depends_on_the_pods_and_the_group() {
    let other = |change: fn(&mut Template)| {
        let mut template = template();
        change(&mut template);
        template.name()
    };
    assert_eq!(other(|_| {}), template().name());
    assert_eq!(other(|template| template.owner.uid = "2".into()), template().name());
    assert_ne!(other(|template| template.group = "gpu-b".into()), template().name());
    assert_ne!(other(|template| template.requests.cpu_millis -= 1), template().name());
    assert!(other(|template| template.owner.name = "x".repeat(200)).len() <= 63);
}

/// Whether the API server accepts this name of an object: labels of letters, digits and dashes,
/// separated by dots, none of which begins or ends with a dash.
fn is_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(fine) && part.ends_with(fine) && part.chars().all(|c| fine(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

/// Whether the API server accepts this value of a label.
fn is_label_value(value: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63
        && value.starts_with(fine)
        && value.ends_with(fine)
        && value.chars().all(|c| fine(c) || "-_.".contains(c))
}

proptest! {
    /// A name may end in a dot or a dash where it is cut.
    #[test]
    fn any_name_of_a_policy_leads_to_valid_names_and_labels(
        name in "[a-z0-9]([-a-z0-9]{0,2}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,2}[a-z0-9])?){0,40}",
    ) {
        prop_assume!(is_name(&name));
        let owner = Owner { name, ..template().owner };
        let set = Template { owner, ..template() }.replica_set(2, None);
        let name = set["metadata"]["name"].as_str().unwrap();
        // The names of its pods have six characters more.
        prop_assert!(is_name(name) && is_label_value(name), "{name}");
        for labels in [&set["metadata"]["labels"], &set["spec"]["template"]["metadata"]["labels"]] {
            for (key, value) in labels.as_object().unwrap() {
                prop_assert!(is_label_value(value.as_str().unwrap()), "{key}: {value}");
            }
        }
    }
}
