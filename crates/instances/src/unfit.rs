//! Why pods fit no instance type on offer, in words.

use embedder::{AcceleratorKind, Bucket, Catalog, Resource, Resources, UNLIMITED, Unfit};

/// Why pods that request this fit no instance type, as a clause: `it requests 200 CPUs, and ...`.
/// [`Unfit::label`] is the spelling for programs.
pub fn why_unfit(
    unfit: Unfit,
    requests: Resources,
    kind: &AcceleratorKind,
    catalog: &Catalog,
) -> String {
    let resource = match unfit {
        Unfit::NoBucketAdmits => return format!("no instance type on offer has {}", kind.as_str()),
        Unfit::TooLarge(resource) => resource,
    };
    if resource == Resource::Devices {
        return "no instance type on offer has as many devices as a pod requests".into();
    }
    let of = |resources: Resources| amount_of(resources, resource);
    let admits = |bucket: &&Bucket| {
        requests.accelerators == 0
            || bucket.allocatable.accelerators > 0 && bucket.accelerator_kind == *kind
    };
    let largest =
        catalog.buckets().iter().filter(admits).max_by_key(|bucket| of(bucket.allocatable));
    let needs = in_words(resource, of(requests), kind);
    match largest {
        Some(bucket) if of(bucket.allocatable) < of(requests) => format!(
            "a pod requests {needs}, and the largest instance type on offer, {}, has {}",
            bucket.name,
            in_words(resource, of(bucket.allocatable), kind)
        ),
        _ => format!("no instance type on offer has {needs} and all else that a pod requests"),
    }
}

fn amount_of(resources: Resources, resource: Resource) -> u64 {
    let Resources { devices: _, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } =
        resources;
    match resource {
        Resource::Accelerators => accelerators,
        Resource::Cpu => cpu_millis,
        Resource::Memory => memory_bytes,
        Resource::Ephemeral => ephemeral_bytes,
        Resource::Pods => pods,
        Resource::Devices => 0,
    }
}

fn in_words(resource: Resource, amount: u64, kind: &AcceleratorKind) -> String {
    let gib = |what: &str| format!("{:.1} GiB of {what}", amount as f64 / f64::from(1 << 30));
    match resource {
        _ if amount == UNLIMITED => "no limit".into(),
        Resource::Accelerators => format!("{amount} {}", kind.as_str()),
        Resource::Cpu => format!("{} CPUs", amount as f64 / 1_000.0),
        Resource::Memory => gib("memory"),
        Resource::Ephemeral => gib("local disk"),
        Resource::Pods => format!("room for {amount} pods"),
        Resource::Devices => "devices".into(),
    }
}

#[cfg(test)]
mod tests {
    use embedder::Shape;

    use super::*;
    use crate::CatalogFile;

    #[track_caller]
    fn check(requests: Resources, kind: &str, expected: &str) {
        let catalog = CatalogFile::of_types(["m5.24xlarge", "g5.48xlarge"]).catalog().unwrap();
        let kind = AcceleratorKind::new(kind);
        let unfit = catalog.buckets_for(&Shape::new(requests, kind.clone())).unwrap_err();
        assert_eq!(why_unfit(unfit, requests, &kind, &catalog), expected);
    }

    #[test]
    fn the_largest_type_and_its_amount_are_named() {
        let none = Resources::default();
        let gpus = |n| Resources { accelerators: n, ..none };
        check(gpus(1), "amd.com/gpu", "no instance type on offer has amd.com/gpu");
        check(
            gpus(16),
            "nvidia.com/gpu",
            "a pod requests 16 nvidia.com/gpu, and the largest instance type on offer, g5.48xlarge, has 8 nvidia.com/gpu",
        );
        check(
            Resources { cpu_millis: 200_500, ..none },
            "nvidia.com/gpu",
            "a pod requests 200.5 CPUs, and the largest instance type on offer, g5.48xlarge, has 191.45 CPUs",
        );
        check(
            Resources { memory_bytes: 1 << 40, ..gpus(1) },
            "nvidia.com/gpu",
            "a pod requests 1024.0 GiB of memory, and the largest instance type on offer, g5.48xlarge, has 707.4 GiB of memory",
        );
    }
}
