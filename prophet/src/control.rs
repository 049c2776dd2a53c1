//! One policy's control: records ticks, learns, forecasts, plans. Free of Kubernetes and of clocks; what it sees is handed
//! to it, what it wants comes back as a value.

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{Demand, Shape, embed};
use placeholders::{Objective, Plan, Policy, Steady};

use crate::decide::{decide, forecast, learn};
use crate::forecast::onnx::ModelFault;
use crate::forecast::{Basis, Lead, Learners, Outlook, Present};
use crate::observe::Seen;
use crate::record::{Arrivals, BucketExtras, BucketTick, Launch, Line, Shapes, Tick, launched, room_for};

/// See the module.
pub struct Control {
    basis: Basis,
    learners: Learners,
    shapes: Shapes,
    arrivals: Arrivals,
    demand_max: Vec<u64>,
    steady: Steady,
    last_tick: Option<DateTime<Utc>>,
}

/// What a turn came to.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What is needed.
    pub demand: Demand,
    /// What is expected.
    pub outlook: Outlook,
    /// What was aimed for.
    pub objective: Objective,
    /// What ought to stand.
    pub plan: Plan,
    /// At a tick: the line for the history.
    pub line: Option<Line>,
}

/// What a turn is about, beside what was seen.
pub struct Now<'a> {
    /// The policy's name in the history.
    pub name: &'a str,
    /// What is wanted.
    pub policy: &'a Policy,
    /// Seconds between ticks.
    pub tick_seconds: i64,
    /// Launches that ended since the last turn.
    pub launches: Vec<Launch>,
    /// The time.
    pub time: DateTime<Utc>,
}

impl Control {
    /// Nothing learnt yet. Experts are judged from `since` on: all that is recalled is learnt from, and to judge it takes longer.
    pub fn new(basis: Basis, since: DateTime<Utc>) -> Self {
        Self {
            learners: Learners::new(basis.judged_since(since)),
            demand_max: vec![0; basis.catalog.len()],
            shapes: Shapes::default(),
            arrivals: Arrivals::default(),
            steady: Steady::default(),
            last_tick: None,
            basis,
        }
    }

    /// What its forecasts rest on.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// What was wrong with the network at the last forecast.
    pub fn faults(&self) -> Vec<ModelFault> {
        self.learners.faults()
    }

    /// Learns from a line of the history, in the order of time.
    pub fn recall(&mut self, line: &Line) {
        let recalled = line.recall(&self.basis.catalog, &mut self.shapes);
        for (shape, count) in &recalled.tick.arrivals {
            self.arrivals.add(*shape, *count);
        }
        self.arrivals.take();
        self.last_tick = Some(line.time);
        learn(&mut self.learners, recalled.tick);
    }

    /// Pods of a shape arrived.
    pub fn arrived(&mut self, shape: &Shape, count: u64) {
        if let Some((id, _)) = self.shapes.intern(shape) {
            self.arrivals.add(id, count);
        }
    }

    /// Whether a tick is due: ticks are at multiples of their length, and never go back.
    pub fn is_due(&self, now: DateTime<Utc>, tick_seconds: i64) -> bool {
        let tick = now.timestamp().div_euclid(tick_seconds);
        self.last_tick.is_none_or(|last| last.timestamp().div_euclid(tick_seconds) < tick)
    }

    /// One turn: embed, record and learn at a tick, forecast, decide.
    pub fn turn(&mut self, seen: &Seen, now: Now<'_>) -> Turn {
        let Now { name, policy, tick_seconds, launches, time } = now;
        let demand = embed(&seen.cluster, &self.basis.catalog);
        self.demand_max.iter_mut().zip(&demand.present).for_each(|(most, now)| *most = (*most).max(*now));
        let tick = self.is_due(time, tick_seconds).then(|| self.tick(&demand, seen, &launches, time));
        if let Some(tick) = &tick {
            learn(&mut self.learners, tick.clone());
        }
        let arriving = self.arrivals.since_tick();
        let outlook =
            forecast(&self.learners, &Present { time, demand: &demand, arriving: &arriving, rise: &[] });
        let catalog = &self.basis.catalog;
        let (plan, steady) = decide(&outlook, &demand, &seen.standing, catalog, policy, &self.steady, time);
        self.steady = steady;
        let line = tick.map(|tick| {
            let extras: Vec<BucketExtras> = plan.buckets.iter().map(|bucket| extras(bucket, seen)).collect();
            Line::new(name, &tick, &extras, launches, catalog, &self.shapes)
        });
        Turn { demand, outlook, objective: policy.objective, plan, line }
    }

    fn tick(&mut self, demand: &Demand, seen: &Seen, launches: &[Launch], time: DateTime<Utc>) -> Tick {
        let maxima = std::mem::replace(&mut self.demand_max, demand.present.clone());
        let catalog = &self.basis.catalog;
        let bucket = |(id, demand_max): (usize, u64)| {
            let [hidden, waited_for] = launched(launches, &catalog.buckets()[id].name);
            let (demand, announced) = (demand.present[id], demand.announced[id]);
            let ready = seen.ready[id].iter().sum();
            BucketTick { demand, demand_max, announced, ready, hidden, waited_for }
        };
        let buckets = maxima.into_iter().enumerate().map(bucket);
        let rooms = &demand.rooms;
        let room = self.arrivals.frequent().iter().filter_map(|&id| {
            let shape = self.shapes.get(id)?;
            let admits = |bucket: usize| shape.admitted_by(bucket, &catalog.buckets()[bucket]);
            let free = rooms.iter().filter(|room| admits(room.bucket)).map(|room| (room.free, room.nodes));
            Some((id, room_for(shape.asks, free)))
        });
        let room = room.collect();
        let (arrivals, first_seen) = self.arrivals.take();
        let first_seen =
            first_seen.into_iter().filter_map(|id| Some((id, self.shapes.get(id)?.clone()))).collect();
        self.last_tick = Some(time);
        Tick { time, buckets: buckets.collect(), room, first_seen, arrivals }
    }
}

fn extras(bucket: &placeholders::BucketPlan, seen: &Seen) -> BucketExtras {
    let placeholders = seen.standing.buckets[bucket.bucket].iter().map(|group| group.placeholders).sum();
    BucketExtras { headroom: bucket.target, placeholders }
}

/// The window that a forecast looks over, for a launch latency in seconds: whole ticks, so that a latency that wavers changes
/// nothing.
pub fn lead(latency_seconds: i64, tick_seconds: i64) -> Lead {
    /// cluster-autoscaler scans every ten seconds.
    const SCAN_SECONDS: i64 = 10;
    let exact = latency_seconds + tick_seconds + SCAN_SECONDS;
    Lead { seconds: exact.div_euclid(tick_seconds).max(1) * tick_seconds, tick_seconds }
}

/// After so long without a node, a launch has failed: cluster-autoscaler's `--max-node-provision-time`.
pub const GIVE_UP: TimeDelta = TimeDelta::minutes(15);

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Cluster, Resources};
    use placeholders::{GroupStanding, Standing};

    use super::*;
    use crate::forecast::{Method, sample};

    /// For two days two pods of half a node come every ten minutes: where they just came, the next are far.
    #[test]
    fn a_turn_knows_the_pods_since_the_last_tick() {
        let basis = sample::basis(Method::ScenarioArrivals, Objective::default());
        let (mut control, policy) = (Control::new(basis, DateTime::UNIX_EPOCH), Policy::default());
        let half = Resources { cpu_millis: 4_000, ..Resources::default() };
        let shape = Shape::new(half, AcceleratorKind::default());
        let seen = Seen {
            cluster: Cluster { occupied: vec![0], ..Cluster::default() },
            standing: Standing { buckets: vec![vec![GroupStanding::default()]] },
            ready: vec![vec![0]],
            ..Seen::default()
        };
        let turn = |control: &mut Control, seconds| {
            let time = DateTime::from_timestamp(seconds, 0).unwrap();
            let now = Now { name: "batch", policy: &policy, tick_seconds: 60, launches: vec![], time };
            control.turn(&seen, now).outlook.buckets[0].new_nodes.chance_of(1)
        };
        for minute in 0..2_880 {
            if minute % 10 == 5 {
                control.arrived(&shape, 2);
            }
            turn(&mut control, 60 * minute);
        }
        assert!(turn(&mut control, 2_879 * 60 + 20) > 0.25);
        control.arrived(&shape, 2);
        assert!(turn(&mut control, 2_879 * 60 + 40) < 0.2);
    }
}
