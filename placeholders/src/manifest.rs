//! A group's placeholders as Kubernetes objects: a ReplicaSet, or a CapacityBuffer with its PodTemplate.
//!
//! One placeholder takes a node whole, runs nothing, yields to every workload, and is held by a scheduling gate until
//! [`crate::actuate`] lifts it: a pod that a ReplicaSet recreates after a preemption must cause no launch by itself.

use std::collections::BTreeMap;

use embedder::{Resources, UNLIMITED};
use serde_json::{Map, Value, json};

/// The gate that holds placeholders until a plan wants them.
pub const HOLD_GATE: &str = "prophet.dev/hold";

/// The label that names the policy.
pub const POLICY_LABEL: &str = "prophet.dev/policy";

/// The label that tells a group from the others of its policy: a digest of its names.
pub const GROUP_LABEL: &str = "prophet.dev/group";

/// The label of the template's digest: another template is another ReplicaSet.
pub const TEMPLATE_LABEL: &str = "prophet.dev/template";

/// The annotations that name bucket and group in full.
pub const BUCKET_ANNOTATION: &str = "prophet.dev/bucket";
/// See [`BUCKET_ANNOTATION`].
pub const GROUP_ANNOTATION: &str = "prophet.dev/group-name";

/// The annotation of a placeholder that tells when its gate was lifted, RFC 3339.
pub const LIFTED_AT: &str = "prophet.dev/lifted-at";

/// The annotation that tells what for.
pub const LIFTED_FOR: &str = "prophet.dev/lifted-for";

/// The policy that owns what is made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace: where all of it lies.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What the placeholders of one group are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The policy.
    pub owner: Owner,
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// What one takes: a node, less its DaemonSets and a margin.
    pub asks: Resources,
    /// The kind of accelerators among it.
    pub accelerator_kind: String,
    /// The labels of the nodes that it goes to.
    pub pins: BTreeMap<String, String>,
    /// The taints that it tolerates, as (key, value, effect).
    pub taints: Vec<(String, String, String)>,
    /// Its priority class.
    pub priority_class: String,
    /// The image of the container that does nothing.
    pub image: String,
    /// What to have on the node before its first job.
    pub warm: Vec<Warm>,
}

/// Something to have on a node before its first job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warm {
    /// An image, run once with a command that ends at once.
    Image {
        /// The image.
        image: String,
        /// The command.
        command: Vec<String>,
    },
    /// An image that has no program to run: mounted as a volume, which pulls it.
    Volume {
        /// The image.
        image: String,
    },
    /// Data, put into a folder of the node by a command. It is skipped where the marker is, and may be killed at any
    /// moment: the marker is made only once it has ended well.
    Data {
        /// A name.
        name: String,
        /// The image that has the command, and a shell.
        image: String,
        /// The command.
        command: Vec<String>,
        /// The folder, mounted at the same path.
        host_path: String,
        /// The file in it that says that all is there.
        marker: String,
    },
}

/// Skips when the marker `$0` is there, else runs the command and makes the marker.
const WARM_SCRIPT: &str = r#"[ -e "$0" ] && exit 0; "$@" && : > "$0""#;

impl Template {
    /// The digest of the pods that it makes: FNV-1a, 32 bits folded from 64, in hexadecimal.
    pub fn digest(&self) -> String {
        digest(&self.pod(true).to_string())
    }

    /// The digest that tells its group from the policy's others.
    pub fn group_digest(&self) -> String {
        digest(&format!("{}\n{}", self.bucket, self.group))
    }

    /// The name of its ReplicaSet or CapacityBuffer.
    pub fn name(&self) -> String {
        // Names end up in labels, which take 63 characters.
        let policy: String = self.owner.name.chars().take(30).collect();
        format!("prophet-{policy}-{}-{}", self.group_digest(), self.digest())
    }

    /// Its ReplicaSet with so many pods, each held by the gate.
    pub fn replica_set(&self, replicas: u64, resource_version: Option<&str>) -> Value {
        let labels = self.labels();
        let mut pod = self.pod(true);
        pod["metadata"]["labels"] = json!(labels);
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

    /// Its CapacityBuffer for so many nodes, by the PodTemplate of the same name.
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

    /// The PodTemplate of its CapacityBuffer. Nothing holds a virtual pod, so it has no gate.
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
        if let Some(version) = resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        metadata
    }

    fn labels(&self) -> BTreeMap<&'static str, String> {
        [
            ("app.kubernetes.io/name", "prophet-placeholder".into()),
            ("app.kubernetes.io/managed-by", "prophet".into()),
            // The API server takes no more than 63 characters, and policies may have more.
            (POLICY_LABEL, self.owner.name.chars().take(63).collect()),
            (GROUP_LABEL, self.group_digest()),
            (TEMPLATE_LABEL, self.digest()),
        ]
        .into()
    }

    /// The pod, without the labels that depend on its digest.
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
        if held {
            spec["schedulingGates"] = json!([{"name": HOLD_GATE}]);
        }
        self.warm(&mut spec);
        json!({
            "metadata": {"annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                BUCKET_ANNOTATION: self.bucket,
                GROUP_ANNOTATION: self.group,
            }},
            "spec": spec,
        })
    }

    fn container(&self) -> Value {
        let Resources { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods: _ } = self.asks;
        let mut requests = Map::new();
        let mut ask = |name: &str, amount: u64, text: String| {
            if amount > 0 && amount != UNLIMITED {
                requests.insert(name.into(), json!(text));
            }
        };
        ask("cpu", cpu_millis, format!("{cpu_millis}m"));
        ask("memory", memory_bytes, memory_bytes.to_string());
        ask("ephemeral-storage", ephemeral_bytes, ephemeral_bytes.to_string());
        ask(&self.accelerator_kind, accelerators, accelerators.to_string());
        let mut resources = json!({"requests": requests});
        if accelerators > 0 {
            resources["limits"] = json!({&self.accelerator_kind: accelerators.to_string()});
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
                    mounts.push(json!({"name": name, "mountPath": format!("/warm/{at}"), "readOnly": true}));
                }
                Warm::Data { name, image, command, host_path, marker } => {
                    let volume = format!("warm-data-{at}");
                    let marker = format!("{}/{marker}", host_path.trim_end_matches('/'));
                    let mut all = vec!["/bin/sh", "-c", WARM_SCRIPT, &marker];
                    all.extend(command.iter().map(String::as_str));
                    first.push(json!({
                        "name": format!("warm-{name}"), "image": image, "command": all,
                        // Folders that the kubelet makes belong to root.
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

fn harmless() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    })
}

/// FNV-1a: a digest that no release of a library changes, so that an upgrade rolls nothing.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}
