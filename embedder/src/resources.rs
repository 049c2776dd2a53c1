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
    /// A kind of device, such as slices of GPUs or huge pages. Which kind it is, is not stored.
    Devices,
    /// CPU, in thousandths of a core.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Local disk.
    Ephemeral,
    /// Pod slots.
    Pods,
}

impl Resource {
    /// All components except devices, in descending order of their cost factor.
    pub const ALL: [Self; 5] =
        [Self::Accelerators, Self::Cpu, Self::Memory, Self::Ephemeral, Self::Pods];

    /// The name with its unit, as it is spelled in files and messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Accelerators => "accelerators",
            Self::Devices => "devices",
            Self::Cpu => "cpu_millis",
            Self::Memory => "memory_bytes",
            Self::Ephemeral => "ephemeral_bytes",
            Self::Pods => "pods",
        }
    }
}

/// The number of kinds of devices in one catalog.
pub const DEVICES_MAX: usize = 6;

/// Amounts of devices, such as slices of GPUs, shared GPUs, network interfaces and huge pages.
///
/// Their names are outside the vector, in [`crate::Catalog::devices`], in the same order. An amount
/// above four billion counts as one without a limit. Amounts of 32 bits keep the vector within a
/// line of the cache, because packing copies and compares vectors more often than anything else.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Devices([u32; DEVICES_MAX]);

impl Devices {
    /// No devices.
    pub const NONE: Self = Self([0; DEVICES_MAX]);

    /// Devices without a limit.
    const UNLIMITED: Self = Self([u32::MAX; DEVICES_MAX]);

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The amount at a place of [`crate::Catalog::devices`].
    pub fn get(self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |&amount| amount.into())
    }

    /// Sets the amount at a place. Places beyond the last are ignored.
    pub fn set(&mut self, at: usize, amount: u64) {
        if let Some(own) = self.0.get_mut(at) {
            *own = u32::try_from(amount).unwrap_or(u32::MAX);
        }
    }

    const fn fits(self, requests: Self) -> bool {
        let mut at = 0;
        while at < DEVICES_MAX {
            if self.0[at] < requests.0[at] {
                return false;
            }
            at += 1;
        }
        true
    }

    fn zip(self, other: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        Self(std::array::from_fn(|at| f(self.0[at], other.0[at])))
    }
}

/// The requests of a pod, the capacity of an instance, or the capacity that is left.
///
/// Ordered as the paper's Algorithm 1 describes it in its prose: the first component that differs
/// decides. As printed, the loop of the algorithm continues past a greater component. The order of
/// the components is accelerators, devices, CPU, memory, local disk, pods.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Resources {
    /// Whole accelerators. Their kind is stored outside the vector, as [`crate::AcceleratorKind`].
    pub accelerators: u64,
    /// Devices, by their place in [`crate::Catalog::devices`].
    #[serde(default, skip_serializing_if = "Devices::is_none")]
    pub devices: Devices,
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
    pub const UNLIMITED: Self = Self { devices: Devices::UNLIMITED, ..Self::of([UNLIMITED; 5]) };

    /// Builds a resource vector without devices from its components in the order of
    /// [`Resource::ALL`].
    pub const fn of(
        [accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]: [u64; 5],
    ) -> Self {
        let devices = Devices::NONE;
        Self { accelerators, devices, cpu_millis, memory_bytes, ephemeral_bytes, pods }
    }

    /// The components except devices, in the order of [`Resource::ALL`].
    pub const fn components(self) -> [u64; 5] {
        let Self { accelerators, devices: _, cpu_millis, memory_bytes, ephemeral_bytes, pods } =
            self;
        [accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]
    }

    /// All components: those of [`Resources::components`], then the devices. A device without a
    /// limit has the amount [`UNLIMITED`].
    pub fn amounts(self) -> [u64; 5 + DEVICES_MAX] {
        let (components, devices) = (self.components(), self.devices.0);
        std::array::from_fn(|at| match components.get(at) {
            Some(amount) => *amount,
            None if devices[at - 5] == u32::MAX => UNLIMITED,
            None => devices[at - 5].into(),
        })
    }

    /// The vector less `used`, with each component at least 0.
    #[must_use]
    pub fn less(self, used: Self) -> Self {
        self.zip(used, u64::saturating_sub, u32::saturating_sub)
    }

    /// Whether `requests` fits, component by component.
    pub const fn fits(self, requests: Self) -> bool {
        self.accelerators >= requests.accelerators
            && self.cpu_millis >= requests.cpu_millis
            && self.memory_bytes >= requests.memory_bytes
            && self.ephemeral_bytes >= requests.ephemeral_bytes
            && self.pods >= requests.pods
            && self.devices.fits(requests.devices)
    }

    /// Returns the rest once `used` is taken, or `None` if `used` does not fit.
    pub fn take(self, used: Self) -> Option<Self> {
        self.fits(used).then(|| {
            self.zip(
                used,
                |have, take| if have == UNLIMITED { have } else { have - take },
                |have, take| if have == u32::MAX { have } else { have - take },
            )
        })
    }

    /// Returns the vector with `freed` added. The sum saturates at [`UNLIMITED`], which only a
    /// caller that gives back more than it took can reach.
    #[must_use]
    pub fn give_back(self, freed: Self) -> Self {
        self.zip(freed, u64::saturating_add, u32::saturating_add)
    }

    /// Returns the vector multiplied by `n`. The product saturates at [`UNLIMITED`], which fits on
    /// no capacity that has a limit.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        let few = u32::try_from(n).unwrap_or(u32::MAX);
        self.zip(
            Self::default(),
            |each, _| each.saturating_mul(n),
            |each, _| each.saturating_mul(few),
        )
    }

    /// The component-wise maximum.
    #[must_use]
    pub fn roof(self, other: Self) -> Self {
        self.zip(other, u64::max, u32::max)
    }

    /// The component-wise minimum.
    #[must_use]
    pub fn floor(self, other: Self) -> Self {
        self.zip(other, u64::min, u32::min)
    }

    /// Returns how many times `requests` fits, or [`UNLIMITED`] if no requested component is
    /// limited.
    pub fn holds(self, requests: Self) -> u64 {
        let requests_devices = requests.devices;
        let (have, requests) = (self.components(), requests.components());
        let mut most = UNLIMITED;
        for (have, request) in have.into_iter().zip(requests) {
            if request > 0 && have != UNLIMITED {
                most = most.min(have / request);
            }
        }
        if requests_devices.is_none() {
            return most;
        }
        for (have, request) in self.devices.0.into_iter().zip(requests_devices.0) {
            if request > 0 && have != u32::MAX {
                most = most.min(u64::from(have / request));
            }
        }
        most
    }

    /// Returns the first component, in the order of [`Resource`], in which `requests` does not fit.
    pub fn shortage(self, requests: Self) -> Option<Resource> {
        let devices = (!self.devices.fits(requests.devices)).then_some(Resource::Devices);
        let (have, requests) = (self.components(), requests.components());
        let lacking = Resource::ALL.into_iter().enumerate().filter(|&(i, _)| have[i] < requests[i]);
        lacking.map(|(_, resource)| resource).chain(devices).min()
    }

    fn zip(
        self,
        other: Self,
        f: impl Fn(u64, u64) -> u64,
        of_devices: impl Fn(u32, u32) -> u32,
    ) -> Self {
        let (a, b) = (self.components(), other.components());
        let devices = self.devices.zip(other.devices, of_devices);
        Self { devices, ..Self::of(std::array::from_fn(|i| f(a[i], b[i]))) }
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

    fn with(amounts: &[u64]) -> Resources {
        let mut all = r(0, 1_000, 1);
        amounts.iter().enumerate().for_each(|(at, amount)| all.devices.set(at, *amount));
        all
    }

    #[test]
    fn devices_have_amounts() {
        let node = with(&[16, 1]);
        assert!(node.fits(with(&[16, 0])) && !node.fits(with(&[1, 2])));
        assert_eq!(node.holds(with(&[3])), 1, "the CPU decides");
        let small = Resources { cpu_millis: 1, memory_bytes: 0, ..with(&[3]) };
        assert_eq!(node.holds(small), 5);
        assert_eq!(with(&[]).holds(small), 0);
        assert_eq!(node.shortage(with(&[17])), Some(Resource::Devices));
        assert_eq!(node.take(with(&[4, 1])).unwrap().devices, with(&[12]).devices);
        assert_eq!(with(&[4]).times(3).devices, with(&[12]).devices);
        assert_eq!(with(&[4]).times(1 << 40).devices.get(0), u64::from(u32::MAX));
        assert!(
            with(&[0, 1]) > Resources { cpu_millis: 96_000, ..with(&[]) },
            "devices come first"
        );
        assert!(Resources::UNLIMITED.fits(with(&[9; DEVICES_MAX])));
    }

    #[test]
    fn operations_saturate_and_never_overflow() {
        let most = r(u64::MAX - 1, u64::MAX - 1, u64::MAX - 1);
        assert_eq!(most.times(3).cpu_millis, UNLIMITED);
        assert_eq!(most.give_back(most).cpu_millis, UNLIMITED);
        assert_eq!(r(1, 1, 1).take(most), None);
    }
}
