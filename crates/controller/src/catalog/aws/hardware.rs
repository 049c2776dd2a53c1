//! The resources of an instance type, from `DescribeInstanceTypes`.

use aws_sdk_ec2::types::{
    ArchitectureType, GpuInfo, InferenceAcceleratorInfo, InstanceTypeHypervisor, InstanceTypeInfo,
    MemoryInfo, NetworkCardInfo, NeuronInfo, VCpuInfo,
};
use embedder::{AcceleratorKind, Resources, UNLIMITED};
use instances::{Network, PodAddresses, pods_max};

const MIB: u64 = 1 << 20;

/// The resources of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    /// The value of `kubernetes.io/arch`.
    pub(super) architecture: Option<&'static str>,
    pub(super) vcpus: u64,
    pub(super) memory_bytes: u64,
    pub(super) pods: u64,
    pub(super) accelerators: u64,
    pub(super) accelerator_kind: AcceleratorKind,
    /// The manufacturer of accelerators whose resource name is unknown. These are not counted.
    pub(super) unknown_maker: Option<String>,
}

/// The most by which the memory of two instance types of the same size may differ, in thousandths:
/// 15, as in cluster-autoscaler's comparison of node groups (`MaxCapacityMemoryDifferenceRatio`).
const MEMORY_DIFFERENCE: u64 = 15;

impl Hardware {
    /// Whether nodes of the two types have the same size: the same CPU, accelerators and
    /// architecture, and nearly the same memory.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let Self { architecture, vcpus, memory_bytes, accelerators, accelerator_kind, .. } = self;
        let (less, more) =
            (other.memory_bytes.min(*memory_bytes), other.memory_bytes.max(*memory_bytes));
        (architecture, vcpus, accelerators, accelerator_kind)
            == (&other.architecture, &other.vcpus, &other.accelerators, &other.accelerator_kind)
            && more - less <= more / 1_000 * MEMORY_DIFFERENCE
    }

    /// Whether nodes of the two types have the same architecture, and equally many accelerators of
    /// one kind.
    pub(super) fn has_like_devices(&self, other: &Self) -> bool {
        let Self { architecture, accelerators, accelerator_kind, .. } = self;
        (architecture, accelerators) == (&other.architecture, &other.accelerators)
            && (*accelerators == 0 || accelerator_kind == &other.accelerator_kind)
    }

    pub(super) fn of(info: &InstanceTypeInfo, how: PodAddresses) -> Self {
        let vcpus = count(info.v_cpu_info().and_then(VCpuInfo::default_v_cpus));
        let mib = info.memory_info().and_then(MemoryInfo::size_in_mib);
        let none = (0, AcceleratorKind::NVIDIA);
        let (accelerators, unknown_maker) = match accelerators(info) {
            Ok(accelerators) => (accelerators.unwrap_or(none), None),
            Err(maker) => (none, Some(maker)),
        };
        Self {
            architecture: architecture(info),
            vcpus,
            memory_bytes: count(mib).saturating_mul(MIB),
            pods: pods_max(network(info), vcpus, how),
            accelerators: accelerators.0,
            accelerator_kind: AcceleratorKind::new(accelerators.1),
            unknown_maker,
        }
    }

    /// The resources of an instance type by the built-in table.
    pub(super) fn of_table(name: &str, how: PodAddresses) -> Option<Self> {
        let known = instances::instance_type(name)?;
        let Resources { accelerators, memory_bytes, .. } = known.capacity();
        let kind = known.accelerators.and_then(|those| those.kind());
        let unknown = known.accelerators.filter(|_| kind.is_none());
        Some(Self {
            architecture: Some(known.architecture),
            vcpus: known.vcpus,
            memory_bytes,
            pods: known.pods(how),
            accelerators,
            accelerator_kind: kind.unwrap_or_default(),
            unknown_maker: unknown.map(|those| those.maker.to_owned()),
        })
    }

    /// The capacity of a node, with at most `vcpus_max` vCPUs.
    ///
    /// Local disks do not count, because by default pods use the root volume, whose size the launch
    /// template sets. So local storage is unlimited unless a tag limits it.
    pub(super) fn capacity(&self, vcpus_max: Option<u64>) -> Resources {
        let vcpus = vcpus_max.map_or(self.vcpus, |max| max.min(self.vcpus));
        Resources {
            devices: embedder::Devices::NONE,
            accelerators: self.accelerators,
            cpu_millis: vcpus.saturating_mul(1_000),
            memory_bytes: self.memory_bytes,
            ephemeral_bytes: UNLIMITED,
            pods: self.pods,
        }
    }
}

fn architecture(info: &InstanceTypeInfo) -> Option<&'static str> {
    let supported = info.processor_info()?.supported_architectures();
    supported.iter().find_map(|architecture| match architecture {
        ArchitectureType::X8664 => Some("amd64"),
        ArchitectureType::Arm64 => Some("arm64"),
        _ => None,
    })
}

/// The number and the resource name of the accelerators, or `None` if the type has none.
///
/// # Errors
/// The manufacturer, if the accelerators' resource name is unknown.
fn accelerators(info: &InstanceTypeInfo) -> Result<Option<(u64, &'static str)>, String> {
    let neuron = info.neuron_info().map(NeuronInfo::neuron_devices).unwrap_or_default();
    if !neuron.is_empty() {
        return Ok(Some((
            neuron.iter().map(|device| count(device.count())).sum(),
            AcceleratorKind::NEURON,
        )));
    }
    let gpus = info.gpu_info().map(GpuInfo::gpus).unwrap_or_default();
    if let Some(first) = gpus.first() {
        let kind = match first.manufacturer().unwrap_or_default() {
            "NVIDIA" => AcceleratorKind::NVIDIA,
            "AMD" => AcceleratorKind::AMD,
            "Habana" => AcceleratorKind::GAUDI,
            other => return Err(other.into()),
        };
        // A type with a fraction of a GPU has a count of 0 and a logical count of 1. Its node
        // offers the logical GPU.
        let counts = gpus.iter().map(|gpu| count(gpu.count()).max(count(gpu.logical_gpu_count())));
        return Ok(Some((counts.sum(), kind)));
    }
    let inference = info
        .inference_accelerator_info()
        .map(InferenceAcceleratorInfo::accelerators)
        .unwrap_or_default();
    match inference.first().map(|first| first.manufacturer().unwrap_or_default()) {
        None => Ok(None),
        Some("AWS") => {
            let counts = inference.iter().map(|device| count(device.count()));
            Ok(Some((counts.sum(), AcceleratorKind::NEURON)))
        }
        Some(other) => Err(other.into()),
    }
}

/// The network of the default network card.
fn network(info: &InstanceTypeInfo) -> Network {
    let Some(network) = info.network_info() else { return Network::default() };
    let card = network.default_network_card_index();
    let card = network.network_cards().iter().find(|each| each.network_card_index() == card);
    let interfaces = card.and_then(NetworkCardInfo::maximum_network_interfaces);
    let interfaces = count(interfaces.or(network.maximum_network_interfaces()));
    Network {
        interfaces,
        addresses: count(network.ipv4_addresses_per_interface()),
        has_prefixes: info.hypervisor() != Some(&InstanceTypeHypervisor::Xen),
    }
}

fn count(number: Option<impl Into<i64>>) -> u64 {
    number.and_then(|number| u64::try_from(number.into()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::builders::InstanceTypeInfoBuilder;
    use aws_sdk_ec2::types::{GpuDeviceInfo, InferenceDeviceInfo, NetworkInfo, NeuronDeviceInfo};

    use super::*;

    fn gpus(maker: &str, whole: i32, logical: i32) -> InstanceTypeInfoBuilder {
        let gpu =
            GpuDeviceInfo::builder().manufacturer(maker).count(whole).logical_gpu_count(logical);
        InstanceTypeInfo::builder().gpu_info(GpuInfo::builder().gpus(gpu.build()).build())
    }

    fn inference(maker: &str, count: i32) -> InstanceTypeInfoBuilder {
        let device = InferenceDeviceInfo::builder().manufacturer(maker).count(count).build();
        let info = InferenceAcceleratorInfo::builder().accelerators(device).build();
        InstanceTypeInfo::builder().inference_accelerator_info(info)
    }

    #[test]
    fn accelerators_count_under_the_name_of_their_device_plugin() {
        #[track_caller]
        fn check(
            info: InstanceTypeInfoBuilder,
            count: u64,
            kind: &str,
            unknown_maker: Option<&str>,
        ) {
            let hardware = Hardware::of(&info.build(), PodAddresses::default());
            assert_eq!((hardware.accelerators, hardware.accelerator_kind.as_str()), (count, kind));
            assert_eq!(hardware.unknown_maker.as_deref(), unknown_maker);
        }
        let neuron =
            NeuronInfo::builder().neuron_devices(NeuronDeviceInfo::builder().count(12).build());
        check(InstanceTypeInfo::builder(), 0, "nvidia.com/gpu", None);
        check(gpus("NVIDIA", 8, 8), 8, "nvidia.com/gpu", None);
        check(gpus("NVIDIA", 0, 1), 1, "nvidia.com/gpu", None);
        check(gpus("AMD", 4, 4), 4, "amd.com/gpu", None);
        check(gpus("Habana", 8, 8), 8, "habana.ai/gaudi", None);
        check(gpus("Acme", 8, 8), 0, "nvidia.com/gpu", Some("Acme"));
        check(inference("AWS", 1), 1, "aws.amazon.com/neuron", None);
        check(inference("AWS", 1).neuron_info(neuron.build()), 12, "aws.amazon.com/neuron", None);
        check(inference("Qualcomm", 8), 0, "nvidia.com/gpu", Some("Qualcomm"));
    }

    /// Checks whether an instance type with this memory has the size of one with 100,000 MiB.
    #[track_caller]
    fn check_memory(mib: i64, expected: bool) {
        let of = |mib| {
            let memory = MemoryInfo::builder().size_in_mib(mib).build();
            Hardware::of(&gpus("NVIDIA", 8, 8).memory_info(memory).build(), PodAddresses::default())
        };
        assert_eq!(of(mib).is_like(&of(100_000)), expected, "{mib}");
        assert_eq!(of(100_000).is_like(&of(mib)), expected, "{mib}");
    }

    #[test]
    fn types_with_at_most_one_and_a_half_percent_less_memory_have_one_size() {
        check_memory(100_000, true);
        check_memory(98_500, true);
        check_memory(98_499, false);
        check_memory(101_522, true);
        check_memory(101_524, false);
        let of =
            |info: InstanceTypeInfoBuilder| Hardware::of(&info.build(), PodAddresses::default());
        assert!(!of(gpus("NVIDIA", 8, 8)).is_like(&of(gpus("NVIDIA", 4, 4))));
        assert!(!of(gpus("NVIDIA", 8, 8)).is_like(&of(gpus("AMD", 8, 8))));
    }

    #[test]
    fn pods_are_limited_by_addresses_and_by_vcpus() {
        #[track_caller]
        fn check(vcpus: i32, interfaces: i32, addresses: i32, expected: u64) {
            let card = NetworkCardInfo::builder()
                .network_card_index(0)
                .maximum_network_interfaces(interfaces);
            let network = NetworkInfo::builder()
                .default_network_card_index(0)
                .network_cards(card.build())
                .maximum_network_interfaces(60)
                .ipv4_addresses_per_interface(addresses);
            let cpu = VCpuInfo::builder().default_v_cpus(vcpus).build();
            let info = InstanceTypeInfo::builder().v_cpu_info(cpu).network_info(network.build());
            assert_eq!(Hardware::of(&info.build(), PodAddresses::default()).pods, expected);
        }
        check(2, 3, 10, 29);
        check(16, 8, 30, 110);
        check(30, 15, 50, 110);
        check(31, 15, 50, 250);
        check(192, 2, 50, 100);
        check(2, 0, 0, 110);
    }
}
