//! What is wrong with a group.

/// Something that is wrong with one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("Auto Scaling group {group}: {fault}")]
pub struct Problem {
    /// The group's name.
    pub group: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a group. See [`Fault::leaves_out`] for what follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// It is being deleted.
    #[error("it is being deleted")]
    BeingDeleted,
    /// No template or configuration names an instance type.
    #[error("nothing says which instance type it launches")]
    NoInstanceType,
    /// It describes its instances by attributes, so they have no one size.
    #[error("it asks for instances by their attributes, so they have no one type")]
    ByAttributes,
    /// It counts its capacity in weights, vCPUs or memory.
    #[error("it counts its capacity in weights, vCPUs or memory, not in instances")]
    NotInInstances,
    /// Its launch template, or the version that it names, is not there.
    #[error("launch template {template} has no version {version}, or is gone")]
    LaunchTemplateGone {
        /// Id or name.
        template: String,
        /// A number, `$Latest` or `$Default`.
        version: String,
    },
    /// Its launch configuration is not there.
    #[error("launch configuration {0} is gone")]
    LaunchConfigurationGone(String),
    /// AWS does not know its instance type in this region.
    #[error("instance type {0} is unknown in this region")]
    UnknownInstanceType(String),
    /// It cannot launch: its most instances are those that it has.
    #[error("its process Launch is suspended: it cannot grow")]
    LaunchSuspended,
    /// It launches other types than the first, too.
    #[error("it launches other types than its first, too: {}", .0.join(", "))]
    MixedInstanceTypes(Vec<String>),
    /// It buys some instances on the spot market; it counts as on demand.
    #[error("it buys some instances on the spot market and some not: it counts as on demand")]
    PartlySpot,
    /// Accelerators that Kubernetes has no resource name for, as far as we know; they are not counted.
    #[error("its accelerators, made by {0}, are not known and do not count")]
    UnknownAccelerator(String),
    /// A node-template tag that cannot be read; the others count.
    #[error("tag {key:?} = {value:?}: {problem}")]
    MalformedTag {
        /// The tag's key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Fault {
    /// Its spelling in metrics and conditions.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::BeingDeleted => "being_deleted",
            Self::NoInstanceType => "no_instance_type",
            Self::ByAttributes => "by_attributes",
            Self::NotInInstances => "not_in_instances",
            Self::LaunchTemplateGone { .. } => "launch_template_gone",
            Self::LaunchConfigurationGone(_) => "launch_configuration_gone",
            Self::UnknownInstanceType(_) => "unknown_instance_type",
            Self::LaunchSuspended => "launch_suspended",
            Self::MixedInstanceTypes(_) => "mixed_instance_types",
            Self::PartlySpot => "partly_spot",
            Self::UnknownAccelerator(_) => "unknown_accelerator",
            Self::MalformedTag { .. } => "malformed_tag",
        }
    }

    /// Whether the group is left out for it.
    pub const fn leaves_out(&self) -> bool {
        match self {
            Self::BeingDeleted
            | Self::NoInstanceType
            | Self::ByAttributes
            | Self::NotInInstances
            | Self::LaunchTemplateGone { .. }
            | Self::LaunchConfigurationGone(_)
            | Self::UnknownInstanceType(_) => true,
            Self::LaunchSuspended
            | Self::MixedInstanceTypes(_)
            | Self::PartlySpot
            | Self::UnknownAccelerator(_)
            | Self::MalformedTag { .. } => false,
        }
    }
}
