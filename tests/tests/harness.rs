//! Tests of the harness: the control plane, moto and kwok, each without `prophet`, and what builds
//! them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams};
use tests::control_plane::{ControlPlane, Options};
use tests::moto::Moto;
use tests::wait;

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn moto_serves_an_empty_aws() {
    let moto = Moto::start().await.unwrap();
    let groups = moto.autoscaling().describe_auto_scaling_groups().send().await.unwrap();
    assert_eq!(groups.auto_scaling_groups(), []);
    let types = moto.ec2().describe_instance_types().send().await.unwrap();
    assert!(types.instance_types().len() > 10);
}

#[tokio::test]
async fn a_pod_runs_on_a_node_of_kwok_and_completes_after_its_annotated_time() {
    let plane = ControlPlane::start().await.unwrap();
    plane
        .apply_yaml(
            r#"
apiVersion: v1
kind: Node
metadata: {name: first}
---
apiVersion: batch/v1
kind: Job
metadata: {name: short}
spec:
  template:
    metadata: {annotations: {tests.prophet.dev/run-seconds: "2"}}
    spec: {restartPolicy: Never, containers: [{name: work, image: busybox}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: endless}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: work, image: busybox}]}
"#,
        )
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let phases = async || {
        let list = pods.list(&ListParams::default()).await?;
        let mut phases: Vec<String> = list
            .items
            .into_iter()
            .filter_map(|pod| pod.status.and_then(|status| status.phase))
            .collect();
        phases.sort();
        Ok::<_, anyhow::Error>(phases.join(" "))
    };
    wait::until_true("both jobs to run", DEADLINE, async || {
        Ok(phases().await? == "Running Running")
    })
    .await
    .unwrap();
    wait::until_true("one job to end", DEADLINE, async || {
        Ok(phases().await? == "Running Succeeded")
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn service_accounts_have_their_rbac_permissions_and_the_audit_log_has_their_requests() {
    let options =
        Options { kwok: false, audited: true, service_accounts: true, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    plane
        .apply_yaml(
            "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [''], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
",
        )
        .await
        .unwrap();
    let client = plane.client_for("default", "reader").await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    // The authorizer receives new roles through a watch, so the first requests may be refused.
    wait::until("the role", DEADLINE, async || Ok(Some(pods.list(&ListParams::default()).await?)))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.list(&ListParams::default()).await.unwrap_err();

    let entries = plane.audit_log().unwrap();
    let reader: Vec<_> = entries
        .iter()
        .filter(|entry| entry.user == "system:serviceaccount:default:reader")
        .collect();
    assert!(reader.iter().any(|entry| entry.resource == "pods" && entry.code == 200), "{reader:?}");
    assert!(
        reader.iter().any(|entry| entry.resource == "configmaps" && entry.code == 403),
        "{reader:?}"
    );
    assert!(!reader.iter().any(|entry| entry.writes()), "{reader:?}");
    assert!(
        entries
            .iter()
            .any(|entry| entry.user == "admin" && entry.writes() && entry.name == "reader")
    );
}

#[tokio::test]
async fn two_control_planes_run_side_by_side() {
    let start = tokio::time::Instant::now();
    let (one, other) = tokio::join!(ControlPlane::start(), ControlPlane::start());
    let (one, other) = (one.unwrap(), other.unwrap());
    println!("two control planes were up after {:.1} s", start.elapsed().as_secs_f64());
    assert_ne!(one.server(), other.server());
    assert_ne!(one.folder(), other.folder());
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_control_plane_starts_and_stops_three_times() {
    for _ in 0..3 {
        let start = tokio::time::Instant::now();
        let plane = ControlPlane::start().await.unwrap();
        println!("a control plane was up after {:.1} s", start.elapsed().as_secs_f64());
        let start = tokio::time::Instant::now();
        drop(plane);
        println!("and down after {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// Runs make in a folder of the repository, with the programs of `path` before all others. Returns
/// whether it succeeds.
fn make(folder: &str, path: &Path, arguments: &[&str]) -> bool {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let others = std::env::var("PATH").unwrap();
    Command::new("make")
        .args(["--no-print-directory", "--directory"])
        .arg(repository.join(folder))
        .args(arguments)
        .env("PATH", format!("{}:{others}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

/// The shell of a recipe is killed while it installs packages or downloads modules. What it leaves
/// must not count as built.
#[test]
fn what_an_interrupted_build_leaves_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("path"), folder.path().join("target"));
    fs::create_dir_all(&path).unwrap();
    let killed = "kill -KILL $PPID";
    let programs = [
        ("go", format!("#!/bin/sh\n{killed}\n")),
        (
            "python3",
            format!(
                "#!/bin/sh\nmkdir -p \"$3/bin\" && printf '#!/bin/sh\\n{killed}\\n' \
                 >\"$3/bin/python\" && chmod +x \"$3/bin/python\"\n"
            ),
        ),
    ];
    for (name, script) in programs {
        fs::write(path.join(name), script).unwrap();
        fs::set_permissions(path.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let target = target.display();
    let control_plane = format!("CONTROL_PLANE={target}");
    let built = |name: &str| format!("{target}/{name}");
    for (of, variable, goal) in [
        ("tests/control-plane", &control_plane, built("python/installed")),
        ("tests/control-plane", &control_plane, built("stages")),
        ("tests/control-plane", &control_plane, built("crds")),
        ("tests/control-plane", &control_plane, built("schemas")),
        ("tests/control-plane", &control_plane, built("bin/kwok")),
        (".", &format!("CARGO_TARGET_DIR={target}"), "models-python".into()),
    ] {
        assert!(!make(of, &path, &[variable, &goal]), "{goal}");
        assert!(!make(of, &path, &["--question", variable, &goal]), "{goal} is not built again");
    }
}
