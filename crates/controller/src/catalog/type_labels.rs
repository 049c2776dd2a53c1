//! The node labels that follow from the name of an instance type.

use std::collections::BTreeMap;

use traces::catalog::instance_type;

/// The labels of a Linux node that follow from the name of its instance type: operating system and
/// architecture, and, of types of AWS such as `m5.4xlarge`, Karpenter's labels of category, family,
/// generation, size, CPUs, memory in MiB and GPUs, as far as the name and the built-in table have
/// them. `eks` is whether the labels have the prefix of EKS Auto Mode.
///
/// The attributes of a family follow its generation; `g` is AWS's Graviton, which is arm64, as is
/// the family a1 (AWS, "Amazon EC2 instance type naming conventions").
pub(super) fn labels_of_type(name: &str, eks: bool) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
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
    if let Some(entry) = instance_type(name) {
        add("cpu", (entry.cpu_millis.unwrap_or(0) / 1_000).to_string());
        add("memory", (entry.memory_bytes.unwrap_or(0) >> 20).to_string());
        if let Some(gpus) = entry.accelerators {
            add("gpu-count", gpus.to_string());
        }
    }
    labels
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
    fn the_name_of_an_instance_type_gives_labels() {
        check("m5.4xlarge", ["amd64", "m", "5", "16"]);
        check("g5.12xlarge", ["amd64", "g", "5", "48"]);
        check("m6g.xlarge", ["arm64", "m", "6", ""]);
        check("c7gn.large", ["arm64", "c", "7", ""]);
        check("g5g.xlarge", ["arm64", "g", "5", ""]);
        check("a1.large", ["arm64", "a", "1", ""]);
        check("u-6tb1.metal", ["", "", "", ""]);
        check("m8i-flex.large", ["amd64", "m", "8", ""]);
        check("p6-b200.48xlarge", ["amd64", "p", "6", ""]);
        check("inf2.xlarge", ["amd64", "inf", "2", ""]);
        check("c-4x-amd64-linux", ["", "", "", ""]);
        let eks = labels_of_type("m5.large", true);
        assert_eq!(eks["eks.amazonaws.com/instance-size"], "large");
    }
}
