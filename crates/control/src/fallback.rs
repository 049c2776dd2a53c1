//! Moves placeholders from buckets that cannot launch nodes to others: from spot buckets to
//! on-demand buckets while launches of spot instances fail, and from buckets for which nothing
//! launches nodes, as far as their existing nodes do not suffice.
//!
//! A spot bucket is closed while all of its groups back off. Headroom for pods that on-demand
//! buckets also admit then moves to on-demand nodes at once. When the spot bucket is open again,
//! these nodes are given up as the placeholders of the spot bucket get nodes.
//!
//! Only decisions use the moved forecast. Records and reports have the forecast before the move.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::{BucketOutlook, Distribution, Outlook};
use embedder::{
    BucketId, BucketSet, CapacityType, Catalog, Cluster, Demand, Room, Shape, embed, new_instance,
};
use placeholders::{Policy, Prices, Reason, Standing};

/// The longest time for which the nodes in place of a spot bucket stay after it has opened again:
/// 15 minutes. A launch of a spot instance takes no longer, or counts as failed and closes the
/// bucket again.
const RETURN: TimeDelta = TimeDelta::minutes(15);

/// The on-demand nodes that placeholders hold in place of spot instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fallback {
    /// The number of these nodes, by on-demand bucket.
    nodes: BTreeMap<BucketId, u64>,
    /// The spot buckets that these nodes replace.
    spot: Vec<BucketId>,
    /// The time at which these nodes are given up at the latest.
    until: DateTime<Utc>,
}

/// The buckets that can launch nodes at a moment.
pub(crate) struct Moment<'a> {
    time: DateTime<Utc>,
    cluster: &'a Cluster,
    standing: &'a Standing,
    /// Placeholders on nodes, by bucket.
    ready: &'a [u64],
    /// All buckets except the closed ones.
    pub(crate) open: BucketSet,
    /// The nodes of closed buckets on which placeholders stand.
    pub(crate) held: Vec<Room>,
    /// The spot buckets all of whose groups back off.
    closed: Vec<BucketId>,
    /// The buckets whose nodes nothing launches, with the number of their nodes that are free for
    /// placeholders.
    fixed: Vec<(BucketId, u64)>,
}

impl<'a> Moment<'a> {
    /// Finds the buckets that can launch nodes. `ready` has, by bucket, the placeholders on nodes.
    pub(crate) fn new(
        time: DateTime<Utc>,
        cluster: &'a Cluster,
        standing: &'a Standing,
        ready: &'a [u64],
        catalog: &Catalog,
    ) -> Self {
        let backs_off = |&id: &BucketId| {
            let groups = standing.buckets.get(id).map_or(&[][..], Vec::as_slice);
            catalog.buckets()[id].capacity_type == CapacityType::Spot
                && !groups.is_empty()
                && groups.iter().all(|group| group.backoff)
        };
        let closed: Vec<BucketId> = (0..catalog.len()).filter(backs_off).collect();
        let fixed: Vec<(BucketId, u64)> = (0..catalog.len())
            .filter_map(|id| Some((id, free_nodes(id, standing, catalog)?)))
            .collect();
        let mut open = BucketSet::all();
        for &id in closed.iter().chain(fixed.iter().map(|(id, _)| id)) {
            open.remove(id);
        }
        let of_closed = closed.iter().map(|&bucket| (bucket, standing.placeholders(bucket)));
        let held = of_closed.chain(fixed.iter().copied()).map(|(bucket, nodes)| Room {
            bucket,
            free: catalog.buckets()[bucket].allocatable,
            nodes,
        });
        Self { time, cluster, standing, ready, open, held: held.collect(), closed, fixed }
    }
}

/// The number of nodes of a bucket that are free for placeholders, if nothing launches nodes of any
/// of its groups. `None` for other buckets.
fn free_nodes(id: BucketId, standing: &Standing, catalog: &Catalog) -> Option<u64> {
    let groups = standing.buckets.get(id).filter(|groups| !groups.is_empty())?;
    let free = groups.iter().zip(&catalog.buckets()[id].groups).map(|(state, group)| {
        let used = state.occupied.saturating_add(state.unusable);
        state.fixed.then(|| group.max.saturating_sub(used))
    });
    free.sum()
}

impl Fallback {
    /// Returns the outlook that decisions use.
    ///
    /// `demand` prefers the open buckets. `submitted` has the shapes with the number of their pods
    /// so far; they decide which share of a bucket's headroom fits elsewhere, and where. It is read
    /// only while a bucket can launch no nodes.
    pub(crate) fn moved<'o, 's>(
        &mut self,
        moment: &Moment<'_>,
        outlook: &'o Outlook,
        demand: &Demand,
        submitted: impl Iterator<Item = (&'s Shape, u64)>,
        policy: &Policy,
        catalog: &Catalog,
    ) -> Cow<'o, Outlook> {
        let Moment { time, cluster, standing, ready, closed, fixed, .. } = moment;
        let submitted: Vec<(&Shape, u64)> =
            if closed.is_empty() && fixed.is_empty() { Vec::new() } else { submitted.collect() };
        let outlook = moved_from_fixed(outlook, fixed, &submitted, moment, policy, catalog);
        if closed.is_empty() && (self.nodes.is_empty() || *time >= self.until) {
            *self = Self::default();
            return outlook;
        }
        let prices = Prices::new(policy.objective, catalog);
        let headroom = |id: BucketId| outlook.buckets[id].headroom(prices.quantile(id));
        let announced = |id: BucketId| demand.announced.get(id).copied().unwrap_or(0);
        let mut moved = outlook.clone().into_owned();
        // The nodes that still stand in place of buckets that are open again.
        let ready = |id: BucketId| ready.get(id).copied().unwrap_or(0);
        let missing = |id: &BucketId| headroom(*id).max(announced(*id)).saturating_sub(ready(*id));
        let opened = self.spot.iter().filter(|id| !closed.contains(id));
        let missing = opened.map(missing).fold(0, u64::saturating_add);
        let mut nodes: BTreeMap<BucketId, u64> = BTreeMap::new();
        for (&id, &stood) in &self.nodes {
            let stays = stood.min(missing);
            let wanted = headroom(id).max(announced(id)).saturating_add(stays);
            raise(&mut moved.buckets[id], wanted.saturating_sub(headroom(id)), stays);
            nodes.insert(id, stays);
        }
        if !closed.is_empty() {
            let shares = shares(closed, &submitted, &moment.open, catalog);
            for &id in closed {
                let stays = headroom(id).min(standing.placeholders(id));
                let away = headroom(id) - stays;
                let gangs = std::mem::take(&mut moved.buckets[id].gangs);
                moved.buckets[id] =
                    BucketOutlook::new(Distribution::certain(stays), Reason::GroupBackoff);
                for (&to, share) in shares.get(&id).into_iter().flatten() {
                    let more = part(away, *share);
                    raise(&mut moved.buckets[to], more, more);
                    if moved.buckets[to].gangs.is_empty() && more > 0 {
                        moved.buckets[to].gangs.clone_from(&gangs);
                    }
                    let sum = nodes.entry(to).or_default();
                    *sum = sum.saturating_add(more);
                }
            }
            // `demand` has announced pods in open buckets already. This counts the nodes that moved
            // with them.
            let plain = embed(cluster, catalog);
            for (id, before) in plain.announced.iter().enumerate() {
                let more = announced(id).saturating_sub(*before);
                if more > 0 {
                    let sum = nodes.entry(id).or_default();
                    *sum = (*sum).max(more);
                }
            }
            self.until = *time + RETURN;
        }
        nodes.retain(|_, nodes| *nodes > 0);
        self.spot.retain(|id| !closed.contains(id));
        self.spot.extend(closed);
        self.nodes = nodes;
        Cow::Owned(moved)
    }

    /// Returns this state for another catalog, in which each bucket is found by its name.
    pub(crate) fn renumbered(&self, from: &Catalog, to: &Catalog) -> Self {
        let number = |id: &BucketId| {
            let name = &from.buckets().get(*id)?.name;
            to.buckets().iter().position(|bucket| bucket.name == *name)
        };
        let nodes = self.nodes.iter().filter_map(|(id, nodes)| Some((number(id)?, *nodes)));
        Self {
            nodes: nodes.collect(),
            spot: self.spot.iter().filter_map(number).collect(),
            until: self.until,
        }
    }
}

/// Returns the outlook in which each bucket of `fixed`, for which nothing launches nodes, has at
/// most as much headroom as free nodes. Buckets that launch nodes for the same pods get the rest.
fn moved_from_fixed<'o>(
    outlook: &'o Outlook,
    fixed: &[(BucketId, u64)],
    submitted: &[(&Shape, u64)],
    moment: &Moment<'_>,
    policy: &Policy,
    catalog: &Catalog,
) -> Cow<'o, Outlook> {
    let mut outlook = Cow::Borrowed(outlook);
    if fixed.is_empty() {
        return outlook;
    }
    let prices = Prices::new(policy.objective, catalog);
    let ids: Vec<BucketId> = fixed.iter().map(|(id, _)| *id).collect();
    let shares = shares(&ids, submitted, &moment.open, catalog);
    for &(id, free) in fixed {
        let headroom = outlook.buckets[id].headroom(prices.quantile(id));
        if headroom <= free {
            continue;
        }
        let outlook = outlook.to_mut();
        outlook.buckets[id] = BucketOutlook::new(Distribution::certain(free), Reason::GroupsFull);
        for (&to, share) in shares.get(&id).into_iter().flatten() {
            let bucket = &mut outlook.buckets[to];
            add(bucket, part(headroom - free, *share));
        }
    }
    outlook
}

/// Returns a share, from 0 to 1, of a number of nodes, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates, and is not negative here"
)]
fn part(nodes: u64, share: f64) -> u64 {
    (nodes as f64 * share).ceil() as u64
}

/// Adds nodes that stand in place of those of another bucket.
fn add(outlook: &mut BucketOutlook, more: u64) {
    outlook.new_nodes = outlook.new_nodes.plus(more);
    outlook.moved = outlook.moved.saturating_add(more);
}

/// Raises the headroom of a bucket by `more` nodes, of which `moved` stand in place of others.
fn raise(outlook: &mut BucketOutlook, more: u64, moved: u64) {
    if moved > 0 {
        add(outlook, more);
        outlook.reason = Reason::SpotBackoff;
    }
}

/// For each closed bucket, the nodes of open buckets that take the place of one of its nodes: of
/// on-demand buckets if the closed one is a spot bucket.
///
/// They follow from the submitted pods for which the closed bucket would launch nodes. Pods that
/// only spot buckets admit do not move from one of them to another.
fn shares(
    closed: &[BucketId],
    submitted: &[(&Shape, u64)],
    open: &BucketSet,
    catalog: &Catalog,
) -> BTreeMap<BucketId, BTreeMap<BucketId, f64>> {
    let mut nodes: BTreeMap<BucketId, f64> = BTreeMap::new();
    let mut moved: BTreeMap<BucketId, BTreeMap<BucketId, f64>> = BTreeMap::new();
    for &(shape, pods) in submitted {
        let Some((from, holds)) = new_instance(shape, catalog, &BucketSet::all()) else { continue };
        if !closed.contains(&from) || pods == 0 {
            continue;
        }
        *nodes.entry(from).or_default() += pods as f64 / holds as f64;
        if let Some((to, holds)) = new_instance(shape, catalog, open) {
            // Spot instances of another type may fail like those of the closed bucket.
            let is_spot = |id: BucketId| catalog.buckets()[id].capacity_type == CapacityType::Spot;
            if !(is_spot(from) && is_spot(to)) {
                *moved.entry(from).or_default().entry(to).or_default() +=
                    pods as f64 / holds as f64;
            }
        }
    }
    for (from, to) in &mut moved {
        let sum = nodes.get(from).copied().unwrap_or(1.0);
        for share in to.values_mut() {
            *share /= sum;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use placeholders::GroupStanding;

    use super::*;

    /// The spot bucket comes first, because it costs less.
    const SPOT: BucketId = 0;
    const ON_DEMAND: BucketId = 1;

    fn catalog() -> Catalog {
        testkit::catalog([("a", 4_000, 0.2), ("a/spot", 4_000, 0.08)])
    }

    /// A pod that takes a node.
    fn shape(admits: BucketSet) -> Shape {
        Shape { admits, ..testkit::shape(testkit::cpus(4_000)) }
    }

    /// The placeholders on spot nodes, and whether the spot group backs off.
    type Spot = (u64, bool);

    /// Checks the headroom at a minute, spot and on demand, where the forecasts are 6 and 1.
    #[track_caller]
    fn check(
        fallback: &mut Fallback,
        shapes: &[(Shape, u64)],
        minute: i64,
        (placeholders, backoff): Spot,
        expected: [(u64, Reason); 2],
    ) {
        let catalog = catalog();
        let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
        let cluster = Cluster { occupied: vec![0; 2], ..Cluster::default() };
        let group = GroupStanding { placeholders, backoff, ..GroupStanding::default() };
        let standing = Standing {
            buckets: vec![vec![group], vec![GroupStanding::default()]],
            ..Standing::default()
        };
        let ready = [placeholders, 0];
        let moment = Moment::new(time, &cluster, &standing, &ready, &catalog);
        let forecast = |nodes| BucketOutlook::new(Distribution::certain(nodes), Reason::Forecast);
        let gangs = vec![Distribution::certain(4)];
        let spot = BucketOutlook { gangs: gangs.clone(), ..forecast(6) };
        let outlook = Outlook { buckets: vec![spot, forecast(1)] };
        let demand = embed(&cluster, &catalog);
        let frequent = shapes.iter().map(|(shape, pods)| (shape, *pods));
        let policy = Policy::default();
        let moved = fallback.moved(&moment, &outlook, &demand, frequent, &policy, &catalog);
        let found =
            [SPOT, ON_DEMAND].map(|id| (moved.buckets[id].headroom(0.5), moved.buckets[id].reason));
        assert_eq!(found, expected);
        // The nodes of a gang move together.
        let with_gangs = backoff && found[ON_DEMAND].1 == Reason::SpotBackoff;
        assert_eq!(moved.buckets[ON_DEMAND].gangs == gangs, with_gangs);
    }

    #[test]
    fn headroom_moves_on_demand_at_once_and_returns_with_the_spot_nodes() {
        use Reason::{Forecast, GroupBackoff, SpotBackoff};
        let both = [(shape(BucketSet::all()), 30)];
        let plain = [(6, Forecast), (1, Forecast)];
        let fallback = &mut Fallback::default();
        check(fallback, &both, 0, (2, false), plain);
        // Two placeholders keep their spot nodes.
        check(fallback, &both, 1, (2, true), [(2, GroupBackoff), (5, SpotBackoff)]);
        check(fallback, &both, 5, (1, true), [(1, GroupBackoff), (6, SpotBackoff)]);
        check(fallback, &both, 6, (1, false), [(6, Forecast), (6, SpotBackoff)]);
        check(fallback, &both, 8, (4, false), [(6, Forecast), (3, SpotBackoff)]);
        // A spot node that a job takes does not bring the others back.
        check(fallback, &both, 9, (3, false), [(6, Forecast), (3, SpotBackoff)]);
        check(fallback, &both, 10, (6, false), plain);
        check(fallback, &both, 11, (0, false), plain);
    }

    #[test]
    fn nodes_on_demand_go_a_while_after_the_backoff_even_if_no_spot_node_comes() {
        use Reason::{Forecast, GroupBackoff, SpotBackoff};
        let both = [(shape(BucketSet::all()), 30)];
        let fallback = &mut Fallback::default();
        check(fallback, &both, 0, (0, true), [(0, GroupBackoff), (7, SpotBackoff)]);
        check(fallback, &both, 14, (0, false), [(6, Forecast), (7, SpotBackoff)]);
        check(fallback, &both, 15, (0, false), [(6, Forecast), (1, Forecast)]);
    }

    #[test]
    fn only_what_fits_on_demand_moves() {
        use Reason::{Forecast, GroupBackoff, SpotBackoff};
        let (all, spot) = (shape(BucketSet::all()), shape(BucketSet::only([SPOT])));
        let fallback = &mut Fallback::default();
        let a_third = [(all.clone(), 10), (spot.clone(), 20)];
        check(fallback, &a_third, 0, (0, true), [(0, GroupBackoff), (3, SpotBackoff)]);
        let none = [(spot, 20), (shape(BucketSet::only([ON_DEMAND])), 9)];
        check(&mut Fallback::default(), &none, 0, (0, true), [(0, GroupBackoff), (1, Forecast)]);
        check(&mut Fallback::default(), &[], 0, (0, true), [(0, GroupBackoff), (1, Forecast)]);
    }
}
