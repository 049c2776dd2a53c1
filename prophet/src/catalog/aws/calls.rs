//! The clients, and every call that is made. Nothing here decides anything.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_autoscaling::types::AutoScalingGroup;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::Filter;

use super::discovery::Discovery;
use super::hardware::Hardware;
use super::launch::{Configuration, Template, TemplateKey};

pub(super) const GROUPS: &str = "autoscaling:DescribeAutoScalingGroups";
pub(super) const CONFIGURATIONS: &str = "autoscaling:DescribeLaunchConfigurations";
pub(super) const TEMPLATES: &str = "ec2:DescribeLaunchTemplateVersions";
pub(super) const TYPES: &str = "ec2:DescribeInstanceTypes";

/// The IAM actions of all calls that are made: what `docs/permissions-aws.md` allows.
pub const ACTIONS: [&str; 4] = [GROUPS, CONFIGURATIONS, TYPES, TEMPLATES];

/// Throttled calls, and others that may succeed later, are made again after 1, 2 and 4 seconds at most; then comes the
/// next refresh.
const ATTEMPTS_MAX: u32 = 4;

/// One attempt; AWS answers within seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// To be connected; an endpoint that cannot be reached is then told apart from a slow answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The most groups and instance types that AWS puts on a page.
const PAGE: i32 = 100;

/// Instance types by one call: one page of them. AWS takes up to 200 values in a filter.
const TYPES_MAX: usize = 100;

/// The most launch configurations that AWS takes by name in one call.
const NAMES_MAX: usize = 50;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AwsError {
    /// A call failed, after its retries.
    #[error("failed to call {action}")]
    Call {
        /// The IAM action of the call.
        action: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// All calls together took too long.
    #[error("failed to call {action}: no time was left of {after:?} for all calls together")]
    Deadline {
        /// The IAM action of the call that was under way.
        action: &'static str,
        /// The time for all calls.
        after: Duration,
    },
}

/// Clients of the two services that are asked.
#[derive(Clone, Debug)]
pub struct Clients {
    autoscaling: aws_sdk_autoscaling::Client,
    ec2: aws_sdk_ec2::Client,
}

/// Clients from the environment: the region, the credentials (a web identity token as IRSA mounts it, EKS Pod Identity,
/// the instance's role), `AWS_ENDPOINT_URL`. An `endpoint` given here takes the place of the latter.
pub async fn clients(endpoint: Option<&str>) -> Clients {
    let loader = aws_config::defaults(BehaviorVersion::latest());
    let loader = match endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint),
        None => loader,
    };
    Clients::new(&loader.load().await)
}

impl Clients {
    /// Clients with these settings, but for retries and timeouts, which are ours.
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
            autoscaling: aws_sdk_autoscaling::Client::new(&patient),
            ec2: aws_sdk_ec2::Client::new(&patient),
        }
    }

    /// The region that is asked.
    pub fn region(&self) -> Option<&str> {
        self.ec2.config().region().map(AsRef::as_ref)
    }

    pub(super) async fn groups(&self, discovery: &Discovery) -> Result<Vec<AutoScalingGroup>, AwsError> {
        let call = self.autoscaling.describe_auto_scaling_groups().set_filters(Some(discovery.filters()));
        let pages = call.into_paginator().page_size(PAGE).items().send();
        pages.try_collect().await.map_err(failed(GROUPS))
    }

    /// One version of a template, or nothing where it is gone.
    pub(super) async fn template(
        &self,
        key: TemplateKey,
    ) -> Result<Option<(TemplateKey, Template)>, AwsError> {
        let call = self.ec2.describe_launch_template_versions().versions(&key.version);
        let call = if key.by_id {
            call.launch_template_id(&key.template)
        } else {
            call.launch_template_name(&key.template)
        };
        let answer = match call.send().await {
            Ok(answer) => answer,
            // The identifier or the version: nothing else is asked with.
            Err(error) if error.code().is_some_and(|code| code.starts_with("InvalidLaunchTemplate")) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(TEMPLATES)(error)),
        };
        let version = answer.launch_template_versions().first();
        let data = version.and_then(|version| version.launch_template_data());
        Ok(data.map(|data| (key, Template::of(data))))
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

    /// Asked for by a filter: asked for by name, one type that is not known would fail the call for all others.
    pub(super) async fn hardware(&self, names: Vec<String>) -> Result<BTreeMap<String, Hardware>, AwsError> {
        let mut found = BTreeMap::new();
        for names in names.chunks(TYPES_MAX) {
            let filter = Filter::builder().name("instance-type").set_values(Some(names.to_vec())).build();
            let call = self.ec2.describe_instance_types().filters(filter);
            let pages = call.into_paginator().page_size(PAGE).items().send();
            for info in pages.try_collect().await.map_err(failed(TYPES))? {
                if let Some(name) = info.instance_type() {
                    found.insert(name.as_str().to_string(), Hardware::of(&info));
                }
            }
        }
        Ok(found)
    }
}

fn failed<E: Error + Send + Sync + 'static>(action: &'static str) -> impl Fn(E) -> AwsError {
    move |error| AwsError::Call { action, source: error.into() }
}
