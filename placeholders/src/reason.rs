//! Why a number in a plan is what it is. Metrics, events, status, reports and messages all use this spelling.

use serde::{Deserialize, Serialize};

/// What set a target, or held it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The quantile of the new nodes needed within the launch latency.
    Forecast,
    /// The same, from a rule of thumb: there is too little history to learn from.
    TooLittleHistory,
    /// Pods that will be released within the launch latency need more than the forecast.
    Announced,
    /// Held up: the highest target of the stabilisation window counts.
    ScaleDownWindow,
    /// Held up: no more than so many may go in a period.
    ScaleDownRate,
    /// Held back: the lowest target of the stabilisation window counts.
    ScaleUpWindow,
    /// Held back: no more than so many may come in a period.
    ScaleUpRate,
    /// Left alone: the change is within the tolerance.
    SmallChange,
    /// Held back by the bucket's limit.
    BucketLimit,
    /// Held back by the limit over all buckets.
    TotalLimit,
    /// Held back by the spend cap: others are worth more per dollar.
    SpendCap,
    /// Held back: every group that is not backing off is at its maximum.
    GroupsFull,
    /// Held back: every group with room is backing off after failed launches.
    GroupBackoff,
}

impl Reason {
    /// The spelling.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Forecast => "forecast",
            Self::TooLittleHistory => "too_little_history",
            Self::Announced => "announced",
            Self::ScaleDownWindow => "scale_down_window",
            Self::ScaleDownRate => "scale_down_rate",
            Self::ScaleUpWindow => "scale_up_window",
            Self::ScaleUpRate => "scale_up_rate",
            Self::SmallChange => "small_change",
            Self::BucketLimit => "bucket_limit",
            Self::TotalLimit => "total_limit",
            Self::SpendCap => "spend_cap",
            Self::GroupsFull => "groups_full",
            Self::GroupBackoff => "group_backoff",
        }
    }
}
