//! Benchmarks of packing, at the sizes of large clusters: `cargo bench -p embedder`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use embedder::{Bucket, Order, PodRequest, Resources, Room, UNLIMITED, pack};
use testkit::{catalog_of, cpus};

fn bucket(name: &str, cpu_millis: u64, memory_bytes: u64, pods: u64) -> Bucket {
    let bucket = testkit::bucket(name, cpu_millis, 1.0);
    Bucket { allocatable: Resources { memory_bytes, pods, ..bucket.allocatable }, ..bucket }
}

fn pods(count: u64, cpu_millis: u64, memory_bytes: u64) -> PodRequest {
    testkit::pods(count, Resources { memory_bytes, ..cpus(cpu_millis) })
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
    let template = catalog_of([bucket("template", 1_000, 5_000, 100)]);
    let estimator = [pods(50_000, 50, 100), pods(1_000, 95, 190)];
    for order in [Order::Increasing, Order::Decreasing] {
        let name = format!("cluster-autoscaler's 51,000 pods, {order:?}");
        c.bench_function(&name, |b| b.iter(|| pack(black_box(&estimator), &[], &template, order)));
    }

    let many = catalog_of((1..=50).map(|i| bucket(&format!("b{i}"), i * 2_000, i * 8_000, 110)));
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
