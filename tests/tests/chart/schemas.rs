//! Whether the manifests of the chart and of placeholders have only fields of the types of each
//! minor version of Kubernetes that the chart admits. `server.rs` checks more, but on one version.

use std::fs;

use serde_json::{Value, json};
use tests::helm;
use tests::schemas::Schema;

use super::{rendering, server};

/// The API groups of custom resources, whose types are not part of Kubernetes: of the chart's own
/// kind and of the Prometheus operator, both of which `server.rs` checks; of cluster-autoscaler;
/// and of the CustomResourceDefinition itself, for which client-go has no types.
const OTHERS: [&str; 4] = [
    "prophet.dev/v1alpha1",
    "monitoring.coreos.com/v1",
    "autoscaling.x-k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

fn schemas() -> Vec<Schema> {
    Schema::all().unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn the_oldest_version_is_the_one_that_the_chart_requires() {
    let versions: Vec<String> = schemas().into_iter().map(|schema| schema.version).collect();
    assert_eq!(versions, ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]);
    let read = |path: &str| fs::read_to_string(helm::chart().join(path)).unwrap();
    let line = format!("kubeVersion: \">={}.0-0\"", versions[0]);
    assert!(read("Chart.yaml").contains(&line), "Chart.yaml has no {line}");
    for page in ["README.md", "../../docs/installing.md"] {
        let text = format!("Kubernetes {}", versions[0]);
        assert!(read(page).contains(&text), "{page} does not name {text}");
    }
}

/// An object; the first version that accepts it; and a part of the reason why others refuse it.
/// `-` stands for no version.
const REFUSED: [(&str, &str, &str); 7] = [
    (r#"{"apiVersion":"v1","kind":"ConfigMap","values":{}}"#, "-", "ConfigMap.values is unknown"),
    (
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}"#,
        "-",
        "ConfigMap.data.a has the wrong type: 1",
    ),
    (
        r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"2"}}"#,
        "-",
        r#"Deployment.spec.replicas has the wrong type: "2""#,
    ),
    (
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":{}}}"#,
        "-",
        "Pod.spec.containers has the wrong type: {}",
    ),
    (r#"{"apiVersion":"v1","kind":"Pods"}"#, "-", "has no io.k8s.api.core.v1.Pods"),
    (
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"resources":{}}}"#,
        "1.32",
        "Pod.spec.resources is unknown",
    ),
    (
        r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"restartPolicyRules":[]}]}}"#,
        "1.34",
        "Pod.spec.containers[0].restartPolicyRules is unknown",
    ),
];

#[test]
fn unknown_kinds_and_fields_and_wrong_types_are_refused() {
    for schema in schemas() {
        for (object, first, reason) in REFUSED {
            let object: Value = serde_json::from_str(object).unwrap();
            let found = match schema.faults(&object) {
                Ok(faults) => faults.join(", "),
                Err(error) => error.to_string(),
            };
            let is_accepted = first != "-" && *schema.version >= *first;
            let expected = if is_accepted { "" } else { reason };
            assert!(
                found.contains(expected) && found.is_empty() == is_accepted,
                "{object}: {found}"
            );
        }
    }
}

#[test]
fn every_version_accepts_the_manifests_of_the_chart() {
    let all = rendering::RENDERED.iter().map(|(values, objects)| (*values, objects.clone()));
    let whole = server::RENDERINGS.map(|values| (values, rendering::render(values)));
    check(all.chain(whole));
}

/// The golden files of placeholders: the objects that the controller creates, and the spec of a pod
/// with images and data to load.
#[test]
fn every_version_accepts_the_placeholders() {
    let folder = helm::chart().join("../../placeholders/tests/data");
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
    };
    let warmed = json!({"apiVersion": "v1", "kind": "Pod", "spec": read("warmed.json")});
    let objects = ["replica-set.json", "pod-template.json", "capacity-buffer.json"].map(read);
    check([("placeholders", objects.into_iter().chain([warmed]).collect())].into_iter());
}

fn check<'a>(renderings: impl Iterator<Item = (&'a str, Vec<Value>)>) {
    let schemas = schemas();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (values, objects) in renderings {
        let of_kubernetes =
            |object: &&Value| !OTHERS.contains(&object["apiVersion"].as_str().unwrap_or_default());
        for object in objects.iter().filter(of_kubernetes) {
            checked += 1;
            for schema in &schemas {
                let faults = schema.faults(object).unwrap_or_else(|error| vec![error.to_string()]);
                let version = &schema.version;
                wrong.extend(faults.iter().map(|fault| format!("{values}: {version}: {fault}")));
            }
        }
    }
    assert!(checked > 0, "nothing was checked");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
