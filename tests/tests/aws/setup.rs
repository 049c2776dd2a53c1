//! Creates groups, launch templates and launch configurations in the emulated AWS.

use aws_sdk_autoscaling::operation::create_auto_scaling_group::builders::CreateAutoScalingGroupFluentBuilder;
use aws_sdk_autoscaling::types::{
    InstanceRequirements, InstancesDistribution, LaunchTemplate, LaunchTemplateOverrides,
    LaunchTemplateSpecification, MemoryMiBRequest, MixedInstancesPolicy, Tag, VCpuCountRequest,
};
use aws_sdk_ec2::types::builders::RequestLaunchTemplateDataBuilder;
use aws_sdk_ec2::types::{Filter, InstanceType, RequestLaunchTemplateData};
use serde_json::json;
use tests::moto::Moto;

const NODE_TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template";

pub(crate) fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).propagate_at_launch(true).build()
}

pub(crate) fn node_template(rest: &str, value: &str) -> Tag {
    tag(&format!("{NODE_TEMPLATE}/{rest}"), value)
}

/// The request for a group of 0 to 10 instances in one zone, with the tags of the discovery. The
/// caller adds a launch template or configuration, and sends it.
pub(crate) fn group(moto: &Moto, name: &str) -> CreateAutoScalingGroupFluentBuilder {
    let call = moto.autoscaling().create_auto_scaling_group().auto_scaling_group_name(name);
    let call = call.min_size(0).max_size(10).availability_zones("us-east-1a");
    call.tags(tag("k8s.io/cluster-autoscaler/enabled", ""))
        .tags(tag("k8s.io/cluster-autoscaler/test", "owned"))
}

pub(crate) fn by_name(name: &str, version: &str) -> LaunchTemplateSpecification {
    LaunchTemplateSpecification::builder().launch_template_name(name).version(version).build()
}

pub(crate) fn data(instance_type: &str) -> RequestLaunchTemplateDataBuilder {
    RequestLaunchTemplateData::builder()
        .image_id("ami-12345678")
        .instance_type(InstanceType::from(instance_type))
}

pub(crate) async fn template(moto: &Moto, name: &str, data: RequestLaunchTemplateData) -> String {
    let call =
        moto.ec2().create_launch_template().launch_template_name(name).launch_template_data(data);
    let made = call.send().await.unwrap();
    made.launch_template().and_then(|made| made.launch_template_id()).unwrap().to_owned()
}

/// A mixed instances policy of `template`, with overrides of instance `types`. `base` is the least
/// number of on-demand instances, `percent` the percentage of on-demand instances above it.
pub(crate) fn mixed(
    template: &str,
    types: &[&str],
    base: i32,
    percent: i32,
) -> MixedInstancesPolicy {
    let overrides =
        types.iter().map(|name| LaunchTemplateOverrides::builder().instance_type(*name).build());
    mixed_of(template, overrides.collect(), base, percent)
}

pub(crate) fn mixed_of(
    template: &str,
    overrides: Vec<LaunchTemplateOverrides>,
    base: i32,
    percent: i32,
) -> MixedInstancesPolicy {
    let specification = by_name(template, "$Default");
    let template = LaunchTemplate::builder().launch_template_specification(specification);
    let distribution = InstancesDistribution::builder()
        .on_demand_base_capacity(base)
        .on_demand_percentage_above_base_capacity(percent);
    MixedInstancesPolicy::builder()
        .launch_template(template.set_overrides(Some(overrides)).build())
        .instances_distribution(distribution.build())
        .build()
}

/// The ID of a machine image of 64-bit Intel, of those that the emulator has from the start.
pub(crate) async fn image(moto: &Moto) -> String {
    let filter = |name: &str, value: &str| Filter::builder().name(name).values(value).build();
    let call = moto.ec2().describe_images().filters(filter("architecture", "x86_64"));
    let found = call.filters(filter("virtualization-type", "hvm")).send().await.unwrap();
    found.images()[0].image_id().unwrap().to_owned()
}

/// Creates a group that selects instance types by their least vCPUs and memory.
pub(crate) async fn by_attributes(
    moto: &Moto,
    name: &str,
    template: &str,
    vcpus: i32,
    memory_mib: i32,
) {
    let requirements = InstanceRequirements::builder()
        .v_cpu_count(VCpuCountRequest::builder().min(vcpus).build())
        .memory_mib(MemoryMiBRequest::builder().min(memory_mib).build());
    let attributes =
        LaunchTemplateOverrides::builder().instance_requirements(requirements.build()).build();
    let policy = mixed_of(template, vec![attributes], 0, 100);
    group(moto, name).mixed_instances_policy(policy).send().await.unwrap();
}

/// Creates one group of each kind, so that the catalog makes every kind of call.
pub(crate) async fn one_of_each(moto: &Moto) {
    let id = template(moto, "base", data("m5.large").build()).await;
    let fixed = LaunchTemplateSpecification::builder().launch_template_id(id).version("1").build();
    group(moto, "fixed").launch_template(fixed).send().await.unwrap();
    group(moto, "latest").launch_template(by_name("base", "$Latest")).send().await.unwrap();
    template(moto, "any", data("m5.large").image_id(image(moto).await).build()).await;
    by_attributes(moto, "attributes", "any", 2, 4_096).await;
    configuration(moto, "old", "m5.large", None).await;
    group(moto, "old").launch_configuration_name("old").send().await.unwrap();
    moto.create_managed_group("main", "blue", json!({}), json!([])).await.unwrap();
    let managed = managed_group(moto, "managed", "blue").launch_template(by_name("base", "1"));
    managed.send().await.unwrap();
}

/// As [`group`], with the tags of a managed node group of the cluster `main`.
pub(crate) fn managed_group(
    moto: &Moto,
    name: &str,
    node_group: &str,
) -> CreateAutoScalingGroupFluentBuilder {
    group(moto, name)
        .tags(tag("eks:cluster-name", "main"))
        .tags(tag("eks:nodegroup-name", node_group))
}

/// Creates a launch configuration; for spot instances if there is a spot price.
pub(crate) async fn configuration(
    moto: &Moto,
    name: &str,
    instance_type: &str,
    spot_price: Option<&str>,
) {
    let call = moto.autoscaling().create_launch_configuration().launch_configuration_name(name);
    let call = call.instance_type(instance_type).image_id("ami-12345678");
    call.set_spot_price(spot_price.map(Into::into)).send().await.unwrap();
}
