//! A demo on a real control plane, which `make demo-cluster` runs: bursts of jobs, the stand-in of
//! cluster-autoscaler, emulated Auto Scaling groups, and the controller in the mode Act.
//!
//! The first burst comes with the policy, so it waits for nodes to launch. Each later burst comes
//! once the placeholders are on nodes, and the nodes of the burst before are gone. Ctrl-C ends the
//! demo and all of its processes, and removes its files. The first argument is the pause between
//! two bursts in seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::joiner::{Joiner, JoinerSettings};
use tests::moto::Moto;
use tests::node_group::{NodeGroup, PLACEMENT_GROUP_LABEL};
use tests::{built, prophet, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

/// The pause between two bursts if none is given.
const PAUSE: Duration = Duration::from_mins(2);

/// The jobs of a burst, each of which needs a node of its own.
const JOBS: usize = 3;

/// How long a job runs, in seconds. Shorter than the pause, so that the jobs of one burst have
/// ended before the next one.
const RUN_SECONDS: u64 = 20;

/// The time from the request of an instance until its node is ready. Real instances need one to
/// several minutes.
const LAUNCH: Duration = Duration::from_secs(15);

/// How long a pod may wait for kube-scheduler after a preemption. On a loaded machine, the pods of
/// a burst were on their nodes after at most 1.5 s.
const RETRY: Duration = Duration::from_secs(3);

/// The longest wait for nodes, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(3);

/// The policy holds the nodes of a burst from its first turn on. The default method would first
/// need a history, which a demo does not have.
const SPEC: &str = "{mode: Act, tick: 10s, limits: {placeholders: 10}, \
                    forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 3]]}}}";

#[tokio::main]
async fn main() -> Result<()> {
    let pause = pause(std::env::args().nth(1).as_deref())?;
    let mut signals = Signals::register()?;
    let mut waits = Waits::default();
    let demo = Box::pin(run(pause, &mut waits));
    let ended = tokio::select! {
        biased;
        () = signals.received() => Ok(()),
        ended = demo => ended,
    };
    // A Ctrl-C in a terminal also ends the programs that the demo runs, so it may fail first.
    if ended.is_err() && signals.received().now_or_never().is_none() {
        return ended;
    }
    println!("\n{waits}");
    Ok(())
}

fn pause(argument: Option<&str>) -> Result<Duration> {
    let Some(text) = argument else { return Ok(PAUSE) };
    let seconds = text.parse().with_context(|| format!("{text} is no number of seconds"))?;
    Ok(Duration::from_secs(seconds))
}

/// The signals that end the demo.
struct Signals([Signal; 3]);

impl Signals {
    fn register() -> Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// How long each burst waited for nodes.
#[derive(Default)]
struct Waits(Vec<Duration>);

impl fmt::Display for Waits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, wait) in self.0.iter().enumerate() {
            writeln!(formatter, "burst {} waited {:.1} s for nodes", at + 1, wait.as_secs_f64())?;
        }
        Ok(())
    }
}

/// Runs bursts until the future is dropped.
async fn run(pause: Duration, waits: &mut Waits) -> Result<()> {
    println!("starting a control plane, emulated Auto Scaling groups and the controller");
    let cluster = Cluster::start().await?;
    println!("{}", cluster.instructions()?);
    let start = Instant::now();
    let report = |text: String| {
        let seconds = start.elapsed().as_secs();
        println!("{:3}:{:02}  {text}", seconds / 60, seconds % 60);
    };
    report(format!("the policy is created, and {JOBS} jobs come at once"));
    cluster.plane.apply_yaml(&policy("batch", SPEC)).await?;
    for burst in 1.. {
        let Started { waited, not_retried } = cluster.run_burst(burst).await?;
        for pod in not_retried {
            report(format!(
                "{pod} had no node for {} s after kube-scheduler had nominated one",
                RETRY.as_secs()
            ));
        }
        waits.0.push(waited);
        report(format!("burst {burst} waited {:.1} s for nodes", waited.as_secs_f64()));
        let next = Instant::now() + pause;
        cluster.wait_for_end(burst).await?;
        report(format!("burst {burst} has ended"));
        cluster.wait_for_placeholders_alone().await?;
        let left = next.saturating_duration_since(Instant::now());
        report(format!(
            "its nodes are gone, and {JOBS} placeholders have nodes; burst {} comes in {} s",
            burst + 1,
            left.as_secs()
        ));
        sleep(left).await;
        report(format!("{JOBS} jobs come at once"));
    }
    Ok(())
}

/// A burst whose pods are on nodes.
struct Started {
    /// How long the last pod waited.
    waited: Duration,
    /// The pods that had no node for longer than [`RETRY`] after kube-scheduler had nominated one.
    not_retried: BTreeSet<String>,
}

/// A cluster with its autoscaler and the controller. The fields are dropped in their order.
struct Cluster {
    prophet: Prophet,
    autoscaler: Autoscaler,
    joiner: Joiner,
    _moto: Moto,
    plane: ControlPlane,
}

impl Cluster {
    async fn start() -> Result<Self> {
        let (plane, moto) = tokio::try_join!(ControlPlane::start(), Moto::start())?;
        NodeGroup::new("batch", "m5.xlarge").create(&moto).await?;
        let nodes = JoinerSettings { latency: LAUNCH, ..JoinerSettings::default() };
        let joiner = Joiner::start(&plane, &moto, nodes)?;
        let autoscaler = Autoscaler::start(&plane, &moto, AutoscalerSettings::default())?;
        let label = format!("--placement-group-label={PLACEMENT_GROUP_LABEL}");
        let history = format!("--data={}", plane.folder().join("history").display());
        let groups = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled";
        let arguments = [groups, &label, &history];
        let prophet = Prophet::install(&plane, &arguments, &moto.environment()).await?;
        Ok(Self { prophet, autoscaler, joiner, _moto: moto, plane })
    }

    /// The address of the dashboard, and commands for another shell.
    fn instructions(&self) -> Result<String> {
        let prophet = prophet(&[]);
        let programs =
            [&built::control_plane("bin/kubectl")?, Path::new(prophet.get_program())].map(folder);
        let [kubectl, prophet] = [&programs[0], &programs[1]].map(|path| quoted(path));
        let kubeconfig = quoted(&self.plane.kubeconfig());
        Ok(format!(
            "
the dashboard: http://{address}/

Paste into another shell:
    export KUBECONFIG={kubeconfig} PATH={kubectl}:{prophet}:\"$PATH\"
    kubectl get nodes --watch                        # each is an m5.xlarge of the group batch
    kubectl get pods --all-namespaces --watch        # jobs in default, placeholders in {NAMESPACE}
    kubectl get opp --namespace {NAMESPACE}              # the policy: its demand and its target
    prophet explain --namespace {NAMESPACE}              # why the numbers are what they are

Ctrl-C ends the demo, and leaves no process and no file.
",
            address = self.prophet.address()
        ))
    }

    /// Submits the jobs of a burst, and waits until each of their pods is on a node.
    async fn run_burst(&self, burst: usize) -> Result<Started> {
        let start = Instant::now();
        let jobs: String = (1..=JOBS).map(|number| job(burst, number)).collect();
        self.plane.apply_yaml(&jobs).await?;
        let of_burst = ListParams::default().labels(&format!("burst=burst-{burst}"));
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), "default");
        let (mut nominated, mut not_retried) = (BTreeMap::new(), BTreeSet::new());
        self.wait_for(&format!("nodes of burst {burst}"), async || {
            let pods = pods.list(&of_burst).await?.items;
            for pod in &pods {
                if !is_nominated(pod) {
                    nominated.remove(&pod.name_any());
                    continue;
                }
                let since = nominated.entry(pod.name_any()).or_insert_with(Instant::now);
                if since.elapsed() > RETRY {
                    not_retried.insert(pod.name_any());
                }
            }
            Ok(pods.iter().filter(|pod| is_bound(pod)).count() == JOBS)
        })
        .await?;
        Ok(Started { waited: start.elapsed(), not_retried })
    }

    async fn wait_for_end(&self, burst: usize) -> Result<()> {
        let of_burst = ListParams::default().labels(&format!("burst=burst-{burst}"));
        let running = of_burst.fields("status.phase!=Succeeded");
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), "default");
        let what = format!("the end of burst {burst}");
        self.wait_for(&what, async || Ok(pods.list(&running).await?.items.is_empty())).await
    }

    /// Waits until as many placeholders are on nodes as the policy holds, and there are no other
    /// nodes, which would take the next burst, too.
    async fn wait_for_placeholders_alone(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), NAMESPACE);
        let nodes: Api<Node> = Api::all(self.plane.client());
        self.wait_for("nodes of placeholders alone", async || {
            let mut pods = pods.list(&ListParams::default()).await?.items;
            pods.retain(|pod| pod.labels().contains_key("prophet.dev/policy") && is_bound(pod));
            let nodes = nodes.list(&ListParams::default()).await?.items;
            Ok((pods.len(), nodes.len()) == (JOBS, JOBS))
        })
        .await
    }

    /// Waits for a condition. The error has the end of the controller's log, and the errors of the
    /// other parts.
    async fn wait_for(&self, what: &str, probe: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        let Err(error) = wait::until_true(what, DEADLINE, probe).await else { return Ok(()) };
        let log = self.prophet.log()?;
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        let errors = [self.autoscaler.counters().errors, self.joiner.errors()].concat();
        bail!("{error:#}\n{}\n{}", errors.join("\n"), last.join("\n"))
    }
}

/// The folder of a program.
fn folder(program: &Path) -> PathBuf {
    program.parent().unwrap_or(program).to_owned()
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

/// Whether kube-scheduler has preempted a pod for this one, which is on no node yet.
fn is_nominated(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    !is_bound(pod) && status.is_some_and(|status| status.nominated_node_name.is_some())
}

/// The YAML document of a job of a burst. It is deleted a minute after its end.
fn job(burst: usize, number: usize) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: burst-{burst}-{number}, namespace: default}}
spec:
  ttlSecondsAfterFinished: 60
  template:
    metadata:
      labels: {{burst: burst-{burst}}}
      annotations: {{tests.prophet.dev/run-seconds: '{RUN_SECONDS}'}}
    spec:
      restartPolicy: Never
      containers:
      - name: work
        image: busybox
        resources: {{requests: {{cpu: '3', memory: 8Gi}}}}
---
"
    )
}
