//! Random worlds on a real control plane: a seed draws what people and faults do to a cluster, and
//! each second what must hold is checked from outside.
//!
//! `make test` runs a minute of one seed, `make real-worlds` MINUTES=10 of another one each time.
//! Each run prints its seed; SEED=n repeats it. The steps of a world that fails are repeated
//! without some of them while there is time, and the fewest that fail are printed. Those of a world
//! without faults of the network, the clock and AWS are steps of `crates/controller/scenarios`,
//! where they belong once mended.

mod check;
mod step;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_autoscaling::types::Tag;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use serde_json::json;
use tests::installed::NAMESPACE;
use tests::node_group::{ENABLED_TAG, NodeGroup};
use tests::stepped_clock::SteppedClock;
use tests::wait;
use tests::workloads::{CLUSTER, NAMESPACES};
use tokio::time::Instant;

use self::check::{CEILING, Facts};
use self::step::{Network, OfNode, POLICY, Step, Steps};
use super::world::{Plan, World};

/// The steps of one world. Afterwards everything is undone, and another world begins.
const STEPS: usize = 40;

/// The seed and the length of a run of `make test`.
const SEED: u64 = 1;
const LENGTH: Duration = Duration::from_mins(1);

/// The longest time for finding the fewest steps that fail.
const SHRINKING: Duration = Duration::from_mins(10);

/// How long after its last step a repeated world may take to fail.
const AFTER: Duration = Duration::from_secs(75);

/// The seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "ticks have times of the machine's clock")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A world, and what only this test does to it.
struct Random {
    world: World,
    clock: SteppedClock,
}

/// Deletes the objects of a kind in a namespace that steps created.
async fn delete_all(world: &World, group: &str, kind: &str, namespace: &str) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(world.plane.client(), namespace, &resource);
    for object in api.list(&ListParams::default()).await.map_or(Vec::new(), |all| all.items) {
        // The LimitRanges of the namespaces stay.
        if object.name_any().starts_with(['w', 'x']) {
            let _ = api.delete(&object.name_any(), &DeleteParams::background()).await;
        }
    }
}

impl Random {
    async fn start(history: &std::path::Path) -> Self {
        let small = NodeGroup::new("small", "m5.xlarge").sizes(0, 6);
        let large = NodeGroup::new("large", "m5.4xlarge").sizes(0, 3);
        let plan = Plan { before: vec![CLUSTER], proxied: true, ..Plan::of([small, large]) };
        let mut world = plan.start("").await;
        world.prophet.take().unwrap().stop().await.unwrap();
        let clock = SteppedClock::new().unwrap();
        let data = format!("--data={}", history.display());
        let arguments =
            [data, format!("--max-placeholders={CEILING}"), "--launch-latency=10s".to_owned()];
        world.start_controller_with(&arguments, &clock.environment()).await;
        Self { world, clock }
    }

    /// Does a step. What the API server refuses is left out.
    async fn step(&self, step: &Step) {
        let world = &self.world;
        let client = world.plane.client();
        match step {
            Step::Object(object) => {
                let _ = world.plane.apply_yaml(&object.to_string()).await;
            }
            Step::Policy(spec, _) => {
                let object = json!({
                    "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
                    "metadata": {"name": POLICY, "namespace": NAMESPACE}, "spec": spec,
                });
                world.apply(&object.to_string()).await;
            }
            Step::PolicyGone => {
                let _ = world.policies().delete(POLICY, &DeleteParams::default()).await;
            }
            Step::JobsGone => self.delete_jobs().await,
            Step::PodsEnd => {
                for namespace in NAMESPACES {
                    world.end_pods(namespace).await;
                }
            }
            Step::Node(at, what) => {
                let nodes: Api<Node> = Api::all(client);
                let all =
                    nodes.list(&ListParams::default()).await.map_or(Vec::new(), |all| all.items);
                if !all.is_empty() {
                    change_node(&nodes, &all[at % all.len()].name_any(), *what).await;
                }
            }
            Step::Network(network) => {
                let proxy = world.proxy.as_ref().unwrap();
                match network {
                    Network::Works => proxy.open(),
                    Network::Closed => proxy.close(),
                    Network::Silent => proxy.silence(),
                }
            }
            Step::Clock(seconds) => self.clock.step(*seconds).unwrap(),
            Step::Group(name, is_there) => {
                let tag = Tag::builder().resource_id(*name).resource_type("auto-scaling-group");
                let tag = tag.key(ENABLED_TAG).value("true").propagate_at_launch(false).build();
                let aws = world.moto.autoscaling();
                if *is_there {
                    aws.create_or_update_tags().tags(tag).send().await.unwrap();
                } else {
                    let _ = aws.delete_tags().tags(tag).send().await;
                }
            }
            Step::Off(off) => {
                let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
                let map = serde_json::from_value(json!({"metadata": {"name": "prophet-off"}}));
                let _ = if *off {
                    maps.create(&PostParams::default(), &map.unwrap()).await.map(drop)
                } else {
                    maps.delete("prophet-off", &DeleteParams::default()).await.map(drop)
                };
            }
            Step::Wait(_) => {}
        }
    }

    async fn delete_jobs(&self) {
        for namespace in NAMESPACES {
            for (group, kind) in [("batch", "CronJob"), ("batch", "Job"), ("", "Pod")] {
                delete_all(&self.world, group, kind, namespace).await;
            }
        }
    }

    /// Undoes everything, and waits until no placeholder stands.
    async fn reset(&self) {
        let undo = [
            Step::Network(Network::Works),
            Step::Clock(0),
            Step::Group("small", true),
            Step::Group("large", true),
            Step::Off(false),
            Step::PolicyGone,
            Step::JobsGone,
        ];
        for step in &undo {
            self.step(step).await;
        }
        delete_all(&self.world, "apps", "DaemonSet", "plain").await;
        for kind in ["ResourceQuota", "LimitRange", "PersistentVolumeClaim"] {
            delete_all(&self.world, "", kind, "plain").await;
        }
        let nodes: Api<Node> = Api::all(self.world.plane.client());
        for node in nodes.list(&ListParams::default()).await.map_or(Vec::new(), |all| all.items) {
            change_node(&nodes, &node.name_any(), OfNode::Heal).await;
        }
        let gone = async || Ok(self.world.placeholders().await?.iter().sum::<usize>() == 0);
        let waited = wait::until_true("no placeholder", Duration::from_mins(2), gone).await;
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", self.world.details()));
    }

    /// Does steps, and waits for a while. Returns how many steps were done until something did not
    /// hold, and what.
    async fn violation(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        after: Duration,
        end: Instant,
    ) -> (Vec<Step>, Option<String>) {
        let (mut facts, mut done) = (Facts::new(), Vec::new());
        for step in steps {
            self.step(&step).await;
            facts.note(&step);
            let seconds = if let Step::Wait(seconds) = &step { 1 + seconds } else { 1 };
            done.push(step);
            let until = Instant::now() + Duration::from_secs(seconds);
            if let Some(wrong) = self.watch(&mut facts, until).await {
                return (done, Some(wrong));
            }
            if Instant::now() > end {
                break;
            }
        }
        let wrong = self.watch(&mut facts, Instant::now() + after).await;
        (done, wrong)
    }

    /// Checks each second.
    async fn watch(&self, facts: &mut Facts, until: Instant) -> Option<String> {
        loop {
            let wrong = self.world.violations(facts).await;
            let wrong =
                wrong.unwrap_or_else(|error| vec![format!("the controller answers: {error:#}")]);
            if !wrong.is_empty() {
                return Some(wrong.join("; "));
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The fewest steps found that fail alike.
    async fn shrunk(&self, mut steps: Vec<Step>, wrong: &str) -> Vec<Step> {
        let kind = |wrong: &str| wrong.split(':').next().unwrap_or_default().to_owned();
        let end = Instant::now() + SHRINKING;
        let mut size = steps.len() / 2;
        while size > 0 && Instant::now() < end {
            let mut at = 0;
            while at < steps.len() && Instant::now() < end {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + size).min(steps.len()));
                self.reset().await;
                let (_, again) = self.violation(&mut fewer.clone().into_iter(), AFTER, end).await;
                if again.is_some_and(|again| kind(&again) == kind(wrong)) {
                    steps = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        steps
    }
}

async fn change_node(nodes: &Api<Node>, name: &str, what: OfNode) {
    let ready = |ready: bool| {
        let status = if ready { "True" } else { "False" };
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Test",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "by the test"}]}})
    };
    let taint = json!([{"key": "test", "value": "a", "effect": "NoSchedule"}]);
    let parameters = PatchParams::default();
    let spec = match what {
        OfNode::Cordon => json!({"spec": {"unschedulable": true}}),
        OfNode::Taint => json!({"spec": {"taints": taint}}),
        OfNode::Heal => json!({"spec": {"unschedulable": null, "taints": null}}),
        OfNode::NotReady => json!({}),
    };
    let _ = nodes.patch(name, &parameters, &Patch::Merge(spec)).await;
    if matches!(what, OfNode::NotReady | OfNode::Heal) {
        let status = Patch::Strategic(ready(what == OfNode::Heal));
        let _ = nodes.patch_status(name, &parameters, &status).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_hold_holds_in_random_worlds() {
    let minutes = number("MINUTES");
    let seed = number("SEED").unwrap_or_else(|| minutes.map_or(SEED, |_| now()));
    println!("SEED={seed}");
    let length = minutes.map_or(LENGTH, |minutes| Duration::from_secs(60 * minutes));
    let folder = tempfile::tempdir().unwrap();
    let random = Box::pin(Random::start(folder.path())).await;
    let end = Instant::now() + length;
    let (mut steps, mut worlds, mut done) = (Steps::new(seed), 0, 0);
    while Instant::now() < end {
        let first = steps.first();
        let mut all = std::iter::once(first).chain(std::iter::repeat_with(|| steps.next()));
        let mut all = all.by_ref().take(STEPS);
        let (made, wrong) = random.violation(&mut all, Duration::ZERO, end).await;
        if let Some(wrong) = wrong {
            let details = random.world.details();
            let shrunk = if length > LENGTH { random.shrunk(made, &wrong).await } else { made };
            let lines: Vec<String> = shrunk.iter().map(ToString::to_string).collect();
            panic!("SEED={seed} world {worlds}: {wrong}\n{}\n{details}", lines.join("\n"));
        }
        (worlds, done) = (worlds + 1, done + made.len());
        let running = random.world.running().await.unwrap_or(0);
        println!("world {worlds}: {} steps, {running} pods on nodes", made.len());
        random.reset().await;
    }
    println!("{worlds} worlds of {done} steps");
}
