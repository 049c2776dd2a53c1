//! A shadow stock: the nodes that would exist if one expert had been followed.
//!
//! Demand hardly depends on the headroom that is held, so the observed demand drives all shadow
//! stocks. At each tick, the nodes whose launch has ended become ready, demand takes the nodes that
//! it needs, and the headroom is held. Nodes beyond both are removed once they have been unneeded
//! for the time of the autoscaler. Nodes that demand and headroom lack are ordered. A node is paid
//! from its order on, because EC2 bills an instance while it launches.
//!
//! In the cluster, a pod that found room at once can end before a node ordered for it would be
//! ready. In a shadow stock without that room, the pod waits for the ordered node, or until another
//! node has room.

use std::collections::VecDeque;

use crate::forecast::lead::Lead;

/// The most ticks for which an unneeded node stays: a day of one-minute ticks. The bound limits the
/// memory of a stock.
const UNNEEDED_TICKS_MAX: usize = 1_440;

/// The shadow stock of one expert in one bucket. All counts are in nodes.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    /// Demand at the last tick.
    demand: u64,
    /// Nodes that are ready.
    ready: u64,
    /// Ordered nodes by the tick at which they become ready, earliest first.
    launching: VecDeque<OrderedNodes>,
    /// The sums of `launching`. They are kept, because dozens of stocks advance at each tick, and
    /// in most of them nothing is launching or unneeded, so that the lists need not be advanced.
    ordered: OrderedNodes,
    /// Unneeded nodes by the number of ticks they have been unneeded, fewest first.
    unneeded: VecDeque<u64>,
    /// The number of unneeded nodes: the sum of `unneeded`, kept for the same reason as `ordered`.
    unneeded_sum: u64,
}

/// Nodes that become ready at the same tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OrderedNodes {
    nodes: u64,
    /// The number of these nodes for which pods wait.
    waited_for: u64,
}

/// The result of a tick, in nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Nodes for which pods wait.
    pub(super) missing: u64,
    /// Nodes that are paid beyond those that demand takes: ready nodes beyond demand, and launching
    /// nodes.
    pub(super) beyond: u64,
}

impl Stock {
    /// Creates a stock without nodes. The autoscaler removes a node that was unneeded for
    /// `unneeded_seconds`.
    pub(super) fn new(lead: Lead, unneeded_seconds: i64) -> Self {
        let Lead { seconds, tick_seconds } = lead;
        let ticks =
            |seconds: i64| usize::try_from(seconds.div_euclid(tick_seconds)).unwrap_or(1).max(1);
        // The lead time contains one tick until the next decision. A node that is ordered at a tick
        // is ready after the rest of the lead time.
        let launch = ticks(seconds - tick_seconds);
        let unneeded =
            ticks(unneeded_seconds.saturating_add(tick_seconds / 2)).min(UNNEEDED_TICKS_MAX);
        Self {
            demand: 0,
            ready: 0,
            launching: vec![OrderedNodes::default(); launch].into(),
            ordered: OrderedNodes::default(),
            unneeded: vec![0; unneeded].into(),
            unneeded_sum: 0,
        }
    }

    /// Advances by one tick.
    ///
    /// `demand` is the demand at the tick, `planned` the part of its rise that was planned, and
    /// `headroom` is the headroom of the expert from now on, all in nodes. Nodes for planned pods
    /// are there with any headroom.
    pub(super) fn step(&mut self, (demand, planned): (u64, u64), headroom: u64) -> Account {
        self.ready = self.ready.saturating_add(planned);
        // A list of zeros is not advanced, because it would not change.
        let is_launching = self.ordered != OrderedNodes::default();
        let landed = if is_launching { self.launching.pop_front() } else { None };
        let OrderedNodes { nodes: launched, waited_for } = landed.unwrap_or_default();
        self.ordered.nodes -= launched;
        self.ordered.waited_for -= waited_for;
        let needed = demand.saturating_sub(self.ready).min(launched);
        // If demand falls, nodes that ran pods become free.
        let freed = self.demand.saturating_sub(demand).min(self.ready);
        self.demand = demand;
        self.ready += launched;
        let spare = self.ready.saturating_sub(demand);
        // New nodes serve the pods that they were ordered for. These pods may have left the
        // observed demand.
        self.serve(spare.saturating_sub(waited_for.saturating_sub(needed)).max(freed));
        self.ready -= self.let_go(spare.saturating_sub(headroom));
        let wanted = demand.saturating_add(headroom);
        let have = self.ready + self.ordered.nodes;
        let nodes = wanted.saturating_sub(have);
        let waited_for = demand.saturating_sub(have);
        if is_launching || nodes > 0 {
            if !is_launching {
                self.launching.pop_front();
            }
            self.launching.push_back(OrderedNodes { nodes, waited_for });
            self.ordered.nodes += nodes;
            self.ordered.waited_for += waited_for;
        }
        Account {
            missing: self.ordered.waited_for.max(demand.saturating_sub(self.ready)),
            beyond: self.ready.saturating_sub(demand) + self.ordered.nodes,
        }
    }

    /// Gives waiting pods the room on `spare` nodes, the pods of the earliest order first.
    fn serve(&mut self, mut spare: u64) {
        spare = spare.min(self.ordered.waited_for);
        self.ordered.waited_for -= spare;
        for launch in &mut self.launching {
            if spare == 0 {
                return;
            }
            let served = spare.min(launch.waited_for);
            launch.waited_for -= served;
            spare -= served;
        }
    }

    /// Records that `unneeded` nodes are unneeded at this tick, and returns the number of nodes
    /// that have been unneeded for long enough to be removed.
    ///
    /// Nodes that are needed again are those that were unneeded for the shortest time.
    fn let_go(&mut self, unneeded: u64) -> u64 {
        if unneeded == 0 && self.unneeded_sum == 0 {
            return 0;
        }
        let mut over = self.unneeded_sum.saturating_sub(unneeded);
        let known = self.unneeded_sum - over;
        for nodes in &mut self.unneeded {
            if over == 0 {
                break;
            }
            let taken = over.min(*nodes);
            *nodes -= taken;
            over -= taken;
        }
        let gone = self.unneeded.pop_back().unwrap_or(0);
        self.unneeded.push_front(unneeded - known);
        self.unneeded_sum = unneeded - gone;
        gone
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_queues(steps in vec((0..9_u64, 0..9_u64), 1..60)) {
            let mut stock = Stock::new(Lead { seconds: 600, tick_seconds: 200 }, 600);
            for (demand, headroom) in steps {
                stock.step((demand, 0), headroom);
                let nodes = stock.launching.iter().map(|launch| launch.nodes).sum();
                let waited_for = stock.launching.iter().map(|launch| launch.waited_for).sum();
                prop_assert_eq!(stock.ordered, OrderedNodes { nodes, waited_for });
                prop_assert_eq!(stock.unneeded_sum, stock.unneeded.iter().sum::<u64>());
                // A launch takes two ticks, and an unneeded node stays for three.
                prop_assert_eq!((stock.launching.len(), stock.unneeded.len()), (2, 3));
            }
        }
    }

    type Step = ((u64, u64), (u64, u64));

    /// A launch takes two ticks, and an unneeded node is removed after three ticks. Each step is
    /// (demand, headroom), then (missing, beyond).
    #[track_caller]
    fn check(steps: &[Step]) {
        let mut stock = Stock::new(Lead { seconds: 600, tick_seconds: 200 }, 600);
        for (at, &((demand, headroom), (missing, beyond))) in steps.iter().enumerate() {
            let expected = Account { missing, beyond };
            assert_eq!(stock.step((demand, 0), headroom), expected, "step {at}");
        }
    }

    /// Nodes for planned pods are there with any headroom, so no pod waits and none idles.
    #[test]
    fn planned_demand_needs_no_headroom() {
        let mut stock = Stock::new(Lead { seconds: 600, tick_seconds: 200 }, 600);
        let nothing = Account::default();
        assert_eq!([(2, 2), (2, 0), (5, 3)].map(|demand| stock.step(demand, 0)), [nothing; 3]);
        assert_eq!(stock.step((6, 0), 0), Account { missing: 1, beyond: 1 });
    }

    #[test]
    fn without_headroom_pods_wait_and_unneeded_nodes_stay_for_three_ticks() {
        check(&[
            ((2, 0), (2, 2)),
            ((2, 0), (2, 2)),
            ((2, 0), (0, 0)),
            ((0, 0), (0, 2)),
            ((0, 0), (0, 2)),
            ((1, 0), (0, 1)),
            ((1, 0), (0, 0)),
        ]);
    }

    #[test]
    fn with_headroom_no_pod_waits() {
        check(&[
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((1, 1), (0, 1)),
            ((1, 1), (0, 1)),
            ((2, 1), (0, 1)),
        ]);
    }

    /// A pod that found room at once in the cluster waits in a stock without that room, until an
    /// ordered node is ready or another pod ends.
    #[test]
    fn a_pod_that_ended_in_the_cluster_still_waits_for_a_node() {
        check(&[((2, 0), (2, 2)), ((0, 0), (2, 2)), ((0, 0), (0, 2))]);
        check(&[((2, 0), (2, 2)), ((4, 0), (4, 4)), ((0, 0), (2, 4)), ((0, 0), (0, 4))]);
        check(&[
            ((1, 0), (1, 1)),
            ((1, 0), (1, 1)),
            ((1, 0), (0, 0)),
            ((2, 0), (1, 1)),
            ((1, 0), (0, 1)),
            ((1, 0), (0, 1)),
        ]);
    }

    /// A node that is needed again and then free again stays for three more ticks.
    #[test]
    fn a_node_that_is_needed_again_stays_longer() {
        check(&[
            ((1, 0), (1, 1)),
            ((1, 0), (1, 1)),
            ((1, 0), (0, 0)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 1)),
            ((1, 0), (0, 0)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 0)),
        ]);
    }

    /// A node stays while it is headroom. It is removed three ticks after it has become unneeded.
    #[test]
    fn headroom_is_not_removed() {
        check(&[
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((0, 1), (0, 1)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 1)),
            ((0, 0), (0, 0)),
        ]);
    }
}
