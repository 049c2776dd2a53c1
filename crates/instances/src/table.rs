//! The hardware and the on-demand prices of AWS's instance types.
//!
//! `table.py` beside this crate writes `table.csv`. The first lines of that file name its sources.

use std::sync::OnceLock;

use embedder::{AcceleratorKind, MicroDollars, Resources, UNLIMITED};

use crate::size::{Network, PodAddresses, for_pods, pods_max, usable_memory};

const TABLE: &str = include_str!("table.csv");

/// The regions of the table's prices, in the order of its columns.
const REGIONS: [&str; 3] = [US_EAST_1, "us-gov-east-1", "us-gov-west-1"];

/// The region of all prices that no other region has.
pub(crate) const US_EAST_1: &str = "us-east-1";

/// The columns before the prices.
const COLUMNS: usize = 16;

const MIB: u64 = 1 << 20;

/// An instance type of AWS. Makers and accelerators are written as in Karpenter's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// The name, such as `m5.xlarge`.
    pub name: &'static str,
    /// The value of `kubernetes.io/arch`.
    pub architecture: &'static str,
    /// The maker of the processor, such as `intel`.
    pub cpu_maker: &'static str,
    /// The number of vCPUs.
    pub vcpus: u64,
    /// The published memory in MiB. A node has less, because of the hypervisor and the kernel.
    pub memory_mib: u64,
    /// The accelerators, if it has any.
    pub accelerators: Option<Accelerators>,
    /// The number of network interfaces of the default card.
    pub interfaces: u64,
    /// The number of IPv4 addresses of an interface.
    pub addresses: u64,
    /// The number of EFA interfaces.
    pub efa: u64,
    /// The local disks, in GB.
    pub disk_gb: u64,
    /// The network bandwidth that lasts, in Mbit/s.
    pub network_mbps: u64,
    /// `nitro`, `xen`, or empty for bare metal.
    pub hypervisor: &'static str,
    prices: [Option<MicroDollars>; REGIONS.len()],
}

/// The accelerators of an instance type, which are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerators {
    /// The maker, such as `nvidia`.
    pub maker: &'static str,
    /// The name, such as `l4`.
    pub name: &'static str,
    /// How many there are. A fraction of a GPU counts as one.
    pub count: u64,
    /// The memory of each in MiB, 0 if unknown.
    pub memory_mib: u64,
    /// Whether each is a fraction of a GPU.
    pub is_fraction: bool,
}

impl Accelerators {
    /// The extended resource that the device plugin of the maker registers. `None` if unknown.
    pub fn kind(&self) -> Option<AcceleratorKind> {
        let name = match self.maker {
            "nvidia" => AcceleratorKind::NVIDIA,
            "amd" => AcceleratorKind::AMD,
            "aws" => AcceleratorKind::NEURON,
            "habana" => AcceleratorKind::GAUDI,
            _ => return None,
        };
        Some(AcceleratorKind::new(name))
    }
}

impl InstanceType {
    /// The family: the part of the name before the point.
    pub fn family(&self) -> &'static str {
        family_of(self.name)
    }

    /// The on-demand price in a region. `None` if the table does not have it.
    pub fn price_in(&self, region: &str) -> Option<MicroDollars> {
        let at = REGIONS.iter().position(|known| *known == region)?;
        self.prices[at]
    }

    /// The on-demand price in us-east-1, or in the first region of the table that has one.
    pub fn price(&self) -> Option<MicroDollars> {
        self.prices.into_iter().flatten().next()
    }

    /// The most pods on a node with the addresses of the VPC CNI.
    pub fn pods(&self, how: PodAddresses) -> u64 {
        let Self { interfaces, addresses, vcpus, .. } = *self;
        let network = Network { interfaces, addresses, has_prefixes: self.hypervisor != "xen" };
        pods_max(network, vcpus, how)
    }

    /// The resources before any reservation, as AWS publishes them. Local disks are left out,
    /// because by default pods use the root volume. Accelerators without a known resource name are
    /// left out, too.
    pub fn capacity(&self) -> Resources {
        let known = self.accelerators.filter(|those| those.kind().is_some());
        Resources {
            devices: embedder::Devices::NONE,
            accelerators: known.map_or(0, |those| those.count),
            cpu_millis: self.vcpus * 1_000,
            memory_bytes: self.memory_mib * MIB,
            ephemeral_bytes: UNLIMITED,
            pods: self.pods(PodAddresses::default()),
        }
    }

    /// What a node has for pods, before DaemonSets.
    pub fn allocatable(&self) -> Resources {
        let capacity = self.capacity();
        for_pods(Resources { memory_bytes: usable_memory(capacity.memory_bytes), ..capacity })
    }
}

/// The family of an instance type: the part of its name before the point.
pub(crate) fn family_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(family, _)| family)
}

/// All instance types of the table, by name.
pub fn instance_types() -> &'static [InstanceType] {
    static TYPES: OnceLock<Vec<InstanceType>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
        rows.filter_map(instance_type_of).collect()
    })
}

/// The date of the table's prices.
pub fn prices_date() -> &'static str {
    let date = TABLE.lines().find_map(|line| line.strip_prefix("# Date of the prices: "));
    date.unwrap_or_default()
}

/// The instance type of this name. `None` if the table does not have it.
pub fn instance_type(name: &str) -> Option<&'static InstanceType> {
    let all = instance_types();
    all.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &all[at])
}

/// The instance types of a family with a price, ascending by size. Of types of equal size, such as
/// bare metal beside a virtual machine, the cheapest.
pub fn family(name: &str) -> Vec<&'static InstanceType> {
    let all = instance_types().iter();
    let mut those: Vec<&InstanceType> =
        all.filter(|known| known.family() == name && known.price().is_some()).collect();
    those.sort_by_key(|known| (known.capacity(), known.price(), known.name));
    those.dedup_by_key(|known| known.capacity());
    those
}

/// The families of the table, by name.
pub fn families() -> Vec<&'static str> {
    let mut families: Vec<&str> = instance_types().iter().map(InstanceType::family).collect();
    families.sort_unstable();
    families.dedup();
    families
}

fn instance_type_of(row: &'static str) -> Option<InstanceType> {
    let cells: Vec<&'static str> = row.split(',').collect();
    let (facts, prices) = cells.split_at_checked(COLUMNS)?;
    let number = |at: usize| facts[at].parse::<u64>().ok();
    let count = number(7)?;
    let accelerators = (count > 0).then_some(Accelerators {
        maker: facts[5],
        name: facts[6],
        count,
        memory_mib: number(8)?,
        is_fraction: number(9)? == 1,
    });
    let price = |at: usize| {
        let dollars: f64 = prices.get(at)?.parse().ok()?;
        MicroDollars::from_dollars(dollars)
    };
    Some(InstanceType {
        name: facts[0],
        architecture: facts[1],
        cpu_maker: facts[2],
        vcpus: number(3)?,
        memory_mib: number(4)?,
        accelerators,
        interfaces: number(10)?,
        addresses: number(11)?,
        efa: number(12)?,
        disk_gb: number(13)?,
        network_mbps: number(14)?,
        hypervisor: facts[15],
        prices: std::array::from_fn(price),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_names_ascend() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(instance_types().len(), rows);
        assert!(instance_types().is_sorted_by(|a, b| a.name < b.name));
        assert!(prices_date() >= "2026-07-20", "{}", prices_date());
    }

    /// vCPUs, memory in GiB, accelerators and pods of AWS's pages of instance types and of EKS's
    /// list of pods by type; dollars of its price list in us-east-1.
    #[test]
    fn the_table_has_the_values_of_awss_pages() {
        let expected = [
            ("m5.large", 2, 8.0, 0, 29, 0.096),
            ("m5.xlarge", 4, 16.0, 0, 58, 0.192),
            ("m5.4xlarge", 16, 64.0, 0, 234, 0.768),
            ("m5.24xlarge", 96, 384.0, 0, 737, 4.608),
            ("m6i.2xlarge", 8, 32.0, 0, 58, 0.384),
            ("m6g.xlarge", 4, 16.0, 0, 58, 0.154),
            ("m7i.xlarge", 4, 16.0, 0, 58, 0.2016),
            ("m7g.4xlarge", 16, 64.0, 0, 234, 0.6528),
            ("c5.2xlarge", 8, 16.0, 0, 58, 0.34),
            ("c7i.4xlarge", 16, 32.0, 0, 234, 0.714),
            ("r5.24xlarge", 96, 768.0, 0, 737, 6.048),
            ("r6i.xlarge", 4, 32.0, 0, 58, 0.252),
            ("g4dn.12xlarge", 48, 192.0, 4, 234, 3.912),
            ("g5.48xlarge", 192, 768.0, 8, 345, 16.288),
            ("g6.xlarge", 4, 16.0, 1, 58, 0.8048),
            ("g6e.xlarge", 4, 32.0, 1, 58, 1.861),
            ("p3.2xlarge", 8, 61.0, 1, 58, 3.06),
            ("p4d.24xlarge", 96, 1152.0, 8, 737, 21.957_642),
            ("p5.48xlarge", 192, 2048.0, 8, 100, 55.04),
            ("inf2.xlarge", 4, 16.0, 1, 58, 0.7582),
            ("trn1.2xlarge", 8, 32.0, 1, 58, 1.343_75),
        ];
        for (name, vcpus, gib, accelerators, pods, dollars) in expected {
            let known = instance_type(name).expect(name);
            let found = known.accelerators.map_or(0, |those| those.count);
            assert_eq!((known.vcpus, found), (vcpus, accelerators), "{name}");
            assert!((known.memory_mib as f64 / 1024.0 - gib).abs() < 1e-9, "{name}");
            let limit = if vcpus > 30 { 250 } else { 110 };
            assert_eq!(known.pods(PodAddresses::default()), pods.min(limit), "{name}");
            assert_eq!(known.price(), MicroDollars::from_dollars(dollars), "{name}");
        }
    }

    #[test]
    fn a_region_of_the_table_has_its_own_price() {
        let known = instance_type("m5.xlarge").unwrap();
        assert_eq!(known.price_in("us-gov-west-1"), MicroDollars::from_dollars(0.242));
        assert_eq!(known.price_in("eu-central-1"), None);
        assert_eq!(instance_type("hpc6a.48xlarge").unwrap().price_in("us-east-1"), None);
        assert_eq!(instance_type("m5.huge"), None);
    }

    #[test]
    fn a_family_ascends_by_size() {
        let names: Vec<&str> = family("g4dn").iter().map(|known| known.name).collect();
        let expected = [
            "g4dn.xlarge",
            "g4dn.2xlarge",
            "g4dn.4xlarge",
            "g4dn.8xlarge",
            "g4dn.16xlarge",
            "g4dn.12xlarge",
            "g4dn.metal",
        ];
        assert_eq!(names, expected);
        assert!(families().contains(&"p6-b200"));
    }
}
