//! Pods that run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use tests::control_plane::{ControlPlane, Options};
use tests::real_node::{self, Boot, Image, RealNode};
use tests::wait;

const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_to_its_end() {
    if !real_node::permitted().unwrap() {
        return;
    }
    let options = Options { kwok: false, service_accounts: true, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    let (pause, shell) = (Image::pause().unwrap(), Image::shell().unwrap());
    let boot = Boot {
        name: "real-1".into(),
        provider_id: "aws:///us-east-1a/i-1".into(),
        labels: [("node.kubernetes.io/instance-type".into(), "m5.large".into())].into(),
        taints: vec![],
        allocatable_cpu_millis: 1900,
        allocatable_memory_mib: 7000,
        images: vec![pause.archive(), shell.archive()],
        registries: vec![],
    };
    let begin = std::time::Instant::now();
    let node = RealNode::start(&plane.kubeconfig(), &boot).await.unwrap();
    println!("started {:?}", begin.elapsed());
    let nodes: Api<Node> = Api::all(plane.client());
    let waited = wait::until_true("ready", DEADLINE, async || {
        let node = nodes.get("real-1").await?;
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True"))
    });
    waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", node.log().unwrap()));
    println!("ready {:?}", begin.elapsed());
    println!("{:?}", nodes.get("real-1").await.unwrap().status.unwrap().allocatable);
    plane
        .apply_yaml("{apiVersion: batch/v1, kind: Job, metadata: {name: one, namespace: default}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: work, image: 'prophet.test/shell:1', command: [sh, -c, 'sleep 2'], resources: {requests: {cpu: '1'}}}]}}}}")
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let waited = wait::until_true("completed", DEADLINE, async || {
        let pods = pods.list(&ListParams::default()).await?.items;
        Ok(pods.iter().any(|pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
        }))
    });
    waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", node.log().unwrap()));
    println!("done {:?}", begin.elapsed());
}
