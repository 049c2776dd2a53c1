//! The node labels that follow from the name of an instance type.

use std::collections::BTreeMap;

use instances::instance_type;

/// The labels of a Linux node that follow from the name of its instance type: operating system and
/// architecture, and, of types of AWS such as `m5.4xlarge`, Karpenter's labels of category, family,
/// generation and size, and what the built-in table has: CPUs, memory in MiB, network bandwidth,
/// local disks, hypervisor, and GPUs or other accelerators. `eks` is whether the labels have the
/// prefix of EKS Auto Mode.
///
/// The attributes of a family follow its generation; `g` is AWS's Graviton, which is arm64, as is
/// the family a1 (AWS, "Amazon EC2 instance type naming conventions").
pub(super) fn labels_of_type(name: &str, eks: bool) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if let Some(known) = instance_type(name) {
        labels.insert("kubernetes.io/os".into(), "linux".into());
        labels.insert("kubernetes.io/arch".into(), known.architecture.into());
    }
    let Some((family, size)) = name.split_once('.') else { return labels };
    let of_letters = family.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let (category, rest) = family.split_at(of_letters);
    let of_digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (generation, attributes) = rest.split_at(of_digits);
    if category.is_empty() || generation.is_empty() || size.is_empty() || category.contains('-') {
        return labels;
    }
    let arm = family == "a1" || attributes.split('-').next().is_some_and(|all| all.contains('g'));
    let mut add = |key: String, value: String| labels.insert(key, value);
    add("kubernetes.io/os".into(), "linux".into());
    add("kubernetes.io/arch".into(), if arm { "arm64" } else { "amd64" }.into());
    let prefix = if eks { "eks.amazonaws.com" } else { "karpenter.k8s.aws" };
    let mut add = |name: &str, value: String| add(format!("{prefix}/instance-{name}"), value);
    add("category", category.into());
    add("family", family.into());
    add("generation", generation.into());
    add("size", size.into());
    let Some(known) = instance_type(name) else { return labels };
    add("cpu", known.vcpus.to_string());
    add("cpu-manufacturer", known.cpu_maker.into());
    add("memory", known.memory_mib.to_string());
    add("hypervisor", known.hypervisor.into());
    add("capability-flex", known.family().ends_with("-flex").to_string());
    add("network-bandwidth", known.network_mbps.to_string());
    if known.disk_gb > 0 {
        add("local-nvme", known.disk_gb.to_string());
    }
    if let Some(those) = known.accelerators {
        // Karpenter has other labels for accelerators that are no GPUs.
        let of = if ["nvidia", "amd"].contains(&those.maker) { "gpu" } else { "accelerator" };
        add(&format!("{of}-name"), those.name.into());
        add(&format!("{of}-manufacturer"), those.maker.into());
        add(&format!("{of}-count"), those.count.to_string());
        if of == "gpu" {
            add("gpu-memory", those.memory_mib.to_string());
        }
    }
    labels
}

/// The names of Karpenter's labels that [`labels_of_type`] gives to the types of the table.
const NAMES: [&str; 18] = [
    "category",
    "family",
    "generation",
    "size",
    "cpu",
    "cpu-manufacturer",
    "memory",
    "hypervisor",
    "capability-flex",
    "network-bandwidth",
    "local-nvme",
    "gpu-name",
    "gpu-manufacturer",
    "gpu-count",
    "gpu-memory",
    "accelerator-name",
    "accelerator-manufacturer",
    "accelerator-count",
];

/// Whether [`labels_of_type`] gives this label to each type of the table that has it.
pub(super) fn is_known(key: &str) -> bool {
    let name = key
        .strip_prefix("karpenter.k8s.aws/instance-")
        .or_else(|| key.strip_prefix("eks.amazonaws.com/instance-"));
    name.is_some_and(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the architecture, category, generation and CPUs of an instance type.
    #[track_caller]
    fn check(instance_type: &str, expected: [&str; 4]) {
        let labels = labels_of_type(instance_type, false);
        let of = |key: &str| labels.get(key).map_or("", String::as_str);
        let found = [
            of("kubernetes.io/arch"),
            of("karpenter.k8s.aws/instance-category"),
            of("karpenter.k8s.aws/instance-generation"),
            of("karpenter.k8s.aws/instance-cpu"),
        ];
        assert_eq!(found, expected, "{instance_type}");
    }

    #[test]
    fn the_architecture_of_the_name_is_that_of_the_table() {
        for known in instances::instance_types() {
            let labels = labels_of_type(known.name, false);
            let of_name = labels.get("kubernetes.io/arch");
            assert!(of_name.is_none_or(|found| found == known.architecture), "{}", known.name);
        }
    }

    #[test]
    fn the_labels_of_a_type_are_known() {
        for known in instances::instance_types() {
            for key in labels_of_type(known.name, false).keys() {
                assert!(key.starts_with("kubernetes.io/") || is_known(key), "{key}");
            }
        }
    }

    #[test]
    fn the_name_of_an_instance_type_gives_labels() {
        check("m5.4xlarge", ["amd64", "m", "5", "16"]);
        check("g5.12xlarge", ["amd64", "g", "5", "48"]);
        check("m6g.xlarge", ["arm64", "m", "6", "4"]);
        check("c7gn.large", ["arm64", "c", "7", "2"]);
        check("g5g.xlarge", ["arm64", "g", "5", "4"]);
        check("a1.large", ["arm64", "a", "1", "2"]);
        check("u-6tb1.112xlarge", ["amd64", "", "", ""]);
        check("u-9tb9.metal", ["", "", "", ""]);
        check("m8i-flex.large", ["amd64", "m", "8", "2"]);
        check("p6-b200.48xlarge", ["amd64", "p", "6", "192"]);
        check("inf2.xlarge", ["amd64", "inf", "2", "4"]);
        check("m99.large", ["amd64", "m", "99", ""]);
        check("c-4x-amd64-linux", ["", "", "", ""]);
        let eks = labels_of_type("m5.large", true);
        assert_eq!(eks["eks.amazonaws.com/instance-size"], "large");
    }
}
