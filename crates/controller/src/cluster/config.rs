//! The controller's settings, which apply to all policies.

use std::collections::BTreeSet;
use std::time::Duration;

use demand::forecast::onnx;
use history::Place;
use instances::PriceRules;

use super::acting::SimulateIfActed;
use super::price_reads::PriceReader;
use super::settings::Allowed;
use crate::catalog::{Comparison, Pricing, REGION_LABEL};
use crate::observe::{Scope, World};

/// The controller's settings, which apply to all policies.
pub struct Config {
    /// The namespaces whose policies count, and the other objects that are watched.
    pub scope: Scope,
    /// The place of the history. Without one, nothing survives a restart.
    pub data: Option<Place>,
    /// Whether the history belongs to this replica alone. Then a standby records it too.
    pub own_history: bool,
    /// The longest time without progress. After it, the liveness probe fails.
    pub stuck_after: Duration,
    /// The number of days after which a day of the history is removed.
    pub retention_days: u32,
    /// Whether the history has the names of the objects that control finished pods.
    pub record_names: bool,
    /// The node label that distinguishes placement groups.
    pub placement_group_label: String,
    /// The keys of taints that nodes have only until they are set up.
    pub startup_taints: BTreeSet<String>,
    /// The launch latency in seconds that is used for a group until one of its launches was
    /// observed.
    pub launch_seconds: i64,
    /// What the operator pays for instances.
    pub prices: PriceRules,
    /// What reads the prices of AWS. Without it, the built-in table serves.
    pub price_reader: Option<PriceReader>,
    /// How long a node must be unneeded before the autoscaler removes it, in seconds.
    pub unneeded_seconds: i64,
    /// cluster-autoscaler's `--expendable-pods-priority-cutoff`.
    pub priority_cutoff: i32,
    /// The most write requests of placeholders a minute.
    pub writes_per_minute: u32,
    /// The operator's settings for the specifications of policies.
    pub allowed: Allowed,
    /// The source of the ONNX model that forecasts use.
    pub model: onnx::ModelSource,
    /// What simulates that a policy in the mode `Observe` had acted. Without it, nothing is
    /// simulated.
    pub simulate_if_acted: Option<SimulateIfActed>,
}

impl Config {
    /// What the prices of instances depend on. The region is that of the first node that has one.
    pub(super) fn pricing<'a>(&'a self, world: &'a World) -> Pricing<'a> {
        let labels = world.index.nodes().iter().map(|(_, _, facts)| &facts.labels);
        let region =
            labels.filter_map(|labels| labels.get(REGION_LABEL)).map(String::as_str).next();
        let read = world.aws_prices.as_ref().map(|read| &*read.prices);
        Pricing { rules: &self.prices, region, read, overlays: &world.node_overlays, last: None }
    }

    /// Whether capacity reservations are read from AWS.
    pub(super) fn reads_reservations(&self) -> bool {
        self.price_reader.is_some() && self.prices.reservations().next().is_some()
    }

    /// How groups of nodes are compared.
    pub(super) fn comparison<'a>(&'a self, known: &'a Distinctions) -> Comparison<'a> {
        let Distinctions { selected_labels, named_parts, startup_taints } = known;
        Comparison {
            named_parts,
            placement_group_label: &self.placement_group_label,
            startup_taints,
            selected_labels,
        }
    }
}

/// What distinguishes groups of nodes, as the cluster showed it.
#[derive(Default)]
pub(super) struct Distinctions {
    /// The keys of the labels by which batch pods select nodes, or did so before.
    pub(super) selected_labels: BTreeSet<String>,
    /// The parts that names of buckets have had, such as `team=a` in `m5.xlarge/team=a`.
    pub(super) named_parts: BTreeSet<String>,
    /// The keys of taints that nodes have only until they are set up: those of the operator, and
    /// those of Karpenter's pools.
    pub(super) startup_taints: BTreeSet<String>,
}
