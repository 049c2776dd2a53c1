//! The price of an instance of a bucket.

use embedder::{CapacityType, Resources};
use instances::{Bought, Price, PriceRules};

use super::group::{LaunchedBy, NodeGroup};
use super::labels::{REGION_LABELS, ZONE_LABELS};

/// What the prices of instances depend on, apart from the instances.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    /// What the operator pays.
    pub rules: &'a PriceRules,
    /// The region of the cluster's nodes, if known. That of a group precedes it.
    pub region: Option<&'a str>,
}

impl Pricing<'_> {
    /// The prices of the table for us-east-1.
    pub fn of_table() -> Self {
        static NONE: PriceRules = PriceRules(Vec::new());
        Self { rules: &NONE, region: None }
    }

    /// The price of an instance of a group whose nodes have `has` for pods. Of the types that
    /// Karpenter launches, it is the cheapest, and of the others the first, because
    /// cluster-autoscaler describes a group by it.
    pub(super) fn of(
        &self,
        group: &NodeGroup,
        capacity_type: CapacityType,
        has: Resources,
    ) -> Price {
        let label =
            |keys: &[&str]| keys.iter().find_map(|key| group.labels.get(*key)).map(String::as_str);
        let of_type = |instance_type: &str| {
            self.rules.price(&Bought {
                instance_type,
                capacity_type,
                region: label(&REGION_LABELS).or(self.region),
                zone: group.zone.as_deref().or_else(|| label(&ZONE_LABELS)),
                has,
                described: group.hourly,
            })
        };
        let first = of_type(&group.instance_type);
        if group.launched_by != LaunchedBy::Karpenter {
            return first;
        }
        let others = group.instance_types().map(|name| of_type(name));
        others.filter(|price| price.source.is_known()).fold(first, |cheapest, price| {
            if price.hourly < cheapest.hourly { price } else { cheapest }
        })
    }
}
