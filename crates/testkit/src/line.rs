//! Lines of the history.

use chrono::{DateTime, Utc};
use history::{BucketLine, Line, VERSION};
use serde_json::Map;

/// A line of a policy with these buckets, without launches and without finished pods.
pub fn line<const N: usize>(
    time: DateTime<Utc>,
    policy: &str,
    buckets: [(&str, BucketLine); N],
) -> Line {
    Line {
        v: VERSION,
        time,
        policy: policy.into(),
        buckets: buckets.map(|(name, bucket)| (name.to_owned(), bucket)).into(),
        launches: vec![],
        used: vec![],
        rollout_percent: None,
        kept: vec![],
        runs: vec![],
        finished: vec![],
        offered: None,
        rest: Map::new(),
    }
}
