//! What a turn of a policy reads: the policy, and what the controller gives to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::{Client, Resource as _};
use placeholders::{Ceiling, Owner};

use super::config::{Config, Distinctions};
use super::election::Leadership;
use super::sources::Groups;
use super::standing::{Stands, Writer};
use super::yielding::Yield;
use crate::actuate::Actuator;
use crate::crd::{Mode, OverprovisioningPolicy};
use crate::observe::{Key, Occurred, Shared};
use crate::outcome::Unread;
use crate::writes::Writes;

/// One turn of a policy.
pub(super) struct TurnInput<'a> {
    pub(super) key: &'a Key,
    pub(super) policy: &'a OverprovisioningPolicy,
    pub(super) owner: Owner,
    pub(super) context: &'a TurnContext<'a>,
    pub(super) now: DateTime<Utc>,
    /// Whether the turn writes. If not, it is a dry run.
    pub(super) writes: bool,
}

/// What the controller gives to the turn of each policy.
pub(super) struct TurnContext<'a> {
    pub(super) client: &'a Client,
    pub(super) leadership: &'a Arc<Leadership>,
    pub(super) config: &'a Config,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) groups: &'a Groups,
    /// How long the turn waits for a replay of the history that begins.
    pub(super) patience: Duration,
    /// Which writes may be sent now.
    pub(super) writes: &'a Writes,
    pub(super) known: &'a Distinctions,
    /// The names of the groups that older policies use.
    pub(super) taken: &'a BTreeSet<String>,
    /// What the operator's limits leave after older policies.
    pub(super) left: Ceiling,
    /// The placeholders of older policies, by instance type, for what is left of prepaid instances.
    pub(super) prepaid_taken: &'a BTreeMap<String, u64>,
    /// What placeholders do for pods that wait for nodes.
    pub(super) yielding: Yield,
    /// What occurred since the last turn.
    pub(super) occurred: &'a Occurred,
    /// Why the time of the turn is not that of the wall clock.
    pub(super) clock_fault: Option<&'a str>,
    /// Whether so many nodes are not ready that no policy adds placeholders.
    pub(super) many_not_ready: bool,
    /// Whether the off switch stops all policies.
    pub(super) is_off: bool,
    /// What could not be read from AWS.
    pub(super) unread: &'a Unread,
}

impl<'a> TurnInput<'a> {
    /// Creates the input of a turn at `now`.
    pub(super) fn new(
        key: &'a Key,
        policy: &'a OverprovisioningPolicy,
        context: &'a TurnContext<'a>,
        now: DateTime<Utc>,
        writes: bool,
    ) -> Self {
        let owner = Owner {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: policy.meta().uid.clone().unwrap_or_default(),
        };
        Self { key, policy, owner, context, now, writes }
    }

    /// The mode in which the policy runs: `Observe` while the off switch is set.
    pub(super) fn mode(&self) -> Mode {
        if self.context.is_off { Mode::Observe } else { self.policy.spec.mode }
    }

    /// The standing placeholders of the policy.
    pub(super) fn stands(&self) -> Stands {
        Stands::of(&self.context.shared.world(), self.key, &self.owner.uid)
    }

    /// Returns a writer of the policy's placeholders, which writes only while this replica leads
    /// and the off switch is as the turn read it.
    pub(super) fn writer(&self) -> Writer<'_> {
        let leadership = Arc::clone(self.context.leadership);
        let (shared, was_off) = (Arc::clone(self.context.shared), self.context.is_off);
        let may_write = Arc::new(move || leadership.leads() && shared.world().is_off == was_off);
        let actuator = Actuator::new(self.context.client.clone(), &self.key.namespace, may_write);
        Writer {
            actuator,
            leadership: self.context.leadership,
            namespace: &self.key.namespace,
            writes: self.context.writes,
        }
    }
}
