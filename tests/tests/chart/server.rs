//! Whether the API server accepts the chart's objects. It validates them strictly: it refuses
//! unknown and repeated fields.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tests::control_plane::{ControlPlane, Options};
use tests::{built, helm};

/// The values of each rendering, as `KEY=JSON` separated by spaces.
#[rustfmt::skip]
const RENDERINGS: [&str; 4] = [
    "",
    // Everything that is off by default.
    r#"networkPolicy.enabled=true serviceMonitor.enabled=true prometheusRule.enabled=true grafanaDashboard.enabled=true policies=[{"name":"batch","spec":{"mode":"Act","limits":{"placeholders":2}}}]"#,
    r#"history.s3="s3://b/p" podMonitor.enabled=true networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}],"egress":{"extra":[{"to":[{"podSelector":{}}]}]}} serviceAccount.annotations={"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/a"}"#,
    // Every setting of the pods.
    r#"history.persistentVolumeClaim="c" replicas=1 catalog={"instanceTypes":[{"name":"m5.large","pricePerHour":1,"cpuMillis":2000}]} podAnnotations={"a":"b"} podLabels={"a":"b"} imagePullSecrets=[{"name":"a"}] extraArgs=["--onnx-runtime=/a"] extraEnv=[{"name":"A","value":"b"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}] extraVolumes=[{"name":"models","image":{"reference":"r:1"}}] extraVolumeMounts=[{"name":"models","mountPath":"/models","readOnly":true}] nodeSelector={"a":"b"} tolerations=[{"key":"a","operator":"Exists","effect":"NoSchedule"}] affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}} topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule"}] podDisruptionBudget.maxUnavailable="50%""#,
];

#[tokio::test]
async fn the_api_server_accepts_every_object() {
    let plane =
        ControlPlane::start_with(Options { kwok: false, ..Options::default() }).await.unwrap();
    plane.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: prophet}}").await.unwrap();
    for definition in fs::read_dir(built::control_plane("monitoring-crds").unwrap()).unwrap() {
        let text = fs::read_to_string(definition.unwrap().path()).unwrap();
        plane.apply_yaml(&text).await.unwrap();
    }
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let ours = helm::rendered(&[]).unwrap().into_iter().find(is_definition).unwrap();
    plane.apply_yaml(&ours.to_string()).await.unwrap();

    let unknown = Value::from(serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "values": {},
    }));
    let refused = dry_run(&plane, &[unknown]).unwrap_err();
    assert!(refused.contains("values"), "unknown fields are refused: {refused}");
    for values in RENDERINGS {
        let split: Vec<&str> = values.split_whitespace().collect();
        let objects = helm::rendered_with_hooks(&split).unwrap();
        if let Err(error) = dry_run(&plane, &objects) {
            panic!("{values}: {error}");
        }
    }
}

/// Applies the objects without storing them.
fn dry_run(plane: &ControlPlane, objects: &[Value]) -> Result<(), String> {
    let file = plane.folder().join("objects.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&file, list.to_string()).unwrap();
    let output = Command::new(built::control_plane("bin/kubectl").unwrap())
        .args(["apply", "--server-side", "--dry-run=server", "--validate=strict"])
        .arg("--filename")
        .arg(&file)
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
