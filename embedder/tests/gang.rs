//! Tests of gangs and shares: the tables of the paper, and jobs that are larger than an instance.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use embedder::{
    Bucket, BucketSet, Catalog, Gang, PodRequest, Resources, Split, Unfit, share, split,
    virtual_instance,
};
use testkit::{catalog_of, cpus};

const GIB: u64 = 1 << 30;

fn bucket(name: &str, accelerators: u64, cpu: u64, gib: u64) -> Bucket {
    let bucket = testkit::bucket(name, cpu * 1_000, (1 + accelerators) as f64);
    let memory_bytes = gib * GIB;
    Bucket { allocatable: Resources { accelerators, memory_bytes, ..bucket.allocatable }, ..bucket }
}

fn pods(count: u64, accelerators: u64, cpu: u64, gib: u64) -> PodRequest {
    let memory_bytes = gib * GIB;
    testkit::pods(count, Resources { accelerators, memory_bytes, ..cpus(cpu * 1_000) })
}

fn gpus() -> Catalog {
    catalog_of([bucket("gpu4", 4, 32, 128), bucket("gpu8", 8, 64, 256), bucket("cpu", 0, 16, 64)])
}

/// Tables 1 and 2 of the paper. The paper prints 1.5 where the maximum of 2/1 and 3/2 is 2.
#[test]
fn algorithm_2_reproduces_the_tables_of_the_paper() {
    let catalog = catalog_of([bucket("small", 0, 1, 2), bucket("large", 1, 2, 4)]);
    let vectors = [pods(1, 0, 1, 1), pods(1, 0, 1, 2), pods(1, 1, 2, 4)];
    assert_eq!(share(&vectors, &catalog).instances, [2, 1]);
}

#[test]
fn a_vector_counts_only_towards_a_bucket_that_it_fits() {
    let catalog = catalog_of([bucket("small", 0, 1, 2), bucket("large", 1, 2, 400)]);
    // The vector is less than the small bucket in lexicographic order, but too large for it.
    let sums = share(&[pods(3, 0, 0, 100)], &catalog);
    assert_eq!(sums.instances, [0, 1]);
    assert_eq!(share(&[pods(1, 2, 0, 0)], &catalog).unplaced.len(), 1);
}

#[track_caller]
fn check_split(units: u64, how: Split, sizes: &[(u64, u64)]) {
    let unit = Resources { accelerators: 1, ..Resources::default() };
    let pods = split(units, unit, &bucket("gpu8", 8, 64, 256), how).unwrap();
    let got: Vec<_> = pods.iter().map(|(pod, n)| (pod.accelerators, *n)).collect();
    assert_eq!(got, sizes);
    assert!(pods.iter().all(|(pod, _)| pod.pods == 1));
}

#[test]
fn a_job_larger_than_an_instance_is_split() {
    check_split(20, Split::Full, &[(8, 2), (4, 1)]);
    check_split(20, Split::Even, &[(7, 2), (6, 1)]);
    check_split(16, Split::Full, &[(8, 2)]);
    check_split(16, Split::Even, &[(8, 2)]);
    check_split(3, Split::Full, &[(3, 1)]);
}

#[test]
fn a_unit_that_does_not_fit_cannot_be_split() {
    let unit = Resources { accelerators: 9, ..Resources::default() };
    assert_eq!(split(2, unit, &bucket("gpu8", 8, 64, 256), Split::Full), None);
}

#[track_caller]
fn check(requests: &[PodRequest], expected: Result<(&str, u64), Unfit>) {
    let gang = Gang { requests: requests.to_vec() };
    let got = virtual_instance(&gang, &gpus());
    let catalog = gpus();
    assert_eq!(got.map(|v| (catalog.buckets()[v.bucket].name.as_str(), v.instances)), expected);
}

#[test]
fn a_gang_takes_instances_of_one_bucket() {
    check(&[pods(2, 8, 0, 0), pods(1, 4, 0, 0)], Ok(("gpu8", 3)));
    check(&[pods(4, 1, 0, 0)], Ok(("gpu4", 1)));
    check(&[pods(5, 1, 0, 0)], Ok(("gpu8", 1)));
    check(&[pods(6, 4, 0, 0)], Ok(("gpu8", 3)));
    check(&[pods(2, 0, 16, 0)], Ok(("gpu4", 1)));
    check(&[pods(1, 9, 0, 0)], Err(Unfit::TooLarge(embedder::Resource::Accelerators)));
}

#[test]
fn a_gang_is_placed_only_on_a_bucket_that_admits_each_of_its_pods() {
    let mut pinned = pods(3, 0, 16, 0);
    pinned.shape.admits = BucketSet::only([0]);
    check(std::slice::from_ref(&pinned), Ok(("cpu", 3)));
    check(&[pinned, pods(1, 1, 0, 0)], Err(Unfit::NoBucketAdmits));
}
