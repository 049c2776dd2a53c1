//! The sizes of the instance types of the tests, as AWS publishes them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// An instance type and its size.
#[derive(Debug, Clone, Copy)]
pub struct Instance {
    /// The name of the type in AWS.
    pub name: &'static str,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The published memory, in MiB.
    pub memory_mib: u32,
    /// The number of NVIDIA GPUs.
    pub gpus: u32,
    /// The architecture, as in the label `kubernetes.io/arch`.
    pub architecture: &'static str,
}

const fn x86(name: &'static str, cpus: u32, memory_gib: u32, gpus: u32) -> Instance {
    Instance { name, cpus, memory_mib: memory_gib * 1024, gpus, architecture: "amd64" }
}

/// The instance types of the tests. Moto has all of them.
const INSTANCES: [Instance; 15] = [
    x86("c5.4xlarge", 16, 32, 0),
    x86("c5.24xlarge", 96, 192, 0),
    x86("g4dn.xlarge", 4, 16, 1),
    x86("g5.xlarge", 4, 16, 1),
    x86("g5.12xlarge", 48, 192, 4),
    x86("g6.xlarge", 4, 16, 1),
    x86("m5.large", 2, 8, 0),
    x86("m5.xlarge", 4, 16, 0),
    x86("m5.2xlarge", 8, 32, 0),
    x86("m5.4xlarge", 16, 64, 0),
    x86("m7i.2xlarge", 8, 32, 0),
    x86("p4d.24xlarge", 96, 1152, 8),
    x86("p5.48xlarge", 192, 2048, 8),
    Instance { architecture: "arm64", ..x86("m6g.xlarge", 4, 16, 0) },
    Instance { architecture: "arm64", ..x86("m6g.4xlarge", 16, 64, 0) },
];

/// The size of an instance type.
///
/// # Errors
/// The table does not have the type.
pub fn instance(name: &str) -> Result<Instance> {
    let found = INSTANCES.iter().find(|instance| instance.name == name);
    found.copied().with_context(|| format!("{name} is not in the tests' table of instance types"))
}

impl Instance {
    /// The capacity of a node of this type, before the kubelet's reservations.
    pub fn capacity(self) -> BTreeMap<String, Quantity> {
        let mut capacity = BTreeMap::from([
            ("cpu".to_owned(), Quantity(self.cpus.to_string())),
            ("memory".to_owned(), Quantity(format!("{}Mi", self.memory_mib))),
            ("pods".to_owned(), Quantity("110".to_owned())),
        ]);
        if self.gpus > 0 {
            capacity.insert(GPU.to_owned(), Quantity(self.gpus.to_string()));
        }
        capacity
    }
}

/// The name of the resource that NVIDIA's device plugin registers.
pub const GPU: &str = "nvidia.com/gpu";
