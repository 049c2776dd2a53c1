//! A shadow stock: the nodes that there would be, had one expert been followed.
//!
//! Offered demand hardly depends on what is held, so the demand that was observed drives all stocks. At each tick nodes that
//! were ordered in time are ready, demand takes what it needs, the headroom is held, what is left over goes once it has been
//! unneeded for ten minutes, and what is missing of demand and headroom is ordered.
//!
//! Pods that were served at once may be gone before a node that is ordered for them would be ready: here they wait for it, or until
//! another one has room.

use std::collections::VecDeque;

use super::super::Lead;

/// cluster-autoscaler's scale-down-unneeded-time.
const UNNEEDED_SECONDS: i64 = 600;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    /// At the last tick.
    demand: u64,
    ready: u64,
    /// Nodes by the tick at which they will be ready, the next first.
    launching: VecDeque<Launch>,
    /// Nodes by how many ticks they have been unneeded, fewest first.
    unneeded: VecDeque<u64>,
}

/// Nodes that will be ready together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Launch {
    nodes: u64,
    /// For so many of them pods wait.
    waited_for: u64,
}

/// What a tick came to, in nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Nodes that pods waited for.
    pub(super) missing: u64,
    /// Nodes that were ready and that demand did not need.
    pub(super) idle: u64,
    /// Nodes that became ready.
    pub(super) launched: u64,
    /// Those of them for which nothing waited.
    pub(super) hidden: u64,
}

impl Stock {
    /// No nodes yet.
    pub(super) fn new(lead: Lead) -> Self {
        let Lead { seconds, tick_seconds } = lead;
        let launch = Lead { seconds: seconds - tick_seconds, tick_seconds }.ticks();
        let unneeded = Lead { seconds: UNNEEDED_SECONDS, tick_seconds }.ticks();
        Self {
            demand: 0,
            ready: 0,
            launching: vec![Launch::default(); launch].into(),
            unneeded: vec![0; unneeded].into(),
        }
    }

    /// A tick, with the demand at it and the headroom that the expert wants from now on.
    pub(super) fn step(&mut self, demand: u64, headroom: u64) -> Account {
        let Launch { nodes: launched, waited_for } = self.launching.pop_front().unwrap_or_default();
        let needed = demand.saturating_sub(self.ready).min(launched);
        // Where demand falls, nodes that ran something are free.
        let freed = self.demand.saturating_sub(demand).min(self.ready);
        self.demand = demand;
        self.ready += launched;
        let spare = self.ready.saturating_sub(demand);
        // New nodes serve whom they were ordered for, who may be gone from demand.
        self.serve(spare.saturating_sub(waited_for.saturating_sub(needed)).max(freed));
        let waited_for = waited_for.max(needed);
        self.ready -= self.let_go(spare.saturating_sub(headroom));
        let wanted = demand.saturating_add(headroom);
        let have = self.ready + self.launching.iter().map(|launch| launch.nodes).sum::<u64>();
        let nodes = wanted.saturating_sub(have);
        self.launching.push_back(Launch { nodes, waited_for: demand.saturating_sub(have) });
        let waiting = self.launching.iter().map(|launch| launch.waited_for).sum::<u64>();
        Account {
            missing: waiting.max(demand.saturating_sub(self.ready)),
            idle: self.ready.saturating_sub(demand),
            launched,
            hidden: launched - waited_for,
        }
    }

    /// Pods that wait find room on so many nodes.
    fn serve(&mut self, mut spare: u64) {
        for launch in &mut self.launching {
            let served = spare.min(launch.waited_for);
            launch.waited_for -= served;
            spare -= served;
        }
    }

    /// So many are unneeded; returns how many of them have been for long enough. Those that are needed again are the
    /// youngest.
    fn let_go(&mut self, unneeded: u64) -> u64 {
        let mut over = self.unneeded.iter().sum::<u64>().saturating_sub(unneeded);
        for nodes in &mut self.unneeded {
            let taken = over.min(*nodes);
            *nodes -= taken;
            over -= taken;
        }
        let gone = self.unneeded.pop_back().unwrap_or(0);
        let known = gone + self.unneeded.iter().sum::<u64>();
        self.unneeded.push_front(unneeded - known);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = ((u64, u64), (u64, u64, u64, u64));

    /// A launch takes two ticks, a node stays three: each step is (demand, headroom), then (missing, idle, launched, hidden).
    #[track_caller]
    fn check(steps: &[Step]) {
        let mut stock = Stock::new(Lead { seconds: 600, tick_seconds: 200 });
        for (at, &((demand, headroom), (missing, idle, launched, hidden))) in steps.iter().enumerate() {
            let expected = Account { missing, idle, launched, hidden };
            assert_eq!(stock.step(demand, headroom), expected, "step {at}");
        }
    }

    #[test]
    fn without_headroom_demand_waits_and_nodes_linger() {
        check(&[
            ((2, 0), (2, 0, 0, 0)),
            ((2, 0), (2, 0, 0, 0)),
            ((2, 0), (0, 0, 2, 0)),
            ((0, 0), (0, 2, 0, 0)),
            ((0, 0), (0, 2, 0, 0)),
            ((1, 0), (0, 1, 0, 0)),
            ((1, 0), (0, 0, 0, 0)),
        ]);
    }

    #[test]
    fn with_headroom_launches_are_hidden() {
        check(&[
            ((0, 1), (0, 0, 0, 0)),
            ((0, 1), (0, 0, 0, 0)),
            ((0, 1), (0, 1, 1, 1)),
            ((1, 1), (0, 0, 0, 0)),
            ((1, 1), (0, 0, 0, 0)),
            ((2, 1), (0, 0, 1, 0)),
        ]);
    }

    /// Without a node, what was served at once elsewhere waits here until one is ready; a node on which something ended serves it.
    #[test]
    fn who_came_and_went_waits_for_a_node() {
        check(&[((2, 0), (2, 0, 0, 0)), ((0, 0), (2, 0, 0, 0)), ((0, 0), (0, 2, 2, 0))]);
        check(&[
            ((2, 0), (2, 0, 0, 0)),
            ((4, 0), (4, 0, 0, 0)),
            ((0, 0), (2, 2, 2, 0)),
            ((0, 0), (0, 4, 2, 0)),
        ]);
        check(&[
            ((1, 0), (1, 0, 0, 0)),
            ((1, 0), (1, 0, 0, 0)),
            ((1, 0), (0, 0, 1, 0)),
            ((2, 0), (1, 0, 0, 0)),
            ((1, 0), (0, 0, 0, 0)),
            ((1, 0), (0, 1, 1, 1)),
        ]);
    }

    /// What is held stays; once it is not, it goes after three ticks.
    #[test]
    fn what_is_held_does_not_age() {
        check(&[
            ((0, 1), (0, 0, 0, 0)),
            ((0, 1), (0, 0, 0, 0)),
            ((0, 1), (0, 1, 1, 1)),
            ((0, 1), (0, 1, 0, 0)),
            ((0, 1), (0, 1, 0, 0)),
            ((0, 0), (0, 1, 0, 0)),
            ((0, 0), (0, 1, 0, 0)),
            ((0, 0), (0, 1, 0, 0)),
            ((0, 0), (0, 0, 0, 0)),
        ]);
    }
}
