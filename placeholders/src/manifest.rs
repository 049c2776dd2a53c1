//! The placeholders of a group as Kubernetes objects: a ReplicaSet, or a CapacityBuffer with its
//! PodTemplate.
//!
//! One placeholder takes a whole node, runs no program, and yields to every workload. A scheduling
//! gate holds it until [`crate::actuate`] removes the gate, because a pod that a ReplicaSet
//! recreates after a preemption must not cause a launch by itself.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{Resources, UNLIMITED};
use serde_json::{Map, Value, json};

/// The scheduling gate that holds placeholders until a plan needs them.
pub const HOLD_GATE: &str = "prophet.dev/hold";

/// The label with the name of the policy.
pub const POLICY_LABEL: &str = "prophet.dev/policy";

/// The label that distinguishes a group from the other groups of its policy: a digest of the names
/// of bucket and group.
pub const GROUP_LABEL: &str = "prophet.dev/group";

/// The label with the digest of the template. Each template has its own ReplicaSet.
pub const TEMPLATE_LABEL: &str = "prophet.dev/template";

/// The label of a node with its instance type.
const INSTANCE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

/// The annotation with the full name of the bucket.
pub const BUCKET_ANNOTATION: &str = "prophet.dev/bucket";
/// The annotation with the full name of the group.
pub const GROUP_ANNOTATION: &str = "prophet.dev/group-name";

/// The annotation with why placeholders are smaller than their nodes, so that it is known after a
/// restart of the controller.
pub const SHRUNK_ANNOTATION: &str = "prophet.dev/shrunk";

/// The annotation of a placeholder with the time at which its gate was removed, in RFC 3339.
pub const LIFTED_AT: &str = "prophet.dev/lifted-at";

/// The annotation of a placeholder with the reason for which its gate was removed.
pub const LIFTED_FOR: &str = "prophet.dev/lifted-for";

/// Labels of a placeholder by which webhooks that add containers to pods leave it out, because a
/// placeholder with a further container does not fit on its node: those of Istio, Datadog and Kuma.
const NO_INJECTION_LABELS: [(&str, &str); 3] = [
    ("sidecar.istio.io/inject", "false"),
    ("admission.datadoghq.com/enabled", "false"),
    ("kuma.io/sidecar-injection", "disabled"),
];

/// Annotations with the same purpose: those of Linkerd, Vault, Consul, Dapr and OpenTelemetry.
const NO_INJECTION_ANNOTATIONS: [(&str, &str); 5] = [
    ("linkerd.io/inject", "disabled"),
    ("vault.hashicorp.com/agent-inject", "false"),
    ("consul.hashicorp.com/connect-inject", "false"),
    ("dapr.io/enabled", "false"),
    ("sidecar.opentelemetry.io/inject", "false"),
];

/// The policy that owns the objects that are created for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The namespace of the policy and of all its objects.
    pub namespace: String,
    /// The name of the policy.
    pub name: String,
    /// The UID of the policy.
    pub uid: String,
}

/// The properties of the placeholders of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The policy that owns the placeholders.
    pub owner: Owner,
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// The requests of one placeholder: the allocatable resources of a node, less those of its
    /// DaemonSets and a margin.
    pub requests: Resources,
    /// The kind of the requested accelerators.
    pub accelerator_kind: String,
    /// The other devices that one placeholder requests, by name, in whole units.
    pub devices: BTreeMap<String, u64>,
    /// The labels that a node must have (`nodeSelector`).
    pub pins: BTreeMap<String, String>,
    /// The instance types of the group. If there are several, a node must be of one of them
    /// (required node affinity). A single one is among `pins`.
    pub instance_types: BTreeSet<String>,
    /// The taints that a placeholder tolerates, as (key, value, effect).
    pub taints: Vec<(String, String, String)>,
    /// The priority class of a placeholder.
    pub priority_class: String,
    /// The image of the container, which runs no workload.
    pub image: String,
    /// The images and data that a node must have before its first job.
    pub warm: Vec<Warm>,
    /// Why the requests are smaller than the room of a node, as the controller writes it. It is
    /// not part of the pods.
    pub shrunk: Option<String>,
}

/// An image or data that a node must have before its first job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warm {
    /// An image that runs once, with a command that ends at once.
    Image {
        /// The reference of the image, such as `registry/name:tag`.
        image: String,
        /// The command with its arguments, which replaces the entry point of the image.
        command: Vec<String>,
    },
    /// An image without a program. The placeholder mounts it as a volume, so the kubelet pulls it.
    Volume {
        /// The reference of the image, such as `registry/name:tag`.
        image: String,
    },
    /// Data that a command writes into a directory of the node.
    ///
    /// The command is skipped if the marker exists. It may be killed at any moment, so the marker
    /// is created only after the command has succeeded.
    Data {
        /// The name of the data, which is part of the name of the init container.
        name: String,
        /// The image that contains the command and a shell.
        image: String,
        /// The command with its arguments, which a shell runs as root.
        command: Vec<String>,
        /// The directory on the node, mounted at the same path in the container.
        host_path: String,
        /// The file in the directory whose existence means that the data is complete.
        marker: String,
    },
}

/// Exits if the marker `$0` exists; otherwise runs the command and creates the marker.
const WARM_SCRIPT: &str = r#"[ -e "$0" ] && exit 0; "$@" && : > "$0""#;

impl Template {
    /// Returns the digest of the pods that the template makes: FNV-1a, 64 bits folded to 32, in
    /// hexadecimal.
    pub fn digest(&self) -> String {
        digest(&self.pod(true).to_string())
    }

    /// Returns the digest that distinguishes the group from the other groups of the policy.
    pub fn group_digest(&self) -> String {
        digest(&format!("{}\n{}", self.bucket, self.group))
    }

    /// Returns the name of the ReplicaSet or CapacityBuffer.
    pub fn name(&self) -> String {
        // The name is also used in labels, whose values have at most 63 characters.
        let policy = beginning(&self.owner.name, 30);
        format!("prophet-{policy}-{}-{}", self.group_digest(), self.digest())
    }

    /// Returns the ReplicaSet with `replicas` pods, each held by the gate.
    pub fn replica_set(&self, replicas: u64, resource_version: Option<&str>) -> Value {
        let labels = self.labels();
        let mut pod = self.pod(true);
        let of_pod = NO_INJECTION_LABELS.into_iter().map(|(key, value)| (key, value.to_owned()));
        let of_pod: BTreeMap<&str, String> = labels.clone().into_iter().chain(of_pod).collect();
        pod["metadata"]["labels"] = json!(of_pod);
        let selector: Map<String, Value> = [POLICY_LABEL, GROUP_LABEL, TEMPLATE_LABEL]
            .into_iter()
            .map(|key| (key.to_owned(), json!(labels[key])))
            .collect();
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": self.metadata(resource_version),
            "spec": {"replicas": replicas, "selector": {"matchLabels": selector}, "template": pod},
        })
    }

    /// Returns the CapacityBuffer for `replicas` nodes, which refers to the PodTemplate of the same
    /// name.
    pub fn capacity_buffer(&self, replicas: u64, resource_version: Option<&str>) -> Value {
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": self.metadata(resource_version),
            "spec": {
                "podTemplateRef": {"name": self.name()},
                "replicas": replicas,
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            },
        })
    }

    /// Returns the PodTemplate of the CapacityBuffer. It has no gate, because cluster-autoscaler
    /// only simulates its pods.
    pub fn pod_template(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": self.metadata(None),
            "template": self.pod(false),
        })
    }

    fn metadata(&self, resource_version: Option<&str>) -> Value {
        let Owner { namespace, name, uid } = &self.owner;
        let mut metadata = json!({
            "name": self.name(),
            "namespace": namespace,
            "labels": self.labels(),
            "annotations": {BUCKET_ANNOTATION: self.bucket, GROUP_ANNOTATION: self.group},
            "ownerReferences": [{
                "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy", "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": false,
            }],
        });
        if let Some(shrunk) = &self.shrunk {
            metadata["annotations"][SHRUNK_ANNOTATION] = json!(shrunk);
        }
        if let Some(version) = resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        metadata
    }

    fn labels(&self) -> BTreeMap<&'static str, String> {
        [
            ("app.kubernetes.io/name", "prophet-placeholder".into()),
            ("app.kubernetes.io/managed-by", "prophet".into()),
            // The API server accepts label values of at most 63 characters, but names of policies
            // may be longer.
            (POLICY_LABEL, beginning(&self.owner.name, 63).into()),
            (GROUP_LABEL, self.group_digest()),
            (TEMPLATE_LABEL, self.digest()),
        ]
        .into()
    }

    /// Returns the pod without the labels that depend on its digest.
    fn pod(&self, held: bool) -> Value {
        let tolerations = self.taints.iter().map(|(key, value, effect)| {
            let operator = if value.is_empty() { "Exists" } else { "Equal" };
            let mut toleration = json!({"key": key, "operator": operator, "effect": effect});
            if !value.is_empty() {
                toleration["value"] = json!(value);
            }
            toleration
        });
        let mut spec = json!({
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "priorityClassName": self.priority_class,
            "nodeSelector": self.pins,
            "tolerations": tolerations.collect::<Vec<_>>(),
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [self.container()],
        });
        if self.instance_types.len() > 1 {
            let of_type = json!({
                "key": INSTANCE_TYPE_LABEL, "operator": "In", "values": self.instance_types,
            });
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [of_type]}],
            }}});
        }
        if held {
            spec["schedulingGates"] = json!([{"name": HOLD_GATE}]);
        }
        self.warm(&mut spec);
        let mut annotations: Map<String, Value> = NO_INJECTION_ANNOTATIONS
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect();
        annotations.extend([
            ("cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(), json!("true")),
            (BUCKET_ANNOTATION.to_owned(), json!(self.bucket)),
            (GROUP_ANNOTATION.to_owned(), json!(self.group)),
        ]);
        json!({"metadata": {"annotations": annotations}, "spec": spec})
    }

    fn container(&self) -> Value {
        let Resources {
            accelerators,
            devices: _,
            cpu_millis,
            memory_bytes,
            ephemeral_bytes,
            pods: _,
        } = self.requests;
        let mut requests = Map::new();
        let mut request = |name: &str, amount: u64, text: String| {
            if amount > 0 && amount != UNLIMITED {
                requests.insert(name.into(), json!(text));
            }
        };
        request("cpu", cpu_millis, format!("{cpu_millis}m"));
        request("memory", memory_bytes, memory_bytes.to_string());
        request("ephemeral-storage", ephemeral_bytes, ephemeral_bytes.to_string());
        let accelerators = [(&self.accelerator_kind, &accelerators)].into_iter();
        let devices = accelerators.chain(&self.devices).filter(|(_, amount)| **amount > 0);
        // A device cannot be overcommitted, so its limit must equal its request.
        let mut limits = Map::new();
        for (name, amount) in devices {
            request(name, *amount, amount.to_string());
            limits.insert(name.clone(), json!(amount.to_string()));
        }
        let mut resources = json!({"requests": requests});
        if !limits.is_empty() {
            resources["limits"] = json!(limits);
        }
        json!({"name": "placeholder", "image": self.image, "resources": resources, "securityContext": harmless()})
    }

    fn warm(&self, spec: &mut Value) {
        let (mut first, mut volumes, mut mounts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, warm) in self.warm.iter().enumerate() {
            match warm {
                Warm::Image { image, command } => first.push(json!({
                    "name": format!("warm-image-{at}"), "image": image, "command": command,
                    "securityContext": harmless(),
                })),
                Warm::Volume { image } => {
                    let name = format!("warm-image-{at}");
                    volumes.push(
                        json!({"name": name, "image": {"reference": image, "pullPolicy": "IfNotPresent"}}),
                    );
                    mounts.push(
                        json!({"name": name, "mountPath": format!("/warm/{at}"), "readOnly": true}),
                    );
                }
                Warm::Data { name, image, command, host_path, marker } => {
                    let volume = format!("warm-data-{at}");
                    let marker = format!("{}/{marker}", host_path.trim_end_matches('/'));
                    let mut all = vec!["/bin/sh", "-c", WARM_SCRIPT, &marker];
                    all.extend(command.iter().map(String::as_str));
                    first.push(json!({
                        "name": format!("warm-{name}"), "image": image, "command": all,
                        // The kubelet creates such directories with root as the owner, so the
                        // command runs as root.
                        "securityContext": {
                            "runAsUser": 0, "runAsNonRoot": false, "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
                        },
                        "volumeMounts": [{"name": volume, "mountPath": host_path}],
                    }));
                    volumes.push(json!({
                        "name": volume, "hostPath": {"path": host_path, "type": "DirectoryOrCreate"},
                    }));
                }
            }
        }
        if !first.is_empty() {
            spec["initContainers"] = json!(first);
        }
        if !volumes.is_empty() {
            spec["volumes"] = json!(volumes);
        }
        if !mounts.is_empty() {
            spec["containers"][0]["volumeMounts"] = json!(mounts);
        }
    }
}

/// Returns the first characters of the name of an object, at most `most`, so that a name or a label
/// can begin or end with them: none of these may have a dot before a dash or at its end.
fn beginning(name: &str, most: usize) -> &str {
    let end = name.char_indices().nth(most).map_or(name.len(), |(at, _)| at);
    name[..end].trim_end_matches(['.', '-'])
}

fn harmless() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    })
}

/// Returns the FNV-1a digest of `text`.
///
/// The algorithm is fixed, so an upgrade of a library does not change the digests and replaces no
/// placeholders.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}
