//! The template of a future node of an Auto Scaling group, derived from the group alone.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_autoscaling::types::AutoScalingGroup;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::instances::instance;
use crate::moto::REGION;
use crate::node_group::TEMPLATE_TAG;

/// Labels, taints, capacity and zone of a future node, as cluster-autoscaler derives them.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) zone: String,
}

/// The template of a node named `node` with instance type `instance_type` in `group`.
pub(crate) fn of(group: &AutoScalingGroup, instance_type: &str, node: &str) -> Result<Template> {
    let size = instance(instance_type)?;
    let zone =
        group.availability_zones().first().context("the Auto Scaling group has no zone")?.clone();
    let labels = [
        ("kubernetes.io/arch", size.architecture),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", node),
        ("node.kubernetes.io/instance-type", instance_type),
        ("topology.kubernetes.io/region", REGION),
        ("topology.kubernetes.io/zone", &zone),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let mut template = Template { labels, taints: Vec::new(), capacity: size.capacity(), zone };
    for tag in group.tags() {
        let Some(kind) = tag.key().and_then(|key| key.strip_prefix(TEMPLATE_TAG)) else { continue };
        template.add(kind, tag.value().unwrap_or_default());
    }
    Ok(template)
}

impl Template {
    fn add(&mut self, tag: &str, value: &str) {
        match tag.split_once('/') {
            Some(("label", key)) => {
                self.labels.insert(key.to_owned(), value.to_owned());
            }
            Some(("resources", name)) => {
                self.capacity.insert(name.to_owned(), Quantity(value.to_owned()));
            }
            Some(("taint", key)) => {
                let Some((value, effect)) = value.rsplit_once(':') else { return };
                let (value, effect) = (Some(value.to_owned()), effect.to_owned());
                self.taints.push(Taint { key: key.to_owned(), value, effect, time_added: None });
            }
            _ => {}
        }
    }
}
