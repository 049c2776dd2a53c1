//! The tasks of a log of events in the order of time, as Google publishes them.

use std::collections::HashMap;

use embedder::{AcceleratorKind, Resources};

use super::job::{Job, Work};
use super::reader::{Row, TraceFault};

/// What happened to a task.
#[derive(Clone, Copy)]
pub(super) enum EventKind {
    Submit,
    Enable,
    Schedule,
    End,
    Other,
}

/// A task: the job and the number of the task in it.
type Key = (i64, i64);

/// The tasks that have started and not ended.
#[derive(Default)]
pub(super) struct TaskEvents {
    open: HashMap<Key, Open>,
    last: i64,
}

struct Open {
    /// In microseconds.
    submit: i64,
    priority: i32,
    unit: Resources,
    /// Whether the task was scheduled. A later ENABLE is that of an evicted task, which is not new.
    scheduled: bool,
}

impl TaskEvents {
    /// Notes an event at a time in microseconds. Returns the job of a task that ended.
    pub(super) fn note(
        &mut self,
        key: Key,
        time: i64,
        kind: EventKind,
        priority: i64,
        request: impl FnOnce() -> Result<Resources, TraceFault>,
    ) -> Result<Row, TraceFault> {
        self.last = self.last.max(time);
        match kind {
            // An evicted task is submitted again.
            EventKind::Submit if self.open.contains_key(&key) => {}
            EventKind::Submit => {
                let priority = i32::try_from(priority).unwrap_or(0);
                let unit = request()?;
                self.open.insert(key, Open { submit: time, priority, unit, scheduled: false });
            }
            EventKind::Enable => {
                if let Some(open) = self.open.get_mut(&key).filter(|open| !open.scheduled) {
                    open.submit = time;
                }
            }
            EventKind::End => {
                return Ok(self.open.remove(&key).map_or(Row::Blank, |open| row(key, &open, time)));
            }
            EventKind::Schedule => {
                if let Some(open) = self.open.get_mut(&key) {
                    open.scheduled = true;
                }
            }
            EventKind::Other => {}
        }
        Ok(Row::Blank)
    }

    pub(super) fn open_tasks(&self) -> usize {
        self.open.len()
    }

    /// The tasks that had not ended, as jobs that end with the log.
    pub(super) fn finish(&mut self) -> Vec<Job> {
        let last = self.last;
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(key, open)| (open.submit, *key));
        let rows = open.into_iter().map(|(key, open)| row(key, &open, last));
        rows.filter_map(|row| if let Row::Job(job) = row { Some(job) } else { None }).collect()
    }
}

fn row((id, index): Key, open: &Open, end: i64) -> Row {
    let runtime = end.saturating_sub(open.submit) / 1_000_000;
    let work = Work::of_pod(open.unit, AcceleratorKind::default());
    let name = format!("{id}/{index}");
    let submit = open.submit / 1_000_000;
    Row::of(Job { priority: open.priority, ..Job::new(name, "", submit, runtime, work) })
}
