//! Problems of an Auto Scaling group.

/// A problem of one Auto Scaling group. Its text is the message that users read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("Auto Scaling group {group}: {fault}")]
pub struct GroupProblem {
    /// The group's name.
    pub group: String,
    /// The problem.
    pub fault: GroupFault,
}

/// A problem of a group. [`GroupFault::leaves_out`] is whether it excludes the group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum GroupFault {
    /// The group is being deleted.
    #[error("it is being deleted")]
    BeingDeleted,
    /// No launch template or launch configuration sets an instance type.
    #[error("no launch template or launch configuration sets its instance type")]
    NoInstanceType,
    /// The group selects its instance types by attributes, and they are not known.
    #[error("it selects instance types by attributes, and they are not known: {0}")]
    ByAttributes(String),
    /// The group counts its capacity in weights, vCPUs or memory, not in instances.
    #[error("it counts its capacity in weights, vCPUs or memory, not in instances")]
    NotInInstances,
    /// The group's launch template, or the version that it uses, does not exist.
    #[error("launch template {template} has no version {version}, or does not exist")]
    LaunchTemplateGone {
        /// The template's ID or name.
        template: String,
        /// A number, `$Latest` or `$Default`.
        version: String,
    },
    /// The group's launch configuration does not exist.
    #[error("launch configuration {0} does not exist")]
    LaunchConfigurationGone(String),
    /// AWS does not list the group's instance type in this region.
    #[error("instance type {0} is unknown in this region")]
    UnknownInstanceType(String),
    /// AWS does not list the group's instance type, so its size is from Prophet's own table.
    #[error("instance type {0} is not listed in this region, so its size is from Prophet's table")]
    TypeFromTable(String),
    /// The group is an EKS managed node group without node-template tags, and EKS did not describe
    /// it.
    #[error(
        "EKS does not describe the labels and taints of its nodes ({0}), and no tag does, so pods that need them do not count for it until it has a node"
    )]
    Undescribed(String),
    /// The group cannot launch instances, so its maximum is its present number of instances.
    #[error("its process Launch is suspended, so it cannot grow")]
    LaunchSuspended,
    /// The group also launches these instance types, whose size differs from the first's.
    #[error(
        "it also launches instance types of other sizes than its first, so its placeholders have the size of the first, or of the smallest node that came: {}", .0.join(", ")
    )]
    MixedInstanceTypes(Vec<String>),
    /// The group selects so many instance types by attributes.
    #[error(
        "it selects {0} instance types by attributes, so its placeholders have the least size that the attributes admit, or that of the smallest node that came"
    )]
    SelectedTypes(usize),
    /// The group also launches these instance types, which have another architecture or other
    /// accelerators than the first.
    #[error(
        "it also launches instance types of another architecture or with other accelerators than its first, so its placeholders would have no single size: {}", .0.join(", ")
    )]
    MixedHardware(Vec<String>),
    /// Only some of the group's instances are spot instances. It counts as on demand.
    #[error("only some of its instances are spot instances, so it counts as on demand")]
    PartlySpot,
    /// The resource name of the group's accelerators is unknown. They are not counted.
    #[error("its accelerators, made by {0}, have no known resource name, so they do not count")]
    UnknownAccelerator(String),
    /// A node-template tag is invalid. The other tags count.
    #[error("tag {key:?} = {value:?}: {problem}")]
    MalformedTag {
        /// The tag's key.
        key: String,
        /// The tag's value.
        value: String,
        /// Why the tag is invalid.
        problem: &'static str,
    },
}

impl GroupFault {
    /// The problem's spelling in metrics and conditions.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::BeingDeleted => "being_deleted",
            Self::NoInstanceType => "no_instance_type",
            Self::ByAttributes(_) => "by_attributes",
            Self::NotInInstances => "not_in_instances",
            Self::LaunchTemplateGone { .. } => "launch_template_gone",
            Self::LaunchConfigurationGone(_) => "launch_configuration_gone",
            Self::UnknownInstanceType(_) => "unknown_instance_type",
            Self::TypeFromTable(_) => "type_from_table",
            Self::Undescribed(_) => "undescribed",
            Self::LaunchSuspended => "launch_suspended",
            Self::MixedInstanceTypes(_) => "mixed_instance_types",
            Self::SelectedTypes(_) => "selected_types",
            Self::MixedHardware(_) => "mixed_hardware",
            Self::PartlySpot => "partly_spot",
            Self::UnknownAccelerator(_) => "unknown_accelerator",
            Self::MalformedTag { .. } => "malformed_tag",
        }
    }

    /// Whether this problem excludes the group from the result.
    pub const fn leaves_out(&self) -> bool {
        match self {
            Self::BeingDeleted
            | Self::NoInstanceType
            | Self::ByAttributes(_)
            | Self::NotInInstances
            | Self::LaunchTemplateGone { .. }
            | Self::LaunchConfigurationGone(_)
            | Self::MixedHardware(_)
            | Self::UnknownInstanceType(_) => true,
            Self::TypeFromTable(_)
            | Self::Undescribed(_)
            | Self::LaunchSuspended
            | Self::MixedInstanceTypes(_)
            | Self::SelectedTypes(_)
            | Self::PartlySpot
            | Self::UnknownAccelerator(_)
            | Self::MalformedTag { .. } => false,
        }
    }
}
