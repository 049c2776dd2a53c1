//! Why a number in a plan has its value.
//!
//! Metrics, events, status, reports and messages all use this spelling.

use serde::{Deserialize, Serialize};

/// The reason that set a target or limited it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The target is the quantile of the new nodes needed within the launch latency.
    Forecast,
    /// The target is the value of the policy's expression.
    Expression,
    /// The target comes from a rule of thumb, because there is too little history for a forecast.
    TooLittleHistory,
    /// The target shrinks from the placeholders that stood, because the observed cluster is out of
    /// date.
    Outdated,
    /// The target is a part of the forecast, because one namespace may have only a share of the
    /// limits, or submits no more.
    NamespaceShare,
    /// The target is the announced demand, because pods that will be released within the launch
    /// latency need more nodes than the forecast.
    Announced,
    /// The target is higher, because the instances are paid whether they run or not.
    Prepaid,
    /// The target is a part of what it was, because a rollout lets only a part stand.
    Rollout,
    /// The target stays higher, because the highest target of the stabilisation window counts.
    ScaleDownWindow,
    /// The target stays higher, because the rate limits how many placeholders may be removed in a
    /// period.
    ScaleDownRate,
    /// The target stays lower, because the lowest target of the stabilisation window counts.
    ScaleUpWindow,
    /// The target stays lower, because the rate limits how many placeholders may be added in a
    /// period.
    ScaleUpRate,
    /// The target is unchanged, because the change is within the tolerance.
    SmallChange,
    /// The limit of the bucket lowers the target.
    BucketLimit,
    /// The limit over all buckets lowers the target.
    TotalLimit,
    /// The spend cap lowers the target, because placeholders of other buckets are worth more per
    /// dollar.
    SpendCap,
    /// A limit of the operator over all policies lowers the target.
    OperatorLimit,
    /// The target is 0, because the price of the bucket is unknown, and there is a limit in
    /// dollars.
    PriceUnknown,
    /// The target is lower, because pods of workloads wait for nodes that do not come, and a
    /// ceiling of the cluster may count the nodes of placeholders.
    YieldsToRealPods,
    /// The target is not higher than what stands, because more than a third of the nodes, and at
    /// least three, ceased to be ready.
    NodesNotReady,
    /// The target is lower, because every group that is not backing off is at its maximum.
    GroupsFull,
    /// The target is lower, because no group has room for a whole gang, and a gang cannot start on
    /// nodes of several groups.
    GangFitsNoGroup,
    /// The target is lower, because every group with room is backing off after failed launches.
    GroupBackoff,
    /// The target includes nodes in place of spot instances, whose launches failed recently.
    SpotBackoff,
}

impl Reason {
    /// All reasons, in their order.
    pub const ALL: [Self; 24] = [
        Self::Forecast,
        Self::Expression,
        Self::TooLittleHistory,
        Self::Outdated,
        Self::NamespaceShare,
        Self::Announced,
        Self::Prepaid,
        Self::Rollout,
        Self::ScaleDownWindow,
        Self::ScaleDownRate,
        Self::ScaleUpWindow,
        Self::ScaleUpRate,
        Self::SmallChange,
        Self::BucketLimit,
        Self::TotalLimit,
        Self::SpendCap,
        Self::OperatorLimit,
        Self::PriceUnknown,
        Self::YieldsToRealPods,
        Self::NodesNotReady,
        Self::GroupsFull,
        Self::GangFitsNoGroup,
        Self::GroupBackoff,
        Self::SpotBackoff,
    ];

    /// The spelling of the reason.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Forecast => "forecast",
            Self::Expression => "expression",
            Self::TooLittleHistory => "too_little_history",
            Self::Outdated => "outdated",
            Self::NamespaceShare => "namespace_share",
            Self::Announced => "announced",
            Self::Prepaid => "prepaid",
            Self::Rollout => "rollout",
            Self::ScaleDownWindow => "scale_down_window",
            Self::ScaleDownRate => "scale_down_rate",
            Self::ScaleUpWindow => "scale_up_window",
            Self::ScaleUpRate => "scale_up_rate",
            Self::SmallChange => "small_change",
            Self::BucketLimit => "bucket_limit",
            Self::TotalLimit => "total_limit",
            Self::SpendCap => "spend_cap",
            Self::OperatorLimit => "operator_limit",
            Self::PriceUnknown => "price_unknown",
            Self::YieldsToRealPods => "yields_to_real_pods",
            Self::NodesNotReady => "nodes_not_ready",
            Self::GroupsFull => "groups_full",
            Self::GangFitsNoGroup => "gang_fits_no_group",
            Self::GroupBackoff => "group_backoff",
            Self::SpotBackoff => "spot_backoff",
        }
    }
    /// Explains the number that the reason set, as a sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Forecast => "The forecast of the new nodes that jobs need within the lead time.",
            Self::Expression => "The value of the policy's expression.",
            Self::TooLittleHistory => {
                "A rule of thumb, because there is too little history for a forecast."
            }
            Self::Outdated => {
                "It shrinks from the placeholders that stood, because the observed cluster is out of date."
            }
            Self::NamespaceShare => {
                "A part of the forecast, because one namespace may have only a share of the limits (`workloads.namespaceShare`), or submits no more."
            }
            Self::Announced => {
                "Announced pods will be released within the launch latency and need more nodes than the forecast."
            }
            Self::Prepaid => {
                "It is higher, because these instances are paid whether they run or not."
            }
            Self::Rollout => "The rollout of the policy lets only a part of it stand.",
            Self::ScaleDownWindow => {
                "It stays higher, because the highest number of the stabilization window counts."
            }
            Self::ScaleDownRate => {
                "It stays higher, because the policy limits how many placeholders may be removed in a period."
            }
            Self::ScaleUpWindow => {
                "It stays lower, because the lowest number of the stabilization window counts."
            }
            Self::ScaleUpRate => {
                "It stays lower, because the policy limits how many placeholders may be added in a period."
            }
            Self::SmallChange => "It is unchanged, because the change is within the tolerance.",
            Self::BucketLimit => "The policy's limit of this bucket lowers it.",
            Self::TotalLimit => "The policy's limit over all buckets lowers it.",
            Self::SpendCap => {
                "The spend cap lowers it, because placeholders of other buckets are worth more per dollar."
            }
            Self::OperatorLimit => "A limit of the operator over all policies lowers it.",
            Self::PriceUnknown => {
                "It is 0, because the price of the instance type is unknown and there is a limit in dollars: give the price in the operator's prices or in a catalog file, or set the limit in placeholders."
            }
            Self::YieldsToRealPods => {
                "It is lower, because pods of workloads wait for nodes that do not come."
            }
            Self::NodesNotReady => {
                "It is no higher than what stands, because many nodes ceased to be ready."
            }
            Self::GroupsFull => {
                "It is lower, because every group that is not backing off is at its maximum size."
            }
            Self::GangFitsNoGroup => "It is lower, because no group has room for a whole gang.",
            Self::GroupBackoff => {
                "It is lower, because every group with room is backing off after failed launches."
            }
            Self::SpotBackoff => {
                "It includes nodes in place of spot instances, whose launches failed recently."
            }
        }
    }
}
