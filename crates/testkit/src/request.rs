//! What pods request.

use embedder::{AcceleratorKind, PodRequest, Resources, Shape};

/// Requests of CPU alone, in thousandths of a core.
pub fn cpus(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, ..Resources::default() }
}

/// The shape of a pod that all buckets admit.
pub fn shape(requests: Resources) -> Shape {
    Shape::new(requests, AcceleratorKind::default())
}

/// This many pods of one [`shape`].
pub fn pods(count: u64, requests: Resources) -> PodRequest {
    PodRequest { shape: shape(requests), count }
}
