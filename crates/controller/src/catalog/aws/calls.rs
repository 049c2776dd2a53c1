//! The AWS clients, and every AWS call that Prophet makes. Nothing here decides anything.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_autoscaling::types::{
    Activity, AutoScalingGroup, InstanceReusePolicy, LifecycleState, Tag,
};
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::primitives::DateTime as AwsTime;
use aws_sdk_ec2::types::{CapacityReservation as AwsReservation, Filter, SpotPrice};
use aws_sdk_pricing::types::FilterType;
use aws_types::region::Region;
use chrono::{DateTime, Utc};
use instances::PodAddresses;

use super::discovery::Discovery;
use super::eks::{Description, Eks, ManagedGroup, NODE_GROUP};
use super::hardware::Hardware;
use super::launch::{Configuration, InstanceTemplate, TemplateKey};
use super::pool_steps::{PoolSettings, PoolStep, WARM_POOL_TAG};
use super::requirements::Selection;

pub(super) const GROUPS: &str = "autoscaling:DescribeAutoScalingGroups";
pub(super) const CONFIGURATIONS: &str = "autoscaling:DescribeLaunchConfigurations";
pub(super) const TEMPLATES: &str = "ec2:DescribeLaunchTemplateVersions";
pub(super) const TYPES: &str = "ec2:DescribeInstanceTypes";
pub(super) const ACTIVITIES: &str = "autoscaling:DescribeScalingActivities";
const PRODUCTS: &str = "pricing:GetProducts";
const SPOT_PRICES: &str = "ec2:DescribeSpotPriceHistory";
const RESERVATIONS: &str = "ec2:DescribeCapacityReservations";
const INSTANCES: &str = "ec2:DescribeInstances";

pub(super) const TYPES_FOR: &str = "ec2:GetInstanceTypesFromInstanceRequirements";
const IMAGES: &str = "ec2:DescribeImages";

pub(super) const POOL: &str = "autoscaling:DescribeWarmPool";
pub(super) const PUT_POOL: &str = "autoscaling:PutWarmPool";
const DELETE_POOL: &str = "autoscaling:DeleteWarmPool";
const TAG: &str = "autoscaling:CreateOrUpdateTags";
const UNTAG: &str = "autoscaling:DeleteTags";

/// The IAM actions of all AWS calls. The policy in `docs/permissions-aws.md` allows exactly these.
pub const ACTIONS: [&str; 17] = [
    GROUPS,
    CONFIGURATIONS,
    TYPES,
    TYPES_FOR,
    IMAGES,
    TEMPLATES,
    NODE_GROUP,
    ACTIVITIES,
    PRODUCTS,
    SPOT_PRICES,
    RESERVATIONS,
    INSTANCES,
    POOL,
    PUT_POOL,
    DELETE_POOL,
    TAG,
    UNTAG,
];

/// The most attempts of one call. The SDK retries throttled calls and other transient errors after
/// at most 1, 2 and 4 seconds. After that the next refresh calls again.
const ATTEMPTS_MAX: u32 = 4;

/// The most attempts of a call of the Price List service, whose endpoint may be out of reach of a
/// private network. Prices are read again after 15 minutes.
const PRICE_ATTEMPTS_MAX: u32 = 2;

/// Time limit of one attempt: 10 seconds, because AWS responds within seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of connecting. It is shorter than the limit of an attempt, so that the error
/// distinguishes an unreachable endpoint from a slow response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The most groups, instance types or capacity reservations that AWS returns on one page.
const PAGE: i32 = 100;

/// Time limit of the call for scaling activities, which is optional: 5 seconds, so that it leaves
/// time for the others of a refresh.
const ACTIVITIES_DEADLINE: Duration = Duration::from_secs(5);

/// The most instances of a warm pool that AWS returns on one page, and the most pages that are read
/// of a pool. Further instances are not counted.
const POOL_PAGE: i32 = 50;
const POOL_PAGES_MAX: usize = 20;

/// The most spot prices that AWS returns on one page.
const SPOT_PAGE: i32 = 1_000;

/// The most IDs of capacity reservations in one call, because AWS accepts 200 values in a filter,
/// and the most instances on a page.
const RESERVATIONS_MAX: usize = 200;
const INSTANCES_PAGE: i32 = 1_000;

/// Instance types in one call: one page. AWS accepts up to 200 values in a filter.
pub(super) const TYPES_MAX: usize = 100;

/// The most names of launch configurations that AWS accepts in one call.
const NAMES_MAX: usize = 50;

/// The most pages of prices for one set of instance types. 100 types have a few hundred products,
/// and a few thousand spot prices a day, of which a page has 1,000.
const PRICE_PAGES_MAX: usize = 30;

/// Why the groups could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AwsError {
    /// A call failed, after its retries.
    #[error("failed to call {action}")]
    Call {
        /// The IAM action of the call.
        action: &'static str,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// All calls of a refresh together exceeded its time limit.
    #[error("failed to call {action}: all calls together took longer than {after:?}")]
    Deadline {
        /// The IAM action of the call that was in progress.
        action: &'static str,
        /// The time limit for all calls.
        after: Duration,
    },
}

/// Clients of the AWS services that Prophet reads: EC2 Auto Scaling, EC2, EKS and Price List.
#[derive(Clone, Debug)]
pub struct Clients {
    eks: Eks,
    /// The settings of the clients of the Price List service, which is in other regions.
    patient: SdkConfig,
    autoscaling: aws_sdk_autoscaling::Client,
    ec2: aws_sdk_ec2::Client,
}

/// Creates clients from the environment.
///
/// The environment gives the region, the credentials (a web identity token as IRSA mounts it, EKS
/// Pod Identity, or the instance's role) and `AWS_ENDPOINT_URL`. A given `region` or `endpoint`
/// overrides that of the environment.
pub async fn clients(region: Option<&str>, endpoint: Option<&str>) -> Clients {
    let loader = aws_config::defaults(BehaviorVersion::latest());
    let loader = match region {
        Some(region) => loader.region(Region::new(region.to_owned())),
        None => loader,
    };
    let loader = match endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint),
        None => loader,
    };
    Clients::new(&loader.load().await)
}

impl Clients {
    /// Creates clients with these settings, except retries and timeouts, which this module sets.
    pub fn new(config: &SdkConfig) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .build();
        let patient = config
            .to_builder()
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
            .timeout_config(timeouts)
            .build();
        Self {
            eks: Eks::new(config, CONNECT_TIMEOUT),
            autoscaling: aws_sdk_autoscaling::Client::new(&patient),
            ec2: aws_sdk_ec2::Client::new(&patient),
            patient,
        }
    }

    /// The region that the clients call.
    pub fn region(&self) -> Option<&str> {
        self.ec2.config().region().map(AsRef::as_ref)
    }

    pub(super) async fn groups(
        &self,
        discovery: &Discovery,
    ) -> Result<Vec<AutoScalingGroup>, AwsError> {
        let call =
            self.autoscaling.describe_auto_scaling_groups().set_filters(Some(discovery.filters()));
        let pages = call.into_paginator().page_size(PAGE).items().send();
        pages.try_collect().await.map_err(failed(GROUPS))
    }

    /// Reads the newest scaling activities of all groups: one page, within a time limit of its own,
    /// because AWS may take long for a whole account.
    pub(super) async fn activities(&self) -> Result<Vec<Activity>, AwsError> {
        let call = self.autoscaling.describe_scaling_activities().max_records(PAGE).send();
        let late = |_| AwsError::Deadline { action: ACTIVITIES, after: ACTIVITIES_DEADLINE };
        let answer = tokio::time::timeout(ACTIVITIES_DEADLINE, call).await.map_err(late)?;
        Ok(answer.map_err(failed(ACTIVITIES))?.activities.unwrap_or_default())
    }

    /// Reads the instances of the warm pool of a group, with their states.
    pub(super) async fn pool_instances(
        &self,
        group: &str,
    ) -> Result<Vec<(String, LifecycleState)>, AwsError> {
        let call = self.autoscaling.describe_warm_pool().auto_scaling_group_name(group);
        let mut pages = call.into_paginator().page_size(POOL_PAGE).send();
        let mut found = Vec::new();
        for _ in 0..POOL_PAGES_MAX {
            let Some(page) = pages.next().await else { break };
            let instances = page.map_err(failed(POOL))?.instances.unwrap_or_default();
            found.extend(
                instances
                    .into_iter()
                    .filter_map(|one| Some((one.instance_id?, one.lifecycle_state?))),
            );
        }
        Ok(found)
    }

    /// Takes a step towards the warm pool of a group that is wanted.
    pub(super) async fn pool_step(&self, group: &str, step: &PoolStep) -> Result<(), AwsError> {
        let tag = || {
            let tag = Tag::builder().resource_id(group).resource_type("auto-scaling-group");
            tag.key(WARM_POOL_TAG)
        };
        match step {
            PoolStep::Mark(mark) => {
                let tag = tag().value(mark.to_string()).propagate_at_launch(false).build();
                let call = self.autoscaling.create_or_update_tags().tags(tag);
                call.send().await.map(drop).map_err(failed(TAG))
            }
            PoolStep::Put(PoolSettings { min_size, max_prepared, state, reuse }) => {
                let reuse = InstanceReusePolicy::builder().reuse_on_scale_in(*reuse).build();
                let call = self.autoscaling.put_warm_pool().auto_scaling_group_name(group);
                let call = call.min_size(*min_size).max_group_prepared_capacity(*max_prepared);
                let call = call.pool_state(state.as_str().into()).instance_reuse_policy(reuse);
                call.send().await.map(drop).map_err(failed(PUT_POOL))
            }
            PoolStep::Delete => {
                let call = self.autoscaling.delete_warm_pool().auto_scaling_group_name(group);
                call.send().await.map(drop).map_err(failed(DELETE_POOL))
            }
            PoolStep::Unmark => {
                let call = self.autoscaling.delete_tags().tags(tag().build());
                call.send().await.map(drop).map_err(failed(UNTAG))
            }
        }
    }

    /// Reads the labels and taints of a managed node group.
    ///
    /// # Errors
    /// The reason in words.
    pub(super) async fn managed(&self, group: &ManagedGroup) -> Result<Description, String> {
        self.eks.describe(group).await
    }

    /// Reads one version of a launch template. Returns `None` if AWS does not have it.
    pub(super) async fn template(
        &self,
        key: TemplateKey,
    ) -> Result<Option<(TemplateKey, InstanceTemplate)>, AwsError> {
        let call = self.ec2.describe_launch_template_versions().versions(&key.version);
        let call = if key.by_id {
            call.launch_template_id(&key.template)
        } else {
            call.launch_template_name(&key.template)
        };
        let answer = match call.send().await {
            Ok(answer) => answer,
            // The template or the version does not exist, because the call has no other
            // parameters.
            Err(error)
                if error.code().is_some_and(|code| code.starts_with("InvalidLaunchTemplate")) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failed(TEMPLATES)(error)),
        };
        let version = answer.launch_template_versions().first();
        let data = version.and_then(|version| version.launch_template_data());
        Ok(data.map(|data| (key, InstanceTemplate::of(data))))
    }

    pub(super) async fn configurations(
        &self,
        names: Vec<String>,
    ) -> Result<BTreeMap<String, Configuration>, AwsError> {
        let mut found = BTreeMap::new();
        for names in names.chunks(NAMES_MAX) {
            let call = self.autoscaling.describe_launch_configurations();
            let call = call.set_launch_configuration_names(Some(names.to_vec()));
            let pages = call.into_paginator().items().send();
            for configuration in pages.try_collect().await.map_err(failed(CONFIGURATIONS))? {
                let name = configuration.launch_configuration_name().unwrap_or_default();
                found.insert(name.to_string(), Configuration::of(&configuration));
            }
        }
        Ok(found)
    }

    /// Reads instance types by a filter, not by name, because one unknown name would fail the call
    /// for all others.
    pub(super) async fn hardware(
        &self,
        names: Vec<String>,
        how: PodAddresses,
    ) -> Result<BTreeMap<String, Hardware>, AwsError> {
        let mut found = BTreeMap::new();
        for names in names.chunks(TYPES_MAX) {
            let filter =
                Filter::builder().name("instance-type").set_values(Some(names.to_vec())).build();
            let call = self.ec2.describe_instance_types().filters(filter);
            let pages = call.into_paginator().page_size(PAGE).items().send();
            for info in pages.try_collect().await.map_err(failed(TYPES))? {
                if let Some(name) = info.instance_type() {
                    found.insert(name.as_str().to_string(), Hardware::of(&info, how));
                }
            }
        }
        Ok(found)
    }

    /// Reads the names of the instance types that a group selects, in the order of AWS.
    ///
    /// # Errors
    /// The reason in words, the same for each call that fails so.
    pub(super) async fn types_for(&self, of: &Selection) -> Result<Vec<String>, String> {
        fn why(action: &str, error: &impl ProvideErrorMetadata) -> String {
            format!("{action} failed, {}", error.code().unwrap_or("because AWS did not answer"))
        }
        let images = self.ec2.describe_images().image_ids(&of.image).send().await;
        let images = images.map_err(|error| why(IMAGES, &error))?;
        let image =
            images.images().first().ok_or_else(|| format!("there is no image {}", of.image))?;
        let call = self.ec2.get_instance_types_from_instance_requirements();
        let call = call
            .instance_requirements(of.requirements.clone())
            .set_architecture_types(image.architecture().map(|of| vec![of.as_str().into()]))
            .set_virtualization_types(image.virtualization_type().cloned().map(|of| vec![of]));
        let pages = call.into_paginator().items().send();
        let listed = pages.try_collect().await.map_err(|error| why(TYPES_FOR, &error))?;
        Ok(listed.into_iter().filter_map(|listed| listed.instance_type).collect())
    }

    /// Reads the products of the price list that are Linux instances of these types on demand in
    /// `region`, as JSON. `of` is the region of the endpoint.
    pub(super) async fn products(
        &self,
        of: &'static str,
        region: &str,
        names: &[String],
    ) -> Result<Vec<String>, AwsError> {
        let config = aws_sdk_pricing::config::Builder::from(&self.patient);
        let retries = RetryConfig::standard().with_max_attempts(PRICE_ATTEMPTS_MAX);
        let config = config.region(Region::new(of)).retry_config(retries).build();
        let client = aws_sdk_pricing::Client::from_conf(config);
        let filter = |field: &str, kind: FilterType, value: &str| {
            let filter = aws_sdk_pricing::types::Filter::builder();
            filter.field(field).r#type(kind).value(value).build()
        };
        let terms = [
            ("regionCode", region),
            ("operatingSystem", "Linux"),
            ("preInstalledSw", "NA"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
        ];
        let terms = terms.map(|(field, value)| filter(field, FilterType::TermMatch, value));
        let types = filter("instanceType", FilterType::AnyOf, &names.join(","));
        let filters = terms.into_iter().chain([types]).collect::<Result<Vec<_>, _>>();
        let call = client.get_products().service_code("AmazonEC2");
        let call = call.set_filters(Some(filters.map_err(failed(PRODUCTS))?));
        let mut pages = call.into_paginator().page_size(PAGE).send();
        let mut products = Vec::new();
        for _ in 0..PRICE_PAGES_MAX {
            let Some(page) = pages.next().await else { return Ok(products) };
            products.extend(page.map_err(failed(PRODUCTS))?.price_list.unwrap_or_default());
        }
        Err(failed(PRODUCTS)(TooManyPages))
    }

    /// Reads the spot prices of Linux instances of these types since `from`: each change, and the
    /// prices that held then.
    pub(super) async fn spot_prices(
        &self,
        names: &[String],
        from: DateTime<Utc>,
    ) -> Result<Vec<SpotPrice>, AwsError> {
        // A filter, because one unknown name would fail a call for types.
        let types = Filter::builder().name("instance-type").set_values(Some(names.to_vec()));
        let call = self.ec2.describe_spot_price_history().filters(types.build());
        let from = AwsTime::from_secs(from.timestamp());
        let call = call.product_descriptions("Linux/UNIX").start_time(from);
        let mut pages = call.into_paginator().page_size(SPOT_PAGE).send();
        let mut prices = Vec::new();
        for _ in 0..PRICE_PAGES_MAX {
            let Some(page) = pages.next().await else { return Ok(prices) };
            prices
                .extend(page.map_err(failed(SPOT_PRICES))?.spot_price_history.unwrap_or_default());
        }
        Err(failed(SPOT_PRICES)(TooManyPages))
    }

    /// Reads the instances that use these capacity reservations: of each its ID, and that of its
    /// reservation.
    pub(super) async fn instances_in(
        &self,
        reservations: &[String],
    ) -> Result<Vec<(String, String)>, AwsError> {
        let mut found = Vec::new();
        for ids in reservations.chunks(RESERVATIONS_MAX) {
            let of = Filter::builder().name("capacity-reservation-id");
            let running = Filter::builder().name("instance-state-name");
            let running = running.values("pending").values("running");
            let call = self.ec2.describe_instances().filters(running.build());
            let call = call.filters(of.set_values(Some(ids.to_vec())).build());
            let mut pages = call.into_paginator().page_size(INSTANCES_PAGE).send();
            let mut pages_left = PRICE_PAGES_MAX;
            while let Some(page) = pages.next().await {
                let page = page.map_err(failed(INSTANCES))?;
                let all = page.reservations.unwrap_or_default().into_iter();
                let all = all.flat_map(|together| together.instances.unwrap_or_default());
                found.extend(
                    all.filter_map(|one| Some((one.instance_id?, one.capacity_reservation_id?))),
                );
                pages_left -= 1;
                if pages_left == 0 {
                    return Err(failed(INSTANCES)(TooManyPages));
                }
            }
        }
        Ok(found)
    }

    /// Reads the capacity reservations of the region that are active, or will be.
    pub(super) async fn reservations(&self) -> Result<Vec<AwsReservation>, AwsError> {
        let active = Filter::builder().name("state").values("active").values("scheduled").build();
        let call = self.ec2.describe_capacity_reservations().filters(active);
        let mut pages = call.into_paginator().page_size(PAGE).send();
        let mut found = Vec::new();
        for _ in 0..PRICE_PAGES_MAX {
            let Some(page) = pages.next().await else { return Ok(found) };
            let page = page.map_err(failed(RESERVATIONS))?;
            found.extend(page.capacity_reservations.unwrap_or_default());
        }
        Err(failed(RESERVATIONS)(TooManyPages))
    }
}

/// An answer has more pages than are read.
#[derive(Debug, thiserror::Error)]
#[error("the answer has more than {PRICE_PAGES_MAX} pages")]
struct TooManyPages;

fn failed<E: Error + Send + Sync + 'static>(action: &'static str) -> impl Fn(E) -> AwsError {
    move |error| AwsError::Call { action, source: error.into() }
}
