//! Measures `forecast` and `decide` at a turn, with 50 instance types after two weeks of ticks, and
//! a whole tick of the ensemble with a million pods: `cargo bench -p control --bench forecast`.

use std::hint::black_box;

use base::tier::Tiers;
use chrono::{DateTime, Utc};
use control::decide::decide;
use control::{Control, Observed};
use criterion::{Criterion, criterion_group, criterion_main};
use demand::forecast::onnx::ModelSource;
use demand::forecast::{ForecasterConfig, Ladder, Lead, Learners, Method, Present};
use demand::record::{BucketTick, ShapeId, Tick};
use embedder::{Catalog, Cluster, Demand, Resources, Room, Shape};
use placeholders::{GroupStanding, Objective, Policy, Standing, Steady};
use testkit::{bucket, catalog_of, cpus, pods};

/// The number of instance types.
const BUCKETS: u64 = 50;
/// The number of learnt ticks, one per minute: two weeks.
const MINUTES: i64 = 14 * 1_440;
/// The lead time and the tick, in seconds.
const LEAD: Lead = Lead { seconds: 360, tick_seconds: 60 };

fn catalog() -> Catalog {
    let bucket = |n: u64| bucket(&format!("type-{n:02}"), 4_000 * (n + 1), (n + 1) as f64);
    catalog_of((0..BUCKETS).map(bucket))
}

/// A pod that fits on instance type `n` and on larger types, but on no smaller one.
fn shape(n: u64) -> Shape {
    testkit::shape(cpus(4_000 * (n + 1) - 1_000))
}

fn time(minute: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(60 * minute, 0).unwrap_or_default()
}

fn tick(minute: i64) -> Tick {
    let came = |n: u64| (minute.unsigned_abs() * 31 + n * 17) % 97 < 3;
    let demand = |n: u64| 3 + u64::from((minute.unsigned_abs() / 7 + n) % 11 < 2);
    let id = |n: u64| ShapeId::try_from(n).unwrap_or_default();
    Tick {
        time: time(minute),
        buckets: (0..BUCKETS)
            .map(|n| BucketTick {
                demand: demand(n),
                demand_max: demand(n),
                ..BucketTick::default()
            })
            .collect(),
        room: (0..8).map(|n| (id(n), 2)).collect(),
        first_seen: if minute == 0 {
            (0..BUCKETS).map(|n| (id(n), shape(n))).collect()
        } else {
            vec![]
        },
        arrivals: (0..BUCKETS).filter(|n| came(*n)).map(|n| (id(n), 1)).collect(),
        gangs: vec![],
        tiers: vec![],
        namespaces: vec![],
        kept: Vec::new(),
        runs: Vec::new(),
        rollout_percent: None,
    }
}

/// No placeholders in any group.
fn standing(catalog: &Catalog) -> Standing {
    let groups = catalog.buckets().iter().map(|bucket| bucket.groups.len());
    let buckets = groups.map(|count| vec![GroupStanding::default(); count]).collect();
    Standing { buckets, ..Standing::default() }
}

fn config(catalog: &Catalog, method: Method) -> ForecasterConfig {
    ForecasterConfig {
        catalog: catalog.clone(),
        method,
        ladder: Ladder::default(),
        ladder_first: false,
        expression: None,
        leads: vec![LEAD; catalog.len()],
        unneeded_seconds: vec![600; catalog.len()],
        objective: Objective::default(),
        tiers: Tiers::default(),
        model: ModelSource::Pretrained,
        patient: true,
    }
}

fn turn(c: &mut Criterion) {
    let catalog = catalog();
    let policy = Policy::default();
    let standing = standing(&catalog);
    let room = |bucket| Room {
        bucket,
        free: Resources { cpu_millis: 2_000, ..Resources::UNLIMITED },
        nodes: 2,
    };
    let demand = Demand {
        present: vec![3; catalog.len()],
        announced: vec![0; catalog.len()],
        rooms: (0..catalog.len()).map(room).collect(),
        ..Demand::default()
    };
    for method in Method::QUANTILES {
        let config = config(&catalog, method);
        let mut learners = Learners::new(config.forecaster(DateTime::UNIX_EPOCH), &config.catalog);
        // The ensemble updates about fifty shadow stocks per type at each tick, so it learns only
        // the last two days.
        let from = if method == Method::Ensemble { MINUTES - 2_880 } else { 0 };
        learners.learn(tick(0));
        (from.max(1)..MINUTES).for_each(|minute| learners.learn(tick(minute)));
        // Each turn has different arriving pods, so that no turn reuses cached results of another.
        let mut pods = 0;
        c.bench_function(&format!("turn/{}", method.name()), |b| {
            b.iter(|| {
                pods = pods % 64 + 1;
                let arriving = [(0, pods)];
                let now =
                    Present { arriving: &arriving, ..Present::at_tick(time(MINUTES), &demand) };
                let outlook = learners.forecast(&now);
                black_box(decide(
                    &outlook,
                    (&demand, &[]),
                    &standing,
                    &catalog,
                    &policy,
                    &Steady::default(),
                    time(MINUTES),
                ))
            });
        });
    }
}

/// A tick with a million pending pods of 200 shapes and 15,000 partly used nodes: embed, record,
/// learn, forecast with the ensemble, decide.
fn tick_of_a_million_pods(c: &mut Criterion) {
    let catalog = catalog();
    let config = config(&catalog, Method::Ensemble);
    let mut control =
        Control::new(config.forecaster(DateTime::UNIX_EPOCH), &catalog, LEAD.tick_seconds);
    // The ticks name shapes by their numbers.
    for n in 0..BUCKETS {
        let _ = control.shapes_mut().intern(&shape(n));
    }
    (0..2_880).for_each(|minute| control.recall(tick(minute), &[]));
    let pending = |n: u64| pods(5_000, Resources { memory_bytes: n << 28, ..cpus(250 + 40 * n) });
    let room = |n: u64| Room {
        bucket: usize::try_from(n % BUCKETS).unwrap_or_default(),
        free: Resources { cpu_millis: n * 7_919 % 16_000, ..Resources::UNLIMITED },
        nodes: 1,
    };
    let cluster = Cluster {
        occupied: vec![15_000 / BUCKETS; catalog.len()],
        rooms: (0..15_000).map(room).collect(),
        pending: (0..200).map(pending).collect(),
        ..Cluster::default()
    };
    let mut observed = Observed {
        cluster,
        standing: standing(&catalog),
        ready: vec![0; catalog.len()],
        ..Observed::default()
    };
    let (policy, mut minute) = (Policy::default(), 2_880);
    c.bench_function("a tick of 1 M pods/ensemble", |b| {
        b.iter(|| {
            observed.time = time(minute);
            let arrived = tick(minute).arrivals.into_iter();
            observed.arrivals = arrived.map(|(id, count)| (shape(u64::from(id)), count)).collect();
            minute += 1;
            black_box(control.turn(&observed, &policy))
        });
    });
}

criterion_group!(benches, turn, tick_of_a_million_pods);
criterion_main!(benches);
