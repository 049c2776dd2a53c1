//! Whether the API server accepts the chart's objects, and upgrades from one place of the history
//! to another. The API server validates strictly: it refuses unknown and repeated fields.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use tests::control_plane::{ControlPlane, Options};
use tests::{built, helm, wait};

/// The values of each rendering, as `KEY=JSON` separated by spaces.
#[rustfmt::skip]
pub(crate) const RENDERINGS: [&str; 4] = [
    "",
    // Everything that is off by default.
    r#"networkPolicy.enabled=true serviceMonitor.enabled=true prometheusRule.enabled=true grafanaDashboard.enabled=true policies=[{"name":"batch","spec":{"mode":"Act","limits":{"placeholders":2}}}]"#,
    r#"history.s3="s3://b/p" fleet={"enabled":true,"results":"s3://b/f","shards":20,"nodeSelector":{"a":"b"},"tolerations":[{"key":"a","operator":"Exists"}]} podMonitor.enabled=true networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}],"egress":{"extra":[{"to":[{"podSelector":{}}]}]}} serviceAccount.annotations={"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/a"}"#,
    // Every setting of the pods.
    r#"history.persistentVolumeClaim="c" replicas=1 catalog={"instanceTypes":[{"name":"m5.large","pricePerHour":1,"cpuMillis":2000}]} podAnnotations={"a":"b"} podLabels={"a":"b"} imagePullSecrets=[{"name":"a"}] extraArgs=["--onnx-runtime=/a"] extraEnv=[{"name":"A","value":"b"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}] extraVolumes=[{"name":"models","image":{"reference":"r:1"}}] extraVolumeMounts=[{"name":"models","mountPath":"/models","readOnly":true}] nodeSelector={"a":"b"} tolerations=[{"key":"a","operator":"Exists","effect":"NoSchedule"}] affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}} topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule"}] podDisruptionBudget.maxUnavailable="50%""#,
];

/// A namespace in which the API server refuses pods that are not hardened.
const RESTRICTED: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: prophet, labels: {
    pod-security.kubernetes.io/enforce: restricted}}}";

#[tokio::test]
async fn the_api_server_accepts_every_object() {
    let plane =
        ControlPlane::start_with(Options { kwok: false, ..Options::default() }).await.unwrap();
    plane.apply_yaml(RESTRICTED).await.unwrap();
    for definition in fs::read_dir(built::control_plane("monitoring-crds").unwrap()).unwrap() {
        let text = fs::read_to_string(definition.unwrap().path()).unwrap();
        plane.apply_yaml(&text).await.unwrap();
    }
    let prerequisite = |object: &Value| {
        object["kind"] == "CustomResourceDefinition" || object["kind"] == "PriorityClass"
    };
    for object in helm::rendered(&[]).unwrap().into_iter().filter(prerequisite) {
        plane.apply_yaml(&object.to_string()).await.unwrap();
    }

    // What the API server refuses, so that its acceptance proves something.
    let field = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "values": {},
    });
    let pod_as_root = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "prophet"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    for (object, reason) in [(field, "values"), (pod_as_root, "violates PodSecurity")] {
        let refused = dry_run(&plane, &[object]).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    for values in RENDERINGS {
        let split: Vec<&str> = values.split_whitespace().collect();
        let mut objects = helm::rendered_with_hooks(&split).unwrap();
        let pods: Vec<Value> = objects.iter().filter_map(pod).collect();
        let jobs = 1 + usize::from(values.contains("fleet="));
        assert_eq!(pods.len(), 1 + jobs, "the controller, the Job that removes placeholders");
        objects.extend(pods);
        if let Err(error) = dry_run(&plane, &objects) {
            panic!("{values}: {error}");
        }
    }
    stores_what_is_applied(&plane);
}

/// `kubectl apply` of the definition and of a policy prints no warning, and `kubectl diff` finds no
/// difference afterwards, because the API server adds only scalars to a policy.
fn stores_what_is_applied(plane: &ControlPlane) {
    let definition = helm::chart().join("files/crd.json");
    let policy = plane.folder().join("policy.json");
    let spec = json!({"mode": "Observe", "workloads": {"namespaces": ["a"]}, "forecast": {}});
    let object = json!({
        "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
        "metadata": {"name": "conventions", "namespace": helm::NAMESPACE}, "spec": spec,
    });
    fs::write(&policy, object.to_string()).unwrap();
    for (file, options) in
        [(&definition, &["--server-side", "--force-conflicts"][..]), (&policy, &[][..])]
    {
        let file = file.to_str().unwrap();
        let applied = kubectl(plane, &[&["apply", "--filename", file], options].concat());
        assert_eq!((applied.status.success(), stderr(&applied)), (true, String::new()), "{file}");
        let differs = kubectl(plane, &[&["diff", "--filename", file], options].concat());
        let found = String::from_utf8_lossy(&differs.stdout).into_owned() + &stderr(&differs);
        assert_eq!((differs.status.success(), found), (true, String::new()), "{file}");
    }
    let name = ["get", "opp", "conventions", "--namespace", helm::NAMESPACE, "--output", "json"];
    let stored: Value = serde_json::from_slice(&kubectl(plane, &name).stdout).unwrap();
    let expected = json!({
        "mode": "Observe", "tick": "1m", "forecast": {"method": "ensemble"},
        "workloads": {"namespaces": ["a"], "certainPlans": false, "volumesInAnyZone": false},
    });
    assert_eq!(stored["spec"], expected);
}

fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> Output {
    let mut kubectl = Command::new(built::control_plane("bin/kubectl").unwrap());
    kubectl.args(arguments).env("KUBECONFIG", plane.kubeconfig()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A pod of a workload or Job. The API server checks the security of pods only, and not that of
/// templates.
fn pod(object: &Value) -> Option<Value> {
    let template = object["spec"].get("template")?;
    let mut pod = template.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = object["kind"].as_str()?.to_lowercase().into();
    pod["metadata"]["namespace"] = helm::NAMESPACE.into();
    if object["kind"] == "StatefulSet" {
        // The controller of StatefulSets adds the volume of the claim.
        let volume = json!({"name": "history", "persistentVolumeClaim": {"claimName": "history"}});
        match pod["spec"]["volumes"].as_array_mut() {
            Some(volumes) => volumes.push(volume),
            None => pod["spec"]["volumes"] = json!([volume]),
        }
    }
    Some(pod)
}

/// An upgrade creates the policies whose kind was not served yet at the installation. The history
/// may move to another place, which changes the kind of the workload. A definition that stays after
/// an uninstallation belongs to the next one.
#[tokio::test]
async fn upgrades_create_policies_and_move_the_history_and_a_definition_is_adopted() {
    let options = Options { kwok: false, replicated: true, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    let chart = helm::chart();
    let chart = chart.to_str().unwrap();
    let run = |arguments: &[&str]| {
        helm::online(&plane, arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error:#}"))
    };
    let policies = r#"policies=[{"name":"batch","spec":{}}]"#;
    let install = ["install", "prophet", chart, "--create-namespace", "--set-json", policies];
    let refused = format!("{:#}", helm::online(&plane, &install).unwrap_err());
    assert!(refused.contains("no matches for kind \"OverprovisioningPolicy\""), "{refused}");
    let upgrade = ["upgrade", "prophet", chart, "--set-json", policies];
    let upgraded = wait::until_true("an upgrade", Duration::from_mins(1), async || {
        Ok(helm::online(&plane, &upgrade).is_ok())
    });
    upgraded.await.unwrap_or_else(|error| panic!("{error:#}"));
    let kind = GroupVersionKind::gvk("prophet.dev", "v1alpha1", "OverprovisioningPolicy");
    let kind = ApiResource::from_gvk(&kind);
    let created: Api<DynamicObject> = Api::namespaced_with(plane.client(), helm::NAMESPACE, &kind);
    created.get("batch").await.unwrap();
    run(&["uninstall", "prophet", "--no-hooks"]);

    run(&["install", "prophet", chart]);
    for (history, kind) in [
        ("{}", "StatefulSet"),
        (r#"{"s3":"s3://bucket/history"}"#, "Deployment"),
        (r#"{"persistentVolumeClaim":"shared"}"#, "Deployment"),
        (r#"{"volume":{"enabled":false}}"#, "Deployment"),
        ("{}", "StatefulSet"),
    ] {
        run(&["upgrade", "prophet", chart, "--set-json", &format!("history={history}")]);
        let client = plane.client();
        let sets: Api<StatefulSet> = Api::namespaced(client.clone(), helm::NAMESPACE);
        let deployments: Api<Deployment> = Api::namespaced(client, helm::NAMESPACE);
        let only = wait::until_true("one workload", Duration::from_mins(1), async || {
            let set = sets.get_opt("prophet").await?.map(|_| "StatefulSet");
            let deployment = deployments.get_opt("prophet").await?.map(|_| "Deployment");
            Ok(set.into_iter().chain(deployment).eq([kind]))
        });
        only.await.unwrap_or_else(|error| panic!("{history}: {error:#}"));
    }
    run(&["uninstall", "prophet", "--no-hooks"]);
    run(&["install", "prophet", chart, "--set-json", policies]);
    let manifest = run(&["get", "manifest", "prophet"]);
    assert!(manifest.contains("kind: OverprovisioningPolicy"), "the definition is served already");
    run(&["uninstall", "prophet", "--no-hooks"]);
}

/// Applies the objects without storing them.
fn dry_run(plane: &ControlPlane, objects: &[Value]) -> Result<(), String> {
    let file = plane.folder().join("objects.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&file, list.to_string()).unwrap();
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server"];
    let strictly = ["--validate=strict", "--filename", file.to_str().unwrap()];
    let output = kubectl(plane, &[&apply[..], &strictly].concat());
    if output.status.success() { Ok(()) } else { Err(stderr(&output)) }
}
