//! First-fit-increasing: cases, a naive oracle, and a brute-force optimum.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use embedder::{
    AcceleratorKind, Bucket, BucketSet, Catalog, FreeRoom, Order, PackShape, Packing, PodRequest,
    Resource, Resources, Room, Shape, Unfit, pack,
};
use proptest::prelude::*;
use testkit::{catalog_of, pods};

fn bucket(name: &str, kind: &str, allocatable: Resources) -> Bucket {
    let accelerator_kind = AcceleratorKind::new(kind);
    Bucket { accelerator_kind, allocatable, ..testkit::bucket(name, 0, 1.0) }
}

fn r(accelerators: u64, cpu_millis: u64, memory_bytes: u64) -> Resources {
    Resources {
        devices: embedder::Devices::NONE,
        accelerators,
        cpu_millis,
        memory_bytes,
        ephemeral_bytes: 0,
        pods: 0,
    }
}

/// The capacity of a node: the given accelerators, CPU and memory, 110 pods, and local disk without
/// a limit.
fn node(accelerators: u64, cpu_millis: u64, memory_bytes: u64) -> Resources {
    Resources { ephemeral_bytes: u64::MAX, pods: 110, ..r(accelerators, cpu_millis, memory_bytes) }
}

fn small_catalog() -> Catalog {
    let nvidia = AcceleratorKind::NVIDIA;
    catalog_of([
        bucket("gpu8", nvidia, node(8, 32_000, 128)),
        bucket("cpu4", nvidia, node(0, 4_000, 16)),
        bucket("neuron2", AcceleratorKind::NEURON, node(2, 8_000, 32)),
        bucket("cpu16", nvidia, node(0, 16_000, 64)),
    ])
}

/// `opened` lists the buckets in ascending order: cpu4, cpu16, neuron2, gpu8.
#[track_caller]
fn check(requests: &[PodRequest], rooms: &[Room], order: Order, opened: [u64; 4]) -> Packing {
    let packing = pack(requests, rooms, &small_catalog(), order);
    assert_eq!(packing.opened, opened);
    packing
}

#[test]
fn small_pods_open_small_nodes() {
    check(&[], &[], Order::Increasing, [0, 0, 0, 0]);
    check(&[pods(4, r(0, 1_000, 4))], &[], Order::Increasing, [1, 0, 0, 0]);
    check(&[pods(5, r(0, 1_000, 4))], &[], Order::Increasing, [2, 0, 0, 0]);
    check(
        &[pods(1, r(0, 8_000, 4)), pods(2, r(0, 1_000, 4))],
        &[],
        Order::Increasing,
        [1, 1, 0, 0],
    );
    check(
        &[pods(1, r(0, 8_000, 4)), pods(2, r(0, 1_000, 4))],
        &[],
        Order::Decreasing,
        [0, 1, 0, 0],
    );
}

#[test]
fn free_room_is_used_before_new_nodes() {
    let rooms = [
        Room { bucket: 0, free: node(0, 500, 16), nodes: 1 },
        Room { bucket: 0, free: node(0, 2_000, 16), nodes: 2 },
    ];
    let packing = check(&[pods(5, r(0, 1_000, 4))], &rooms, Order::Increasing, [1, 0, 0, 0]);
    let went: Vec<_> = packing.placed.iter().map(|p| (p.node, p.nodes, p.pods_each)).collect();
    assert_eq!(went, [(1, 2, 2), (3, 1, 1)]);
}

#[test]
fn kinds_of_accelerator_do_not_mix() {
    let neuron = PodRequest {
        shape: Shape::new(r(1, 0, 0), AcceleratorKind::new(AcceleratorKind::NEURON)),
        count: 3,
    };
    check(&[pods(3, r(1, 0, 0)), neuron], &[], Order::Increasing, [0, 0, 2, 1]);
}

#[test]
fn a_shape_is_placed_only_on_buckets_that_admit_it() {
    let mut pinned = pods(1, r(0, 1_000, 1));
    pinned.shape.admits = BucketSet::only([3]);
    check(&[pinned], &[], Order::Increasing, [0, 0, 0, 1]);
}

#[test]
fn pods_that_fit_nowhere_are_reported_with_the_reason() {
    let packing = check(
        &[pods(2, r(9, 0, 0)), pods(1, r(0, 4_000, 999))],
        &[],
        Order::Increasing,
        [0, 0, 0, 0],
    );
    let reasons: Vec<_> = packing.unplaced.iter().map(|u| (u.request, u.count, u.reason)).collect();
    let expected = [
        (1, 1, Unfit::TooLarge(Resource::Memory)),
        (0, 2, Unfit::TooLarge(Resource::Accelerators)),
    ];
    assert_eq!(reasons, expected);
    let amd = PodRequest {
        shape: Shape::new(r(1, 0, 0), AcceleratorKind::new(AcceleratorKind::AMD)),
        count: 1,
    };
    let packing = check(&[amd], &[], Order::Increasing, [0, 0, 0, 0]);
    assert_eq!(packing.unplaced[0].reason, Unfit::NoBucketAdmits);
}

/// The input of the benchmark of cluster-autoscaler's estimator, at its size.
#[test]
fn the_estimator_benchmark_needs_as_many_nodes_as_in_cluster_autoscaler() {
    let template = Resources {
        devices: embedder::Devices::NONE,
        cpu_millis: 1_000,
        memory_bytes: 5_000,
        pods: 100,
        accelerators: 0,
        ephemeral_bytes: u64::MAX,
    };
    let catalog = catalog_of([bucket("template", AcceleratorKind::NVIDIA, template)]);
    let requests = [pods(50_000, r(0, 50, 100)), pods(1_000, r(0, 95, 190))];
    assert_eq!(pack(&requests, &[], &catalog, Order::Decreasing).opened, [2_595]);
    assert_eq!(pack(&requests, &[], &catalog, Order::Increasing).opened, [2_600]);
}

/// First fit, pod by pod: the oracle that the fast implementation must equal.
struct Naive {
    nodes: Vec<(usize, Resources)>,
    opened: Vec<u64>,
    contents: Vec<Vec<u64>>,
    unplaced: u64,
}

fn naive(requests: &[PodRequest], rooms: &[Room], catalog: &Catalog, order: Order) -> Naive {
    let nodes: Vec<_> =
        rooms.iter().flat_map(|room| (0..room.nodes).map(|_| (room.bucket, room.free))).collect();
    let contents = vec![vec![0; requests.len()]; nodes.len()];
    let mut naive = Naive { nodes, opened: vec![0; catalog.len()], contents, unplaced: 0 };
    let mut indices: Vec<usize> = (0..requests.len()).collect();
    match order {
        Order::Increasing => indices.sort_by_key(|&i| requests[i].shape.clone()),
        Order::Decreasing => indices.sort_by_key(|&i| std::cmp::Reverse(requests[i].shape.clone())),
        Order::Given => {}
    }
    for index in indices {
        for _ in 0..requests[index].count {
            naive.place(index, &requests[index].shape, requests.len(), catalog);
        }
    }
    naive
}

impl Naive {
    fn place(&mut self, index: usize, shape: &Shape, requests: usize, catalog: &Catalog) {
        let buckets = catalog.buckets();
        let fits = |&(id, free): &(usize, Resources)| {
            shape.admitted_by(id, &buckets[id]) && free.fits(shape.requests)
        };
        let at = self.nodes.iter().position(fits).or_else(|| {
            let id = (0..buckets.len()).find(|&id| fits(&(id, buckets[id].allocatable)))?;
            self.nodes.push((id, buckets[id].allocatable));
            self.contents.push(vec![0; requests]);
            self.opened[id] += 1;
            Some(self.nodes.len() - 1)
        });
        match at {
            None => self.unplaced += 1,
            Some(at) => {
                self.nodes[at].1 = self.nodes[at].1.take(shape.requests).unwrap();
                self.contents[at][index] += 1;
            }
        }
    }
}

fn contents(packing: &Packing, nodes: usize, requests: usize) -> Vec<Vec<u64>> {
    let mut contents = vec![vec![0; requests]; nodes];
    for placed in &packing.placed {
        for node in placed.node..placed.node + placed.nodes {
            contents[usize::try_from(node).unwrap()][placed.request] += placed.pods_each;
        }
    }
    contents
}

fn amounts() -> impl Strategy<Value = Resources> {
    (prop_oneof![3 => Just(0_u64), 2 => 1..6_u64], 0..9_u64, 0..9_u64)
        .prop_map(|(a, c, m)| r(a, c * 500, m))
}

fn any_request() -> impl Strategy<Value = PodRequest> {
    let kinds = prop_oneof![Just(AcceleratorKind::NVIDIA), Just(AcceleratorKind::AMD)];
    let admits = prop_oneof![3 => Just(BucketSet::all()), 1 => prop::collection::vec(0..4_usize, 1..3).prop_map(BucketSet::only)];
    (amounts(), kinds, admits, 0..40_u64).prop_map(|(requests, kind, admits, count)| {
        let shape = Shape { admits, ..Shape::new(requests, AcceleratorKind::new(kind)) };
        PodRequest { shape, count }
    })
}

fn any_catalog() -> impl Strategy<Value = Catalog> {
    prop::collection::vec((amounts(), 1..12_u64), 1..5).prop_map(|sizes| {
        let kinds = [AcceleratorKind::NVIDIA, AcceleratorKind::AMD];
        let buckets = sizes.into_iter().enumerate().map(|(i, (size, pods))| {
            bucket(
                &format!("b{i}"),
                kinds[i % 2],
                Resources { pods, ephemeral_bytes: u64::MAX, ..size },
            )
        });
        catalog_of(buckets)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_fast_implementation_equals_the_naive_one(
        catalog in any_catalog(),
        requests in prop::collection::vec(any_request(), 0..12),
        free in prop::collection::vec((0..4_usize, amounts(), 0..4_u64, 0..5_u64), 0..8),
        order in prop_oneof![Just(Order::Increasing), Just(Order::Decreasing), Just(Order::Given)],
    ) {
        let rooms: Vec<Room> = free
            .into_iter()
            .map(|(id, free, pods, nodes)| Room { bucket: id % catalog.len(), free: Resources { pods, ..free }, nodes })
            .collect();
        let (fast, slow) = (pack(&requests, &rooms, &catalog, order), naive(&requests, &rooms, &catalog, order));
        prop_assert_eq!(&fast.opened, &slow.opened);
        prop_assert_eq!(contents(&fast, slow.nodes.len(), requests.len()), slow.contents);
        prop_assert_eq!(fast.unplaced.iter().map(|u| u.count).sum::<u64>(), slow.unplaced);
    }

    /// Packing onto the same free room twice gives the same result, which equals the result of
    /// `pack`, whether or not the first pods are packed in advance.
    #[test]
    fn each_packing_starts_from_the_same_free_room(
        catalog in any_catalog(),
        windows in prop::collection::vec(prop::collection::vec(any_request(), 0..6), 1..4),
        free in prop::collection::vec((0..4_usize, amounts(), 1..5_u64, 0..5_u64), 0..80),
    ) {
        let rooms: Vec<Room> = free
            .into_iter()
            .map(|(id, free, pods, nodes)| Room { bucket: id % catalog.len(), free: Resources { pods, ..free }, nodes })
            .collect();
        let mut room = FreeRoom::new(&rooms);
        let nodes: u64 = rooms.iter().map(|room| room.nodes).sum();
        for requests in windows.iter().chain(&windows) {
            let shapes: Vec<PackShape> = requests.iter().map(|request| PackShape::new(&request.shape, &catalog)).collect();
            let opened = room.opened(shapes.iter().zip(requests.iter().map(|request| request.count)), &catalog);
            let expected = pack(requests, &rooms, &catalog, Order::Given);
            prop_assert_eq!(opened, &expected.opened);
            let Some((shape, rest)) = shapes.split_first() else { continue };
            // The first shape is added in two parts, each of which several packings begin with.
            let count = requests[0].count;
            let mut added = 0;
            for first in [count / 2, count] {
                room.add_first(shape, first - added, &catalog);
                added = first;
                let mut requests = requests.clone();
                requests[0].count = first;
                let expected = pack(&requests, &rooms, &catalog, Order::Given);
                for _ in 0..2 {
                    let rest = rest.iter().zip(requests[1..].iter().map(|request| request.count));
                    prop_assert_eq!(room.opened(rest, &catalog), &expected.opened);
                }
            }
            let alone = pack(&requests[..1], &rooms, &catalog, Order::Given);
            let left = room.left(shape, count);
            let on_new: u64 = alone.placed.iter().filter(|placed| placed.node >= nodes).map(|placed| placed.nodes * placed.pods_each).sum();
            prop_assert_eq!(left, on_new + alone.unplaced.iter().map(|unplaced| unplaced.count).sum::<u64>());
            let opened = shape.new_instances(left).into_iter().filter(|(_, nodes)| *nodes > 0);
            let expected = alone.opened.iter().copied().enumerate().filter(|(_, nodes)| *nodes > 0);
            prop_assert!(opened.eq(expected));
            room.clear_first();
        }
    }

    /// In one dimension, an any-fit algorithm leaves at most one bin half empty, so the number of
    /// bins is less than twice the optimum, plus one.
    #[test]
    fn the_naive_implementation_is_within_twice_the_optimum(sizes in prop::collection::vec(1..11_u64, 1..9)) {
        let catalog = catalog_of([bucket("b", AcceleratorKind::NVIDIA, r(0, 10, 0).roof(Resources { pods: 99, ..Resources::default() }))]);
        let requests: Vec<PodRequest> = sizes.iter().map(|&size| pods(1, r(0, size, 0))).collect();
        let opened = naive(&requests, &[], &catalog, Order::Increasing).opened[0];
        let optimum = optimum(&sizes, 10);
        prop_assert!(optimum <= opened && opened <= 2 * optimum, "{sizes:?}: {opened} against {optimum}");
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// The input has hundreds of runs, so that blocks are split.
    #[test]
    fn many_runs_pack_like_the_naive_implementation(seeds in prop::collection::vec(1..97_u64, 300..700)) {
        let catalog = catalog_of([bucket("b", AcceleratorKind::NVIDIA, node(0, 100, 200))]);
        let rooms: Vec<Room> = seeds.iter().map(|&free| Room { bucket: 0, free: node(0, free, 200 - free), nodes: 2 }).collect();
        let requests: Vec<PodRequest> = seeds.iter().map(|&s| pods(1 + s % 4, r(0, 1 + s * 7 % 50, s * 3 % 70))).collect();
        let (fast, slow) = (pack(&requests, &rooms, &catalog, Order::Increasing), naive(&requests, &rooms, &catalog, Order::Increasing));
        prop_assert_eq!(contents(&fast, slow.nodes.len(), requests.len()), slow.contents);
    }
}

/// Returns the fewest bins, found by trying every assignment.
fn optimum(sizes: &[u64], capacity: u64) -> u64 {
    fn search(sizes: &[u64], capacity: u64, bins: &mut Vec<u64>, best: &mut usize) {
        let Some((&size, rest)) = sizes.split_first() else {
            *best = bins.len().min(*best);
            return;
        };
        for at in 0..bins.len() {
            if bins[at] + size <= capacity {
                bins[at] += size;
                search(rest, capacity, bins, best);
                bins[at] -= size;
            }
        }
        if bins.len() + 1 < *best {
            bins.push(size);
            search(rest, capacity, bins, best);
            bins.pop();
        }
    }
    let mut best = sizes.len();
    search(sizes, capacity, &mut Vec::new(), &mut best);
    best as u64
}
