//! The chart, rendered and installed by a real helm.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use serde_json::Value;
use tests::control_plane::ControlPlane;
use tests::installed::{self, NAMESPACE, Prophet, policy};
use tests::{built, wait};

use super::world::Plan;
use tests::node_group::NodeGroup;

/// The chart's CustomResourceDefinition must equal the output of `prophet crd`.
#[test]
fn the_chart_has_the_definition_that_the_binary_prints() {
    let (code, printed, _) = tests::run(&["crd", "--without-priority-classes"]);
    let file = installed::chart().join("files/crd.json");
    let same = std::fs::read_to_string(file).unwrap() == printed;
    assert!(
        code == 0 && same,
        "run: prophet crd --without-priority-classes > charts/prophet/files/crd.json"
    );
}

#[test]
fn the_chart_passes_the_model_and_refuses_an_address_without_a_file() {
    for place in
        ["s3://bucket/network.onnx", "s3://bucket/a/b.onnx", "/var/lib/prophet/network.onnx"]
    {
        let text = installed::rendered(&[&format!("model={place}")]).unwrap();
        assert!(text.contains(&format!("- --model={place}\n")), "{text}");
    }
    assert!(!installed::rendered(&[]).unwrap().contains("--model"));
    for wrong in ["s3://bucket", "s3://bucket/", "s3://bucket/a/", "network.onnx"] {
        let refused = installed::rendered(&[&format!("model={wrong}")]).unwrap_err();
        assert!(format!("{refused:#}").contains("model"), "{wrong}: {refused:#}");
    }
}

fn helm(plane: &ControlPlane, arguments: &[&str]) -> String {
    let mut helm =
        Command::new(built::control_plane("bin/helm").unwrap_or_else(|error| panic!("{error:#}")));
    helm.args(arguments).args(["--namespace", NAMESPACE]).env("KUBECONFIG", plane.kubeconfig());
    let home = plane.folder().join("helm");
    helm.env("HELM_CACHE_HOME", &home).env("HELM_CONFIG_HOME", &home).env("HELM_DATA_HOME", &home);
    let output = helm.output().unwrap_or_else(|error| panic!("{error:#}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "helm {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_a_working_controller_and_uninstalls_all_of_it() {
    let mut world = Plan::of([NodeGroup::new("small", "m5.xlarge")]).start_alone().await;
    let chart = installed::chart();
    let tags = "nodeGroupAutoDiscovery=asg:tag=k8s.io/cluster-autoscaler/enabled";
    let install = [
        "install",
        "prophet",
        chart.to_str().unwrap(),
        "--create-namespace",
        "--set",
        tags,
        "--set",
        "crds.keep=false",
    ];
    let before = world.inventory().await.unwrap();
    let notes = helm(&world.plane, &install);
    assert!(notes.contains("kubectl get opp"), "{notes}");

    let deployments: Api<Deployment> = Api::namespaced(world.plane.client(), NAMESPACE);
    let list = deployments.list(&ListParams::default()).await.unwrap().items;
    let [deployment] = &list[..] else { panic!("expected one Deployment: {list:?}") };
    let container: Value =
        serde_json::to_value(deployment).unwrap()["spec"]["template"]["spec"]["containers"][0]
            .clone();
    let prophet = Prophet::of_container(&world.plane, &container, &world.moto.environment()).await;
    world.prophet = Some(prophet.unwrap_or_else(|error| panic!("{error:#}")));
    let spec =
        "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";
    world.apply(&policy("batch", spec)).await;
    world.wait_for_placeholders([1, 0, 0]).await;

    // No kubelet runs here, so the test runs the hook's container as a process. The controller and
    // the policy are still there, and the controller does not create the placeholders again.
    let hooks: Value =
        serde_saphyr::from_str(&helm(&world.plane, &["get", "hooks", "prophet"])).unwrap();
    assert_eq!(hooks["metadata"]["annotations"]["helm.sh/hook"], "pre-delete");
    let arguments = hooks["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let arguments: Vec<String> = serde_json::from_value(arguments).unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kubeconfig = world.plane.kubeconfig_for(NAMESPACE, "prophet").await.unwrap();
    let removed = tests::prophet(&arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    world.wait_for_placeholders([0, 0, 0]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.placeholders().await.unwrap(), [0; 3], "{}", world.details());
    world.prophet.take().unwrap().stop().await.unwrap();
    helm(&world.plane, &["uninstall", "prophet", "--no-hooks"]);
    let mut left = Vec::new();
    let gone = wait::until_true("no object left", Duration::from_mins(1), async || {
        // Helm does not delete the namespace. Kubernetes creates a default service account in each
        // namespace after a delay.
        let is_kept = |object: &String| {
            object == "Namespace /prophet"
                || object.starts_with("ServiceAccount ") && object.ends_with("/default")
        };
        left = world.inventory().await?.difference(&before).cloned().collect();
        left.retain(|object| !is_kept(object));
        Ok(left.is_empty())
    });
    gone.await.unwrap_or_else(|error| panic!("{error:#}: {left:#?}"));
}
