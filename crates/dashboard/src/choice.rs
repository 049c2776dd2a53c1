//! What a browser selected: the policy, the bucket and the time.

use std::sync::Arc;

use super::board::{PolicyState, State};
use super::series::Range;
use super::view::BucketView;
use crate::http::{Request, encoded};

/// What a browser selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) policy: Option<String>,
    pub(super) bucket: Option<String>,
    pub(super) range: Range,
}

impl Choice {
    pub(super) fn of(request: &Request, range: Range) -> Self {
        let named = |name: &str| Range::ALL.into_iter().find(|range| range.names().0 == name);
        Self {
            policy: request.value("policy").map(str::to_owned),
            bucket: request.value("bucket").map(str::to_owned),
            range: request.value("range").and_then(named).unwrap_or(range),
        }
    }

    /// The address of the page with this choice.
    pub(super) fn address(&self) -> String {
        let value = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!("&{name}={}", encoded(value)))
        };
        let (policy, bucket) = (value("policy", &self.policy), value("bucket", &self.bucket));
        format!("/?range={}{policy}{bucket}", self.range.names().0)
    }

    /// The selected policy; by default the last one with placeholders or a forecast, or the first.
    pub(super) fn policy<'a>(&self, state: &'a State) -> Option<&'a PolicyState> {
        let mut policies = state.policies.iter().map(Arc::as_ref);
        let chosen =
            policies.clone().find(|policy| self.policy.as_ref() == Some(&policy.view.name));
        let decides = |policy: &&'a PolicyState| {
            policy.view.buckets.iter().any(|bucket| bucket.band.is_some() || bucket.target > 0)
        };
        chosen.or_else(|| policies.clone().rfind(decides)).or_else(|| policies.next())
    }

    /// The selected bucket of a policy; by default the one with the largest demand.
    pub(super) fn bucket<'a>(&self, policy: &'a PolicyState) -> Option<&'a BucketView> {
        let buckets = || policy.view.buckets.iter();
        let chosen = buckets().find(|bucket| self.bucket.as_ref() == Some(&bucket.name));
        // Of equal buckets, the first.
        chosen.or_else(|| buckets().rev().max_by_key(|bucket| bucket.demand))
    }
}
