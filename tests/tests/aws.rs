//! The catalog from Auto Scaling groups in an emulated AWS. It must equal cluster-autoscaler's
//! view.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::Credentials;
use aws_sdk_autoscaling::types::{
    AutoScalingGroup, LaunchTemplateOverrides, LaunchTemplateSpecification,
    WarmPoolState as WarmPoolPoolState,
};
use aws_sdk_ec2::types::{
    InstanceRequirementsRequest, LaunchTemplateCpuOptionsRequest,
    LaunchTemplateInstanceMarketOptionsRequest, MarketType, MemoryMiBRequest,
    RequestLaunchTemplateData, VCpuCountRangeRequest,
};
use controller::catalog::aws::{
    ACTIONS, AwsCatalog, Clients, DEADLINE, Found, PriceReader, clients,
};
use controller::catalog::{
    NodeGroup, OtherTypes, StandingPool, StandingPools, WantedPool, WantedPools,
};
use controller::crd::WarmPoolState;
use instances::{CapacityReservation, PriceRules};
use serde_json::json;
use tests::moto::{Moto, REGION};

#[path = "aws/example.rs"]
mod example;
#[path = "aws/proxy.rs"]
mod proxy;
#[path = "aws/setup.rs"]
mod setup;

use proxy::Proxy;
use setup::{
    by_attributes, by_name, configuration, data, group, image, managed_group, mixed, mixed_of,
    node_template, one_of_each, tag, template,
};

const DISCOVERY: &str =
    "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/test=owned";

async fn config(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .load()
        .await
}

async fn catalog(endpoint: &str) -> AwsCatalog {
    AwsCatalog::new(Clients::new(&config(endpoint).await), DISCOVERY.parse().unwrap(), DEADLINE)
}

async fn found(moto: &Moto) -> Found {
    catalog(moto.endpoint()).await.node_groups().await.unwrap()
}

/// Formats a group as a line: name, instance type, capacity type, placement group, zone,
/// min/desired/max, capacity; then the labels, taints and resources of its tags.
fn line(group: &NodeGroup) -> String {
    let NodeGroup {
        name,
        instance_type,
        capacity_type,
        placement_group,
        zone,
        min,
        max,
        desired,
        ..
    } = group;
    let NodeGroup { labels, taints, capacity, accelerator_kind, resources, .. } = group;
    let placed = placement_group.as_deref().unwrap_or("-");
    let zone = zone.as_deref().unwrap_or("-");
    let (cpus, gib, pods) =
        (capacity.cpu_millis / 1_000, capacity.memory_bytes >> 30, capacity.pods);
    let accelerators = match capacity.accelerators {
        0 => String::new(),
        some => format!(" {some} {accelerator_kind}"),
    };
    let line = format!(
        "{name}: {instance_type} {capacity_type:?} {placed} {zone} {min}/{desired}/{max}, {cpus} cpus {gib} GiB {pods} pods{accelerators}"
    );
    let own = labels.iter().filter(|(key, _)| !key.contains("kubernetes.io/"));
    let own = own.map(|(key, value)| format!("{key}={value}"));
    let taints =
        taints.iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect));
    let resources = resources.iter().map(|(name, quantity)| format!("{name}: {quantity}"));
    own.chain(taints).chain(resources).fold(line, |line, part| format!("{line}, {part}"))
}

#[track_caller]
fn check(found: &Found, groups: &[&str], problems: &[&str]) {
    let lines: Vec<String> = found.groups.iter().map(line).collect();
    assert_eq!(lines, groups);
    let found_problems: Vec<String> = found
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.fault.label(), problem))
        .collect();
    assert_eq!(found_problems, problems);
}

#[tokio::test]
async fn groups_are_found_with_their_instance_types() {
    let moto = Moto::start().await.unwrap();
    let id = template(&moto, "gpu", data("g5.48xlarge").build()).await;
    for (name, placement_group) in
        [("a-1", "pg-a"), ("a-2", "pg-a"), ("b-1", "pg-b"), ("b-2", "pg-b")]
    {
        let specification =
            LaunchTemplateSpecification::builder().launch_template_id(&id).version("1");
        group(&moto, name)
            .launch_template(specification.build())
            .placement_group(placement_group)
            .tags(node_template("label/example.com/placement-group", placement_group))
            .tags(node_template("taint/nvidia.com/gpu", "true:NoSchedule"))
            .tags(node_template("resources/ephemeral-storage", "100Gi"))
            .send()
            .await
            .unwrap();
    }
    configuration(&moto, "old", "m5.4xlarge", None).await;
    group(&moto, "old").launch_configuration_name("old").send().await.unwrap();
    configuration(&moto, "old-spot", "m5.24xlarge", Some("1")).await;
    group(&moto, "old-spot")
        .launch_configuration_name("old-spot")
        .desired_capacity(2)
        .send()
        .await
        .unwrap();

    let foreign = moto.autoscaling().create_auto_scaling_group().auto_scaling_group_name("foreign");
    let foreign = foreign.launch_configuration_name("old").min_size(0).max_size(1);
    let one_of_two = tag("k8s.io/cluster-autoscaler/enabled", "");
    foreign.availability_zones("us-east-1a").tags(one_of_two).send().await.unwrap();

    let gpu = "g5.48xlarge OnDemand";
    let has = "us-east-1a 0/0/10, 192 cpus 768 GiB 250 pods 8 nvidia.com/gpu";
    let tagged = |group: &str| {
        format!(
            "example.com/placement-group={group}, nvidia.com/gpu=true:NoSchedule, ephemeral-storage: 100Gi"
        )
    };
    check(
        &found(&moto).await,
        &[
            &format!("a-1: {gpu} pg-a {has}, {}", tagged("pg-a")),
            &format!("a-2: {gpu} pg-a {has}, {}", tagged("pg-a")),
            &format!("b-1: {gpu} pg-b {has}, {}", tagged("pg-b")),
            &format!("b-2: {gpu} pg-b {has}, {}", tagged("pg-b")),
            "old: m5.4xlarge OnDemand - us-east-1a 0/0/10, 16 cpus 64 GiB 110 pods",
            "old-spot: m5.24xlarge Spot - us-east-1a 0/2/10, 96 cpus 384 GiB 250 pods",
        ],
        &[],
    );
}

#[tokio::test]
async fn templates_are_read_by_id_name_and_version() {
    let moto = Moto::start().await.unwrap();
    let id = template(&moto, "grown", data("m5.large").build()).await;
    let version = moto.ec2().create_launch_template_version().launch_template_id(&id);
    version.launch_template_data(data("m5.xlarge").build()).send().await.unwrap();
    for version in ["1", "2", "$Latest", "$Default"] {
        let specification =
            LaunchTemplateSpecification::builder().launch_template_id(&id).version(version);
        let name = format!("id {version}");
        group(&moto, &name).launch_template(specification.build()).send().await.unwrap();
        let name = format!("name {version}");
        group(&moto, &name).launch_template(by_name("grown", version)).send().await.unwrap();
    }
    let market =
        LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(MarketType::Spot);
    template(&moto, "spot", data("m7g.large").instance_market_options(market.build()).build())
        .await;
    group(&moto, "spot").launch_template(by_name("spot", "$Default")).send().await.unwrap();
    let cpus =
        LaunchTemplateCpuOptionsRequest::builder().core_count(24).threads_per_core(1).build();
    template(&moto, "unthreaded", data("m5.12xlarge").cpu_options(cpus).build()).await;
    group(&moto, "unthreaded").launch_template(by_name("unthreaded", "1")).send().await.unwrap();
    let large = "m5.large OnDemand - us-east-1a 0/0/10, 2 cpus 8 GiB 29 pods";
    let xlarge = "m5.xlarge OnDemand - us-east-1a 0/0/10, 4 cpus 16 GiB 58 pods";
    check(
        &found(&moto).await,
        &[
            &format!("id $Default: {large}"),
            &format!("id $Latest: {xlarge}"),
            &format!("id 1: {large}"),
            &format!("id 2: {xlarge}"),
            &format!("name $Default: {large}"),
            &format!("name $Latest: {xlarge}"),
            &format!("name 1: {large}"),
            &format!("name 2: {xlarge}"),
            "spot: m7g.large Spot - us-east-1a 0/0/10, 2 cpus 8 GiB 29 pods",
            "unthreaded: m5.12xlarge OnDemand - us-east-1a 0/0/10, 24 cpus 192 GiB 234 pods",
        ],
        &[],
    );
}

#[tokio::test]
async fn a_mixed_group_counts_as_its_first_override() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "base", data("m5.large").build()).await;
    for (name, types, base, percent) in [
        ("all-spot", &["c5.4xlarge"][..], 0, 0),
        ("no-override", &[], 0, 100),
        ("partly", &["trn1.32xlarge"], 0, 50),
        ("partly-by-base", &["p5.48xlarge"], 1, 0),
        ("sizes", &["m5.xlarge", "m5.2xlarge", "m5a.xlarge"], 0, 100),
        ("types", &["m5.xlarge", "m5a.xlarge", "m5.xlarge", "m4.xlarge"], 0, 100),
    ] {
        let policy = mixed("base", types, base, percent);
        group(&moto, name).mixed_instances_policy(policy).send().await.unwrap();
    }
    let found = found(&moto).await;
    check(
        &found,
        &[
            "all-spot: c5.4xlarge Spot - us-east-1a 0/0/10, 16 cpus 32 GiB 110 pods",
            "no-override: m5.large OnDemand - us-east-1a 0/0/10, 2 cpus 8 GiB 29 pods",
            "partly: trn1.32xlarge OnDemand - us-east-1a 0/0/10, 128 cpus 512 GiB 247 pods 16 aws.amazon.com/neuron",
            "partly-by-base: p5.48xlarge OnDemand - us-east-1a 0/0/10, 192 cpus 2048 GiB 100 pods 8 nvidia.com/gpu",
            "sizes: m5.xlarge OnDemand - us-east-1a 0/0/10, 4 cpus 16 GiB 58 pods",
            "types: m5.xlarge OnDemand - us-east-1a 0/0/10, 4 cpus 16 GiB 58 pods",
        ],
        &[
            "partly_spot: Auto Scaling group partly: only some of its instances are spot instances, so it counts as on demand",
            "partly_spot: Auto Scaling group partly-by-base: only some of its instances are spot instances, so it counts as on demand",
            "mixed_instance_types: Auto Scaling group sizes: it also launches instance types of other sizes than its first, so its placeholders have the size of the first, or of the smallest node that came: m5.2xlarge",
        ],
    );
    let others: Vec<&OtherTypes> = found.groups.iter().map(|group| &group.other_types).collect();
    let same_size = OtherTypes::SameSize(["m4.xlarge", "m5a.xlarge"].map(str::to_owned).into());
    let sizes = OtherTypes::OtherSizes(["m5.2xlarge", "m5a.xlarge"].map(str::to_owned).into());
    let none = &OtherTypes::None;
    assert_eq!(others, [none, none, none, none, &sizes, &same_size]);
}

#[tokio::test]
async fn a_node_has_the_labels_of_its_type_and_zone_unless_a_tag_overrides_them() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "arm", data("m7g.large").build()).await;
    let arm = || group(&moto, "arm").launch_template(by_name("arm", "1"));
    let two_zones = arm().availability_zones("us-east-1b");
    two_zones.tags(node_template("label/kubernetes.io/os", "windows")).send().await.unwrap();
    let one_zone = arm().auto_scaling_group_name("one-zone");
    one_zone.send().await.unwrap();
    let common = "kubernetes.io/arch=arm64 kubernetes.io/os=OS node.kubernetes.io/instance-type=m7g.large topology.kubernetes.io/region=us-east-1";
    let labels = found(&moto).await.groups.into_iter().map(|group| {
        let labels = group.labels.iter().map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<_>>().join(" ")
    });
    let zone = " topology.kubernetes.io/zone=us-east-1a";
    assert_eq!(
        labels.collect::<Vec<_>>(),
        [common.replace("OS", "windows"), common.replace("OS", "linux") + zone]
    );
}

#[tokio::test]
async fn a_problem_of_a_group_is_reported_and_hides_no_other_group() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "base", data("m5.large").build()).await;
    let base = || by_name("base", "1");
    by_attributes(&moto, "attributes", "base", 2, 4_096).await;
    let gone = template(&moto, "gone", data("m5.large").build()).await;
    group(&moto, "gone").launch_template(by_name("gone", "1")).send().await.unwrap();
    moto.ec2().delete_launch_template().launch_template_id(&gone).send().await.unwrap();
    configuration(&moto, "old", "m5.large", None).await;
    group(&moto, "gone-old").launch_configuration_name("old").send().await.unwrap();
    moto.autoscaling()
        .delete_launch_configuration()
        .launch_configuration_name("old")
        .send()
        .await
        .unwrap();
    group(&moto, "suspended").launch_template(base()).desired_capacity(3).send().await.unwrap();
    let suspend = moto.autoscaling().suspend_processes().auto_scaling_group_name("suspended");
    suspend.scaling_processes("Launch").send().await.unwrap();
    let tagged = group(&moto, "tagged").launch_template(base());
    let tagged =
        tagged.tags(node_template("taint/batch", "true")).tags(node_template("label/team", "ml"));
    tagged.tags(node_template("resources/cpu", "a lot")).send().await.unwrap();
    // The emulator lacks this type, and Prophet's own table has it.
    template(&moto, "retired", data("p3.2xlarge").build()).await;
    group(&moto, "retired").launch_template(by_name("retired", "1")).send().await.unwrap();
    template(&moto, "unknown", data("z9.huge").build()).await;
    group(&moto, "unknown").launch_template(by_name("unknown", "1")).send().await.unwrap();
    let weighted =
        LaunchTemplateOverrides::builder().instance_type("m5.large").weighted_capacity("4").build();
    let policy = mixed_of("base", vec![weighted], 0, 100);
    group(&moto, "weighted").mixed_instances_policy(policy).send().await.unwrap();

    let has = "2 cpus 8 GiB 29 pods";
    let found = found(&moto).await;
    check(
        &found,
        &[
            "retired: p3.2xlarge OnDemand - us-east-1a 0/0/10, 8 cpus 61 GiB 58 pods 1 nvidia.com/gpu",
            &format!("suspended: m5.large OnDemand - us-east-1a 0/3/3, {has}"),
            &format!("tagged: m5.large OnDemand - us-east-1a 0/0/10, {has}, team=ml"),
        ],
        &[
            "by_attributes: Auto Scaling group attributes: it selects instance types by attributes, and they are not known: ec2:DescribeImages failed, InvalidAMIID.NotFound",
            &format!(
                "launch_template_gone: Auto Scaling group gone: launch template {gone} has no version 1, or does not exist"
            ),
            "launch_configuration_gone: Auto Scaling group gone-old: launch configuration old does not exist",
            "type_from_table: Auto Scaling group retired: instance type p3.2xlarge is not listed in this region, so its size is from Prophet's table",
            "launch_suspended: Auto Scaling group suspended: its process Launch is suspended, so it cannot grow",
            "malformed_tag: Auto Scaling group tagged: tag \"k8s.io/cluster-autoscaler/node-template/resources/cpu\" = \"a lot\": its value is not a quantity",
            "malformed_tag: Auto Scaling group tagged: tag \"k8s.io/cluster-autoscaler/node-template/taint/batch\" = \"true\": expected VALUE:EFFECT",
            "unknown_instance_type: Auto Scaling group unknown: instance type z9.huge is unknown in this region",
            "not_in_instances: Auto Scaling group weighted: it counts its capacity in weights, vCPUs or memory, not in instances",
        ],
    );
    for problem in &found.problems {
        let left_out = found.groups.iter().all(|group| group.name != problem.group);
        assert_eq!(left_out, problem.fault.leaves_out(), "{problem}");
    }
}

/// The emulator lists no types for attributes, so the proxy does: those of [`LISTED`].
#[tokio::test]
async fn a_group_that_selects_types_by_attributes_has_the_least_size_that_they_admit() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "mixed", data("m5.large").image_id(image(&moto).await).build()).await;
    by_attributes(&moto, "one-size", "mixed", 4, 8_192).await;
    by_attributes(&moto, "sizes", "mixed", 3, 12_288).await;
    by_attributes(&moto, "gpus", "mixed", 48, 65_536).await;
    let requirements = InstanceRequirementsRequest::builder()
        .v_cpu_count(VCpuCountRangeRequest::builder().min(4).build())
        .memory_mib(MemoryMiBRequest::builder().min(16_384).build());
    let template_data = RequestLaunchTemplateData::builder()
        .image_id(image(&moto).await)
        .instance_requirements(requirements.build());
    template(&moto, "own", template_data.build()).await;
    group(&moto, "own").launch_template(by_name("own", "1")).send().await.unwrap();
    let proxy = Proxy::start(moto.endpoint(), 0).await.unwrap();
    let mut catalog = catalog(proxy.endpoint()).await;
    let found = catalog.node_groups().await.unwrap();
    let has = "us-east-1a 0/0/10";
    check(
        &found,
        &[
            &format!("one-size: m5.xlarge OnDemand - {has}, 4 cpus 8 GiB 58 pods"),
            &format!("own: m5.xlarge OnDemand - {has}, 4 cpus 16 GiB 58 pods"),
            &format!("sizes: m5.2xlarge OnDemand - {has}, 3 cpus 12 GiB 58 pods"),
        ],
        &[
            "mixed_hardware: Auto Scaling group gpus: it also launches instance types of another architecture or with other accelerators than its first, so its placeholders would have no single size: g5.48xlarge",
            "selected_types: Auto Scaling group sizes: it selects 3 instance types by attributes, so its placeholders have the least size that the attributes admit, or that of the smallest node that came",
        ],
    );
    // The lists stay in use, and what a group selects is asked for when it changes.
    let asked = |seen: Vec<String>| {
        let is_list = |action: &&String| action.ends_with("FromInstanceRequirements");
        seen.iter().filter(is_list).count()
    };
    assert_eq!(asked(proxy.take_seen()), 4);
    catalog.node_groups().await.unwrap();
    assert_eq!(asked(proxy.take_seen()), 0);
}

#[tokio::test]
async fn a_managed_node_group_has_the_labels_and_taints_of_eks_or_is_reported() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "base", data("m5.large").build()).await;
    let web = json!([{"key": "web", "value": "yes", "effect": "NO_SCHEDULE"}]);
    let labels = json!({"team": "blue", "pool": "a"});
    moto.create_managed_group("main", "blue", labels, web).await.unwrap();
    moto.create_managed_group("main", "plain", json!({}), json!([])).await.unwrap();
    let base = |name: &str, managed: &str| {
        managed_group(&moto, name, managed).launch_template(by_name("base", "1"))
    };
    base("blue", "blue").send().await.unwrap();
    // The values of tags prevail, as in cluster-autoscaler.
    let tagged = base("blue-tagged", "blue").tags(node_template("label/team", "red"));
    tagged.tags(node_template("taint/gpu", ":NoExecute")).send().await.unwrap();
    base("gone", "gone").send().await.unwrap();
    base("gone-tagged", "gone").tags(node_template("label/team", "red")).send().await.unwrap();
    base("plain", "plain").desired_capacity(1).send().await.unwrap();
    group(&moto, "own").launch_template(by_name("base", "1")).send().await.unwrap();
    let found = found(&moto).await;
    let has = "m5.large OnDemand - us-east-1a 0/0/10, 2 cpus 8 GiB 29 pods";
    // The labels that EKS sets itself.
    let of_eks = |name: &str| {
        format!("eks.amazonaws.com/capacityType=ON_DEMAND, eks.amazonaws.com/nodegroup={name}")
    };
    let (blue, plain) = (of_eks("blue"), of_eks("plain"));
    check(
        &found,
        &[
            &format!("blue: {has}, {blue}, pool=a, team=blue, web=yes:NoSchedule"),
            &format!(
                "blue-tagged: {has}, {blue}, pool=a, team=red, gpu=:NoExecute, web=yes:NoSchedule"
            ),
            &format!("gone: {has}"),
            &format!("gone-tagged: {has}, team=red"),
            &format!("own: {has}"),
            &format!("plain: {}, {plain}", has.replace("0/0/10", "0/1/10")),
        ],
        &[
            "undescribed: Auto Scaling group gone: EKS does not describe the labels and taints of its nodes (status 404: No node group found for name: gone.), and no tag does, so pods that need them do not count for it until it has a node",
        ],
    );
    let described: Vec<bool> = found.groups.iter().map(|group| group.described).collect();
    assert_eq!(described, [true, true, false, true, false, true]);
    let instances: Vec<usize> = found.groups.iter().map(|group| group.instances.len()).collect();
    assert_eq!(instances, [0, 0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn many_groups_of_many_types_come_in_pages() {
    let moto = Moto::start().await.unwrap();
    template(&moto, "base", data("m5.large").build()).await;
    let offered = moto.ec2().describe_instance_types().send().await.unwrap();
    let mut types: Vec<&str> =
        offered.instance_types().iter().map(|t| t.instance_type().unwrap().as_str()).collect();
    types.sort_unstable();
    types.truncate(230);
    for name in &types {
        let policy = mixed("base", &[name], 0, 100);
        group(&moto, name).mixed_instances_policy(policy).send().await.unwrap();
    }
    let found = found(&moto).await;
    let read: Vec<&str> = found.groups.iter().map(|group| group.instance_type.as_str()).collect();
    assert_eq!((read, found.problems.as_slice()), (types, &[][..]));
    assert!(found.groups.iter().all(|g| g.capacity.cpu_millis > 0 && g.capacity.memory_bytes > 0));
}

#[tokio::test]
async fn the_catalog_makes_exactly_the_calls_that_the_documented_policy_allows() {
    let moto = Moto::start().await.unwrap();
    one_of_each(&moto).await;
    let proxy = Proxy::start(moto.endpoint(), 0).await.unwrap();
    let mut catalog = catalog(proxy.endpoint()).await;
    let first = catalog.node_groups().await.unwrap();
    assert_eq!(first.groups.len(), 5, "{:?}", first.problems);
    let groups = proxy.take_seen();
    assert_eq!(groups.len(), 10, "{groups:?}");
    let reader = PriceReader::new(Clients::new(&config(proxy.endpoint()).await)).unwrap();
    let (types, now) = (["m5.xlarge".to_owned()].into(), base::clock::now());
    let mut prices = reader.none();
    assert!(reader.refresh(&mut prices, &types, now).await.is_empty());
    let of_prices = proxy.take_seen();
    assert_eq!(of_prices, ["pricing:GetProducts", "ec2:DescribeSpotPriceHistory"]);
    let line = |of: &CapacityReservation| {
        let CapacityReservation {
            id,
            tags,
            instance_type,
            zone,
            total,
            available,
            instances,
            until,
        } = of;
        let until = until.map(|until| until.to_rfc3339()).unwrap_or_default();
        format!("{id} {tags:?} {instance_type} {zone} {available}/{total} {instances:?} {until}")
    };
    let named = |rules: &str| PriceRules::parse(&format!("prices: [{rules}]"), "rules").unwrap();
    let rules = named("{reservation: {tags: {team: batch}}}, {reservation: {id: cr-open}}");
    let reservations = reader.reservations(&rules).await.unwrap();
    assert_eq!(
        reservations.iter().map(line).collect::<Vec<_>>(),
        [
            r#"cr-block {"team": "batch"} m5.xlarge us-east-1a 2/6 {} 2030-01-01T10:50:00+00:00"#,
            r#"cr-open {"team": "batch"} m5.xlarge us-east-1a 2/6 {"i-a", "i-b"} "#,
        ]
    );
    let of_reservations = proxy.take_seen();
    let expected = ["ec2:DescribeCapacityReservations", "ec2:DescribeInstances"];
    assert_eq!(of_reservations, expected);
    let other = reader.reservations(&named("{reservation: {id: cr-other}}")).await.unwrap();
    assert_eq!((other, proxy.take_seen().len()), (vec![], 1));
    let of_prices = of_prices.into_iter().chain(of_reservations);
    let group = first.groups.iter().find(|group| group.may_have_warm_pool).unwrap();
    let none = StandingPools::default();
    for wanted in [wanted(&[(&group.name, 1)]), wanted(&[])] {
        let standing = catalog.follow_pools(Some(&wanted), &|| Duration::MAX, &none).await;
        assert!(standing.faults.is_empty(), "{:?}", standing.faults);
    }
    let of_pools = proxy.take_seen();
    let expected = ["CreateOrUpdateTags", "PutWarmPool", "DescribeWarmPool", "DeleteWarmPool"];
    let expected =
        expected.into_iter().chain(["DeleteTags"]).map(|call| format!("autoscaling:{call}"));
    assert!(of_pools.iter().eq(&expected.collect::<Vec<_>>()), "{of_pools:?}");
    let made = groups.into_iter().chain(of_prices).chain(of_pools);
    let made: BTreeSet<String> = made.collect();

    let docs = include_str!("../../docs/permissions-aws.md");
    let policy =
        docs.split_once("```json\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let policy: serde_json::Value = serde_json::from_str(policy).unwrap();
    let actions = policy["Statement"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|s| s["Action"].as_array().unwrap());
    let allowed: BTreeSet<&str> = actions.map(|action| action.as_str().unwrap()).collect();
    let made: BTreeSet<&str> = made.iter().map(String::as_str).collect();
    assert_eq!(made, allowed);
    assert_eq!(BTreeSet::from(ACTIONS), allowed);

    // The catalog caches data that cannot change, so the second read makes fewer calls.
    let second = catalog.node_groups().await.unwrap();
    assert_eq!((&second.groups, &second.problems), (&first.groups, &first.problems));
    // The emulator gives each scaling activity the time of the request.
    assert!(second.closed.keys().eq(first.closed.keys()), "{:?}", second.closed);
    let expected = [
        "autoscaling:DescribeAutoScalingGroups",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:DescribeLaunchTemplateVersions",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
    ];
    assert_eq!(proxy.take_seen(), expected);
    // Prices are read again once they are old: spot prices after 15 minutes, the others after a
    // day.
    for (minutes, expected) in [
        (14, vec![]),
        (15, vec!["ec2:DescribeSpotPriceHistory"]),
        (24 * 60, vec!["pricing:GetProducts", "ec2:DescribeSpotPriceHistory"]),
    ] {
        let later = now + Duration::from_mins(minutes);
        assert!(reader.refresh(&mut prices, &types, later).await.is_empty());
        assert_eq!(proxy.take_seen(), expected, "after {minutes} minutes");
    }
}

/// The stand-in answers with the activity of a group that AWS had no capacity for.
#[tokio::test]
async fn a_group_whose_launch_failed_is_closed_and_the_permission_for_it_is_optional() {
    let moto = Moto::start().await.unwrap();
    one_of_each(&moto).await;
    for (denied, expected) in
        [(&[][..], vec!["no-capacity"]), (&["autoscaling:DescribeScalingActivities"][..], vec![])]
    {
        let proxy = Proxy::denying(moto.endpoint(), 0, denied).await.unwrap();
        let found = catalog(proxy.endpoint()).await.node_groups().await.unwrap();
        assert_eq!(found.groups.len(), 5, "{:?}", found.problems);
        assert_eq!(found.closed.keys().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_permission_for_capacity_reservations_that_is_missing_is_named() {
    let moto = Moto::start().await.unwrap();
    let rules = PriceRules::parse("prices: [{reservation: {id: cr-open}}]", "rules").unwrap();
    for action in ["ec2:DescribeCapacityReservations", "ec2:DescribeInstances"] {
        let denied: &'static [&'static str] = vec![action].leak();
        let proxy = Proxy::denying(moto.endpoint(), 0, denied).await.unwrap();
        let reader = PriceReader::new(Clients::new(&config(proxy.endpoint()).await)).unwrap();
        let error = reader.reservations(&rules).await.unwrap_err().to_string();
        assert_eq!(error, format!("failed to call {action}"));
    }
}

#[tokio::test]
async fn each_permission_for_prices_is_optional() {
    let moto = Moto::start().await.unwrap();
    let types = ["m5.xlarge".to_owned(), "m7i.xlarge".to_owned()].into();
    let cases: [(&'static [&'static str], [usize; 2], &str); 3] = [
        (&[], [2, 2], ""),
        (
            &["pricing:GetProducts"],
            [0, 2],
            "failed to call pricing:GetProducts: service error: AccessDeniedException",
        ),
        (
            &["ec2:DescribeSpotPriceHistory"],
            [2, 0],
            "failed to call ec2:DescribeSpotPriceHistory: service error: unhandled error (UnauthorizedOperation)",
        ),
    ];
    for (denied, [on_demand, spot], expected) in cases {
        let proxy = Proxy::denying(moto.endpoint(), 0, denied).await.unwrap();
        let reader = PriceReader::new(Clients::new(&config(proxy.endpoint()).await)).unwrap();
        let mut prices = reader.none();
        let failures = reader.refresh(&mut prices, &types, base::clock::now()).await;
        assert!(failures.join("; ").starts_with(expected), "{failures:?}");
        assert_eq!(failures.len(), denied.len());
        assert_eq!((prices.on_demand.len(), prices.spot.len()), (on_demand, spot), "{denied:?}");
        // The emulator has one price for all instances.
        let has_spot = prices.spot("m5.xlarge", Some("us-east-1a")).is_some();
        assert_eq!(has_spot, spot > 0, "{denied:?}");
    }
}

/// The stand-in sells no m7i.xlarge in us-east-1.
#[tokio::test(flavor = "multi_thread")]
async fn the_prices_of_types_are_those_of_the_price_list() {
    let moto = Moto::start().await.unwrap();
    let proxy = Proxy::start(moto.endpoint(), 0).await.unwrap();
    for (region, expected) in [
        ("eu-central-1", [("m5.xlarge", 0.23, "price_list"), ("m7i.xlarge", 0.2415, "price_list")]),
        ("us-east-1", [("m5.xlarge", 0.19, "price_list"), ("m7i.xlarge", 0.2016, "table")]),
    ] {
        let arguments = ["catalog", "types", "m5.xlarge", "m7i.xlarge", "--aws-prices"];
        let mut command = tests::prophet(&arguments);
        command.args(["--region", region, "--output", "json"]);
        let environment =
            moto.environment().into_iter().filter(|(key, _)| *key != "AWS_ENDPOINT_URL");
        command.envs(environment).env("AWS_ENDPOINT_URL", proxy.endpoint());
        let (code, output, errors) = tests::finish(&mut command);
        assert_eq!(code, 0, "{errors}");
        let output: serde_json::Value = serde_json::from_str(&output).unwrap();
        let types = output["types"].as_array().unwrap();
        let found: Vec<_> = types
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap();
                (text("name"), one["dollars_per_hour"].as_f64().unwrap(), text("price_source"))
            })
            .collect();
        assert_eq!(found, expected, "{region}");
    }
}

#[tokio::test]
async fn a_throttled_call_is_retried_until_the_limit_of_attempts() {
    let moto = Moto::start().await.unwrap();
    one_of_each(&moto).await;
    let proxy = Proxy::start(moto.endpoint(), 2).await.unwrap();
    let found = catalog(proxy.endpoint()).await.node_groups().await.unwrap();
    assert_eq!(found.groups.len(), 5, "{:?}", found.problems);
    assert_eq!(proxy.take_seen()[..3], ["autoscaling:DescribeAutoScalingGroups"; 3]);

    let proxy = Proxy::start(moto.endpoint(), usize::MAX).await.unwrap();
    let error = catalog(proxy.endpoint()).await.node_groups().await.unwrap_err();
    let chain = format!("{:#}", anyhow::Error::new(error));
    assert!(chain.starts_with("failed to call autoscaling:DescribeAutoScalingGroups: "), "{chain}");
    assert!(chain.contains("Throttling") && chain.contains("Rate exceeded"), "{chain}");
    assert_eq!(proxy.take_seen().len(), 4);
}

#[tokio::test]
async fn an_endpoint_that_never_responds_fails_at_the_deadline() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut catalog = AwsCatalog::new(
        Clients::new(&config(&endpoint).await),
        DISCOVERY.parse().unwrap(),
        Duration::from_millis(300),
    );
    let error = catalog.node_groups().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "failed to call autoscaling:DescribeAutoScalingGroups: all calls together took longer than 300ms"
    );
}

/// The environment belongs to the process. Therefore this test runs itself as a child process with
/// the environment of a pod that has an IAM role for service accounts (IRSA).
#[tokio::test]
async fn a_pod_takes_region_endpoint_and_role_from_its_environment() {
    if std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() {
        let mut catalog =
            AwsCatalog::new(clients(None, None).await, DISCOVERY.parse().unwrap(), DEADLINE);
        // The emulator lists no types for attributes, so it reports that group.
        assert_eq!(catalog.node_groups().await.unwrap().groups.len(), 4);
        return;
    }
    let moto = Moto::start().await.unwrap();
    one_of_each(&moto).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a.b.c").unwrap();
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_pod_takes_region_endpoint_and_role_from_its_environment",
            "--nocapture",
        ])
        .envs([("AWS_REGION", REGION), ("AWS_ENDPOINT_URL", moto.endpoint())])
        .envs([
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/prophet"),
            ("AWS_ROLE_SESSION_NAME", "prophet"),
        ])
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token)
        .env("HOME", folder.path())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// What the policy `one` wants of each group: a pool of this size.
fn wanted(pools: &[(&str, u64)]) -> WantedPools {
    let pool = |size| WantedPool {
        namespace: "prophet".into(),
        policy: "one".into(),
        size,
        state: WarmPoolState::Stopped,
    };
    let pools = pools.iter().map(|(name, size)| ((*name).to_owned(), pool(*size)));
    let namespaces = ["prophet".to_owned()].into();
    WantedPools { pools: pools.collect(), namespaces, ..WantedPools::default() }
}

/// The pool of each group: its minimum, its maximum, its state, and the tag of the group.
async fn pools(moto: &Moto) -> Vec<String> {
    let described = moto.autoscaling().describe_auto_scaling_groups().send().await.unwrap();
    let line = |group: &AutoScalingGroup| {
        let pool = group.warm_pool_configuration()?;
        let tag = group.tags().iter().find(|tag| tag.key() == Some("prophet.dev/warm-pool"));
        Some(format!(
            "{} {}/{} {} {}",
            group.auto_scaling_group_name()?,
            pool.min_size()?,
            pool.max_group_prepared_capacity().unwrap_or(-1),
            pool.pool_state()?,
            tag.and_then(|tag| tag.value()).unwrap_or("no tag"),
        ))
    };
    described.auto_scaling_groups().iter().filter_map(line).collect()
}

#[tokio::test]
async fn warm_pools_are_set_and_restored_as_they_were() {
    let moto = Moto::start().await.unwrap();
    configuration(&moto, "m5", "m5.xlarge", None).await;
    configuration(&moto, "spot", "m5.xlarge", Some("1")).await;
    for (name, of) in [("bare", "m5"), ("theirs", "m5"), ("cheap", "spot")] {
        group(&moto, name).launch_configuration_name(of).send().await.unwrap();
    }
    let put = moto.autoscaling().put_warm_pool().auto_scaling_group_name("theirs").min_size(1);
    put.pool_state(WarmPoolPoolState::Running).send().await.unwrap();
    let proxy = Proxy::start(moto.endpoint(), 0).await.unwrap();
    let mut catalog = catalog(proxy.endpoint()).await;
    let found = catalog.node_groups().await.unwrap();
    let may: Vec<_> =
        found.groups.iter().map(|group| (&*group.name, group.may_have_warm_pool)).collect();
    assert_eq!(may, [("bare", true), ("cheap", false), ("theirs", true)]);

    // As long as nothing is decided, nothing changes.
    let none = StandingPools::default();
    assert_eq!(catalog.follow_pools(None, &|| Duration::MAX, &none).await, none);
    assert_eq!(pools(&moto).await, ["theirs 1/-1 Running no tag"]);

    let standing = catalog
        .follow_pools(Some(&wanted(&[("bare", 2), ("theirs", 3)])), &|| Duration::MAX, &none)
        .await;
    assert_eq!(
        pools(&moto).await,
        [
            "bare 2/2 Stopped policy=prophet/one before=none",
            "theirs 3/3 Stopped policy=prophet/one before=1:-1:Running:terminate",
        ]
    );
    let pool = |size| StandingPool { policy: "one".into(), size, prepared: 2, preparing: 1 };
    let expected = [("bare".to_owned(), pool(2)), ("theirs".to_owned(), pool(3))];
    assert_eq!(standing.pools, expected.into());
    assert_eq!(standing.instances.keys().collect::<Vec<_>>(), ["i-0", "i-1", "i-2"]);
    assert_eq!((standing.faults.len(), standing.of_policy("one")), (0, 6));

    // A pool that is as it is wanted is only read.
    catalog.node_groups().await.unwrap();
    proxy.take_seen();
    let same = catalog
        .follow_pools(Some(&wanted(&[("bare", 2), ("theirs", 3)])), &|| Duration::MAX, &none)
        .await;
    assert!(same.is_like(&standing));
    assert_eq!(proxy.take_seen(), ["autoscaling:DescribeWarmPool"; 2]);

    // Pools of policies that decide nothing stay. Those that no policy wants are restored, also by
    // a process that did not set them.
    let kept = WantedPools { kept: ["one".to_owned()].into(), ..wanted(&[]) };
    catalog.follow_pools(Some(&kept), &|| Duration::MAX, &standing).await;
    assert_eq!(pools(&moto).await.len(), 2);
    let mut other = self::catalog(proxy.endpoint()).await;
    other.node_groups().await.unwrap();
    let left = other.follow_pools(Some(&wanted(&[])), &|| Duration::MAX, &none).await;
    assert_eq!((left.pools.len(), left.faults.len()), (0, 0));
    assert_eq!(pools(&moto).await, ["theirs 1/-1 Running no tag"]);
}

#[tokio::test]
async fn a_warm_pool_that_may_not_be_set_is_reported() {
    let moto = Moto::start().await.unwrap();
    configuration(&moto, "m5", "m5.xlarge", None).await;
    group(&moto, "bare").launch_configuration_name("m5").send().await.unwrap();
    for action in ["autoscaling:CreateOrUpdateTags", "autoscaling:PutWarmPool"] {
        let denied: &'static [&'static str] = vec![action].leak();
        let proxy = Proxy::denying(moto.endpoint(), 0, denied).await.unwrap();
        let mut catalog = catalog(proxy.endpoint()).await;
        catalog.node_groups().await.unwrap();
        let wanted = wanted(&[("bare", 2)]);
        let standing =
            catalog.follow_pools(Some(&wanted), &|| Duration::MAX, &StandingPools::default()).await;
        let fault = &standing.faults["bare"];
        assert!(fault.contains(action) && fault.contains("not authorized"), "{fault}");
        // Without the tag, nothing could be restored, so no pool is set.
        assert_eq!(pools(&moto).await, Vec::<String>::new());
    }
}
