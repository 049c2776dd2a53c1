//! Pods that wait: higher priority first, then oldest. Jobs of one class are interchangeable, so that a pass of the
//! scheduler tries each class once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use super::workload::JobClassId;

/// Something that waits: a job, or a pod of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The place of the job in the workload.
    pub(crate) job: usize,
    /// What is to be placed.
    pub(crate) class: JobClassId,
}

/// A class's oldest: priority, then order of submission.
pub(crate) type Head = (Reverse<i32>, u64, JobClassId);

#[derive(Default)]
pub(crate) struct Queue {
    /// Per class, oldest first, with the order of submission.
    classes: Vec<VecDeque<(u64, usize)>>,
    priorities: Vec<i32>,
    heads: BTreeSet<Head>,
    next: u64,
    len: usize,
}

impl Queue {
    pub(crate) fn new(priorities: Vec<i32>) -> Self {
        Self { classes: vec![VecDeque::new(); priorities.len()], priorities, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, Waiting { job, class }: Waiting) {
        let order = self.next;
        self.next += 1;
        if self.classes[class].is_empty() {
            self.heads.insert((Reverse(self.priorities[class]), order, class));
        }
        self.classes[class].push_back((order, job));
        self.len += 1;
    }

    /// The first head after `cursor`, and what waits there.
    pub(crate) fn after(&self, cursor: Option<Head>) -> Option<(Head, Waiting)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let head = match cursor {
            None => self.heads.first(),
            Some(cursor) => self.heads.range((Excluded(cursor), Unbounded)).next(),
        };
        let &head = head?;
        let job = self.classes[head.2].front()?.1;
        Some((head, Waiting { job, class: head.2 }))
    }

    /// Takes a head out; the next of its class takes its place.
    pub(crate) fn pop(&mut self, head: Head) {
        self.heads.remove(&head);
        let class = &mut self.classes[head.2];
        class.pop_front();
        self.len -= 1;
        if let Some(&(order, _)) = class.front() {
            self.heads.insert((head.0, order, head.2));
        }
    }

    /// How many wait per class, in the order of the classes' oldest.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (JobClassId, u64)> {
        self.heads.iter().map(|&(_, _, class)| (class, self.classes[class].len() as u64))
    }

    /// Everything that waits, in order, in runs of one class.
    pub(crate) fn runs(&self) -> Vec<(JobClassId, u64)> {
        let mut all: Vec<(Reverse<i32>, u64, JobClassId)> = Vec::with_capacity(self.len);
        for (class, waiting) in self.classes.iter().enumerate() {
            all.extend(
                waiting.iter().map(|&(order, _)| (Reverse(self.priorities[class]), order, class)),
            );
        }
        all.sort_unstable();
        let mut runs: Vec<(JobClassId, u64)> = Vec::new();
        for (_, _, class) in all {
            match runs.last_mut() {
                Some((last, n)) if *last == class => *n += 1,
                _ => runs.push((class, 1)),
            }
        }
        runs
    }
}
