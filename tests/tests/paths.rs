//! Property tests of the two paths to a control: the controller's, and the simulator's.
//!
//! Each turn of a simulation is mirrored as Kubernetes objects, which the controller's index and
//! view read. A second control takes its turn on what they observed, and must come to the same. A
//! control that is restarted from the history must go on with the same plans.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use base::span::Span;
use base::tier::Tier;
use control::{Control, Observed, Turn};
use controller::catalog::{INSTANCE_TYPE_LABEL, LaunchedBy, Offer, Offers};
use controller::cluster::{Places, Seen, View};
use controller::observe::{Index, Key, SCAN_SECONDS, Workloads};
use controller::outcome::Backoff;
use demand::forecast::Method;
use demand::record::{ShapeId, Shapes};
use embedder::{Bucket, Catalog, Devices, Resource, Resources, Shape};
use history::{BucketExtras, Line};
use proptest::prelude::*;
use serde_json::{Value, json};
use simulator::replay::Workload;
use simulator::witness::{WitnessedCluster, forecaster_of, simulate_witnessed};
use simulator::{GangMode, NamedPolicy, SimulationInput, SimulationSettings};
use testkit::catalog_of;
use traces::{Admits, Job, Work};

const GROUP: &str = "group";

/// A type in groups of at most nine nodes.
fn bucket(name: &str, cpu_millis: u64, accelerators: u64, groups: &[&str]) -> Bucket {
    Bucket {
        allocatable: Resources {
            accelerators,
            devices: Devices::NONE,
            cpu_millis,
            memory_bytes: 64 << 30,
            ephemeral_bytes: 100 << 30,
            pods: 110,
        },
        groups: groups.iter().map(|name| testkit::group(name, 9)).collect(),
        ..testkit::bucket(name, cpu_millis, (1 + accelerators) as f64)
    }
}

/// A type in two groups, and one with accelerators.
fn catalog() -> Catalog {
    catalog_of([bucket("small", 4_000, 0, &["a", "b"]), bucket("gpu", 8_000, 4, &["c"])])
}

/// The catalog as the controller's offers.
fn offers(catalog: &Catalog) -> Arc<Offers> {
    let offer = |bucket: &Bucket, group: &embedder::Group| {
        let labels = [(INSTANCE_TYPE_LABEL, &bucket.name), (GROUP, &group.name)];
        let labels: BTreeMap<String, String> =
            labels.map(|(key, value)| (key.to_owned(), value.clone())).into();
        Offer {
            instance_types: [bucket.name.clone()].into(),
            members: vec![],
            pins: labels.clone(),
            labels,
            taints: vec![],
            unneeded_seconds: None,
            described: true,
            disk_known: true,
            devices: BTreeMap::new(),
            choices: BTreeMap::new(),
            pool: None,
            launched_by: LaunchedBy::ClusterAutoscaler,
            requested_devices: BTreeMap::new(),
        }
    };
    let groups = catalog
        .buckets()
        .iter()
        .map(|bucket| bucket.groups.iter().map(|group| offer(bucket, group)).collect());
    Arc::new(Offers {
        catalog: catalog.clone(),
        groups: groups.collect(),
        prices: Vec::new(),
        ranking: Vec::new(),
        problems: vec![],
    })
}

fn quantities(of: Resources) -> Value {
    let name = |resource: Resource| match resource {
        Resource::Accelerators | Resource::Devices => ("nvidia.com/gpu", ""),
        Resource::Cpu => ("cpu", "m"),
        Resource::Memory => ("memory", ""),
        Resource::Ephemeral => ("ephemeral-storage", ""),
        Resource::Pods => ("pods", ""),
    };
    let quantities = Resource::ALL.into_iter().zip(of.components()).map(|(resource, amount)| {
        let (name, unit) = name(resource);
        (name.to_owned(), json!(format!("{amount}{unit}")))
    });
    Value::Object(quantities.collect())
}

/// The world of a simulation as Kubernetes objects, and a control of the controller's over them.
struct Mirror {
    index: Index,
    view: View,
    offers: Arc<Offers>,
    places: Places,
    control: Control,
    turns: u64,
}

impl Mirror {
    fn new(control: Control, catalog: &Catalog) -> Self {
        let offers = offers(catalog);
        let place = |bucket, group| (set(bucket, group), (bucket, group));
        let places =
            offers.groups.iter().enumerate().flat_map(|(bucket, groups)| {
                (0..groups.len()).map(move |group| place(bucket, group))
            });
        let places = places.collect();
        let (index, view) = (Index::default(), View::default());
        let mut mirror = Self { index, view, offers, places, control, turns: 0 };
        mirror.index.begin_pods();
        mirror.index.end_pods();
        mirror
    }

    fn nodes(&mut self, run: &WitnessedCluster) {
        self.index.begin_nodes();
        for (id, node) in &run.nodes {
            let bucket = &self.offers.catalog.buckets()[node.bucket];
            let labels = json!(self.offers.groups[node.bucket][node.group].labels);
            let allocatable = quantities(bucket.allocatable);
            let node = testkit::ready_node(&format!("n{id}"), &labels, &allocatable);
            self.index.apply_node(&serde_json::from_value(node).unwrap());
        }
        self.index.end_nodes();
    }

    fn pods(&mut self, run: &WitnessedCluster, workload: &Workload) {
        self.index.begin_pods();
        for (&(job, shape), pods) in &run.pods {
            for (at, node) in pods.iter().enumerate() {
                let shape_of = &workload.shapes[shape as usize];
                let (requests, buckets) = (shape_of.requests, self.offers.catalog.buckets());
                let types = (0..buckets.len()).filter(|id| shape_of.admits.contains(*id));
                let types: Vec<&String> = types.map(|id| &buckets[id].name).collect();
                let expression =
                    json!({"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": types});
                let pod = json!({
                    "metadata": {"name": format!("j{job}-{shape}-{at}"), "namespace": "jobs"},
                    "spec": {
                        "nodeName": node.map(|node| format!("n{node}")),
                        "priority": workload.priority(job),
                        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [expression]}],
                        }}},
                        "containers": [{"name": "main", "resources": {"requests": quantities(Resources { pods: 0, ..requests })}}],
                    },
                });
                self.index.apply_pod(&serde_json::from_value(pod).unwrap());
            }
        }
        for (bucket, groups) in self.offers.groups.clone().iter().enumerate() {
            for group in 0..groups.len() {
                let on = run.nodes.iter().filter(|(_, node)| {
                    node.placeholder && (node.bucket, node.group) == (bucket, group)
                });
                let on: Vec<Option<usize>> = on.map(|(id, _)| Some(*id)).collect();
                let waiting = usize::try_from(run.waiting[bucket][group]).unwrap();
                let all = on.into_iter().chain(std::iter::repeat_n(None, waiting));
                for (at, node) in all.enumerate() {
                    let name =
                        node.map_or(format!("w{bucket}-{group}-{at}"), |node| format!("p{node}"));
                    let node = node.map(|node| format!("n{node}")).unwrap_or_default();
                    let pod = testkit::placeholder(&name, &set(bucket, group).name, &node);
                    self.index.apply_pod(&serde_json::from_value(pod).unwrap());
                }
            }
        }
        self.index.end_pods();
    }

    /// What the controller observes at the same moment. Starts and backoff are copied from the
    /// simulation, because the controller reads them from timestamps and from the autoscaler's
    /// status, which the mirror does not have.
    fn observe(
        &mut self,
        run: &WitnessedCluster,
        input: &SimulationInput<'_>,
        theirs: &Observed,
    ) -> Observed {
        self.nodes(run);
        self.pods(run, input.workload);
        let workloads = Workloads {
            namespaces: vec!["jobs".into()],
            priority_min: i32::MIN,
            priority_max: i32::MAX,
            tiers: input.settings.tiers.clone(),
            ..Workloads::default()
        };
        let backoff = |bucket: usize, group: usize| {
            let group = theirs.standing.buckets[bucket][group];
            group.backoff.then(Backoff::default)
        };
        let now = (theirs.time.timestamp(), &[][..]);
        let Seen { cluster, standing, ready, .. } =
            self.view.gather(&self.index, &self.offers, &workloads, &self.places, &backoff, now);
        // No pod of a simulation is deleted, so a waiting one will have waited for a scan.
        let time = theirs.time.timestamp();
        let mut arrived = self.index.take_occurred(time).arrivals;
        arrived.extend(self.index.take_occurred(time + SCAN_SECONDS).arrivals);
        let (mut arrivals, mut tiers) = (Vec::new(), Vec::new());
        for (class, count) in &arrived {
            let shape = self.view.shape(class, &self.offers, &workloads);
            let tier = workloads.tier(class);
            tiers.extend(tier.map(|tier| (tier.to_owned(), shape.clone(), *count)));
            arrivals.push((shape, *count));
        }
        // A control numbers shapes in the order of their arrival, and the numbers break ties.
        let place = |shape: &Shape| theirs.arrivals.iter().position(|(their, _)| their == shape);
        arrivals.sort_by_key(|(shape, _)| place(shape));
        Observed {
            time: theirs.time,
            arrivals,
            tiers,
            // Jobs have no namespaces.
            namespaces: Vec::new(),
            cluster,
            rooms: None,
            standing,
            ready: ready.iter().map(|groups| groups.iter().sum()).collect(),
            // Jobs in the mirror have no PodGroups.
            gangs: theirs.gangs.clone(),
            starts: theirs.starts.clone(),
            ..Observed::default()
        }
    }
}

fn set(bucket: usize, group: usize) -> Key {
    Key { namespace: "prophet".into(), name: format!("set-{bucket}-{group}") }
}

fn any_job() -> impl Strategy<Value = Job> {
    let plain = Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() };
    let gpu = Resources { accelerators: 1, cpu_millis: 500, ..Resources::default() };
    let unit = prop_oneof![3 => Just(plain), 1 => Just(gpu)];
    let priority = prop_oneof![2 => Just(0), 1 => Just(100), 1 => Just(200)];
    let job = (0..9_000_i64, 30..2_500_i64, 1..9_u64, unit, priority);
    job.prop_map(|(submit, runtime, units, unit, priority)| {
        let work = Work {
            units,
            unit,
            accelerator_kind: embedder::AcceleratorKind::default(),
            split: None,
            admits: Admits::Assumed,
        };
        Job { priority, ..Job::new("", "", submit, runtime, work) }
    })
}

fn any_policy() -> impl Strategy<Value = NamedPolicy> {
    prop_oneof![
        (1..4_u64).prop_map(NamedPolicy::Constant),
        prop::sample::select(vec![
            Method::Increments,
            Method::State,
            Method::Scenario,
            Method::ScenarioArrivals,
        ])
        .prop_map(|method| NamedPolicy::Forecast(method, Some(0.9))),
        Just(NamedPolicy::Forecast(Method::Ensemble, None)),
        Just(NamedPolicy::EXPRESSION),
    ]
}

fn any_settings() -> impl Strategy<Value = SimulationSettings> {
    let gang =
        prop_oneof![Just(GangMode::Whole), Just(GangMode::OneGroup), Just(GangMode::PodByPod)];
    let rate = prop::option::of(1..3_u64);
    let tier = |name: &str, priority_min, weight| Tier { name: name.into(), priority_min, weight };
    let tiers = prop_oneof![
        Just(vec![]),
        Just(vec![tier("free", 100, 0.0), tier("production", 200, 4.0)]),
    ];
    (gang, prop_oneof![Just(0.0), Just(0.3)], 20..120_u32, rate, tiers, any::<u64>()).prop_map(
        |(gang, launch_failure_share, tick, rate, tiers, seed)| {
            let mut settings = SimulationSettings {
                gang,
                launch_failure_share,
                tick: Span::seconds(tick),
                tiers: tiers.into(),
                expression: "max(forecast, newNodes(\"10m\") / 2)".parse().ok(),
                seed,
                ..SimulationSettings::default()
            };
            let rates =
                rate.map(|value| placeholders::ScalingPolicy { value, period_seconds: 300 });
            settings.policy.behavior.scale_up.policies = rates.into_iter().collect();
            settings
        },
    )
}

/// Runs the jobs under a policy, and hands each turn to `each`.
fn run(
    jobs: &[Job],
    settings: &SimulationSettings,
    policy: NamedPolicy,
    mut each: impl FnMut(&WitnessedCluster, &SimulationInput<'_>, &Observed, &Turn) + Send,
) {
    let catalog = catalog();
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| job.submit);
    let workload = Workload::new(&jobs, &catalog);
    let input = SimulationInput {
        workload: &workload,
        catalog: &catalog,
        settings,
        window: (0, 12_000),
        replay: 0,
        keep_ticks: false,
    };
    simulate_witnessed(input, policy, |run, observed, turn| each(run, &input, observed, turn));
}

fn control(input: &SimulationInput<'_>, policy: NamedPolicy) -> Control {
    let forecaster = forecaster_of(*input, policy).unwrap();
    Control::new(forecaster, input.catalog, input.settings.tick.as_seconds())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn both_paths_give_equal_ticks_outlooks_and_plans(
        jobs in prop::collection::vec(any_job(), 1..30), settings in any_settings(), policy in any_policy(),
    ) {
        let mut mirror: Option<Mirror> = None;
        run(&jobs, &settings, policy, |run, input, observed, turn| {
            let mirror = mirror.get_or_insert_with(|| {
                Mirror::new(control(input, policy), input.catalog)
            });
            let ours = mirror.observe(run, input, observed);
            let again = mirror.control.turn(&ours, &policy.policy(&settings.policy));
            mirror.turns += 1;
            assert_eq!(&again, turn, "at {}, observed {ours:?}", observed.time);
        });
        prop_assert!(mirror.is_some_and(|mirror| mirror.turns > 0));
    }

    /// A control that takes over right after a tick, from the history alone, plans as the one that
    /// it replaces. If it took over between two ticks, it would lack the pods that arrived since
    /// the last tick, until the next tick. Stabilisers are left out, because the history has one
    /// target a tick: changes between ticks are missing for the longest period of a rate, and a
    /// window can hold a target for its length once more.
    #[test]
    fn a_restart_changes_no_plan(
        jobs in prop::collection::vec(any_job(), 1..30), settings in any_settings(), policy in any_policy(),
        restart in 1..60_usize,
    ) {
        let mut settings = settings;
        settings.policy.behavior = placeholders::Behavior::default();
        let mut lines: Vec<Line> = Vec::new();
        let mut successor: Option<Control> = None;
        let mut shapes = Shapes::default();
        run(&jobs, &settings, policy, |_, input, observed, turn| {
            if let Some(successor) = &mut successor {
                let again = successor.turn(observed, &policy.policy(&settings.policy));
                let outlooks = [&again.outlook, &turn.outlook];
                assert_eq!(&again.plan, &turn.plan, "at {}: {outlooks:?}", observed.time);
            }
            for (shape, _) in &observed.arrivals {
                let _: Option<(ShapeId, bool)> = shapes.intern(shape);
            }
            let Some(tick) = &turn.tick else { return };
            let extras = turn.plan.buckets.iter().map(|bucket| BucketExtras {
                headroom: bucket.target,
                placeholders: observed.standing.placeholders(bucket.bucket),
                prepaid: 0,
            });
            let extras: Vec<BucketExtras> = extras.collect();
            lines.push(Line::new("a.b", tick, &extras, vec![], input.catalog, &shapes));
            if lines.len() == restart && observed.starts.is_empty() {
                let mut control = control(input, policy);
                for line in &lines {
                    let tick = line.recall(input.catalog, control.shapes_mut()).tick;
                    control.recall(tick, &line.targets(input.catalog));
                }
                successor = Some(control);
            }
        });
    }
}
