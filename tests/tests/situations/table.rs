//! The situations, as data.

/// A node: its name, instance type, resources, and further labels and taints.
pub(crate) struct NodeOf {
    pub(crate) name: &'static str,
    pub(crate) instance_type: &'static str,
    pub(crate) resources: &'static [(&'static str, &'static str)],
    pub(crate) labels: &'static [(&'static str, &'static str)],
    pub(crate) taints: &'static [&'static str],
}

/// A merge patch of an object, or of its status.
pub(crate) struct Change {
    pub(crate) kind: (&'static str, &'static str, &'static str),
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) patch: &'static str,
}

/// A situation of a cluster, and the state of a policy in it.
pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) nodes: &'static [NodeOf],
    /// YAML documents.
    pub(crate) objects: &'static str,
    /// Changes of the objects, in order.
    pub(crate) changes: &'static [Change],
    /// The specification of the policy.
    pub(crate) policy: &'static str,
    /// Why the autoscaler launches no node for a placeholder that requests more than
    /// [`LAUNCHES_FOR`]. Empty if it reports nothing.
    pub(crate) no_scale_up: &'static str,
    /// The state of the policy, one line for each bucket, reason, fault, and for the placeholders.
    pub(crate) expected: &'static str,
}

/// The most CPU of a placeholder for which the autoscaler launches a node.
pub(crate) const LAUNCHES_FOR: &str = "15950m";

/// A policy that counts announced pods, and holds nothing else.
const OBSERVES: &str = "{mode: Observe, tick: 10s, workloads: {namespaces: [jobs], releasedJobs: {}}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 0]]}}}";

/// A policy that holds one placeholder in each bucket.
const HOLDS_ONE: &str = "{mode: Act, tick: 10s, workloads: {namespaces: [jobs]}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";

/// A policy that would hold five placeholders in each bucket.
const WANTS_FIVE: &str = "{mode: Observe, tick: 10s, workloads: {namespaces: [jobs]}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 5]]}}}";

const M5: NodeOf = NodeOf {
    name: "m",
    instance_type: "m5.4xlarge",
    resources: &[("cpu", "16"), ("memory", "64Gi"), ("ephemeral-storage", "100Gi")],
    labels: &[],
    taints: &[],
};

/// A policy that holds one placeholder while one node is in use.
const HOLDS_ONE_BESIDE: &str = "{mode: Act, tick: 10s, workloads: {namespaces: [jobs]}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 0], [1, 1]]}}}";

/// A pod that uses the node of the table.
const USES_IT: &str = "{apiVersion: v1, kind: Pod, metadata: {name: uses-it, namespace: jobs}, spec: {nodeName: m, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}";

const NONE: Situation = Situation {
    name: "",
    nodes: &[M5],
    objects: "",
    changes: &[],
    policy: OBSERVES,
    no_scale_up: "",
    expected: "",
};

pub(crate) const SITUATIONS: &[Situation] = &[
    Situation {
        name: "suspended jobs whose containers have limits and no requests",
        nodes: &[
            M5,
            NodeOf {
                name: "g",
                instance_type: "g5.12xlarge",
                resources: &[("cpu", "48"), ("memory", "192Gi"), ("nvidia.com/gpu", "4")],
                taints: &["nvidia.com/gpu"],
                ..M5
            },
        ],
        objects: "
{apiVersion: batch/v1, kind: Job, metadata: {name: cpu, namespace: jobs}, spec: {suspend: true, parallelism: 4, completions: 4, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {limits: {cpu: '15', memory: 8Gi}}}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: gpu, namespace: jobs}, spec: {suspend: true, parallelism: 4, completions: 4, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: '1'}, limits: {nvidia.com/gpu: 4}}}]}}}}",
        expected: "m5.4xlarge: demand 0, announced 4, target 4\ng5.12xlarge: demand 0, announced 4, target 4",
        ..NONE
    },
    Situation {
        name: "a suspended job in a namespace with a LimitRange",
        objects: "
{apiVersion: v1, kind: LimitRange, metadata: {name: defaults, namespace: jobs}, spec: {limits: [{type: Container, defaultRequest: {cpu: '15', memory: 8Gi}}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: plain, namespace: jobs}, spec: {suspend: true, parallelism: 4, completions: 4, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x}]}}}}",
        expected: "m5.4xlarge: demand 0, announced 4, target 4",
        ..NONE
    },
    Situation {
        name: "a suspended job that has completed most of its pods",
        objects: "
{apiVersion: batch/v1, kind: Job, metadata: {name: half, namespace: jobs}, spec: {suspend: true, parallelism: 6, completions: 6, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: '15'}}}]}}}}",
        changes: &[Change {
            kind: ("batch", "v1", "Job"),
            namespace: "jobs",
            name: "half",
            subresource: "status",
            patch: "{status: {succeeded: 5}}",
        }],
        expected: "m5.4xlarge: demand 0, announced 1, target 1",
        ..NONE
    },
    Situation {
        name: "CronJobs with an interval, and with a schedule that cannot be read",
        objects: "
{apiVersion: batch/v1, kind: CronJob, metadata: {name: often, namespace: jobs}, spec: {schedule: '@every 45s', jobTemplate: {spec: {template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: '15'}}}]}}}}}}",
        expected: "m5.4xlarge: demand 0, announced 1, target 1",
        ..NONE
    },
    Situation {
        name: "announced pods that no bucket admits",
        objects: "
{apiVersion: batch/v1, kind: Job, metadata: {name: far, namespace: jobs}, spec: {suspend: true, parallelism: 3, completions: 3, template: {spec: {
  restartPolicy: Never, nodeSelector: {kubernetes.io/arch: arm64}, containers: [{name: c, image: x, resources: {requests: {cpu: '15'}}}]}}}}",
        expected: "m5.4xlarge: demand 0, announced 0, target 0\nunplaced: 3 of cpu_millis=15000, no_bucket_admits",
        ..NONE
    },
    Situation {
        name: "devices other than whole accelerators",
        nodes: &[
            NodeOf {
                name: "mig",
                instance_type: "p4d.24xlarge",
                resources: &[("cpu", "95"), ("memory", "1100Gi"), ("nvidia.com/mig-3g.20gb", "16")],
                ..M5
            },
            NodeOf {
                name: "efa",
                instance_type: "c5n.18xlarge",
                resources: &[("cpu", "71"), ("memory", "180Gi"), ("vpc.amazonaws.com/efa", "1")],
                ..M5
            },
        ],
        objects: "
{apiVersion: batch/v1, kind: Job, metadata: {name: mig, namespace: jobs}, spec: {suspend: true, parallelism: 64, completions: 64, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: '1'}, limits: {nvidia.com/mig-3g.20gb: 1}}}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: efa, namespace: jobs}, spec: {suspend: true, parallelism: 8, completions: 8, template: {spec: {
  restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: '8'}, limits: {vpc.amazonaws.com/efa: 1}}}]}}}}",
        expected: "c5n.18xlarge: demand 0, announced 8, target 8\np4d.24xlarge: demand 0, announced 4, target 4",
        ..NONE
    },
    Situation {
        name: "a pod that shrinks in place, and one that waits for its room",
        objects: "
{apiVersion: v1, kind: Pod, metadata: {name: big, namespace: jobs}, spec: {nodeName: m, containers: [{name: c, image: x, resources: {requests: {cpu: 2, memory: 1Gi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: next, namespace: jobs}, spec: {schedulingGates: [{name: wait}], containers: [{name: c, image: x, resources: {requests: {cpu: 10}}}]}}",
        changes: &[
            Change {
                kind: ("", "v1", "Pod"),
                namespace: "jobs",
                name: "big",
                subresource: "status",
                patch: "{status: {phase: Running, containerStatuses: [{name: c, image: x, imageID: x, ready: true, restartCount: 0, started: true, state: {running: {}},
                    allocatedResources: {cpu: '12', memory: 1Gi}, resources: {requests: {cpu: '12', memory: 1Gi}}}]}}",
            },
            Change {
                kind: ("", "v1", "Pod"),
                namespace: "jobs",
                name: "next",
                subresource: "",
                patch: "{spec: {schedulingGates: null}}",
            },
        ],
        expected: "m5.4xlarge: demand 2, announced 0, target 0",
        ..NONE
    },
    Situation {
        name: "pods of a Karpenter pool that select nodes by well-known labels",
        nodes: &[],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge, g5.12xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}],
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: os, namespace: jobs}, spec: {nodeSelector: {kubernetes.io/os: linux}, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: arch, namespace: jobs}, spec: {nodeSelector: {kubernetes.io/arch: amd64}, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: zone, namespace: jobs}, spec: {nodeSelector: {topology.kubernetes.io/zone: us-east-1a}, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: family, namespace: jobs}, spec: {nodeSelector: {karpenter.k8s.aws/instance-family: m5}, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}",
        expected: "m5.4xlarge: demand 4, announced 0, target 0\ng5.12xlarge: demand 0, announced 0, target 0",
        ..NONE
    },
    Situation {
        name: "a pool that selects instance types by their attributes, from zero nodes on",
        nodes: &[],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {template: {spec: {requirements: [
  {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['4']},
  {key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}],
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: jobs}, spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 15, memory: 20Gi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: jobs}, spec: {nodeSelector: {karpenter.k8s.aws/instance-family: r7i}, containers: [{name: c, image: x, resources: {requests: {cpu: 1, memory: 14Gi}}}]}}",
        expected: "16cpu-32gib: demand 1, announced 0, target 0\n16cpu-128gib-r7i: demand 1, announced 0, target 0",
        ..NONE
    },
    Situation {
        name: "limits of pools on GPUs, memory and nodes, and on the CPUs of two types together",
        nodes: &[],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: gpu}, spec: {limits: {nvidia.com/gpu: 8}, template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: few}, spec: {limits: {nodes: 2}, template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: mem}, spec: {limits: {memory: 64Gi}, template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: both}, spec: {limits: {cpu: 32}, template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge, m5.8xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}",
        policy: WANTS_FIVE,
        expected: "m5.xlarge: demand 0, announced 0, target 4\nm5.2xlarge: demand 0, announced 0, target 4\nm5.4xlarge: demand 0, announced 0, target 2\nm5.8xlarge: demand 0, announced 0, target 0\ng5.12xlarge: demand 0, announced 0, target 2",
        ..NONE
    },
    Situation {
        name: "a pool with reserved and on-demand capacity",
        nodes: &[],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}],
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}",
        policy: WANTS_FIVE,
        expected: "m5.4xlarge: demand 0, announced 0, target 5",
        ..NONE
    },
    Situation {
        name: "a static pool, whose node is in use, beside one that grows",
        nodes: &[NodeOf { labels: &[("karpenter.sh/nodepool", "fixed"), ("karpenter.sh/capacity-type", "on-demand")], ..M5 }],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: fixed}, spec: {replicas: 1, limits: {nodes: 2}, template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: grows}, spec: {template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: uses-it, namespace: jobs}, spec: {nodeName: m, containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits, namespace: jobs}, spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 15}}}]}}",
        policy: "{mode: Observe, tick: 10s, workloads: {namespaces: [jobs]}, limits: {placeholders: 1}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}",
        expected: "m5.4xlarge: demand 1, announced 0, target 0\ng5.12xlarge: demand 1, announced 0, target 1",
        ..NONE
    },
    Situation {
        name: "nodes of a managed group beside Karpenter are room, and no place to order",
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: grows}, spec: {template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}",
        policy: WANTS_FIVE,
        expected: "m5.4xlarge: demand 0, announced 0, target 1\ng5.12xlarge: demand 0, announced 0, target 5",
        ..NONE
    },
    Situation {
        name: "GPUs that a node offers under another name",
        nodes: &[NodeOf {
            name: "shared",
            instance_type: "g5.12xlarge",
            resources: &[("cpu", "47"), ("memory", "180Gi"), ("nvidia.com/gpu.shared", "16")],
            labels: &[("karpenter.sh/nodepool", "shared"), ("karpenter.sh/capacity-type", "on-demand")],
            taints: &[],
        }],
        objects: "
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: shared}, spec: {template: {spec: {requirements: [
  {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}],
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never}}}}",
        policy: HOLDS_ONE,
        expected: "g5.12xlarge: demand 0, announced 0, target 1\n1 placeholders, 1 on nodes: cpu=46990m nvidia.com/gpu.shared=16",
        ..NONE
    },
    Situation {
        name: "a DaemonSet with limits and no requests",
        objects: "
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: agents}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {
  containers: [{name: agent, image: x, resources: {limits: {cpu: 500m, memory: 1Gi}}}]}}}}",
        policy: HOLDS_ONE,
        expected: "m5.4xlarge: demand 0, announced 0, target 1\n1 placeholders, 1 on nodes: cpu=15490m",
        ..NONE
    },
    Situation {
        name: "an autoscaler that launches no node for a placeholder of any size",
        nodes: &[NodeOf { taints: &["full"], ..M5 }],
        objects: USES_IT,
        policy: HOLDS_ONE_BESIDE,
        no_scale_up: "1 Too many pods",
        expected: "m5.4xlarge: demand 1, announced 0, target 1\nPlaceholderNotTriggering: group m5.4xlarge: pod didn't trigger scale-up: 1 Too many pods\n1 placeholders, 0 on nodes: cpu=15990m",
        ..NONE
    },
    Situation {
        name: "an autoscaler that finds too little CPU for a placeholder of the first size",
        nodes: &[NodeOf { taints: &["full"], ..M5 }],
        objects: USES_IT,
        policy: HOLDS_ONE_BESIDE,
        no_scale_up: "1 Insufficient cpu",
        expected: "m5.4xlarge: demand 1, announced 0, target 1\n1 placeholders, 0 on nodes: cpu=15940m",
        ..NONE
    },
    // The last one, and of another group, because the controller remembers what was added.
    Situation {
        name: "an admission policy adds a container to placeholders",
        nodes: &[NodeOf {
            instance_type: "m5.2xlarge",
            resources: &[("cpu", "8"), ("memory", "32Gi")],
            ..M5
        }],
        objects: "
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: sidecar}, spec: {
  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: prophet}}, resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
  reinvocationPolicy: Never, failurePolicy: Fail,
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: \"proxy\", image: \"x\", restartPolicy: \"Always\", resources: Object.spec.initContainers.resources{requests: {\"cpu\": \"100m\"}}}]}}'}}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: sidecar}, spec: {policyName: sidecar}}",
        policy: HOLDS_ONE,
        expected: "m5.2xlarge: demand 0, announced 0, target 1\nPlaceholdersChanged: group m5.2xlarge: 100 cpu_millis more\n1 placeholders, 1 on nodes: cpu=7890m",
        ..NONE
    },
];

/// Pods that wait, although no node that placeholders hold would help them: one for a claim that
/// does not exist, and one for an instance type of another quota that does not come.
pub(crate) const WAITING: Situation = Situation {
    name: "pods that wait for something else",
    nodes: &[
        M5,
        NodeOf { name: "m2", ..M5 },
        NodeOf {
            name: "gpu",
            instance_type: "p5.48xlarge",
            resources: &[("cpu", "190"), ("memory", "2000Gi"), ("nvidia.com/gpu", "8")],
            ..M5
        },
    ],
    objects: "
{apiVersion: v1, kind: Pod, metadata: {name: claims, namespace: agents}, spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 100m}}}],
  volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: first, namespace: agents}, spec: {nodeName: gpu, containers: [{name: c, image: x, resources: {requests: {cpu: 180}, limits: {nvidia.com/gpu: 8}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: second, namespace: agents}, spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 180}, limits: {nvidia.com/gpu: 8}}}]}}",
    policy: "{mode: Act, tick: 10s, workloads: {namespaces: [jobs]}, buckets: {instanceTypes: [m5.4xlarge]}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}",
    expected: "m5.4xlarge: demand 0, announced 0, target 2\n2 placeholders, 2 on nodes: cpu=15990m",
    ..NONE
};
