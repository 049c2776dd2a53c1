//! The queue of pending pods: higher priority first, then oldest.
//!
//! Jobs of one class are interchangeable, so a pass of the scheduler tries each class once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use super::workload::JobClassId;

/// A pending job, or a pending pod of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The index of the job in the workload.
    pub(crate) job: usize,
    /// The class to place.
    pub(crate) class: JobClassId,
}

/// The oldest entry of a class: its priority, its number in the order of submission, and the class.
pub(crate) type Head = (Reverse<i32>, u64, JobClassId);

#[derive(Clone, Default)]
pub(crate) struct Queue {
    /// The entries of each class, oldest first, as (number in the order of submission, job).
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

    /// All entries as (job, class), in the order of the classes.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, JobClassId)> {
        let classes = self.classes.iter().enumerate();
        classes.flat_map(|(class, jobs)| jobs.iter().map(move |(_, job)| (*job, class)))
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

    /// The first head after `cursor`, and its entry.
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

    /// Removes a head. The next entry of its class becomes the head of the class.
    pub(crate) fn pop(&mut self, head: Head) {
        self.heads.remove(&head);
        let class = &mut self.classes[head.2];
        class.pop_front();
        self.len -= 1;
        if let Some(&(order, _)) = class.front() {
            self.heads.insert((head.0, order, head.2));
        }
    }

    /// The number of entries per class, in the order of the classes' heads.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (JobClassId, u64)> {
        self.heads.iter().map(|&(_, _, class)| (class, self.classes[class].len() as u64))
    }

    /// All entries in order, as (class, number of consecutive entries of the class).
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
