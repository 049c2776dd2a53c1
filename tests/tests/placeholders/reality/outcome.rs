//! What happened to the jobs and the nodes of a trace, simulated or real.

use std::collections::BTreeMap;

/// When a job was submitted and started, or a node became ready and was removed, in seconds of the
/// trace. The second time is absent if the trace ended first.
pub(super) type Times = (f64, Option<f64>);

/// The last word of the name of an event in which a node is removed.
const REMOVED: &str = "removed";

/// What happened in one run. Nodes have no names in common, so they are listed by instance type, in
/// the order in which they became ready.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) jobs: BTreeMap<String, Times>,
    pub(super) nodes: BTreeMap<String, Vec<Times>>,
}

impl Outcome {
    /// Forgets what happened after the end of the trace, and sorts the nodes.
    pub(super) fn end(&mut self, end: f64) {
        for (_, second) in self.jobs.values_mut().chain(self.nodes.values_mut().flatten()) {
            *second = second.filter(|second| *second < end);
        }
        for nodes in self.nodes.values_mut() {
            nodes.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        }
    }

    /// The waiting of all jobs until the last of their pods started, in seconds.
    pub(super) fn pending(&self, end: f64) -> f64 {
        self.jobs.values().map(|(submit, start)| start.unwrap_or(end) - submit).sum()
    }

    /// The hours of all nodes from ready to removed.
    pub(super) fn instance_hours(&self, end: f64) -> f64 {
        let nodes = self.nodes.values().flatten();
        nodes.map(|(ready, gone)| gone.unwrap_or(end).min(end) - ready).sum::<f64>() / 3_600.0
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.values().map(Vec::len).sum()
    }

    /// The events of the run by name: the starts of jobs, and for each instance type the first, the
    /// second … node that became ready or was removed.
    pub(super) fn events(&self) -> BTreeMap<String, f64> {
        let starts = self.jobs.iter();
        let starts =
            starts.filter_map(|(name, (_, start))| Some((format!("{name} starts"), (*start)?)));
        let mut events: BTreeMap<String, f64> = starts.collect();
        for (instance_type, nodes) in &self.nodes {
            let mut gone: Vec<f64> = nodes.iter().filter_map(|(_, gone)| *gone).collect();
            gone.sort_by(f64::total_cmp);
            for (what, times) in
                [("ready", nodes.iter().map(|(ready, _)| *ready).collect()), (REMOVED, gone)]
            {
                for (at, time) in times.into_iter().enumerate() {
                    events.insert(format!("{instance_type} {} {what}", at + 1), time);
                }
            }
        }
        events
    }

    /// How the order of events differs from that of `other`. Two events that are less than `apart`
    /// seconds apart in `other` have no order. If one of them is the removal of a node,
    /// `removal_apart` applies instead.
    pub(super) fn disorder(&self, other: &Self, apart: f64, removal_apart: f64) -> Vec<String> {
        let apart = |names: [&String; 2]| {
            let removal = names.iter().any(|name| name.ends_with(REMOVED));
            if removal { removal_apart } else { apart }
        };
        let (ours, theirs) = (self.events(), other.events());
        let missing = theirs.keys().filter(|name| !ours.contains_key(*name));
        let mut wrong: Vec<String> = missing.map(|name| format!("missing: {name}")).collect();
        let more = ours.keys().filter(|name| !theirs.contains_key(*name));
        wrong.extend(more.map(|name| format!("unexpected: {name} at {:.1}", ours[name])));
        for (first, at) in &theirs {
            let later = theirs.iter().filter(|(name, then)| *at + apart([first, name]) <= **then);
            for (second, then) in later {
                if let (Some(one), Some(other)) = (ours.get(first), ours.get(second))
                    && one >= other
                {
                    wrong.push(format!(
                        "{first} at {at:.1}, then {second} at {then:.1}; here at {one:.1} and {other:.1}"
                    ));
                }
            }
        }
        wrong
    }
}

#[test]
fn the_order_of_events_that_are_far_apart_counts() {
    let run = |start: f64, ready: &[f64]| Outcome {
        jobs: BTreeMap::from([("a".to_owned(), (0.0, Some(start)))]),
        nodes: BTreeMap::from([(
            "m5".to_owned(),
            ready.iter().map(|ready| (*ready, None)).collect(),
        )]),
    };
    let simulated = run(10.0, &[10.0, 20.0]);
    assert!((simulated.pending(30.0) - 10.0).abs() < 1e-9);
    assert!((simulated.instance_hours(46.0) * 3_600.0 - 62.0).abs() < 1e-9);
    assert_eq!(run(11.0, &[10.5, 21.0]).disorder(&simulated, 2.0, 2.0), [""; 0]);
    assert_eq!(run(22.0, &[10.5, 21.0]).disorder(&simulated, 2.0, 2.0).len(), 1);
    assert_eq!(run(22.0, &[10.5, 21.0]).disorder(&simulated, 20.0, 20.0), [""; 0]);
    assert_eq!(run(11.0, &[10.5]).disorder(&simulated, 2.0, 2.0), ["missing: m5 2 ready"]);
    assert_eq!(run(11.0, &[10.5, 21.0, 22.0]).disorder(&simulated, 2.0, 2.0).len(), 1);

    // A node is removed at 30 s, or before the job starts.
    let removed = |gone: f64| {
        let nodes = BTreeMap::from([("m5".to_owned(), vec![(1.0, Some(gone))])]);
        Outcome { nodes, ..run(10.0, &[]) }
    };
    assert_eq!(removed(5.0).disorder(&removed(30.0), 2.0, 15.0).len(), 1);
    assert_eq!(removed(5.0).disorder(&removed(30.0), 2.0, 25.0), [""; 0]);
}
