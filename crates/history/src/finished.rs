//! What ran in the cluster, as lines of the history contain it: the pods that ended, and the
//! buckets that were on offer. `prophet simulate --data` replays a cluster from them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, CatalogError, DEVICES_MAX, Devices, Group,
    MicroDollars, Resource, Resources, UNLIMITED,
};
use placeholders::Objective;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use usage::PodUsage;

/// Batch pods of one job that are alike and ran at the same time in one bucket.
///
/// Times are in whole seconds, as in the API of Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishedPods {
    /// The UID of the object that controls the pods, or of the pod if none does.
    pub job: String,
    /// The kind of this object, such as `Job`.
    pub owner_kind: String,
    /// NAMESPACE/NAME of this object. Absent unless the operator allows names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of the shape of each pod.
    pub shape: String,
    /// The priority of the pods.
    #[serde(default)]
    pub priority: i32,
    /// The bucket of their nodes. Absent if the nodes were in no bucket or are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// The number of pods.
    pub pods: u64,
    /// When the pods were created. Pods that a scheduling gate held count as submitted when they
    /// started, because they waited for the gate, too.
    pub submitted: DateTime<Utc>,
    /// When the pods were bound to nodes.
    pub started: DateTime<Utc>,
    /// When the pods ended.
    pub ended: DateTime<Utc>,
    /// Whether the pods waited longer than one scan of the autoscaler.
    pub waited: bool,
    /// What each of the pods used. Absent unless usage is recorded, and for pods that were never
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<PodUsage>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The buckets that a policy could use, and its objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The buckets, in the order of the catalog.
    pub buckets: Vec<OfferedBucket>,
    /// How the policy weighs waiting against idle nodes.
    #[serde(serialize_with = "objective")]
    pub objective: Objective,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Writes an objective in the spelling of format version 1, so that earlier builds can read it.
fn objective<S: Serializer>(objective: &Objective, to: S) -> Result<S::Ok, S::Error> {
    let (name, value) = match objective {
        Objective::Quantile(quantile) => ("quantile", quantile),
        Objective::WaitCost(cost) => ("wait_cost", cost),
        Objective::WaitRatio(ratio) => ("wait_ratio", ratio),
    };
    to.collect_map([(name, value)])
}

/// A bucket that a policy could use, as the history records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedBucket {
    /// The name, unique among the buckets.
    pub name: String,
    /// How its instances are bought: on demand or spot.
    pub capacity_type: CapacityType,
    /// The extended resource of its accelerators, such as `nvidia.com/gpu`. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator_kind: Option<String>,
    /// The allocatable resources of one instance, by the names that shapes have, and its devices by
    /// their names. Resources without a limit are absent.
    pub allocatable: BTreeMap<String, u64>,
    /// The price of one instance for one hour, in millionths of a dollar.
    pub hourly_micro_dollars: u64,
    /// The groups of nodes.
    pub groups: Vec<OfferedGroup>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A group of nodes of a bucket on offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedGroup {
    /// The name, unique among the groups of all buckets.
    pub name: String,
    /// The placement group in which its nodes start. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// The minimum number of nodes.
    #[serde(default)]
    pub min: u64,
    /// The maximum number of nodes. Absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// How strongly the autoscaler prefers the group. Absent if it has no preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Offered {
    /// The record of a catalog.
    pub fn new(catalog: &Catalog, objective: Objective) -> Self {
        let buckets = catalog.buckets().iter();
        let buckets = buckets.map(|bucket| OfferedBucket::new(bucket, catalog.devices())).collect();
        Self { buckets, objective, rest: Map::new() }
    }

    /// The catalog.
    ///
    /// # Errors
    /// There is no bucket, or a name occurs twice.
    pub fn catalog(&self) -> Result<Catalog, CatalogError> {
        let known = |name: &String| Resource::ALL.iter().any(|known| known.label() == name);
        let names = self.buckets.iter().flat_map(|bucket| bucket.allocatable.keys());
        let devices: BTreeSet<&String> = names.filter(|name| !known(name)).collect();
        let devices: Vec<String> = devices.into_iter().take(DEVICES_MAX).cloned().collect();
        let buckets = self.buckets.iter().map(|bucket| bucket.bucket(&devices)).collect();
        Catalog::with_devices(buckets, devices)
    }
}

impl OfferedBucket {
    fn new(bucket: &Bucket, devices: &[String]) -> Self {
        let Bucket { name, capacity_type, accelerator_kind, allocatable, hourly, groups } = bucket;
        let amounts = Resource::ALL.into_iter().zip(allocatable.components());
        let limited = amounts.filter(|(_, amount)| *amount != UNLIMITED);
        let devices = devices.iter().enumerate();
        let devices = devices.map(|(at, name)| (name.clone(), allocatable.devices.get(at)));
        let devices = devices.filter(|(_, amount)| *amount > 0);
        let kind = (allocatable.accelerators > 0).then(|| accelerator_kind.as_str().to_owned());
        Self {
            name: name.clone(),
            capacity_type: *capacity_type,
            accelerator_kind: kind,
            allocatable: limited
                .map(|(name, amount)| (name.label().into(), amount))
                .chain(devices)
                .collect(),
            hourly_micro_dollars: hourly.0,
            groups: groups.iter().map(OfferedGroup::new).collect(),
            rest: Map::new(),
        }
    }

    fn bucket(&self, names: &[String]) -> Bucket {
        let amount = |name: Resource| self.allocatable.get(name.label()).copied();
        let mut devices = Devices::NONE;
        for (at, name) in names.iter().enumerate() {
            devices.set(at, self.allocatable.get(name).copied().unwrap_or(0));
        }
        let kind = self.accelerator_kind.as_deref().unwrap_or(AcceleratorKind::NVIDIA);
        Bucket {
            name: self.name.clone(),
            capacity_type: self.capacity_type,
            accelerator_kind: AcceleratorKind::new(kind),
            allocatable: Resources {
                devices,
                ..Resources::of(Resource::ALL.map(|name| amount(name).unwrap_or(UNLIMITED)))
            },
            hourly: MicroDollars(self.hourly_micro_dollars),
            groups: self.groups.iter().map(OfferedGroup::group).collect(),
        }
    }
}

impl OfferedGroup {
    fn new(group: &Group) -> Self {
        let Group { name, placement_group, min, max, weight } = group.clone();
        let max = (max != UNLIMITED).then_some(max);
        let weight = (weight > 0).then_some(weight);
        Self { name, placement_group, min, max, weight, rest: Map::new() }
    }

    fn group(&self) -> Group {
        let Self { name, placement_group, min, max, weight, .. } = self.clone();
        let (max, weight) = (max.unwrap_or(UNLIMITED), weight.unwrap_or(0));
        Group { name, placement_group, min, max, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_catalog_survives_its_record() {
        let catalog = samples::catalog(&["m5.large", "g5.xlarge", "m5.xlarge/spot/team=a"]);
        let mut buckets = catalog.buckets().to_vec();
        buckets[0].allocatable.devices.set(1, 16);
        let names = ["hugepages-2Mi", "nvidia.com/mig-3g.20gb"].map(str::to_owned);
        let with_devices = Catalog::with_devices(buckets, names.into()).unwrap();
        // A device that no bucket offers is not recorded.
        let offered = Offered::new(&with_devices, Objective::WaitCost(2.5));
        let read = offered.catalog().unwrap();
        assert_eq!(read.devices(), ["nvidia.com/mig-3g.20gb"]);
        let amounts = read.buckets().iter().map(|bucket| bucket.allocatable.devices.get(0));
        assert_eq!(amounts.max(), Some(16));
        let offered = Offered::new(&catalog, Objective::WaitCost(2.5));
        let text = serde_json::to_string(&offered).unwrap();
        let read: Offered = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.catalog()), (&offered, Ok(catalog)));
    }
}
