//! Placeholders with Karpenter, which creates nodes with its kwok provider.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy, status};
use tests::karpenter::{Karpenter, node_pool};
use tests::wait;

/// The longest wait for a condition. Karpenter batches pending pods for seconds, and checks for
/// empty nodes every few seconds.
const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn karpenter_launches_a_node_for_a_pending_pod_and_removes_it_afterwards() {
    let plane = ControlPlane::start().await.unwrap();
    let types = ["m5.xlarge", "g5.xlarge"];
    let _karpenter = Karpenter::start(&plane, &types, Duration::ZERO).await.unwrap();
    let pool = node_pool("cpu", "m5.xlarge", "spot", Duration::from_secs(2));
    plane.apply_yaml(&pool.to_string()).await.unwrap();
    plane
        .apply_yaml(
            "{apiVersion: v1, kind: Pod, metadata: {name: first}, spec: {containers: [
               {name: work, image: busybox, resources: {requests: {cpu: '3'}}}]}}",
        )
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let running = ListParams::default().fields("status.phase=Running");
    wait::until_true("the pod to run", DEADLINE, async || {
        Ok(pods.list(&running).await?.items.len() == 1)
    })
    .await
    .unwrap();
    let nodes: Api<Node> = Api::all(plane.client());
    let all = nodes.list(&ListParams::default()).await.unwrap().items;
    let [node] = &all[..] else { panic!("expected one node: {all:?}") };
    assert_eq!(node.labels()["node.kubernetes.io/instance-type"], "m5.xlarge");
    assert_eq!(node.labels()["karpenter.sh/capacity-type"], "spot");

    pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    wait::until_true("the node to go", DEADLINE, async || {
        Ok(nodes.list(&ListParams::default()).await?.items.is_empty())
    })
    .await
    .unwrap();
}

/// A policy with two placeholders at any demand.
const POLICY: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}";

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_launches_nodes_for_placeholders_and_removes_them_afterwards() {
    let plane = ControlPlane::start().await.unwrap();
    let types = ["m5.xlarge", "g5.xlarge"];
    let mut karpenter = Karpenter::start(&plane, &types, Duration::ZERO).await.unwrap();
    let pool = node_pool("cpu", "m5.xlarge", "on-demand", Duration::from_secs(2));
    plane.apply_yaml(&pool.to_string()).await.unwrap();
    let prophet = Prophet::install(&plane, &[], &[]).await.unwrap();
    plane.apply_yaml(&policy("batch", POLICY)).await.unwrap();
    let (nodes, pods): (Api<Node>, Api<Pod>) =
        (Api::all(plane.client()), Api::namespaced(plane.client(), NAMESPACE));
    let running = ListParams::default().fields("status.phase=Running");
    let mut wait_for = async |what: &str, ready: usize, node_count: usize| {
        let mut last = (0, 0);
        let waited = wait::until_true(what, DEADLINE, async || {
            let all = ListParams::default();
            last = (pods.list(&running).await?.items.len(), nodes.list(&all).await?.items.len());
            Ok(last == (ready, node_count))
        });
        if let Err(error) = waited.await {
            let logs = [prophet.log(), karpenter.process().log()].map(Result::unwrap_or_default);
            panic!("{error:#}; there are {last:?}\n{}", logs.join("\n"));
        }
    };
    wait_for("two placeholders on two nodes", 2, 2).await;
    no_capacity_closes_the_group(&plane).await.unwrap();
    plane.apply_yaml(&policy("batch", &POLICY.replace("[0, 2]", "[0, 0]"))).await.unwrap();
    wait_for("no placeholder and no node", 0, 0).await;
}

/// Writes the Event of Karpenter that there is no capacity for one of its claims, and waits until
/// the group is in backoff. The kwok provider always has capacity.
async fn no_capacity_closes_the_group(plane: &ControlPlane) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
    let claims: Api<DynamicObject> = Api::all_with(plane.client(), &ApiResource::from_gvk(&kind));
    let claim = claims.list(&ListParams::default()).await?.items[0].name_any();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning",
        "metadata": {"name": format!("{claim}.1"), "namespace": "default"},
        "reason": "InsufficientCapacityError",
        "message": format!("NodeClaim {claim} event: no capacity of m5.xlarge"),
        "involvedObject": {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim},
        "lastTimestamp": base::clock::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        "source": {"component": "karpenter"},
    });
    plane.apply_yaml(&event.to_string()).await?;
    wait::until_true("the backoff of the group", DEADLINE, async || {
        let status = status(plane, "batch").await?;
        let group = &status["buckets"][0]["groups"][0];
        Ok(group["backoff"] == true && group["backoffUntil"].is_string())
    })
    .await
}

/// A policy with a CapacityBuffer of two nodes at no demand, and of none from a demand of two
/// nodes.
const BUFFERS: &str = "{mode: Act, tick: 10s, placeholders: {kind: CapacityBuffer},
    workloads: {namespaces: [default]},
    forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2], [1, 1], [2, 0]]}}}";

/// Karpenter launches nodes for a CapacityBuffer and keeps them while they are empty. A job takes
/// them without preemption, and Prophet lowers the buffer, so that Karpenter does not refill it.
#[tokio::test(flavor = "multi_thread")]
async fn karpenter_launches_and_keeps_nodes_for_buffers() {
    let plane = ControlPlane::start().await.unwrap();
    let mut karpenter = Karpenter::start(&plane, &["m5.xlarge"], Duration::ZERO).await.unwrap();
    let pool = node_pool("cpu", "m5.xlarge", "on-demand", Duration::from_secs(2));
    plane.apply_yaml(&pool.to_string()).await.unwrap();
    let prophet = Prophet::install(&plane, &[], &[]).await.unwrap();
    plane.apply_yaml(&policy("batch", BUFFERS)).await.unwrap();
    let mut seen_nodes = BTreeSet::new();
    let mut wait_for = async |what: &str, is: &dyn Fn(&[Value], &Nodes) -> bool| {
        let mut last = (Vec::new(), BTreeMap::new());
        let waited = wait::until_true(what, DEADLINE, async || {
            last = (buffers(&plane).await?, seen(&plane).await?);
            seen_nodes.extend(last.1.keys().cloned());
            Ok(is(&last.0, &last.1))
        });
        if let Err(error) = waited.await {
            let logs = [prophet.log(), karpenter.process().log()].map(Result::unwrap_or_default);
            panic!("{error:#}; {last:#?}\n{}", logs.join("\n"));
        }
        (last.1, seen_nodes.len())
    };
    let is_held = |buffers: &[Value], nodes: &Nodes| {
        let has = |buffer: &Value| buffer["spec"]["replicas"] == 2 && is_provisioned(buffer);
        buffers.len() == 1 && buffers.iter().all(has) && nodes.len() == 2
    };
    let (held, _) = wait_for("a buffer on two nodes", &is_held).await;
    // A buffer has no pods, so a node without it would go after two seconds.
    assert!(held.values().all(|(.., pods)| pods.is_empty()), "{held:#?}");
    tokio::time::sleep(CONSOLIDATION).await;
    let (kept, _) = wait_for("the same nodes", &is_held).await;
    assert!(held.keys().eq(kept.keys()), "{held:#?} {kept:#?}");

    let job = "{apiVersion: batch/v1, kind: Job, metadata: {name: first}, spec: {
        parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [
        {name: work, image: busybox, resources: {requests: {cpu: '3'}}}]}}}}";
    plane.apply_yaml(job).await.unwrap();
    let runs = |(.., pods): &Row| pods.contains("first");
    let has_started = |buffers: &[Value], nodes: &Nodes| {
        buffers.iter().all(|buffer| buffer["spec"]["replicas"] == 0)
            && nodes.values().filter(|row| runs(row)).count() == 2
            && nodes.len() == 2
    };
    let (taken, launched) = wait_for("the job, and no further node", &has_started).await;
    assert!(held.keys().eq(taken.keys()), "{held:#?} {taken:#?}");
    // Karpenter may look before Prophet has lowered the buffer.
    println!("Karpenter launched {} nodes beyond the two that a buffer held", launched - 2);
    assert!(launched <= 4, "{seen_nodes:?}");
}

/// The CapacityBuffers of Prophet.
async fn buffers(plane: &ControlPlane) -> anyhow::Result<Vec<Value>> {
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    let resource = ApiResource::from_gvk(&kind);
    let all: Api<DynamicObject> = Api::namespaced_with(plane.client(), NAMESPACE, &resource);
    let all = all.list(&ListParams::default()).await?.items;
    all.iter().map(|buffer| Ok(serde_json::to_value(buffer)?)).collect()
}

/// Whether the autoscaler reports that all nodes of a buffer are there.
fn is_provisioned(buffer: &Value) -> bool {
    let conditions = buffer["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Provisioning" && one["status"] == "True")
}

/// A pool as it is published, and the pods that it is for.
struct Published {
    name: &'static str,
    /// The key of its taint, which keeps the pods of other pools off.
    taint: &'static str,
    requirements: &'static str,
    /// The most CPUs of its nodes, 0 without a limit.
    cpus_max: u64,
    weight: u64,
    /// Whether Karpenter moves pods to cheaper nodes.
    consolidates: bool,
    /// What each pod requests, and which nodes it selects. Empty without pods.
    requests: &'static str,
    selects: &'static str,
    /// The instance type and the capacity type of the placeholder's node. `None` if there is none.
    expected: Option<(&'static str, &'static str)>,
}

const NONE: Published = Published {
    name: "",
    taint: "",
    requirements: "[]",
    cpus_max: 0,
    weight: 1,
    consolidates: false,
    requests: "",
    selects: "{}",
    expected: None,
};

/// A pool with spot instances, and instances on demand where there are none.
const SPOT_FIRST: &str = "[
    {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5]},
    {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]},
    {key: node.kubernetes.io/instance-type, operator: NotIn, values: [g5.xlarge, m6g.xlarge]}]";

/// kwok knows no labels of AWS's types, so the pools exclude the types that AWS would not launch.
const PUBLISHED: [Published; 11] = [
    Published {
        name: "general",
        taint: "general",
        requirements: "[
            {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]},
            {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['4']},
            {key: kubernetes.io/arch, operator: In, values: [amd64]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
            {key: node.kubernetes.io/instance-type, operator: NotIn, values: [c5.4xlarge, g5.xlarge]}]",
        requests: "{cpu: '3', memory: 10Gi}",
        expected: Some(("m5.xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "spot",
        taint: "spot",
        requirements: SPOT_FIRST,
        requests: "{cpu: '14', memory: 20Gi}",
        expected: Some(("c5.4xlarge", "on-demand")),
        ..NONE
    },
    // The pods tolerate interruption, so they get what Karpenter launches for them first.
    Published {
        name: "fallback",
        taint: "fallback",
        requirements: SPOT_FIRST,
        requests: "{cpu: '6', memory: 20Gi}",
        expected: Some(("m5.2xlarge", "spot")),
        ..NONE
    },
    // The built-in pools of EKS Auto Mode.
    Published {
        name: "general-purpose",
        taint: "general-purpose",
        requirements: "[
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
            {key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]},
            {key: eks.amazonaws.com/instance-generation, operator: Gt, values: ['4']},
            {key: kubernetes.io/arch, operator: In, values: [amd64]},
            {key: kubernetes.io/os, operator: In, values: [linux]},
            {key: node.kubernetes.io/instance-type, operator: NotIn, values: [g5.xlarge]}]",
        requests: "{cpu: '3', memory: 10Gi}",
        expected: Some(("m5.xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "system",
        taint: "CriticalAddonsOnly",
        requirements: "[
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
            {key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]},
            {key: eks.amazonaws.com/instance-generation, operator: Gt, values: ['4']},
            {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]},
            {key: kubernetes.io/os, operator: In, values: [linux]},
            {key: node.kubernetes.io/instance-type, operator: NotIn, values: [g5.xlarge]}]",
        requests: "{cpu: '3', memory: 10Gi}",
        selects: "{kubernetes.io/arch: amd64}",
        expected: Some(("m5.xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "both",
        taint: "both",
        requirements: "[
            {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, m6g]},
            {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
            {key: node.kubernetes.io/instance-type, operator: NotIn, values: [c5.4xlarge, g5.xlarge]}]",
        requests: "{cpu: '3', memory: 10Gi}",
        selects: "{kubernetes.io/arch: arm64}",
        expected: Some(("m6g.xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "gpu",
        taint: "gpu",
        requirements: "[
            {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [a10g]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]",
        requests: "{cpu: '3', memory: 10Gi, nvidia.com/gpu: '1'}",
        expected: Some(("g5.xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "full",
        taint: "full",
        requirements: "[
            {key: karpenter.k8s.aws/instance-size, operator: In, values: [2xlarge]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]",
        cpus_max: 8,
        requests: "{cpu: '6', memory: 20Gi}",
        ..NONE
    },
    // Karpenter takes the pool with the larger weight, and Prophet the same one.
    Published {
        name: "second",
        taint: "weighted",
        requirements: "[{key: node.kubernetes.io/instance-type, operator: In, values: [c5.4xlarge]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]",
        weight: 50,
        requests: "{cpu: '6', memory: 20Gi}",
        expected: Some(("c5.4xlarge", "on-demand")),
        ..NONE
    },
    Published {
        name: "first",
        taint: "weighted",
        requirements: "[{key: node.kubernetes.io/instance-type, operator: In, values: [c5.4xlarge]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]",
        ..NONE
    },
    Published {
        name: "tidy",
        taint: "tidy",
        requirements: "[
            {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]},
            {key: kubernetes.io/arch, operator: In, values: [amd64]},
            {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
            {key: node.kubernetes.io/instance-type, operator: NotIn, values: [c5.4xlarge, g5.xlarge]}]",
        consolidates: true,
        requests: "{cpu: '3', memory: 10Gi}",
        expected: Some(("m5.xlarge", "on-demand")),
        ..NONE
    },
];

impl Published {
    fn pool(&self) -> Value {
        let Self { name, taint, requirements, cpus_max, weight, .. } = self;
        let mut pool = node_pool(name, "", "", Duration::from_mins(5));
        pool["spec"]["template"]["spec"]["requirements"] =
            base::input::parse(requirements, name).expect("YAML");
        pool["spec"]["template"]["spec"]["taints"] =
            json!([{"key": taint, "effect": "NoSchedule"}]);
        pool["spec"]["weight"] = json!(weight);
        if self.consolidates {
            pool["spec"]["disruption"] = json!({
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s",
            });
        }
        if *cpus_max > 0 {
            pool["spec"]["limits"] = json!({"cpu": cpus_max.to_string()});
        }
        pool
    }

    /// A job of one pod, which tolerates the taint of this pool. Empty if the pool has no pods.
    fn job(&self, number: u64) -> String {
        let Self { name, taint, requests, selects, expected, .. } = self;
        let capacity = expected.map_or("", |(_, capacity)| capacity);
        if requests.is_empty() {
            return String::new();
        }
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}-{number}}}, spec: {{template: {{
               metadata: {{labels: {{capacity: '{capacity}'}}}}, spec: {{
               restartPolicy: Never, nodeSelector: {selects},
               tolerations: [{{key: {taint}, operator: Exists, effect: NoSchedule}}],
               containers: [{{name: work, image: busybox, resources: {{requests: {requests}, limits: {requests}}}}}]}}}}}}}}\n---\n"
        )
    }
}

/// The time in which Karpenter moves pods to cheaper nodes if it can: 20 seconds, because it looks
/// every ten seconds.
const CONSOLIDATION: Duration = Duration::from_secs(20);

/// A node: its pool, its type, its capacity type, and what runs on it by the names of jobs;
/// `placeholder` for a placeholder.
type Row = (String, String, String, BTreeSet<String>);

/// Waits until the policy, which observes, would hold a placeholder in each pool.
async fn would_hold_in_each_pool(plane: &ControlPlane) -> anyhow::Result<()> {
    let mut would = Value::Null;
    let observed =
        wait::until_true("a placeholder that each pool would have", DEADLINE, async || {
            would = status(plane, "batch").await?["buckets"].clone();
            let buckets = would.as_array().cloned().unwrap_or_default();
            let groups = buckets.iter().filter_map(|bucket| bucket["groups"].as_array()).flatten();
            let held = groups.filter(|group| group["target"] == 1);
            let pools: BTreeSet<&str> =
                held.filter_map(|group| group["name"].as_str()?.split('/').next()).collect();
            let is_held = |published: &Published| pools.contains(published.name);
            Ok(PUBLISHED.iter().all(|one| one.expected.is_none() || is_held(one)))
        });
    observed.await.with_context(|| format!("{would:#}"))
}

/// Nodes by name.
type Nodes = BTreeMap<String, Row>;

async fn seen(plane: &ControlPlane) -> anyhow::Result<Nodes> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(plane.client()), Api::all(plane.client()));
    let pods = pods.list(&ListParams::default().fields("status.phase=Running")).await?.items;
    let nodes = nodes.list(&ListParams::default()).await?.items;
    let rows = nodes.iter().map(|node| {
        let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
        let here = pods.iter().filter(|pod| {
            let spec = pod.spec.as_ref();
            spec.and_then(|spec| spec.node_name.as_ref()) == Some(&node.name_any())
        });
        let names = here.map(|pod| {
            let job = pod.labels().get("job-name");
            job.map_or_else(|| "placeholder".to_owned(), Clone::clone)
        });
        let (pool, of) =
            (label("karpenter.sh/nodepool"), label("node.kubernetes.io/instance-type"));
        (node.name_any(), (pool, of, label("karpenter.sh/capacity-type"), names.collect()))
    });
    Ok(rows.collect())
}

impl Published {
    /// The node of a job of this pool.
    fn node<'a>(&self, number: u64, seen: &'a Nodes) -> Option<&'a String> {
        let job = format!("{}-{number}", self.name);
        seen.iter().find(|(_, (.., pods))| pods.contains(&job)).map(|(name, _)| name)
    }

    /// The nodes of this pool that only a placeholder of the expected type is on.
    fn held(&self, seen: &Nodes) -> BTreeSet<String> {
        let only: BTreeSet<String> = ["placeholder".to_owned()].into();
        let held = seen.iter().filter(|(_, (pool, of, capacity, pods))| {
            pool == self.name
                && Some((of.as_str(), capacity.as_str())) == self.expected
                && *pods == only
        });
        held.map(|(name, _)| name.clone()).collect()
    }
}

/// Prophet holds a node of the size that the pods of a pool need, of the types that Karpenter may
/// launch for them. A second job takes it at once, and Karpenter launches one more node, for the
/// next placeholder.
#[tokio::test(flavor = "multi_thread")]
async fn pools_as_they_are_published_have_placeholders_of_the_sizes_that_pods_need() {
    let plane = ControlPlane::start().await.unwrap();
    let types = [
        "m5.large",
        "m5.xlarge",
        "m5.2xlarge",
        "m5.4xlarge",
        "c5.4xlarge",
        "m6g.xlarge",
        "g5.xlarge",
    ];
    let mut karpenter = Karpenter::start(&plane, &types, Duration::ZERO).await.unwrap();
    for published in &PUBLISHED {
        plane.apply_yaml(&published.pool().to_string()).await.unwrap();
    }
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "paid"},
        "spec": {
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["gpu"]}],
            "price": "0.25",
        },
    });
    plane.apply_yaml(&overlay.to_string()).await.unwrap();
    let prophet = Prophet::install(&plane, &[], &[]).await.unwrap();
    let placeholders: Api<Pod> = Api::namespaced(plane.client(), NAMESPACE);
    let pending = ListParams::default().fields("status.phase=Pending");
    let mut last = BTreeMap::new();
    let mut wait_for = async |what: &str, is: &dyn Fn(&Published, &Nodes) -> bool| {
        let waited = wait::until_true(what, DEADLINE, async || {
            last = seen(&plane).await?;
            let waiting = placeholders.list(&pending).await?.items;
            Ok(waiting.is_empty() && PUBLISHED.iter().all(|published| is(published, &last)))
        });
        if let Err(error) = waited.await {
            let logs = [prophet.log(), karpenter.process().log()].map(Result::unwrap_or_default);
            panic!("{error:#}; {last:#?}\n{}", logs.join("\n"));
        }
        last.clone()
    };
    let jobs =
        |number| -> String { PUBLISHED.iter().map(|published| published.job(number)).collect() };
    plane.apply_yaml(&jobs(1)).await.unwrap();
    let has_node = |published: &Published, seen: &Nodes| {
        published.requests.is_empty() || published.node(1, seen).is_some()
    };
    wait_for("the first jobs", &has_node).await;
    let spec = POLICY.replace("[0, 2]", "[0, 1]").replace(
        "10s",
        "10s, workloads: {namespaces: [default]},
         buckets: {spotFor: {selector: {matchLabels: {capacity: spot}}}}",
    );
    plane.apply_yaml(&policy("batch", &spec.replace("mode: Act", "mode: Observe"))).await.unwrap();
    would_hold_in_each_pool(&plane).await.unwrap();
    assert_eq!(placeholders.list(&pending).await.unwrap().items.len(), 0);
    plane.apply_yaml(&policy("batch", &spec)).await.unwrap();
    // Every placeholder runs, because a job that starts earlier takes a node that is still empty.
    let is_held = |published: &Published, seen: &Nodes| {
        let has_settled = seen.values().all(|(.., pods)| !pods.is_empty());
        let is_used = || seen.values().any(|row| row.0 == published.name);
        has_settled
            && (!published.requests.is_empty() || !is_used())
            && (published.expected.is_none() || published.held(seen).len() == 1)
    };
    let before = wait_for("a placeholder in each pool", &is_held).await;
    // Karpenter has taken its time to move the pods of a pool that it consolidates.
    tokio::time::sleep(CONSOLIDATION).await;
    let unmoved = wait_for("a placeholder in each pool", &is_held).await;
    assert_eq!(before, unmoved);

    plane.apply_yaml(&jobs(2)).await.unwrap();
    let has_started = |published: &Published, seen: &Nodes| {
        published.expected.is_none()
            || published.node(2, seen).is_some() && is_held(published, seen)
    };
    let after = wait_for("the second jobs, and new placeholders", &has_started).await;
    for published in &PUBLISHED {
        let Some(node) = published.node(2, &after) else {
            assert_eq!(published.expected, None, "{}", published.name);
            continue;
        };
        // The node of any placeholder of the pool, of which the cheapest is preempted first.
        let held = before.get(node).is_some_and(|(.., pods)| pods.contains("placeholder"));
        assert!(held, "{} {before:#?} {after:#?}", published.name);
    }
    // Karpenter reports the overlay as ready, so its price counts.
    let buckets = status(&plane, "batch").await.unwrap()["buckets"].clone();
    let is_paid = |bucket: &&Value| bucket["priceSource"] == "node_overlay";
    let prices = buckets.as_array().unwrap().iter().filter(is_paid);
    let prices: Vec<&Value> = prices.map(|bucket| &bucket["pricePerHour"]).collect();
    assert_eq!(prices, ["0.25"], "{buckets:#}");
    // The second job of the full pool waits, and no placeholder was put beside it.
    let of_full = |seen: &Nodes| seen.values().filter(|row| row.0 == "full").count();
    assert_eq!((of_full(&before), of_full(&after)), (1, 1));
    // One node for each new placeholder.
    let held = PUBLISHED.iter().filter(|published| published.expected.is_some()).count();
    assert_eq!(after.len(), before.len() + held, "{before:#?} {after:#?}");
}
