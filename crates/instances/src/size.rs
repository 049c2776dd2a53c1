//! What a node of an instance type has for pods, before it has a node to look at.

use embedder::{Resources, UNLIMITED};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// EKS's limit of pods on a node of up to [`LARGE_VCPUS`].
const PODS_MAX: u64 = 110;

/// EKS's limit of pods on a larger node.
const PODS_MAX_LARGE: u64 = 250;

/// The most vCPUs to which [`PODS_MAX`] applies.
const LARGE_VCPUS: u64 = 30;

/// The share of the published memory that the hypervisor and the kernel keep, in thousandths: 75,
/// as Karpenter assumes (`vmMemoryOverheadPercent`). Nodes of EKS show 40 to 60, so a node has at
/// least what is computed.
const MEMORY_LOST: u64 = 75;

/// Resources of an instance that are reserved for the kubelet and the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Reserved {
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in bytes, which is subtracted from that of the instance.
    pub memory_bytes: u64,
}

/// How the VPC CNI gives addresses to pods, apart from its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodAddresses {
    /// Whether it assigns a prefix of 16 addresses in place of an address
    /// (`ENABLE_PREFIX_DELEGATION`).
    pub prefix_delegation: bool,
    /// Whether pods have a network of their own, so that the first interface has none of their
    /// addresses (`AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG`).
    pub custom_networking: bool,
}

/// The addresses of a prefix.
const PREFIX: u64 = 16;

impl std::str::FromStr for PodAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for name in text.split(',') {
            match name.trim() {
                "prefix-delegation" => found.prefix_delegation = true,
                "custom-networking" => found.custom_networking = true,
                _ => {
                    return Err(
                        "expected prefix-delegation, custom-networking, or both with a comma"
                            .into(),
                    );
                }
            }
        }
        Ok(found)
    }
}

/// The network of an instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The interfaces of the default network card, 0 if unknown.
    pub interfaces: u64,
    /// The addresses of each interface, 0 if unknown.
    pub addresses: u64,
    /// Whether the interfaces can have prefixes, which those of the Xen hypervisor cannot.
    pub has_prefixes: bool,
}

/// The most pods on a node, from the addresses that the VPC CNI assigns
/// (`max-pods-calculator.sh` of Amazon's node images).
///
/// Each interface has one address for itself and the others, or as many prefixes, for pods. Two
/// more pods use the host's address. EKS's limit for this many vCPUs applies as well. Where the
/// network is unknown, only that limit applies.
pub fn pods_max(network: Network, vcpus: u64, how: PodAddresses) -> u64 {
    let Network { interfaces, addresses, has_prefixes } = network;
    let max = if vcpus > LARGE_VCPUS { PODS_MAX_LARGE } else { PODS_MAX };
    if interfaces == 0 || addresses == 0 {
        return max;
    }
    let interfaces = interfaces - u64::from(how.custom_networking);
    let each = if how.prefix_delegation && has_prefixes { PREFIX } else { 1 };
    let all = interfaces.saturating_mul(addresses - 1).saturating_mul(each);
    all.saturating_add(2).min(max)
}

/// Memory less what the hypervisor and the kernel keep of the published memory, in bytes.
pub fn usable_memory(published: u64) -> u64 {
    if published == UNLIMITED { published } else { published - published / 1_000 * MEMORY_LOST }
}

/// What a node with these resources has for pods, before DaemonSets: less what the kubelet and the
/// system keep, as Amazon's node images compute it (nodeadm of Amazon Linux 2023; Bottlerocket
/// alike). Memory: 255 MiB, 11 MiB per pod, and 100 MiB for the eviction threshold. CPU: 6 % of the
/// first core, 1 % of the second, 0.5 % of the next two, and 0.25 % of the rest, rounded up to
/// thousandths of a core. What is unlimited stays so.
pub fn for_pods(node: Resources) -> Resources {
    let pods = if node.pods == UNLIMITED { PODS_MAX } else { node.pods };
    let shares = [(1_000, 600), (1_000, 100), (2_000, 50), (UNLIMITED, 25)];
    let mut rest = if node.cpu_millis == UNLIMITED { 0 } else { node.cpu_millis };
    let mut kept_cpu = 0;
    for (step, per_myriad) in shares {
        let part = rest.min(step);
        kept_cpu += (part * per_myriad).div_ceil(10_000);
        rest -= part;
    }
    let kept_memory = (255 + 100 + 11 * pods.min(1_000)) * MIB;
    let less =
        |have: u64, kept: u64| if have == UNLIMITED { have } else { have.saturating_sub(kept) };
    Resources {
        cpu_millis: less(node.cpu_millis, kept_cpu),
        memory_bytes: less(node.memory_bytes, kept_memory),
        ..node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{instance_type, instance_types};

    #[test]
    fn pods_are_limited_by_addresses_and_by_vcpus() {
        let table = [
            ((3, 10, 2), 29),
            ((8, 30, 16), 110),
            ((15, 50, 30), 110),
            ((15, 50, 31), 250),
            ((2, 50, 192), 100),
            ((0, 0, 2), 110),
        ];
        for ((interfaces, addresses, vcpus), expected) in table {
            let network = Network { interfaces, addresses, has_prefixes: true };
            let found = pods_max(network, vcpus, PodAddresses::default());
            assert_eq!(found, expected, "{interfaces} {vcpus}");
        }
    }

    /// The values are those of `max-pods-calculator.sh` for m5.large, t2.small (of Xen), m5.xlarge
    /// and m5.24xlarge.
    #[test]
    fn prefixes_and_networks_of_pods_change_the_number_of_pods() {
        let table = [
            ("prefix-delegation", (3, 10, 2, true), 110),
            ("custom-networking", (3, 10, 2, true), 20),
            ("prefix-delegation,custom-networking", (3, 10, 2, true), 110),
            ("prefix-delegation", (3, 4, 1, false), 11),
            ("custom-networking", (3, 4, 1, false), 8),
            ("custom-networking", (4, 15, 4, true), 44),
            ("prefix-delegation", (15, 50, 96, true), 250),
        ];
        for (how, (interfaces, addresses, vcpus, has_prefixes), expected) in table {
            let network = Network { interfaces, addresses, has_prefixes };
            assert_eq!(pods_max(network, vcpus, how.parse().unwrap()), expected, "{how}");
        }
        assert!("prefixes".parse::<PodAddresses>().is_err());
    }

    /// CPU is that of EKS's nodes. Memory is at most what nodes show: 7,074 MiB on m5.large and
    /// 14,531 MiB on m5.xlarge.
    #[test]
    fn a_node_has_at_least_what_is_computed() {
        let table = [("m5.large", 1_930, 7_074), ("m5.xlarge", 3_920, 14_531)];
        for (name, cpu, mib) in table {
            let has = instance_type(name).unwrap().allocatable();
            assert_eq!(has.cpu_millis, cpu, "{name}");
            let left = has.memory_bytes / MIB;
            assert!(left <= mib && left * 100 >= mib * 94, "{name}: {left}");
        }
    }

    #[test]
    fn every_type_but_the_smallest_has_room_for_pods() {
        for known in instance_types() {
            let (has, capacity) = (known.allocatable(), known.capacity());
            assert!(0 < has.cpu_millis && has.cpu_millis < capacity.cpu_millis, "{}", known.name);
            let tiny = known.memory_mib <= 1_024;
            assert!(has.memory_bytes > 0 || tiny, "{}", known.name);
        }
        assert_eq!(for_pods(Resources::UNLIMITED), Resources::UNLIMITED);
    }
}
