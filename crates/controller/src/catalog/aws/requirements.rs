//! Groups that select their instance types by attributes, such as the number of vCPUs.
//!
//! cluster-autoscaler describes a new node of such a group by the first type that AWS lists for the
//! attributes, with the least vCPUs and memory that they admit.

use aws_sdk_autoscaling::types as scaling;
use aws_sdk_ec2::types as ec2;
use embedder::Resources;

use super::problem::GroupFault;

/// The attributes by which a group selects its instance types, and what decides on their
/// architecture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selection {
    /// The attributes.
    pub(super) requirements: ec2::InstanceRequirementsRequest,
    /// The machine image of the launch template.
    pub(super) image: String,
}

impl Selection {
    /// The least resources of a node that the attributes admit, in the components that they limit.
    pub(super) fn least(&self) -> Least {
        let ec2::InstanceRequirementsRequest { v_cpu_count, memory_mib, .. } = &self.requirements;
        let count = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
        Least {
            vcpus: count(v_cpu_count.as_ref().and_then(|range| range.min)),
            memory_mib: count(memory_mib.as_ref().and_then(|range| range.min)),
        }
    }
}

/// The least resources of a node of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Least {
    vcpus: Option<u64>,
    memory_mib: Option<u64>,
}

impl Least {
    /// The capacity that cluster-autoscaler assumes for a node, if that of a type is `capacity`.
    pub(super) fn of(self, capacity: Resources) -> Resources {
        let Resources { cpu_millis, memory_bytes, .. } = capacity;
        let cpu = self.vcpus.map_or(cpu_millis, |vcpus| vcpus.saturating_mul(1_000));
        let memory = self.memory_mib.map_or(memory_bytes, |mib| mib.saturating_mul(1 << 20));
        Resources {
            cpu_millis: cpu.min(cpu_millis),
            memory_bytes: memory.min(memory_bytes),
            ..capacity
        }
    }
}

/// The instance types that AWS lists for attributes.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub(super) of: Selection,
    /// The number of refreshes since they were read.
    pub(super) age: u32,
    /// The types in the order of AWS, or why they are not known.
    pub(super) listed: Result<Vec<String>, String>,
}

/// The instance types for the attributes of a group: at least one.
///
/// # Errors
/// They are not known, or there are none.
pub(super) fn types(of: &Selection, all: &[Selected]) -> Result<Vec<String>, GroupFault> {
    let known = all.iter().find(|known| known.of == *of);
    let problem = match known.map(|known| &known.listed) {
        Some(Ok(types)) if types.is_empty() => "AWS lists none for them",
        Some(Ok(types)) => return Ok(types.clone()),
        Some(Err(problem)) => problem,
        None => "they were not read yet",
    };
    Err(GroupFault::ByAttributes(problem.to_owned()))
}

/// Copies the least and the most of a range of another form.
macro_rules! range {
    ($from:expr, $to:ty) => {
        $from.map(|range| <$to>::builder().set_min(range.min()).set_max(range.max()).build())
    };
}

/// The attributes in the form in which EC2 is asked for the instance types. Auto Scaling and EC2
/// describe them with types of their own that have the same fields.
macro_rules! request {
    ($from:expr) => {{
        let from = $from;
        let strings = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        ec2::InstanceRequirementsRequest::builder()
            .set_v_cpu_count(range!(from.v_cpu_count(), ec2::VCpuCountRangeRequest))
            .set_memory_mib(range!(from.memory_mib(), ec2::MemoryMiBRequest))
            .set_memory_gib_per_v_cpu(range!(
                from.memory_gib_per_v_cpu(),
                ec2::MemoryGiBPerVCpuRequest
            ))
            .set_network_interface_count(range!(
                from.network_interface_count(),
                ec2::NetworkInterfaceCountRequest
            ))
            .set_network_bandwidth_gbps(range!(
                from.network_bandwidth_gbps(),
                ec2::NetworkBandwidthGbpsRequest
            ))
            .set_total_local_storage_gb(range!(
                from.total_local_storage_gb(),
                ec2::TotalLocalStorageGbRequest
            ))
            .set_baseline_ebs_bandwidth_mbps(range!(
                from.baseline_ebs_bandwidth_mbps(),
                ec2::BaselineEbsBandwidthMbpsRequest
            ))
            .set_accelerator_count(range!(from.accelerator_count(), ec2::AcceleratorCountRequest))
            .set_accelerator_total_memory_mib(range!(
                from.accelerator_total_memory_mib(),
                ec2::AcceleratorTotalMemoryMiBRequest
            ))
            .set_cpu_manufacturers(words(from.cpu_manufacturers()))
            .set_instance_generations(words(from.instance_generations()))
            .set_local_storage_types(words(from.local_storage_types()))
            .set_accelerator_types(words(from.accelerator_types()))
            .set_accelerator_manufacturers(words(from.accelerator_manufacturers()))
            .set_accelerator_names(words(from.accelerator_names()))
            .set_bare_metal(from.bare_metal().map(|word| word.as_str().into()))
            .set_burstable_performance(
                from.burstable_performance().map(|word| word.as_str().into()),
            )
            .set_local_storage(from.local_storage().map(|word| word.as_str().into()))
            .set_excluded_instance_types(strings(from.excluded_instance_types()))
            .set_allowed_instance_types(strings(from.allowed_instance_types()))
            .set_require_hibernate_support(from.require_hibernate_support())
            .set_spot_max_price_percentage_over_lowest_price(
                from.spot_max_price_percentage_over_lowest_price(),
            )
            .set_max_spot_price_as_percentage_of_optimal_on_demand_price(
                from.max_spot_price_as_percentage_of_optimal_on_demand_price(),
            )
            .set_on_demand_max_price_percentage_over_lowest_price(
                from.on_demand_max_price_percentage_over_lowest_price(),
            )
            .set_baseline_performance_factors(from.baseline_performance_factors().map(|factors| {
                let references = factors.cpu().map(|cpu| cpu.references()).unwrap_or_default();
                let references = references.iter().map(|reference| {
                    let family = reference.instance_family().map(Into::into);
                    ec2::PerformanceFactorReferenceRequest::builder()
                        .set_instance_family(family)
                        .build()
                });
                let cpu = ec2::CpuPerformanceFactorRequest::builder()
                    .set_references(Some(references.collect()));
                ec2::BaselinePerformanceFactorsRequest::builder().cpu(cpu.build()).build()
            }))
    }};
}

/// The words of a list in the types of another service. `None` without words.
fn words<From: AsRef<str>, To: for<'a> std::convert::From<&'a str>>(
    from: &[From],
) -> Option<Vec<To>> {
    (!from.is_empty()).then(|| from.iter().map(|word| To::from(word.as_ref())).collect())
}

/// The attributes of an override of a mixed-instances policy.
pub(super) fn of_override(
    from: &scaling::InstanceRequirements,
) -> ec2::InstanceRequirementsRequest {
    request!(from).build()
}

/// The attributes of a launch template.
pub(super) fn of_template(from: &ec2::InstanceRequirements) -> ec2::InstanceRequirementsRequest {
    request!(from).set_require_encryption_in_transit(from.require_encryption_in_transit()).build()
}
