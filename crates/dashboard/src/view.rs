//! The values that the dashboard is given.

use control::Turn;
use demand::forecast::Carrier;
use embedder::{BucketId, Catalog};
use placeholders::{Prices, Step};

/// The number of curves of a policy.
pub const CURVES: usize = 4;

/// A policy at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyView {
    /// Its name, unique on the dashboard: NAMESPACE/NAME for a policy of a cluster.
    pub name: String,
    /// Whether it creates placeholders. `None` where that is no choice.
    pub acting: Option<Acting>,
    /// The moment, in seconds.
    pub time: i64,
    /// The length of a tick, in seconds.
    pub tick_seconds: i64,
    /// The values of its curves, in the order of [`crate::Captions::curves`].
    pub curves: [f64; CURVES],
    /// Its figures since a date.
    pub figures: Vec<Figure>,
    /// What would have happened if a policy that only reports had acted, once it is known.
    pub if_acted: Option<String>,
    /// What is known of pods that will come: who announced them, and what is held for them.
    pub planned: Vec<(String, String)>,
    /// Its buckets, in the order of the catalog. Empty if no decision was possible.
    pub buckets: Vec<BucketView>,
    /// Its problems, worst first.
    pub faults: Vec<FaultView>,
}

/// Whether a policy creates placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acting {
    /// It only reports.
    Observes,
    /// It creates placeholders.
    Acts,
}

impl Acting {
    /// The mode of the policy, as users write it.
    pub(super) const fn mode(self) -> &'static str {
        match self {
            Self::Observes => "Observe",
            Self::Acts => "Act",
        }
    }

    /// What the policy does.
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Observes => {
                "Observe: the policy creates no placeholders, and the target is what it would hold"
            }
            Self::Acts => "Act: the policy holds placeholders",
        }
    }
}

/// A figure of a policy, such as the money spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its name, the heading of its row in the table of figures.
    pub name: &'static str,
    /// How it was determined.
    pub meaning: &'static str,
    /// Its unit, which decides how the value is formatted.
    pub unit: Unit,
    /// Its value; not finite if it cannot be determined.
    pub value: f64,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, rounded to a whole number.
    Count,
    /// Minutes, rounded to a whole number.
    Minutes,
    /// Dollars, with cents below 100.
    Dollars,
    /// A share, from 0 to 1, displayed as a percentage.
    Share,
}

/// One bucket at a moment, in nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketView {
    /// Its name in the catalog, such as `m5.xlarge/spot`.
    pub name: String,
    /// The price of an instance, with where it comes from. Empty where that is no question.
    pub price: String,
    /// Present demand.
    pub demand: u64,
    /// Announced demand.
    pub announced: u64,
    /// The planned placeholders.
    pub target: u64,
    /// The placeholders on nodes or waiting for one.
    pub placeholders: u64,
    /// The nodes that are ready.
    pub ready: u64,
    /// The nodes that are launching.
    pub launching: u64,
    /// The forecast of new nodes: its median, and its quantiles 0.9 and 0.99.
    pub band: Option<[u64; 3]>,
    /// The headroom that the objective selects, before limits.
    pub held: Option<u64>,
    /// The steps that led to the target, in order.
    pub steps: Vec<Step>,
    /// The expert whose forecast is held.
    pub carrier: Option<Carrier>,
    /// The weights of the experts by name, the largest first.
    pub weights: Vec<(String, f64)>,
}

impl BucketView {
    /// Sets the fields that come from a turn of the policy's control.
    #[must_use]
    pub fn with_turn(
        self,
        turn: &Turn,
        bucket: BucketId,
        catalog: &Catalog,
        prices: &Prices,
    ) -> Self {
        let (Some(plan), Some(outlook)) =
            (turn.plan.buckets.get(bucket), turn.outlook.buckets.get(bucket))
        else {
            return self;
        };
        let count = |of: &[u64]| of.get(bucket).copied().unwrap_or(0);
        Self {
            name: catalog.buckets()[bucket].name.clone(),
            demand: count(&turn.demand.present),
            announced: count(&turn.demand.announced),
            target: plan.target,
            band: Some([0.5, 0.9, 0.99].map(|quantile| outlook.new_nodes.quantile(quantile))),
            held: Some(outlook.headroom(prices.quantile(bucket))),
            steps: plan.why.clone(),
            carrier: outlook.carrier,
            ..self
        }
    }
}

/// A problem of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultView {
    /// Its kind, in one word.
    pub cause: &'static str,
    /// A message for people.
    pub message: String,
    /// What to do about it.
    pub remedy: &'static str,
}
