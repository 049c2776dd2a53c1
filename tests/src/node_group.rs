//! Node groups: Auto Scaling groups in the emulator, tagged as cluster-autoscaler's discovery wants them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_autoscaling::types::{LaunchTemplateSpecification, Tag};
use aws_sdk_ec2::types::{
    InstanceType, LaunchTemplateInstanceMarketOptionsRequest, MarketType, RequestLaunchTemplateData,
};

use crate::moto::Moto;

/// Each group has this tag; so has, with this cluster's name, the one below.
pub const ENABLED_TAG: &str = "k8s.io/cluster-autoscaler/enabled";
/// Says to which cluster a group belongs.
pub const CLUSTER_TAG: &str = "k8s.io/cluster-autoscaler/tests";
/// What an autoscaler cannot see of a node that does not exist yet is in tags below this.
pub const TEMPLATE_TAG: &str = "k8s.io/cluster-autoscaler/node-template/";
/// The node label that tells placement groups apart.
pub const PLACEMENT_GROUP_LABEL: &str = "tests.prophet.dev/placement-group";
/// EKS's label: `SPOT` or `ON_DEMAND`.
pub const CAPACITY_TYPE_LABEL: &str = "eks.amazonaws.com/capacityType";

/// The emulator asks for no more than that it looks like one.
const IMAGE: &str = "ami-12c6146b";

/// What is to be created; see [`NodeGroup::create`].
#[derive(Debug, Clone)]
pub struct NodeGroup {
    name: String,
    instance_type: String,
    zone: String,
    min: i32,
    max: i32,
    placement_group: Option<String>,
    spot: bool,
    tags: BTreeMap<String, String>,
}

impl NodeGroup {
    /// On demand, in zone us-east-1a, of 0 to 10 instances.
    pub fn new(name: &str, instance_type: &str) -> Self {
        let tags = [(ENABLED_TAG, "true"), (CLUSTER_TAG, "owned")];
        Self {
            name: name.to_owned(),
            instance_type: instance_type.to_owned(),
            zone: "us-east-1a".to_owned(),
            min: 0,
            max: 10,
            placement_group: None,
            spot: false,
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        }
    }

    /// In another zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        Self { zone: zone.to_owned(), ..self }
    }

    /// From `min` to `max` instances; it starts with `min`.
    #[must_use]
    pub fn sizes(self, min: i32, max: i32) -> Self {
        Self { min, max, ..self }
    }

    /// In a placement group, with its name in [`PLACEMENT_GROUP_LABEL`].
    #[must_use]
    pub fn placement_group(self, name: &str) -> Self {
        Self { placement_group: Some(name.to_owned()), ..self }.label(PLACEMENT_GROUP_LABEL, name)
    }

    /// Of spot instances, with EKS's label.
    #[must_use]
    pub fn spot(self) -> Self {
        Self { spot: true, ..self }.label(CAPACITY_TYPE_LABEL, "SPOT")
    }

    /// Of instances on demand, as without this, but with EKS's label.
    #[must_use]
    pub fn on_demand(self) -> Self {
        self.label(CAPACITY_TYPE_LABEL, "ON_DEMAND")
    }

    /// A label of its nodes, told in a tag.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}label/{key}"), value)
    }

    /// A taint of its nodes, told in a tag.
    #[must_use]
    pub fn taint(self, key: &str, value: &str, effect: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}taint/{key}"), &format!("{value}:{effect}"))
    }

    /// What its nodes have of a resource, told in a tag.
    #[must_use]
    pub fn resource(self, name: &str, quantity: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}resources/{name}"), quantity)
    }

    /// Any other tag.
    #[must_use]
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.tags.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Creates its launch template and the Auto Scaling group.
    ///
    /// # Errors
    /// Where the emulator refuses.
    pub async fn create(&self, moto: &Moto) -> Result<()> {
        let market =
            LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(MarketType::Spot);
        let data = RequestLaunchTemplateData::builder()
            .image_id(IMAGE)
            .instance_type(InstanceType::from(self.instance_type.as_str()))
            .set_instance_market_options(self.spot.then(|| market.build()));
        let template = moto.ec2().create_launch_template().launch_template_name(&self.name);
        let template = template.launch_template_data(data.build()).send().await;
        template
            .with_context(|| format!("failed to create the launch template of {}", self.name))?;

        let template = LaunchTemplateSpecification::builder()
            .launch_template_name(&self.name)
            .version("$Latest");
        let tag = |(key, value): (&String, &String)| {
            let tag = Tag::builder().resource_id(&self.name).resource_type("auto-scaling-group");
            tag.key(key).value(value).propagate_at_launch(false).build()
        };
        let group =
            moto.autoscaling().create_auto_scaling_group().auto_scaling_group_name(&self.name);
        let group = group.launch_template(template.build()).availability_zones(&self.zone);
        let group = group.min_size(self.min).max_size(self.max).desired_capacity(self.min);
        let group = group.set_placement_group(self.placement_group.clone());
        let group = group.set_tags(Some(self.tags.iter().map(tag).collect())).send().await;
        group.with_context(|| format!("failed to create the Auto Scaling group {}", self.name))?;
        Ok(())
    }
}
