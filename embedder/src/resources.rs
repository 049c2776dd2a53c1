//! The resource vector: exact unsigned integers with a total order.
//!
//! The order only compares vectors. [`Resources::fits`] decides whether a vector fits, component by
//! component. No operation in this module can overflow, underflow or panic.

use serde::{Deserialize, Serialize};

/// The value of a component that has no limit. Taking from it leaves it unchanged.
pub const UNLIMITED: u64 = u64::MAX;

/// One component of [`Resources`], in the order of its cost factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Whole accelerators.
    Accelerators,
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Local disk.
    Ephemeral,
    /// Pod slots.
    Pods,
}

impl Resource {
    /// All components, in descending order of their cost factor.
    pub const ALL: [Self; 5] =
        [Self::Accelerators, Self::Cpu, Self::Memory, Self::Ephemeral, Self::Pods];

    /// The name with its unit, as it is spelled in files and messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Accelerators => "accelerators",
            Self::Cpu => "cpu_millis",
            Self::Memory => "memory_bytes",
            Self::Ephemeral => "ephemeral_bytes",
            Self::Pods => "pods",
        }
    }
}

/// The requests of a pod, the capacity of an instance, or the capacity that is left.
///
/// Ordered as the paper's Algorithm 1 describes it in its prose: the first component that differs
/// decides. As printed, the loop of the algorithm continues past a greater component. The order of
/// the components is accelerators, CPU, memory, local disk, pods.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Resources {
    /// Whole accelerators. Their kind is stored outside the vector, as [`crate::AcceleratorKind`].
    pub accelerators: u64,
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Local disk in bytes.
    pub ephemeral_bytes: u64,
    /// Pod slots: 1 in the requests of one pod.
    pub pods: u64,
}

impl Resources {
    /// A capacity without a limit in any component.
    pub const UNLIMITED: Self = Self::of([UNLIMITED; 5]);

    /// Builds a resource vector from its components in the order of [`Resource::ALL`].
    pub const fn of(
        [accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]: [u64; 5],
    ) -> Self {
        Self { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods }
    }

    /// The components in the order of [`Resource::ALL`].
    pub const fn components(self) -> [u64; 5] {
        let Self { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } = self;
        [accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]
    }

    /// Whether `requests` fits, component by component.
    pub const fn fits(self, requests: Self) -> bool {
        self.accelerators >= requests.accelerators
            && self.cpu_millis >= requests.cpu_millis
            && self.memory_bytes >= requests.memory_bytes
            && self.ephemeral_bytes >= requests.ephemeral_bytes
            && self.pods >= requests.pods
    }

    /// Returns the rest once `used` is taken, or `None` if `used` does not fit.
    pub fn take(self, used: Self) -> Option<Self> {
        self.fits(used).then(|| {
            self.zip(used, |have, take| if have == UNLIMITED { have } else { have - take })
        })
    }

    /// Returns the vector with `freed` added. The sum saturates at [`UNLIMITED`], which only a
    /// caller that gives back more than it took can reach.
    #[must_use]
    pub fn give_back(self, freed: Self) -> Self {
        self.zip(freed, u64::saturating_add)
    }

    /// Returns the vector multiplied by `n`. The product saturates at [`UNLIMITED`], which fits on
    /// no capacity that has a limit.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        self.zip(Self::default(), |each, _| each.saturating_mul(n))
    }

    /// The component-wise maximum.
    #[must_use]
    pub fn roof(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// The component-wise minimum.
    #[must_use]
    pub fn floor(self, other: Self) -> Self {
        self.zip(other, u64::min)
    }

    /// Returns how many times `requests` fits, or [`UNLIMITED`] if no requested component is
    /// limited.
    pub fn holds(self, requests: Self) -> u64 {
        let (have, requests) = (self.components(), requests.components());
        let mut most = UNLIMITED;
        for (have, request) in have.into_iter().zip(requests) {
            if request > 0 && have != UNLIMITED {
                most = most.min(have / request);
            }
        }
        most
    }

    /// Returns the first component, in the order of [`Resource::ALL`], in which `requests` does not
    /// fit.
    pub fn shortage(self, requests: Self) -> Option<Resource> {
        let (have, requests) = (self.components(), requests.components());
        Resource::ALL
            .into_iter()
            .enumerate()
            .find(|&(i, _)| have[i] < requests[i])
            .map(|(_, resource)| resource)
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let (a, b) = (self.components(), other.components());
        Self::of(std::array::from_fn(|i| f(a[i], b[i])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(accelerators: u64, cpu_millis: u64, memory_bytes: u64) -> Resources {
        Resources { accelerators, cpu_millis, memory_bytes, ..Resources::default() }
    }

    #[test]
    fn the_first_component_that_differs_decides_the_order() {
        assert!(r(0, 64_000, 256) < r(1, 4_000, 16));
        assert!(r(1, 2_000, 9) < r(1, 4_000, 1));
        assert!(r(1, 2_000, 8) < r(1, 2_000, 9));
    }

    #[test]
    fn a_vector_that_is_less_in_order_does_not_always_fit() {
        let (small, large) = (r(0, 64_000, 256), r(1, 4_000, 16));
        assert!(small < large);
        assert!(!large.fits(small));
        assert_eq!(large.take(small), None);
        assert_eq!(large.shortage(small), Some(Resource::Cpu));
    }

    #[test]
    fn an_unlimited_component_stays_unlimited() {
        let node = Resources { cpu_millis: 8_000, ..Resources::UNLIMITED };
        let left = node.take(r(0, 3_000, 1 << 60)).unwrap();
        assert_eq!(left, Resources { cpu_millis: 5_000, ..Resources::UNLIMITED });
        assert_eq!(node.holds(r(0, 3_000, 1 << 60)), 2);
        assert_eq!(node.holds(r(0, 0, 1)), UNLIMITED);
    }

    #[test]
    fn operations_saturate_and_never_overflow() {
        let most = r(u64::MAX - 1, u64::MAX - 1, u64::MAX - 1);
        assert_eq!(most.times(3).cpu_millis, UNLIMITED);
        assert_eq!(most.give_back(most).cpu_millis, UNLIMITED);
        assert_eq!(r(1, 1, 1).take(most), None);
    }
}
