//! Pods and nodes, as the API server has them.

use serde_json::{Value, json};

/// A pod of one container that requests a core. It is on a node, unless the node's name is empty.
pub fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

/// A placeholder of the policy `batch` and of this ReplicaSet, in the namespace `prophet`. It is on
/// a node, unless the node's name is empty.
pub fn placeholder(name: &str, replica_set: &str, node: &str) -> Value {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": ""});
    json!({
        "metadata": {
            "name": name, "namespace": "prophet",
            "labels": {placeholders::POLICY_LABEL: "batch"},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node},
    })
}

/// A ready node with these labels and allocatable resources.
pub fn ready_node(name: &str, labels: &Value, allocatable: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}
