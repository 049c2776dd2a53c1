//! The resource vector: exact unsigned integers with a total order.
//!
//! The order compares, it never decides whether something fits: that is [`Resources::fits`], component by
//! component. No operation here can overflow, underflow or panic.

use serde::{Deserialize, Serialize};

/// A component of a capacity that has no limit; taking from it leaves it as it is.
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
    /// All components, dearest first.
    pub const ALL: [Self; 5] = [Self::Accelerators, Self::Cpu, Self::Memory, Self::Ephemeral, Self::Pods];

    /// The name with its unit, as in files and messages.
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

/// What a pod asks for, what an instance has, or what is left of it.
///
/// Ordered as the paper's Algorithm 1 means it (its prose: the first component that differs decides; as printed the
/// loop walks on past a greater component): accelerators first, then CPU, memory, local disk, pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// Whole accelerators; their kind stands beside the vector, see [`crate::AcceleratorKind`].
    pub accelerators: u64,
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Local disk in bytes.
    pub ephemeral_bytes: u64,
    /// Pod slots: 1 in what a pod asks for.
    pub pods: u64,
}

impl Resources {
    /// Nothing limits it.
    pub const UNLIMITED: Self = Self::of([UNLIMITED; 5]);

    /// From components in the order of [`Resource::ALL`].
    pub const fn of([accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]: [u64; 5]) -> Self {
        Self { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods }
    }

    /// The components in the order of [`Resource::ALL`].
    pub const fn components(self) -> [u64; 5] {
        let Self { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } = self;
        [accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]
    }

    /// Whether `asks` fits, component by component.
    pub const fn fits(self, asks: Self) -> bool {
        self.accelerators >= asks.accelerators
            && self.cpu_millis >= asks.cpu_millis
            && self.memory_bytes >= asks.memory_bytes
            && self.ephemeral_bytes >= asks.ephemeral_bytes
            && self.pods >= asks.pods
    }

    /// What remains once `used` is taken, or `None` when it does not fit.
    pub fn take(self, used: Self) -> Option<Self> {
        self.fits(used)
            .then(|| self.zip(used, |have, take| if have == UNLIMITED { have } else { have - take }))
    }

    /// With `freed` given back. Saturates at unlimited, which only a caller that never took it can reach.
    #[must_use]
    pub fn give_back(self, freed: Self) -> Self {
        self.zip(freed, u64::saturating_add)
    }

    /// `n` times this. Saturates at unlimited, which fits on nothing that has a limit.
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

    /// How many times `asks` fits; [`UNLIMITED`] when nothing that it asks for is limited.
    pub fn holds(self, asks: Self) -> u64 {
        let (have, asks) = (self.components(), asks.components());
        let mut most = UNLIMITED;
        for (have, ask) in have.into_iter().zip(asks) {
            if ask > 0 && have != UNLIMITED {
                most = most.min(have / ask);
            }
        }
        most
    }

    /// The first component, dearest first, in which `asks` does not fit.
    pub fn shortage(self, asks: Self) -> Option<Resource> {
        let (have, asks) = (self.components(), asks.components());
        Resource::ALL.into_iter().enumerate().find(|&(i, _)| have[i] < asks[i]).map(|(_, resource)| resource)
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
    fn the_first_component_that_differs_orders() {
        assert!(r(0, 64_000, 256) < r(1, 4_000, 16));
        assert!(r(1, 2_000, 9) < r(1, 4_000, 1));
        assert!(r(1, 2_000, 8) < r(1, 2_000, 9));
    }

    #[test]
    fn less_in_order_does_not_mean_that_it_fits() {
        let (small, large) = (r(0, 64_000, 256), r(1, 4_000, 16));
        assert!(small < large);
        assert!(!large.fits(small));
        assert_eq!(large.take(small), None);
        assert_eq!(large.shortage(small), Some(Resource::Cpu));
    }

    #[test]
    fn unlimited_stays_unlimited() {
        let node = Resources { cpu_millis: 8_000, ..Resources::UNLIMITED };
        let left = node.take(r(0, 3_000, 1 << 60)).unwrap();
        assert_eq!(left, Resources { cpu_millis: 5_000, ..Resources::UNLIMITED });
        assert_eq!(node.holds(r(0, 3_000, 1 << 60)), 2);
        assert_eq!(node.holds(r(0, 0, 1)), UNLIMITED);
    }

    #[test]
    fn nothing_overflows() {
        let most = r(u64::MAX - 1, u64::MAX - 1, u64::MAX - 1);
        assert_eq!(most.times(3).cpu_millis, UNLIMITED);
        assert_eq!(most.give_back(most).cpu_millis, UNLIMITED);
        assert_eq!(r(1, 1, 1).take(most), None);
    }
}
