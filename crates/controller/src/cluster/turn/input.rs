//! What a turn of a policy reads: the policy, and what the controller gives to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::{Client, Resource as _};
use placeholders::{Ceiling, Owner};

use crate::actuate::Actuator;
use crate::cluster::config::Config;
use crate::cluster::election::Leadership;
use crate::cluster::sources::Groups;
use crate::cluster::standing::{Stands, Writer};
use crate::cluster::yielding::Yield;
use crate::crd::OverprovisioningPolicy;
use crate::observe::{Key, Occurred, Shared};
use crate::writes::Writes;

/// One turn of a policy.
pub(in crate::cluster) struct TurnInput<'a> {
    pub(in crate::cluster) key: &'a Key,
    pub(in crate::cluster) policy: &'a OverprovisioningPolicy,
    pub(super) owner: Owner,
    pub(in crate::cluster) context: &'a TurnContext<'a>,
    pub(in crate::cluster) now: DateTime<Utc>,
    /// Whether the turn writes. If not, it is a dry run.
    pub(in crate::cluster) writes: bool,
}

/// What the controller gives to the turn of each policy.
pub(in crate::cluster) struct TurnContext<'a> {
    pub(in crate::cluster) client: &'a Client,
    pub(in crate::cluster) leadership: &'a Arc<Leadership>,
    pub(in crate::cluster) config: &'a Config,
    pub(in crate::cluster) shared: &'a Arc<Shared>,
    pub(in crate::cluster) groups: &'a Groups,
    /// How long the turn waits for a replay of the history that begins.
    pub(in crate::cluster) patience: Duration,
    /// Which writes may be sent now.
    pub(in crate::cluster) writes: &'a Writes,
    /// The keys of the labels by which batch pods select nodes.
    pub(in crate::cluster) selected_labels: &'a BTreeSet<String>,
    /// The parts that names of buckets have had, such as `team=a` in `m5.xlarge/team=a`.
    pub(in crate::cluster) named_parts: &'a BTreeSet<String>,
    /// The names of the groups that older policies use.
    pub(in crate::cluster) taken: &'a BTreeSet<String>,
    /// What the operator's limits leave after older policies.
    pub(in crate::cluster) left: Ceiling,
    /// What placeholders do for pods that wait for nodes.
    pub(in crate::cluster) yielding: Yield,
    /// What occurred since the last turn.
    pub(in crate::cluster) occurred: &'a Occurred,
    /// Why the time of the turn is not that of the wall clock.
    pub(in crate::cluster) clock_fault: Option<&'a str>,
    /// Whether so many nodes are not ready that no policy adds placeholders.
    pub(in crate::cluster) many_not_ready: bool,
}

impl<'a> TurnInput<'a> {
    /// Creates the input of a turn at `now`.
    pub(in crate::cluster) fn new(
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

    /// The standing placeholders of the policy.
    pub(super) fn stands(&self) -> Stands {
        Stands::of(&self.context.shared.world(), self.key, &self.owner.uid)
    }

    /// Returns a writer of the policy's placeholders, which writes only while this replica leads.
    pub(super) fn writer(&self) -> Writer<'_> {
        let leadership = Arc::clone(self.context.leadership);
        let may_write = Arc::new(move || leadership.leads());
        let actuator = Actuator::new(self.context.client.clone(), &self.key.namespace, may_write);
        Writer { actuator, namespace: &self.key.namespace, writes: self.context.writes }
    }
}
