//! What a group launches, read as cluster-autoscaler reads it.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_autoscaling::types::{
    AutoScalingGroup, InstancesDistribution, LaunchConfiguration, LaunchTemplate, LaunchTemplateOverrides,
    LaunchTemplateSpecification, MixedInstancesPolicy,
};
use aws_sdk_ec2::types::{MarketType, ResponseLaunchTemplateData};
use embedder::CapacityType;

use super::problem::Fault;

/// One version of a launch template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TemplateKey {
    /// Its id, or its name where the group gives no id.
    pub(super) template: String,
    pub(super) by_id: bool,
    /// A number, `$Latest` or `$Default`.
    pub(super) version: String,
}

/// What matters of one version of a launch template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    instance_type: Option<String>,
    by_attributes: bool,
    spot: bool,
    placement_group: Option<String>,
    vcpus: Option<u64>,
}

/// What matters of a launch configuration.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    instance_type: Option<String>,
    spot: bool,
}

/// Where a group says what it launches.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Configuration(String),
    Template(TemplateKey),
    Mixed {
        template: TemplateKey,
        /// The first override's type, where there is an override.
        first: Option<String>,
        /// The types of the other overrides that differ.
        others: BTreeSet<String>,
        share: SpotShare,
    },
}

/// How much of a mixed group is bought on the spot market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpotShare {
    None,
    Some,
    All,
}

/// What a group launches.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) instance_type: String,
    pub(super) capacity_type: CapacityType,
    /// The placement group that the template names; the group's own goes before it.
    pub(super) placement_group: Option<String>,
    /// Where the template leaves some of the type's vCPUs out, as without hyper-threading.
    pub(super) vcpus: Option<u64>,
    /// What is wrong, though not so that it is left out.
    pub(super) faults: Vec<Fault>,
}

impl TemplateKey {
    fn of(specification: &LaunchTemplateSpecification) -> Option<Self> {
        let id = specification.launch_template_id();
        Some(Self {
            template: id.or(specification.launch_template_name())?.into(),
            by_id: id.is_some(),
            version: specification.version().unwrap_or("$Default").into(),
        })
    }

    /// Whether it is the same for ever: an id is never used again, a name may be.
    pub(super) fn is_fixed(&self) -> bool {
        self.by_id && !self.version.starts_with('$')
    }

    fn gone(&self) -> Fault {
        Fault::LaunchTemplateGone { template: self.template.clone(), version: self.version.clone() }
    }
}

impl Template {
    pub(super) fn of(data: &ResponseLaunchTemplateData) -> Self {
        let market = data.instance_market_options().and_then(|options| options.market_type());
        let placement = data.placement();
        let cores = data.cpu_options().and_then(|cpu| Some((cpu.core_count()?, cpu.threads_per_core()?)));
        Self {
            instance_type: data.instance_type().map(|name| name.as_str().to_string()),
            by_attributes: data.instance_requirements().is_some(),
            spot: market == Some(&MarketType::Spot),
            placement_group: placement.and_then(|p| p.group_name().or(p.group_id())).map(Into::into),
            vcpus: cores.and_then(|(cores, threads)| u64::try_from(cores.checked_mul(threads)?).ok()),
        }
    }
}

impl Configuration {
    pub(super) fn of(configuration: &LaunchConfiguration) -> Self {
        Self {
            instance_type: configuration.instance_type().map(Into::into),
            spot: configuration.spot_price().is_some(),
        }
    }
}

impl Origin {
    /// Where this group says what it launches.
    pub(super) fn of(group: &AutoScalingGroup) -> Result<Self, Fault> {
        if let Some(policy) = group.mixed_instances_policy() {
            let in_instances = group.desired_capacity_type().is_none_or(|unit| unit == "units");
            return if in_instances { Self::mixed(policy) } else { Err(Fault::NotInInstances) };
        }
        if let Some(key) = group.launch_template().and_then(TemplateKey::of) {
            return Ok(Self::Template(key));
        }
        let name = group.launch_configuration_name().ok_or(Fault::NoInstanceType)?;
        Ok(Self::Configuration(name.into()))
    }

    fn mixed(policy: &MixedInstancesPolicy) -> Result<Self, Fault> {
        let template = policy.launch_template();
        let overrides = template.map(LaunchTemplate::overrides).unwrap_or_default();
        let weighted = |each: &LaunchTemplateOverrides| each.weighted_capacity().is_some_and(|w| w != "1");
        if overrides.iter().any(weighted) {
            return Err(Fault::NotInInstances);
        }
        if overrides.iter().any(|each| each.instance_requirements().is_some()) {
            return Err(Fault::ByAttributes);
        }
        let own = overrides.first().and_then(|first| first.launch_template_specification());
        let specification = own.or(template.and_then(|t| t.launch_template_specification()));
        let first = overrides.first().and_then(|first| first.instance_type()).map(String::from);
        let others = overrides.iter().filter_map(|each| each.instance_type()).map(String::from);
        Ok(Self::Mixed {
            template: specification.and_then(TemplateKey::of).ok_or(Fault::NoInstanceType)?,
            others: others.filter(|other| Some(other) != first.as_ref()).collect(),
            first,
            share: spot_share(policy.instances_distribution()),
        })
    }

    pub(super) fn template(&self) -> Option<TemplateKey> {
        match self {
            Self::Template(template) | Self::Mixed { template, .. } => Some(template.clone()),
            Self::Configuration(_) => None,
        }
    }

    pub(super) fn configuration(&self) -> Option<String> {
        match self {
            Self::Configuration(name) => Some(name.clone()),
            Self::Template(_) | Self::Mixed { .. } => None,
        }
    }

    /// What is launched, by the templates and configurations that it names.
    pub(super) fn launch(
        self,
        templates: &BTreeMap<TemplateKey, Template>,
        configurations: &BTreeMap<String, Configuration>,
    ) -> Result<Launch, Fault> {
        match self {
            Self::Configuration(name) => {
                let Some(configuration) = configurations.get(&name) else {
                    return Err(Fault::LaunchConfigurationGone(name));
                };
                let Configuration { instance_type, spot } = configuration.clone();
                Ok(Launch {
                    instance_type: instance_type.ok_or(Fault::NoInstanceType)?,
                    capacity_type: bought(spot),
                    placement_group: None,
                    vcpus: None,
                    faults: Vec::new(),
                })
            }
            Self::Template(key) => from_template(&key, templates, None),
            Self::Mixed { template, first, others, share } => {
                let mut launch = from_template(&template, templates, first)?;
                // The distribution decides; a template that asks for spot itself is refused by AWS here.
                launch.capacity_type = bought(share == SpotShare::All);
                if share == SpotShare::Some {
                    launch.faults.push(Fault::PartlySpot);
                }
                if !others.is_empty() {
                    launch.faults.push(Fault::MixedInstanceTypes(others.into_iter().collect()));
                }
                Ok(launch)
            }
        }
    }
}

fn from_template(
    key: &TemplateKey,
    templates: &BTreeMap<TemplateKey, Template>,
    overridden: Option<String>,
) -> Result<Launch, Fault> {
    let template = templates.get(key).ok_or_else(|| key.gone())?.clone();
    let Template { instance_type, by_attributes, spot, placement_group, vcpus } = template;
    let unknown = if by_attributes { Fault::ByAttributes } else { Fault::NoInstanceType };
    Ok(Launch {
        instance_type: overridden.or(instance_type).ok_or(unknown)?,
        capacity_type: bought(spot),
        placement_group,
        vcpus,
        faults: Vec::new(),
    })
}

/// By AWS's own defaults where nothing is said: all on demand.
fn spot_share(distribution: Option<&InstancesDistribution>) -> SpotShare {
    let base = distribution.and_then(InstancesDistribution::on_demand_base_capacity).unwrap_or(0);
    let percentage =
        distribution.and_then(InstancesDistribution::on_demand_percentage_above_base_capacity).unwrap_or(100);
    match (base, percentage) {
        (_, 100..) => SpotShare::None,
        (0, 0) => SpotShare::All,
        _ => SpotShare::Some,
    }
}

fn bought(spot: bool) -> CapacityType {
    if spot { CapacityType::Spot } else { CapacityType::OnDemand }
}
