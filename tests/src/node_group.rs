//! Node groups: Auto Scaling groups in the emulator, with the tags for cluster-autoscaler's
//! discovery.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_autoscaling::types::{LaunchTemplateSpecification, Tag};
use aws_sdk_ec2::types::{
    InstanceType, LaunchTemplateInstanceMarketOptionsRequest, MarketType, RequestLaunchTemplateData,
};

use crate::moto::Moto;

/// The tag of every group that the autoscaler manages.
pub const ENABLED_TAG: &str = "k8s.io/cluster-autoscaler/enabled";
/// The tag of the groups of this cluster; its key ends in the cluster's name.
pub const CLUSTER_TAG: &str = "k8s.io/cluster-autoscaler/tests";
/// The prefix of the tags that describe the labels, taints and resources of a group's future nodes.
pub const TEMPLATE_TAG: &str = "k8s.io/cluster-autoscaler/node-template/";
/// The node label whose value is the node's placement group.
pub const PLACEMENT_GROUP_LABEL: &str = "tests.prophet.dev/placement-group";
/// The node label of EKS for the capacity type: `SPOT` or `ON_DEMAND`.
pub const CAPACITY_TYPE_LABEL: &str = "eks.amazonaws.com/capacityType";

/// The image of all launch templates. The emulator checks only its format.
const IMAGE: &str = "ami-12c6146b";

/// The description of a node group, which [`NodeGroup::create`] creates.
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
    /// A group of 0 to 10 on-demand instances in zone us-east-1a.
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

    /// Sets the zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        Self { zone: zone.to_owned(), ..self }
    }

    /// Sets the smallest and the largest number of instances. The group starts with `min`.
    #[must_use]
    pub fn sizes(self, min: i32, max: i32) -> Self {
        Self { min, max, ..self }
    }

    /// Sets the placement group, and its name as the node label [`PLACEMENT_GROUP_LABEL`].
    #[must_use]
    pub fn placement_group(self, name: &str) -> Self {
        Self { placement_group: Some(name.to_owned()), ..self }.label(PLACEMENT_GROUP_LABEL, name)
    }

    /// Makes the instances spot instances, with EKS's label.
    #[must_use]
    pub fn spot(self) -> Self {
        Self { spot: true, ..self }.label(CAPACITY_TYPE_LABEL, "SPOT")
    }

    /// Adds EKS's label for on-demand instances. Instances are on demand by default, without the
    /// label.
    #[must_use]
    pub fn on_demand(self) -> Self {
        self.label(CAPACITY_TYPE_LABEL, "ON_DEMAND")
    }

    /// Adds a label of the nodes, as a tag of the group.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}label/{key}"), value)
    }

    /// Adds a taint of the nodes, as a tag of the group.
    #[must_use]
    pub fn taint(self, key: &str, value: &str, effect: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}taint/{key}"), &format!("{value}:{effect}"))
    }

    /// Sets the nodes' quantity of a resource, as a tag of the group.
    #[must_use]
    pub fn resource(self, name: &str, quantity: &str) -> Self {
        self.tag(&format!("{TEMPLATE_TAG}resources/{name}"), quantity)
    }

    /// Adds any other tag.
    #[must_use]
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.tags.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Creates the launch template and the Auto Scaling group.
    ///
    /// # Errors
    /// The emulator refuses a request.
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
