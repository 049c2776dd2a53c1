//! Benchmarks of packing, at the sizes of large clusters: `cargo bench -p embedder`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, Group, MicroDollars, Order, PodRequest,
    Resources, Room, Shape, UNLIMITED, pack,
};

fn bucket(name: String, cpu_millis: u64, memory_bytes: u64, pods: u64) -> Bucket {
    Bucket {
        capacity_type: CapacityType::OnDemand,
        accelerator_kind: AcceleratorKind::default(),
        allocatable: Resources {
            devices: embedder::Devices::NONE,
            accelerators: 0,
            cpu_millis,
            memory_bytes,
            ephemeral_bytes: UNLIMITED,
            pods,
        },
        hourly: MicroDollars(1_000_000),
        groups: vec![Group { name: name.clone(), placement_group: None, min: 0, max: UNLIMITED }],
        name,
    }
}

fn catalog(buckets: impl IntoIterator<Item = Bucket>) -> Catalog {
    Catalog::new(buckets.into_iter().collect()).expect("the benchmark's buckets are distinct")
}

fn pods(count: u64, cpu_millis: u64, memory_bytes: u64) -> PodRequest {
    let requests = Resources { cpu_millis, memory_bytes, ..Resources::default() };
    PodRequest { shape: Shape::new(requests, AcceleratorKind::default()), count }
}

/// Returns pseudo-random sizes from a linear congruential generator, the same on every run.
fn sizes(seed: u64, below: u64) -> impl Iterator<Item = u64> {
    let step = |x: &u64| {
        Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(seed), step).map(move |x| 1 + (x >> 33) % below)
}

fn packing(c: &mut Criterion) {
    println!(
        "cluster-autoscaler's own BenchmarkBinpackingEstimate packs the same 51,000 pods in 3.8 s, and \
         in 41 ms with --fastpath-binpacking-enabled (pkg/estimator of kubernetes-sigs/cluster-autoscaler)"
    );
    let template = catalog([bucket("template".into(), 1_000, 5_000, 100)]);
    let estimator = [pods(50_000, 50, 100), pods(1_000, 95, 190)];
    for order in [Order::Increasing, Order::Decreasing] {
        let name = format!("cluster-autoscaler's 51,000 pods, {order:?}");
        c.bench_function(&name, |b| b.iter(|| pack(black_box(&estimator), &[], &template, order)));
    }

    let many = catalog((1..=50).map(|i| bucket(format!("b{i}"), i * 2_000, i * 8_000, 110)));
    let shapes: Vec<PodRequest> = sizes(1, 16_000)
        .zip(sizes(2, 64_000))
        .take(200)
        .map(|(cpu, memory)| pods(5_000, cpu, memory))
        .collect();
    c.bench_function("1 M pods of 200 shapes over 50 buckets", |b| {
        b.iter(|| pack(black_box(&shapes), &[], &many, Order::Increasing));
    });

    let rooms: Vec<Room> = sizes(3, 60_000)
        .zip(sizes(4, 240_000))
        .take(15_000)
        .map(|(cpu_millis, memory_bytes)| Room {
            bucket: 49,
            free: Resources {
                devices: embedder::Devices::NONE,
                accelerators: 0,
                cpu_millis,
                memory_bytes,
                ephemeral_bytes: UNLIMITED,
                pods: 90,
            },
            nodes: 1,
        })
        .collect();
    let distinct: Vec<PodRequest> = sizes(5, 8_000)
        .zip(sizes(6, 32_000))
        .take(100_000)
        .map(|(cpu, memory)| pods(1, cpu, memory))
        .collect();
    c.bench_function("100 k distinct pods on 15,000 partly used nodes", |b| {
        b.iter(|| pack(black_box(&distinct), &rooms, &many, Order::Increasing));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = packing
}
criterion_main!(benches);
