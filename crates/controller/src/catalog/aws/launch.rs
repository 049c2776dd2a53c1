//! Finds out which instances an Auto Scaling group launches, by the rules of cluster-autoscaler.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_autoscaling::types::{
    AutoScalingGroup, InstancesDistribution, LaunchConfiguration, LaunchTemplate,
    LaunchTemplateOverrides, LaunchTemplateSpecification, MixedInstancesPolicy,
};
use aws_sdk_ec2::types::{InstanceRequirementsRequest, MarketType, ResponseLaunchTemplateData};
use embedder::CapacityType;

use super::problem::GroupFault;
use super::requirements::{Least, Selected, Selection, of_override, of_template, types};

/// One version of a launch template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TemplateKey {
    /// The template's ID, or its name if the group gives no ID.
    pub(super) template: String,
    pub(super) by_id: bool,
    /// A number, `$Latest` or `$Default`.
    pub(super) version: String,
}

/// The settings of one launch template version that determine its instances.
#[derive(Clone, Debug)]
pub(super) struct InstanceTemplate {
    instance_type: Option<String>,
    image: Option<String>,
    requirements: Option<InstanceRequirementsRequest>,
    spot: bool,
    placement_group: Option<String>,
    vcpus: Option<u64>,
}

/// The settings of a launch configuration that determine its instances.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    instance_type: Option<String>,
    spot: bool,
}

/// Where a group's instance settings are defined.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Configuration(String),
    InstanceTemplate(TemplateKey),
    Mixed {
        template: TemplateKey,
        /// The first override's instance type, if there is an override.
        first: Option<String>,
        /// Instance types of the other overrides that differ from the first.
        others: BTreeSet<String>,
        /// The attributes by which an override selects instance types.
        requirements: Option<Box<InstanceRequirementsRequest>>,
        share: SpotShare,
    },
}

/// How much of a mixed-instances group is spot capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpotShare {
    None,
    Some,
    All,
}

/// The instances that a group launches.
#[derive(Clone, Debug)]
pub(super) struct LaunchSpec {
    pub(super) instance_type: String,
    /// The other instance types that the group launches.
    pub(super) other_types: BTreeSet<String>,
    /// The least resources of a node, if the group selects instance types by attributes.
    pub(super) least: Option<Least>,
    pub(super) capacity_type: CapacityType,
    /// The template's placement group. The Auto Scaling group's own takes precedence.
    pub(super) placement_group: Option<String>,
    /// vCPUs of an instance, if the template sets CPU options. They can be fewer than the type's,
    /// for example without hyper-threading.
    pub(super) vcpus: Option<u64>,
    /// Problems that do not exclude the group.
    pub(super) faults: Vec<GroupFault>,
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

    /// Whether this version can never change: its number is given, and its template's ID. AWS never
    /// reuses an ID, but a name can be reused.
    pub(super) fn is_fixed(&self) -> bool {
        self.by_id && !self.version.starts_with('$')
    }

    fn gone(&self) -> GroupFault {
        GroupFault::LaunchTemplateGone {
            template: self.template.clone(),
            version: self.version.clone(),
        }
    }
}

impl InstanceTemplate {
    pub(super) fn of(data: &ResponseLaunchTemplateData) -> Self {
        let market = data.instance_market_options().and_then(|options| options.market_type());
        let placement = data.placement();
        let cores =
            data.cpu_options().and_then(|cpu| Some((cpu.core_count()?, cpu.threads_per_core()?)));
        Self {
            instance_type: data.instance_type().map(|name| name.as_str().to_string()),
            image: data.image_id().map(Into::into),
            requirements: data.instance_requirements().map(of_template),
            spot: market == Some(&MarketType::Spot),
            placement_group: placement
                .and_then(|p| p.group_name().or(p.group_id()))
                .map(Into::into),
            vcpus: cores
                .and_then(|(cores, threads)| u64::try_from(cores.checked_mul(threads)?).ok()),
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
    /// Finds where this group's instance settings are defined.
    ///
    /// # Errors
    /// The group counts in other units than instances, or has no launch template or launch
    /// configuration.
    pub(super) fn of(group: &AutoScalingGroup) -> Result<Self, GroupFault> {
        // An empty policy is none: emulators of AWS describe groups so that have none.
        let mixed =
            group.mixed_instances_policy().filter(|mixed| mixed.launch_template().is_some());
        if let Some(policy) = mixed {
            let in_instances = group.desired_capacity_type().is_none_or(|unit| unit == "units");
            return if in_instances {
                Self::mixed(policy)
            } else {
                Err(GroupFault::NotInInstances)
            };
        }
        if let Some(key) = group.launch_template().and_then(TemplateKey::of) {
            return Ok(Self::InstanceTemplate(key));
        }
        let name = group.launch_configuration_name().ok_or(GroupFault::NoInstanceType)?;
        Ok(Self::Configuration(name.into()))
    }

    fn mixed(policy: &MixedInstancesPolicy) -> Result<Self, GroupFault> {
        let template = policy.launch_template();
        let overrides = template.map(LaunchTemplate::overrides).unwrap_or_default();
        let weighted =
            |each: &LaunchTemplateOverrides| each.weighted_capacity().is_some_and(|w| w != "1");
        if overrides.iter().any(weighted) {
            return Err(GroupFault::NotInInstances);
        }
        let mut requirements = overrides.iter().filter_map(|each| each.instance_requirements());
        let (requirements, further) = (requirements.next(), requirements.next());
        if further.is_some() {
            let several = "it has several sets of attributes";
            return Err(GroupFault::ByAttributes(several.into()));
        }
        let own = overrides.first().and_then(|first| first.launch_template_specification());
        let specification = own.or(template.and_then(|t| t.launch_template_specification()));
        let first = overrides.first().and_then(|first| first.instance_type()).map(String::from);
        let others = overrides.iter().filter_map(|each| each.instance_type()).map(String::from);
        Ok(Self::Mixed {
            template: specification.and_then(TemplateKey::of).ok_or(GroupFault::NoInstanceType)?,
            others: others.filter(|other| Some(other) != first.as_ref()).collect(),
            first,
            requirements: requirements.map(|from| Box::new(of_override(from))),
            share: spot_share(policy.instances_distribution()),
        })
    }

    pub(super) fn template(&self) -> Option<TemplateKey> {
        match self {
            Self::InstanceTemplate(template) | Self::Mixed { template, .. } => {
                Some(template.clone())
            }
            Self::Configuration(_) => None,
        }
    }

    /// The attributes by which the group selects its instance types. `None` if it names them.
    ///
    /// # Errors
    /// The template is missing, or names no machine image.
    pub(super) fn selection(
        &self,
        templates: &BTreeMap<TemplateKey, InstanceTemplate>,
    ) -> Result<Option<Selection>, GroupFault> {
        let Some(key) = self.template() else { return Ok(None) };
        let template = templates.get(&key).ok_or_else(|| key.gone())?;
        let of_override = match self {
            Self::Mixed { first: Some(_), .. } => return Ok(None),
            Self::Mixed { requirements, .. } => requirements.as_deref(),
            Self::InstanceTemplate(_) | Self::Configuration(_) => None,
        };
        // A type of the template precedes its own attributes, as in cluster-autoscaler.
        let of_template =
            template.requirements.as_ref().filter(|_| template.instance_type.is_none());
        let Some(requirements) = of_override.or(of_template).cloned() else { return Ok(None) };
        let none = || GroupFault::ByAttributes("its launch template names no image".into());
        let image = template.image.clone().ok_or_else(none)?;
        Ok(Some(Selection { requirements, image }))
    }

    pub(super) fn configuration(&self) -> Option<String> {
        match self {
            Self::Configuration(name) => Some(name.clone()),
            Self::InstanceTemplate(_) | Self::Mixed { .. } => None,
        }
    }

    /// The instances that are launched, by the given templates and configurations. `selected` are
    /// the instance types for the attributes of groups.
    ///
    /// # Errors
    /// The template or configuration is missing, or sets no instance type, or the types for the
    /// attributes of the group are not known.
    pub(super) fn launch(
        self,
        templates: &BTreeMap<TemplateKey, InstanceTemplate>,
        configurations: &BTreeMap<String, Configuration>,
        selected: &[Selected],
    ) -> Result<LaunchSpec, GroupFault> {
        let selection = self.selection(templates)?;
        let types = selection.as_ref().map(|of| types(of, selected)).transpose()?;
        let mut types = types.into_iter().flatten();
        let mut launch = self.of_names(templates, configurations, types.next())?;
        if let Some(selection) = selection {
            launch.other_types = types.collect();
            launch.least = Some(selection.least());
        }
        Ok(launch)
    }

    /// As [`Origin::launch`], with the first type of those that are selected by attributes.
    fn of_names(
        self,
        templates: &BTreeMap<TemplateKey, InstanceTemplate>,
        configurations: &BTreeMap<String, Configuration>,
        of_attributes: Option<String>,
    ) -> Result<LaunchSpec, GroupFault> {
        match self {
            Self::Configuration(name) => {
                let Some(configuration) = configurations.get(&name) else {
                    return Err(GroupFault::LaunchConfigurationGone(name));
                };
                let Configuration { instance_type, spot } = configuration.clone();
                Ok(LaunchSpec {
                    instance_type: instance_type.ok_or(GroupFault::NoInstanceType)?,
                    other_types: BTreeSet::new(),
                    least: None,
                    capacity_type: bought(spot),
                    placement_group: None,
                    vcpus: None,
                    faults: Vec::new(),
                })
            }
            Self::InstanceTemplate(key) => from_template(&key, templates, of_attributes),
            Self::Mixed { template, first, others, share, requirements: _ } => {
                let mut launch = from_template(&template, templates, first.or(of_attributes))?;
                // The distribution decides, because AWS rejects a template that requests spot
                // instances in a mixed-instances policy.
                launch.capacity_type = bought(share == SpotShare::All);
                if share == SpotShare::Some {
                    launch.faults.push(GroupFault::PartlySpot);
                }
                launch.other_types = others;
                Ok(launch)
            }
        }
    }
}

fn from_template(
    key: &TemplateKey,
    templates: &BTreeMap<TemplateKey, InstanceTemplate>,
    overridden: Option<String>,
) -> Result<LaunchSpec, GroupFault> {
    let template = templates.get(key).ok_or_else(|| key.gone())?.clone();
    let InstanceTemplate { instance_type, spot, placement_group, vcpus, .. } = template;
    Ok(LaunchSpec {
        instance_type: overridden.or(instance_type).ok_or(GroupFault::NoInstanceType)?,
        other_types: BTreeSet::new(),
        least: None,
        capacity_type: bought(spot),
        placement_group,
        vcpus,
        faults: Vec::new(),
    })
}

/// The spot share of a distribution. By AWS's defaults, absent fields mean all on demand.
fn spot_share(distribution: Option<&InstancesDistribution>) -> SpotShare {
    let base = distribution.and_then(InstancesDistribution::on_demand_base_capacity).unwrap_or(0);
    let percentage = distribution
        .and_then(InstancesDistribution::on_demand_percentage_above_base_capacity)
        .unwrap_or(100);
    match (base, percentage) {
        (_, 100..) => SpotShare::None,
        (0, 0) => SpotShare::All,
        _ => SpotShare::Some,
    }
}

fn bought(spot: bool) -> CapacityType {
    if spot { CapacityType::Spot } else { CapacityType::OnDemand }
}
