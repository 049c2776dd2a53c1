//! Scenarios on real nodes: kubelet, containerd and runc run the pods on this machine.

mod fleet;
mod installed;
mod jobs;
mod latency;
mod nodes;
mod warm;

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, Node, Pod};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tests::control_plane::Options;
use tests::joiner::JoinerSettings;
use tests::node_group::NodeGroup;
use tests::real_node::{self, API_SERVICE, Image, Kubelets, PAUSE, SHELL, ServiceAddress};
use tests::{built, wait};

use super::world::{DEADLINE, Plan, World, is_placeholder};

/// The instance type of real nodes: no more cores than the smallest machine that runs the tests.
const TYPE: &str = "m5.large";

/// The images that all nodes have from the start.
struct Images(Vec<Image>);

impl Images {
    /// The images of pods, or nothing if this machine does not permit real nodes.
    fn where_permitted() -> Option<Self> {
        if !real_node::permitted().unwrap() {
            return None;
        }
        let images = [Image::pause(), Image::shell()];
        Some(Self(images.map(|image| image.unwrap_or_else(|error| panic!("{error:#}"))).into()))
    }

    /// A plan with groups whose instances become real nodes, as soon as they are there.
    fn plan(&self, groups: impl IntoIterator<Item = NodeGroup>) -> Plan<'static> {
        let images = self.0.iter().map(Image::archive).collect();
        let kubelets = Kubelets { images, ..Kubelets::default() };
        let nodes = JoinerSettings {
            latency: Duration::ZERO,
            kubelets: Some(kubelets),
            ..JoinerSettings::default()
        };
        let options = Options { kwok: false, ..Options::default() };
        Plan { options, nodes, ..Plan::of(groups) }
    }
}

/// A policy that holds so many placeholders at no demand, and none from a demand of one node.
fn holding(placeholders: u32) -> String {
    format!(
        "{{mode: Act, tick: 10s, placeholders: {{image: '{PAUSE}'}}, forecast: {{method: ladder, ladder: {{nodesToReplicas: [[0, {placeholders}], [1, 0]]}}}}}}"
    )
}

/// A Job of one pod that needs a node, with these fields of its container in addition, such as
/// `command: ['true']`.
fn job(name: &str, container: &str) -> String {
    format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{backoffLimit: 0, template: {{spec: {{restartPolicy: Never, terminationGracePeriodSeconds: 1,
           containers: [{{name: work, image: '{SHELL}', resources: {{requests: {{cpu: '1'}}}}, {container}}}]}}}}}}}}"
    )
}

/// The state of a pod's container.
fn state(pod: &Pod) -> Option<&ContainerState> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.as_ref()
}

fn is_running(pod: &Pod) -> bool {
    state(pod).is_some_and(|state| state.running.is_some())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found.type_ == "Ready" && found.status == "True")
}

/// Why and with which exit code a pod's container ended.
fn end(pod: &Pod) -> Option<(&str, i32)> {
    let end = state(pod)?.terminated.as_ref()?;
    Some((end.reason.as_deref()?, end.exit_code))
}

/// Forwards the port of the emulated AWS, so that pods reach it.
fn forward_aws(address: &mut ServiceAddress, world: &World) {
    let port = world.moto.endpoint().rsplit(':').next().unwrap().parse().unwrap();
    address.forward(port, port).unwrap();
}

/// The variables of a container with which it uses the emulated AWS.
fn aws_of_pods(world: &World) -> Value {
    let variable = |(name, value): (&str, String)| json!({"name": name, "value": value.replace("127.0.0.1", &API_SERVICE.to_string())});
    world.moto.environment().map(variable).into_iter().collect()
}

/// Runs kubectl as the administrator; returns its output, or its errors.
fn kubectl(world: &World, arguments: &[&str]) -> Result<String, String> {
    let mut kubectl = Command::new(built::control_plane("bin/kubectl").unwrap());
    let kubectl = kubectl.args(arguments).env("KUBECONFIG", world.plane.kubeconfig());
    let output = kubectl.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

impl World {
    /// Waits until a pod whose name begins with `name` has this property; returns it.
    async fn wait_for_pod(&self, name: &str, what: &str, has: impl Fn(&Pod) -> bool) -> Pod {
        let what = format!("a pod of {name} that {what}");
        let waited = wait::until(&what, DEADLINE, async || {
            let all = self.pods("default").await?;
            Ok(all.into_iter().find(|pod| pod.name_any().starts_with(name) && has(pod)))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()))
    }

    /// Waits until there are so many nodes, all of them Ready.
    async fn wait_for_ready_nodes(&self, count: usize) {
        let waited = wait::until_true("nodes that are Ready", DEADLINE, async || {
            let nodes = self.nodes().await;
            Ok(nodes.len() == count && nodes.iter().all(is_ready))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// Waits until so many placeholders run.
    async fn wait_for_running_placeholders(&self, count: usize) {
        let what = format!("{count} placeholders that run");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let pods = self.pods(tests::installed::NAMESPACE).await?;
            let ours = pods.iter().filter(|pod| is_placeholder(pod));
            Ok(ours.filter(|pod| is_running(pod)).count() == count)
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }
}
