//! The catalog in a file (YAML or JSON), and in the settings of a run.

use std::collections::BTreeMap;

use base::input;
use base::input::YamlError;
use base::quantity;
use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, CatalogError, Group, MicroDollars, Resources,
    UNLIMITED,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::price::{Bought, PriceRules};
use crate::size::Reserved;
use crate::table::{InstanceType, instance_type};

/// The instance types on offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogFile {
    /// The instance types, in any order.
    pub instance_types: Vec<InstanceTypeEntry>,
    /// What is paid for them. The rules override the prices of the entries.
    #[serde(default, skip_serializing_if = "PriceRules::is_empty")]
    pub prices: PriceRules,
}

/// One instance type. An absent resource is unlimited, except accelerators: absent means none. An
/// entry without any resource has those of AWS's instance type of that name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceTypeEntry {
    /// The instance type's name.
    pub name: String,
    /// The number of accelerators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<u64>,
    /// The accelerators' extended resource name. `nvidia.com/gpu` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator_kind: Option<String>,
    /// CPU in thousandths of a core, including what is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u64>,
    /// The same as a quantity, such as `"16"` or `500m`, in place of `cpu_millis`. In thousandths.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_millis",
        deserialize_with = "millis"
    )]
    pub cpu: Option<u64>,
    /// Memory in bytes, including what is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The same as a quantity, such as `64Gi`, in place of `memory_bytes`. In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "units")]
    pub memory: Option<u64>,
    /// Local disk (ephemeral storage) in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_bytes: Option<u64>,
    /// The same as a quantity, such as `100Gi`, in place of `ephemeral_bytes`. In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "units")]
    pub ephemeral_storage: Option<u64>,
    /// The most pods on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u64>,
    /// Resources reserved for the kubelet and the system.
    #[serde(default)]
    pub reserved: Reserved,
    /// Price of an instance in dollars per hour. That of AWS's instance type of the name when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// How instances are bought. On demand when absent.
    #[serde(default)]
    pub capacity_type: CapacityType,
    /// The groups that launch its instances. When empty, one group without limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupEntry>,
}

/// A group of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupEntry {
    /// The group's name.
    pub name: String,
    /// The placement group that its instances start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// The minimum number of instances. 0 when absent.
    #[serde(default)]
    pub min: u64,
    /// The maximum number of instances. Unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Labels of the group's nodes, in addition to those of instance type, capacity type and
    /// placement group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the group's nodes, as `key=value:effect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
}

/// Why instance types are not a valid catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogFault {
    /// A field has an invalid value.
    #[error("instanceTypes[{index}].{field}: {problem}")]
    Field {
        /// The position of the instance type, from 0.
        index: usize,
        /// The name of the field.
        field: &'static str,
        /// Why the value is invalid.
        problem: String,
    },
    /// A rule of the prices is invalid.
    #[error("prices[{index}].{field}: {problem}")]
    Rule {
        /// The position of the rule, from 0.
        index: usize,
        /// The name of the field.
        field: &'static str,
        /// Why the value is invalid.
        problem: String,
    },
    /// Each entry can be read, but the catalog is not valid: it is empty, a name is given twice, or
    /// a minimum is above its maximum.
    #[error(transparent)]
    Together(#[from] CatalogError),
}

/// A quantity in thousandths of its unit.
fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity_of(from, quantity::millis)
}

#[expect(clippy::ref_option, reason = "the signature is that of serde")]
fn as_millis<S: Serializer>(amount: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{}m", amount.unwrap_or(0)))
}

/// A quantity in whole units.
fn units<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity_of(from, quantity::units)
}

fn quantity_of<'de, D: Deserializer<'de>>(
    from: D,
    parse: fn(&str) -> Option<u64>,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Whole(u64),
        Decimal(f64),
        Text(String),
    }
    let text = match Given::deserialize(from)? {
        Given::Whole(number) => number.to_string(),
        Given::Decimal(number) => number.to_string(),
        Given::Text(text) => text,
    };
    let found = parse(text.trim());
    let fault =
        || de::Error::custom(format!("expected a quantity such as 16 or 64Gi, got {text:?}"));
    found.map(Some).ok_or_else(fault)
}

impl CatalogFault {
    /// The path of the invalid field in the file (of the list, if no single field is invalid), and
    /// the problem.
    pub fn field_and_problem(&self) -> (String, String) {
        match self {
            Self::Field { index, field, problem } => {
                (format!("instanceTypes[{index}].{field}"), problem.clone())
            }
            Self::Rule { index, field, problem } => {
                (format!("prices[{index}].{field}"), problem.clone())
            }
            Self::Together(problem) => ("instanceTypes".into(), problem.to_string()),
        }
    }
}

impl CatalogFile {
    /// Parses YAML or JSON, and checks that it is a valid catalog. `file` stands for the file in
    /// errors.
    ///
    /// # Errors
    /// A syntax error, an unknown or missing field, an invalid value, or a catalog that is not
    /// valid as a whole, with the line.
    pub fn parse(text: &str, file: &str) -> Result<Self, YamlError> {
        Self::parse_with(text, file, None)
    }

    /// Parses a catalog like [`CatalogFile::parse`], whose prices are these, if given.
    ///
    /// # Errors
    /// Those of [`CatalogFile::parse`].
    pub fn parse_with(
        text: &str,
        file: &str,
        prices: Option<&PriceRules>,
    ) -> Result<Self, YamlError> {
        let mut parsed: Self = input::parse(text, file)?;
        if let Some(prices) = prices {
            parsed.prices = prices.clone();
        }
        match parsed.catalog() {
            Ok(_) => Ok(parsed),
            Err(fault) => {
                let (field, problem) = fault.field_and_problem();
                Err(YamlError::new(file, input::line_of(text, &field), &field, problem))
            }
        }
    }

    /// A file of these instance types.
    pub fn new(instance_types: Vec<InstanceTypeEntry>) -> Self {
        Self { instance_types, prices: PriceRules::default() }
    }

    /// A file of AWS's instance types with these names. Names that the table does not have are left
    /// out.
    pub fn of_types<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = names.into_iter().filter_map(instance_type);
        Self::new(known.map(InstanceType::entry).collect())
    }

    /// The file of a catalog.
    pub fn of(catalog: &Catalog) -> Self {
        Self::new(catalog.buckets().iter().map(InstanceTypeEntry::of).collect())
    }

    /// Builds the catalog.
    ///
    /// # Errors
    /// An invalid value, or a catalog that is not valid as a whole.
    pub fn catalog(&self) -> Result<Catalog, CatalogFault> {
        if let Some((index, field, problem)) = self.prices.fault() {
            return Err(CatalogFault::Rule { index, field, problem });
        }
        let entries = self.instance_types.iter().enumerate();
        let buckets = entries.map(|(index, entry)| {
            entry.bucket(&self.prices).map_err(|(field, problem)| CatalogFault::Field {
                index,
                field,
                problem,
            })
        });
        Ok(Catalog::new(buckets.collect::<Result<_, _>>()?)?)
    }
}

impl InstanceType {
    /// The instance type as an entry of a catalog, on demand, with what the hypervisor, the kubelet
    /// and the system keep as `reserved`. The price is that of [`InstanceType::price`].
    pub fn entry(&self) -> InstanceTypeEntry {
        let (capacity, has) = (self.capacity(), self.allocatable());
        let kind = self.accelerators.and_then(|those| those.kind());
        let kind = kind.filter(|kind| kind.as_str() != AcceleratorKind::NVIDIA);
        InstanceTypeEntry {
            name: self.name.into(),
            accelerators: (capacity.accelerators > 0).then_some(capacity.accelerators),
            accelerator_kind: kind.map(|kind| kind.as_str().into()),
            cpu_millis: Some(capacity.cpu_millis),
            memory_bytes: Some(capacity.memory_bytes),
            pods: Some(capacity.pods),
            reserved: Reserved {
                cpu_millis: capacity.cpu_millis - has.cpu_millis,
                memory_bytes: capacity.memory_bytes - has.memory_bytes,
            },
            price_per_hour: self.price().map(MicroDollars::dollars),
            capacity_type: CapacityType::OnDemand,
            ..InstanceTypeEntry::default()
        }
    }
}

impl InstanceTypeEntry {
    fn of(bucket: &Bucket) -> Self {
        let limited = |amount: u64| (amount != UNLIMITED).then_some(amount);
        let Resources { devices: _, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } =
            bucket.allocatable;
        let kind = (accelerators > 0).then(|| bucket.accelerator_kind.as_str().to_owned());
        let of_spot = bucket.name.split_once("/spot").filter(|(_, parts)| {
            bucket.capacity_type == CapacityType::Spot
                && (parts.is_empty() || parts.starts_with('/'))
        });
        let name = of_spot.map(|(instance_type, parts)| format!("{instance_type}{parts}"));
        let group = |group: &Group| GroupEntry {
            name: group.name.clone(),
            placement_group: group.placement_group.clone(),
            min: group.min,
            max: limited(group.max),
            ..GroupEntry::default()
        };
        Self {
            capacity_type: match name {
                Some(_) => CapacityType::Spot,
                None => CapacityType::OnDemand,
            },
            name: name.unwrap_or_else(|| bucket.name.clone()),
            accelerators: (accelerators > 0).then_some(accelerators),
            accelerator_kind: kind,
            cpu_millis: limited(cpu_millis),
            memory_bytes: limited(memory_bytes),
            ephemeral_bytes: limited(ephemeral_bytes),
            pods: limited(pods),
            price_per_hour: Some(bucket.hourly.dollars()),
            groups: bucket.groups.iter().map(group).collect(),
            ..Self::default()
        }
    }

    /// The bucket of this instance type, at the price that follows from `prices`.
    ///
    /// # Errors
    /// The field that is invalid, and the problem.
    pub fn bucket(&self, prices: &PriceRules) -> Result<Bucket, (&'static str, String)> {
        let Self { name, capacity_type, .. } = self;
        if name.trim().is_empty() {
            return Err(("name", "is empty".into()));
        }
        let of_table = || self.of_table().and_then(|known| known.accelerator_kind);
        let kind = self.accelerator_kind.clone().or_else(of_table);
        let kind = kind.as_deref().unwrap_or(AcceleratorKind::NVIDIA);
        let allocatable = self.allocatable()?;
        let hourly = self.hourly(prices, allocatable)?;
        let name = match capacity_type {
            CapacityType::OnDemand => name.clone(),
            // `/spot` follows the instance type, before what distinguishes the bucket from others.
            CapacityType::Spot => match name.split_once('/') {
                None => format!("{name}/spot"),
                Some((instance_type, parts)) => format!("{instance_type}/spot/{parts}"),
            },
        };
        Ok(Bucket {
            capacity_type: *capacity_type,
            accelerator_kind: AcceleratorKind::new(kind),
            allocatable,
            hourly,
            groups: self.groups(&name),
            name,
        })
    }

    /// The price of an instance for one hour.
    fn hourly(
        &self,
        prices: &PriceRules,
        has: Resources,
    ) -> Result<MicroDollars, (&'static str, String)> {
        let described = self.price_per_hour.map(|dollars| {
            MicroDollars::from_dollars(dollars)
                .ok_or_else(|| format!("expected a price of 0 to a billion dollars, got {dollars}"))
        });
        let described = described.transpose().map_err(|problem| ("pricePerHour", problem))?;
        let price = prices.price(&Bought {
            // The name of a recorded bucket has further parts.
            instance_type: self.name.split('/').next().unwrap_or_default(),
            capacity_type: self.capacity_type,
            region: None,
            zone: None,
            has,
            described,
            read: None,
            overlay: None,
        });
        if !price.source.is_known() {
            let problem =
                "is missing, and no price of this instance type is known: give dollars per hour";
            return Err(("pricePerHour", problem.into()));
        }
        Ok(price.hourly)
    }

    /// AWS's instance type of the name, with the pods, the local disk and the reservation that this
    /// entry gives. `None` if the entry gives CPU, memory or accelerators.
    fn of_table(&self) -> Option<Self> {
        let Self { accelerators, cpu_millis, cpu, memory_bytes, memory, reserved, .. } = self;
        let sizes = [accelerators, cpu_millis, cpu, memory_bytes, memory];
        if sizes.iter().any(|given| given.is_some()) {
            return None;
        }
        let known = instance_type(&self.name)?.entry();
        let is_reserved = *reserved != Reserved::default();
        Some(Self {
            pods: self.pods.or(known.pods),
            ephemeral_bytes: self.ephemeral_bytes.or(self.ephemeral_storage),
            reserved: if is_reserved { *reserved } else { known.reserved },
            ..known
        })
    }

    /// The resources including what is reserved. `None` if the entry gives none.
    fn amounts(&self) -> Option<[Option<u64>; 5]> {
        let amounts = [
            self.accelerators,
            self.cpu_millis.or(self.cpu),
            self.memory_bytes.or(self.memory),
            self.ephemeral_bytes.or(self.ephemeral_storage),
            self.pods,
        ];
        amounts.iter().any(Option::is_some).then_some(amounts)
    }

    /// The CPU including what is reserved, in thousandths of a core. `None` is unlimited.
    pub fn cpu_capacity(&self) -> Option<u64> {
        self.of_table().map_or_else(|| self.cpu_millis.or(self.cpu), |known| known.cpu_millis)
    }

    fn allocatable(&self) -> Result<Resources, (&'static str, String)> {
        for (field, both) in [
            ("cpu", self.cpu.is_some() && self.cpu_millis.is_some()),
            ("memory", self.memory.is_some() && self.memory_bytes.is_some()),
            (
                "ephemeralStorage",
                self.ephemeral_storage.is_some() && self.ephemeral_bytes.is_some(),
            ),
        ] {
            if both {
                return Err((field, "is given twice, as a quantity and as a number".into()));
            }
        }
        let of_table = self.of_table();
        let Self { reserved, .. } = of_table.as_ref().unwrap_or(self);
        let amounts = of_table.as_ref().unwrap_or(self).amounts();
        let Some([accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods]) = amounts else {
            let problem = "give at least one of accelerators, cpu, memory, ephemeralStorage, pods, or the name of an instance type of AWS";
            return Err(("name", problem.into()));
        };
        let less = |field, have: Option<u64>, reserved: u64| match have {
            None => Ok(UNLIMITED),
            Some(have) => have
                .checked_sub(reserved)
                .ok_or_else(|| (field, format!("reserves {reserved} of {have}"))),
        };
        Ok(Resources {
            devices: embedder::Devices::NONE,
            accelerators: accelerators.unwrap_or(0),
            cpu_millis: less("reserved.cpuMillis", cpu_millis, reserved.cpu_millis)?,
            memory_bytes: less("reserved.memoryBytes", memory_bytes, reserved.memory_bytes)?,
            ephemeral_bytes: ephemeral_bytes.unwrap_or(UNLIMITED),
            pods: pods.unwrap_or(UNLIMITED),
        })
    }

    fn groups(&self, bucket: &str) -> Vec<Group> {
        let groups =
            self.groups.iter().map(|GroupEntry { name, placement_group, min, max, .. }| Group {
                name: name.clone(),
                placement_group: placement_group.clone(),
                min: *min,
                max: max.unwrap_or(UNLIMITED),
                weight: 0,
            });
        let groups: Vec<Group> = groups.collect();
        if groups.is_empty() {
            return vec![Group {
                name: bucket.into(),
                placement_group: None,
                min: 0,
                max: UNLIMITED,
                weight: 0,
            }];
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(CatalogFile::parse(text, "f").unwrap_err().to_string(), expected);
    }

    #[test]
    fn faults_contain_line_and_field() {
        check(
            "instanceTypes:\n- name: a\n  cpuMilli: 1\n  pricePerHour: 1\n",
            "f:3: instanceTypes[0].cpuMilli: unknown field: did you mean cpuMillis?",
        );
        check(
            "instanceTypes:\n- name: a\n  cpuMillis: 1\n",
            "f:2: instanceTypes[0].pricePerHour: is missing, and no price of this instance type is known: give dollars per hour",
        );
        check(
            "instanceTypes:\n- name: a\n  cpuMillis: x\n  pricePerHour: 1\n",
            "f:3: instanceTypes[0].cpuMillis: expected a whole number, 0 or more, got \"x\"",
        );
        check(
            "instanceTypes:\n- {name: a, pricePerHour: 1}\n",
            "f:2: instanceTypes[0].name: give at least one of accelerators, cpu, memory, ephemeralStorage, pods, or the name of an instance type of AWS",
        );
        check(
            "instanceTypes:\n- name: a\n  cpuMillis: 1\n  pricePerHour: -1\n",
            "f:4: instanceTypes[0].pricePerHour: expected a price of 0 to a billion dollars, got -1",
        );
        check(
            "instanceTypes:\n- {name: a, cpuMillis: 1, pricePerHour: .nan}\n",
            "f:2: instanceTypes[0].pricePerHour: expected a price of 0 to a billion dollars, got NaN",
        );
        check(
            "instanceTypes:\n- {name: a, cpuMillis: 1, reserved: {cpuMillis: 2}, pricePerHour: 1}\n",
            "f:2: instanceTypes[0].reserved.cpuMillis: reserves 2 of 1",
        );
        check(
            "instanceTypes:\n- {name: a, cpuMillis: 1, pricePerHour: 1}\n- {name: a, cpuMillis: 2, pricePerHour: 1}\n",
            "f:2: instanceTypes: instance type a is listed twice",
        );
        check(
            "instanceTypes: []\n",
            "f:1: instanceTypes: a catalog needs at least one instance type",
        );
    }

    #[test]
    fn faults_of_quantities_and_prices_contain_line_and_field() {
        check(
            "instanceTypes:\n- name: a\n  cpu: 4 cores\n  pricePerHour: 1\n",
            "f:3: instanceTypes[0].cpu: expected a quantity such as 16 or 64Gi, got \"4 cores\"",
        );
        check(
            "instanceTypes:\n- name: a\n  cpu: 4\n  cpuMillis: 4000\n  pricePerHour: 1\n",
            "f:3: instanceTypes[0].cpu: is given twice, as a quantity and as a number",
        );
        check(
            "instanceTypes:\n- name: m5.xlarge\nprices:\n- family: m5\n  percent: -3\n",
            "f:5: prices[0].percent: expected 0 to 1000 percent, got -3",
        );
    }

    #[test]
    fn an_instance_type_of_aws_needs_only_its_name() {
        let text = "instanceTypes: [{name: m7i.xlarge}, {name: p5.48xlarge, capacityType: spot}]\nprices: [{family: m7i, percent: 50}]\n";
        let catalog = CatalogFile::parse(text, "f").unwrap().catalog().unwrap();
        let found: Vec<_> = catalog
            .buckets()
            .iter()
            .map(|bucket| {
                let has = bucket.allocatable;
                (bucket.name.as_str(), has.accelerators, has.cpu_millis, bucket.hourly.dollars())
            })
            .collect();
        let expected = [("m7i.xlarge", 0, 3_920, 0.1008), ("p5.48xlarge/spot", 8, 191_450, 22.016)];
        assert_eq!(found, expected);
    }

    #[test]
    fn amounts_may_be_quantities() {
        let text = |amounts| format!("instanceTypes: [{{name: a, {amounts}, pricePerHour: 1}}]");
        let parse = |text: &str| CatalogFile::parse(text, "f").unwrap().catalog().unwrap();
        let numbers =
            parse(&text("cpuMillis: 1500, memoryBytes: 68719476736, ephemeralBytes: 1000"));
        assert_eq!(parse(&text("cpu: 1500m, memory: 64Gi, ephemeralStorage: 1k")), numbers);
        assert_eq!(parse(&text("cpu: 1.5, memory: \"64Gi\", ephemeralStorage: 1000")), numbers);
        let file = CatalogFile::parse(&text("cpu: 1500m, memory: 64Gi"), "f").unwrap();
        let again = serde_json::to_string(&file).unwrap();
        assert_eq!(CatalogFile::parse(&again, "f").unwrap(), file);
    }

    #[test]
    fn an_entry_of_a_type_of_aws_may_give_a_part_of_its_size() {
        let of = |fields: &str| {
            let text = format!("instanceTypes: [{{name: m5.4xlarge, {fields}}}]");
            let catalog = CatalogFile::parse(&text, "f").unwrap().catalog().unwrap();
            let has = catalog.buckets()[0].allocatable;
            (has.cpu_millis, has.pods)
        };
        assert_eq!(of("pods: 20"), (15_890, 20));
        assert_eq!(of("reserved: {cpuMillis: 6000}"), (10_000, 110));
        assert_eq!(of("cpu: 16"), (16_000, UNLIMITED));
    }

    #[test]
    fn prices_beside_the_file_give_those_that_entries_lack() {
        let text = "instanceTypes: [{name: own, cpu: 4}]";
        assert!(CatalogFile::parse(text, "f").is_err());
        let rules =
            PriceRules::parse("prices: [{instanceType: own, pricePerHour: 2}]", "p").unwrap();
        let catalog = CatalogFile::parse_with(text, "f", Some(&rules)).unwrap().catalog().unwrap();
        assert_eq!(catalog.buckets()[0].hourly, MicroDollars(2_000_000));
    }

    #[test]
    fn a_catalog_survives_its_file() {
        let text = "instanceTypes:\n- {name: a, cpuMillis: 8000, pricePerHour: 0.123456, capacityType: spot}\n- name: b/team=x\n  accelerators: 2\n  acceleratorKind: example.com/npu\n  pods: 9\n  pricePerHour: 3\n  groups: [{name: g, placementGroup: p, min: 1, max: 4}]\n";
        let catalog = CatalogFile::parse(text, "f").unwrap().catalog().unwrap();
        assert_eq!(CatalogFile::of(&catalog).catalog().unwrap(), catalog);
    }

    /// Names of live buckets have the labels and taints in which groups differ after `/spot`.
    #[test]
    fn a_spot_bucket_with_parts_in_its_name_survives_its_file() {
        let bucket = |name: &str, capacity_type| Bucket {
            name: name.into(),
            capacity_type,
            accelerator_kind: AcceleratorKind::default(),
            allocatable: Resources {
                devices: embedder::Devices::NONE,
                cpu_millis: 4_000,
                ..Resources::UNLIMITED
            },
            hourly: MicroDollars(100_000),
            groups: vec![Group {
                name: name.into(),
                placement_group: None,
                min: 0,
                max: 9,
                weight: 0,
            }],
        };
        let buckets = [
            ("a", CapacityType::OnDemand),
            ("a/spot", CapacityType::Spot),
            ("a/spot/team=x,spot=yes:NoSchedule", CapacityType::Spot),
            ("b/spot/web:NoSchedule", CapacityType::Spot),
            ("b/team=x", CapacityType::OnDemand),
            // A label or taint whose key begins like the mark of spot buckets.
            ("c/spotted=yes", CapacityType::OnDemand),
        ];
        let catalog = Catalog::new(buckets.map(|(name, of)| bucket(name, of)).into()).unwrap();
        let file = CatalogFile::of(&catalog);
        assert_eq!(file.catalog().unwrap(), catalog);
        let text = serde_json::to_string(&file).unwrap();
        assert_eq!(CatalogFile::parse(&text, "f").unwrap().catalog().unwrap(), catalog);
    }

    #[test]
    fn an_absent_resource_is_unlimited() {
        let text = "instanceTypes:\n- {name: a, cpuMillis: 8000, reserved: {cpuMillis: 100}, pricePerHour: 0.5}\n";
        let catalog = CatalogFile::parse(text, "f").unwrap().catalog().unwrap();
        let bucket = &catalog.buckets()[0];
        let expected = Resources {
            accelerators: 0,
            devices: embedder::Devices::NONE,
            cpu_millis: 7_900,
            ..Resources::UNLIMITED
        };
        assert_eq!((bucket.allocatable, bucket.hourly), (expected, MicroDollars(500_000)));
        assert_eq!(bucket.groups[0].max, UNLIMITED);
    }
}
