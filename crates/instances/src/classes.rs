//! Size classes: instance types of equal size, which an autoscaler may launch in place of each
//! other.
//!
//! Karpenter launches the cheapest instance type that admits its pods. A placeholder that may run
//! on any type of a class is as large as a node of each of them, so the node that comes has room
//! for one placeholder, and another type of the class comes where the cheapest one has no capacity.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use embedder::{AcceleratorKind, MicroDollars, Resources};

use crate::table::{InstanceType, US_EAST_1, instance_types};

/// By how much the price per pod of a class may exceed that of the cheapest class, in percent: 25.
/// Of those classes the smallest is chosen, because the last node of a burst is used in part.
const DEARER_MAX: u128 = 25;

/// Instance types of equal architecture, vCPUs, accelerators and, in whole GiB, memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// The name, such as `8cpu-32gib`, `8cpu-32gib-m7i` of one family, `4cpu-16gib-arm64` or
    /// `1xt4-16gib-4cpu-16gib`.
    pub name: String,
    /// Whether its types are of one family, after which it is named.
    pub of_family: bool,
    /// The instance types, by price. At least one, and each has a price.
    pub types: Vec<&'static InstanceType>,
}

impl SizeClass {
    /// The class of those of its types that are `admitted`. Bare metal is left out where a virtual
    /// machine is admitted. `None` if no type is.
    #[must_use]
    pub fn of_admitted(&self, admitted: impl Fn(&InstanceType) -> bool) -> Option<Self> {
        let mut types: Vec<&InstanceType> =
            self.types.iter().copied().filter(|known| admitted(known)).collect();
        if types.iter().any(|known| !known.hypervisor.is_empty()) {
            types.retain(|known| !known.hypervisor.is_empty());
        }
        (!types.is_empty()).then(|| Self { types, ..self.clone() })
    }

    /// The kind of the accelerators. `None` if there are none, or their resource is unknown.
    pub fn accelerator_kind(&self) -> Option<AcceleratorKind> {
        self.types.first()?.accelerators?.kind()
    }

    /// The price of the cheapest type.
    fn price(&self) -> MicroDollars {
        self.types.first().and_then(|known| known.price()).unwrap_or_default()
    }
}

/// Whether a name has the form of a size class's name.
pub fn is_size_class(name: &str) -> bool {
    let mut parts = name.split('-');
    let number = |text: &str, unit: &str| {
        text.strip_suffix(unit)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
    };
    parts.any(|part| number(part, "cpu")) && parts.next().is_some_and(|part| number(part, "gib"))
}

/// All size classes, by name: those of all types of a size, and those of the types of one family.
/// Types that us-east-1 does not sell on demand are left out, because their price cannot be
/// compared, and so are those with a fraction of a GPU, because Karpenter does not launch them for
/// pods that request a GPU.
pub fn size_classes() -> &'static BTreeMap<String, SizeClass> {
    static CLASSES: OnceLock<BTreeMap<String, SizeClass>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let mut classes: BTreeMap<String, SizeClass> = BTreeMap::new();
        let is_launched = |known: &&InstanceType| {
            known.price_in(US_EAST_1).is_some()
                && known.accelerators.is_none_or(|those| !those.is_fraction)
        };
        for known in instance_types().iter().filter(is_launched) {
            for (of_family, name) in [(false, class_of(known)), (true, class_of_family(known))] {
                let new = || SizeClass { name: name.clone(), of_family, types: Vec::new() };
                classes.entry(name.clone()).or_insert_with(new).types.push(known);
            }
        }
        for class in classes.values_mut() {
            class.types.sort_by_key(|known| (known.price(), known.name));
        }
        classes
    })
}

/// The name of the size class of an instance type.
fn class_of(known: &InstanceType) -> String {
    let InstanceType { architecture, vcpus, memory_mib, accelerators, .. } = known;
    let whole_gib = |mib: u64| (mib + 512) / 1_024;
    let accelerators = accelerators.map_or(String::new(), |of| {
        format!("{}x{}-{}gib-", of.count, of.name, whole_gib(of.memory_mib))
    });
    let gib = whole_gib(*memory_mib);
    let architecture =
        if *architecture == "amd64" { String::new() } else { format!("-{architecture}") };
    format!("{accelerators}{vcpus}cpu-{gib}gib{architecture}")
}

/// The name of the size class of an instance type and its family.
fn class_of_family(known: &InstanceType) -> String {
    format!("{}-{}", class_of(known), known.family())
}

/// The class to launch for pods that each request `unit`, with accelerators of `kind`: the smallest
/// whose price per pod exceeds the lowest by at most [`DEARER_MAX`]. Of these, one that is `known`
/// precedes. Each class comes with what its nodes have for pods. `None` if no class fits a pod.
pub fn class_for<'a>(
    classes: impl IntoIterator<Item = (&'a SizeClass, Resources)>,
    unit: Resources,
    kind: &AcceleratorKind,
    known: impl Fn(&str) -> bool,
) -> Option<&'a SizeClass> {
    let unit = Resources { pods: 1, ..unit };
    let fitting = classes.into_iter().filter_map(|(class, has)| {
        let is_wasted = unit.accelerators == 0 && has.accelerators > 0;
        let is_other = unit.accelerators > 0 && class.accelerator_kind().as_ref() != Some(kind);
        let pods = has.holds(unit);
        // In millionths of a micro-dollar, so that cheap classes with many pods differ.
        let each = u128::from(class.price().0) * 1_000_000 / u128::from(pods.max(1));
        (pods > 0 && !is_wasted && !is_other).then_some((class, each, has))
    });
    let fitting: Vec<_> = fitting.collect();
    let least = fitting.iter().map(|(_, each, _)| *each).min()?;
    let near = fitting.iter().filter(|(_, each, _)| *each <= least + least * DEARER_MAX / 100);
    let chosen =
        near.min_by_key(|(class, each, has)| (!known(&class.name), *has, *each, &class.name));
    chosen.map(|(class, ..)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a node of each of the types of a class has for pods.
    fn allocatable(class: &SizeClass) -> Resources {
        let all = class.types.iter().map(|known| known.allocatable());
        all.reduce(Resources::floor).unwrap_or_default()
    }

    fn of_categories(categories: &[&str]) -> Vec<SizeClass> {
        let category = |known: &InstanceType| {
            let letters = known.name.split(|c: char| c.is_ascii_digit()).next();
            letters.is_some_and(|letters| categories.contains(&letters))
                && known.architecture == "amd64"
        };
        size_classes().values().filter_map(|class| class.of_admitted(category)).collect()
    }

    /// Checks the class, and the cheapest of its types, of pods that request these cores, GiB and
    /// GPUs.
    #[track_caller]
    fn check(
        categories: &[&str],
        (cores, gib, gpus): (u64, u64, u64),
        expected: Option<[&str; 2]>,
    ) {
        let unit = Resources {
            accelerators: gpus,
            cpu_millis: cores * 1_000,
            memory_bytes: gib << 30,
            ..Resources::default()
        };
        let classes = of_categories(categories);
        let sized = classes.iter().filter(|class| !class.of_family);
        let sized = sized.map(|class| (class, allocatable(class)));
        let found = class_for(sized, unit, &AcceleratorKind::default(), |_| false);
        let found = found.map(|class| [class.name.as_str(), class.types[0].name]);
        assert_eq!(found, expected);
    }

    #[test]
    fn pods_get_the_smallest_class_that_is_nearly_the_cheapest() {
        let usual = ["c", "m", "r"];
        check(&usual, (1, 1, 0), Some(["8cpu-16gib", "c6a.2xlarge"]));
        check(&usual, (1, 4, 0), Some(["4cpu-16gib", "m5a.xlarge"]));
        check(&usual, (4, 8, 0), Some(["16cpu-32gib", "c6a.4xlarge"]));
        check(&usual, (1, 0, 1), None);
        check(&["g"], (3, 12, 1), Some(["1xt4-16gib-4cpu-16gib", "g4dn.xlarge"]));
        check(&["p"], (90, 900, 8), Some(["8xa100-40gib-96cpu-1152gib", "p4d.24xlarge"]));
        check(&["g", "m"], (1, 1, 0), Some(["8cpu-32gib", "m5a.2xlarge"]));
    }

    #[test]
    fn the_types_of_a_class_have_room_for_its_size() {
        assert!(size_classes().len() > 100);
        for (name, class) in size_classes() {
            assert!(is_size_class(name), "{name}");
            assert!(class.types.iter().all(|known| {
                *name == if class.of_family { class_of_family(known) } else { class_of(known) }
            }));
            assert!(class.types.is_sorted_by_key(|known| known.price()), "{name}");
            let has = allocatable(class);
            assert!(class.types.iter().all(|known| known.allocatable().fits(has)), "{name}");
        }
        for name in ["m5.xlarge", "u-6tb1.metal", "cpu-gib", "8cpu", "32gib-8cpu", ""] {
            assert!(!is_size_class(name), "{name}");
        }
    }
}
