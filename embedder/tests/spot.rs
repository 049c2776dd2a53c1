//! Tests of pods that spot buckets admit: which bucket new instances have, and which while launches
//! of spot instances fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use embedder::{
    Bucket, BucketId, BucketSet, Catalog, Cluster, Gang, PackShape, PodRequest, Resources, Room,
    Shape, embed_preferring, new_instance, virtual_instance,
};
use testkit::{catalog_of, cpus};

/// A bucket of instances for ten pods.
fn bucket(name: &str, cpu_millis: u64, dollars_per_hour: f64) -> Bucket {
    let bucket = testkit::bucket(name, cpu_millis, dollars_per_hour);
    Bucket { allocatable: Resources { pods: 10, ..bucket.allocatable }, ..bucket }
}

/// Live nodes of one instance type differ by a few resources, so a spot bucket may be the larger.
fn catalog() -> Catalog {
    let buckets = [
        ("small", 4_000, 0.2),
        ("small/spot", 4_001, 0.08),
        ("large", 16_000, 0.8),
        ("large/spot", 15_999, 0.9),
    ];
    catalog_of(buckets.map(|(name, cpu, dollars)| bucket(name, cpu, dollars)))
}

fn ids(catalog: &Catalog, names: &[&str]) -> Vec<BucketId> {
    let place = |name: &&str| catalog.buckets().iter().position(|bucket| bucket.name == **name);
    names.iter().map(|name| place(name).unwrap()).collect()
}

fn pods(cpu_millis: u64, count: u64, admits: BucketSet) -> PodRequest {
    let pods = testkit::pods(count, cpus(cpu_millis));
    PodRequest { shape: Shape { admits, ..pods.shape }, ..pods }
}

/// Checks the bucket and the number of pods of a new instance for a pod that these buckets admit,
/// while the `closed` ones launch nothing.
#[track_caller]
fn check(cpu_millis: u64, admits: &[&str], closed: &[&str], expected: Option<(&str, u64)>) {
    let catalog = catalog();
    let PodRequest { shape, .. } = pods(cpu_millis, 1, BucketSet::only(ids(&catalog, admits)));
    let mut open = BucketSet::all();
    for id in ids(&catalog, closed) {
        open.remove(id);
    }
    let found = new_instance(&shape, &catalog, &open);
    let found = found.map(|(id, holds)| (catalog.buckets()[id].name.as_str(), holds));
    assert_eq!(found, expected);
}

const ALL: [&str; 4] = ["small", "small/spot", "large", "large/spot"];

#[test]
fn a_pod_that_spot_buckets_admit_goes_to_the_cheaper_instance() {
    check(1_000, &["small", "large"], &[], Some(("small", 4)));
    check(1_000, &ALL, &[], Some(("small/spot", 4)));
    check(4_000, &ALL, &[], Some(("small/spot", 1)));
    // The spot instance costs more than the one on demand.
    check(5_000, &ALL, &[], Some(("large", 3)));
    check(5_000, &["large/spot"], &[], Some(("large/spot", 3)));
    check(1_000, &ALL, &["small/spot"], Some(("small", 4)));
    check(1_000, &["small/spot"], &["small/spot"], None);
}

/// Checks the bucket of a pod of a core that all buckets admit, and of a gang of two, if groups
/// have these weights.
#[track_caller]
fn check_weights(weights: &[(&str, u64)], expected: &str) {
    let weight = |name: &str| weights.iter().find(|(of, _)| *of == name).map_or(0, |of| of.1);
    let weigh = |bucket: &Bucket| {
        let mut bucket = bucket.clone();
        bucket.groups[0].weight = weight(&bucket.name);
        bucket
    };
    let catalog = catalog_of(catalog().buckets().iter().map(weigh));
    let name = |id: BucketId| catalog.buckets()[id].name.as_str();
    let PodRequest { shape, .. } = pods(1_000, 1, BucketSet::all());
    let found = new_instance(&shape, &catalog, &BucketSet::all());
    assert_eq!(found.map(|(id, _)| name(id)), Some(expected), "{weights:?}");
    let resolved = PackShape::new(&shape, &catalog).opens();
    assert_eq!(resolved.map(|(id, _)| name(id)), Some(expected), "{weights:?}");
    let gang = Gang { requests: vec![pods(1_000, 2, BucketSet::all())] };
    let taken = virtual_instance(&gang, &catalog).unwrap();
    assert_eq!(name(taken.bucket), expected, "{weights:?}");
}

/// A larger or dearer bucket precedes if the autoscaler prefers its groups.
#[test]
fn the_bucket_with_the_largest_weight_precedes() {
    check_weights(&[], "small/spot");
    check_weights(&[("small", 1)], "small");
    check_weights(&[("large", 1)], "large");
    check_weights(&[("large/spot", 1)], "large/spot");
    check_weights(&[("large/spot", 1), ("large", 1)], "large");
    check_weights(&[("small/spot", 1), ("large", 2)], "large");
}

/// Checks the present and announced demand of pending and of announced pods of 3 cores that all
/// small buckets admit, and of as many that only the spot bucket admits, while there are `held`
/// empty spot nodes.
#[track_caller]
fn check_demand(closed: &[&str], held: u64, expected: [(&str, u64, u64); 2]) {
    let catalog = catalog();
    let [spot] = ids(&catalog, &["small/spot"])[..] else { unreachable!() };
    let both = BucketSet::only(ids(&catalog, &["small", "small/spot"]));
    let spot_only = BucketSet::only([spot]);
    let cluster = Cluster {
        occupied: vec![0; catalog.len()],
        pending: vec![pods(3_000, 2, both.clone()), pods(3_000, 1, spot_only.clone())],
        announced: vec![pods(3_000, 3, both.clone()), pods(3_000, 1, spot_only)],
        gangs: vec![Gang { requests: vec![pods(3_000, 5, both)] }],
        ..Cluster::default()
    };
    let mut open = BucketSet::all();
    for id in ids(&catalog, closed) {
        open.remove(id);
    }
    let free = catalog.buckets()[spot].allocatable;
    let held = Room { bucket: spot, free, nodes: held };
    let demand = embed_preferring(&cluster, &catalog, &open, &[held]);
    let found = expected.map(|(name, ..)| {
        let id = ids(&catalog, &[name])[0];
        (name, demand.present[id], demand.announced[id])
    });
    assert_eq!(found, expected);
    assert!(demand.unplaced.is_empty());
    let of_spot = |room: &&Room| room.bucket == spot;
    let rooms: u64 = demand.rooms.iter().filter(of_spot).map(|room| room.nodes).sum();
    assert_eq!(rooms, demand.present[spot], "unused held nodes are no free room");
}

#[test]
fn demand_that_also_fits_on_demand_moves_there_while_a_spot_bucket_is_closed() {
    check_demand(&[], 0, [("small", 0, 0), ("small/spot", 3, 9)]);
    check_demand(&["small/spot"], 0, [("small", 2, 8), ("small/spot", 1, 1)]);
    // The gang finds no room for all of its pods on the nodes that are held, the others do.
    check_demand(&["small/spot"], 2, [("small", 1, 9), ("small/spot", 2, 0)]);
    check_demand(&["small/spot"], 4, [("small", 0, 8), ("small/spot", 3, 1)]);
    check_demand(&["small/spot"], 6, [("small", 2, 3), ("small/spot", 1, 6)]);
    check_demand(&["small/spot"], 20, [("small", 0, 0), ("small/spot", 3, 9)]);
}
