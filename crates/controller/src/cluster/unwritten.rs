//! Lines of the history that could not be written yet.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use history::{Appended, HistoryError, Journal, Line};

/// The most lines that wait for the storage: an hour of one-minute ticks. More lines would take
/// more memory, and an hour without storage is a fault that a person has to mend.
const LINES_MAX: usize = 60;

/// The lines of ticks that are not in the history, oldest first.
#[derive(Default)]
pub(super) struct Unwritten(VecDeque<Line>);

impl Unwritten {
    /// Adds the line of a tick. The oldest line is dropped if there are too many.
    pub(super) fn push(&mut self, line: Line) {
        if self.0.len() == LINES_MAX
            && let Some(dropped) = self.0.pop_front()
        {
            tracing::warn!(time = %dropped.time, "line dropped: the history fails for too long");
        }
        self.0.push_back(line);
    }

    /// Whether all lines are written.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the lines, oldest first. Returns the time of the history's last line if it is later
    /// than one of them, which is dropped then. A line of the same time is a repetition.
    ///
    /// # Errors
    /// The storage fails, and the remaining lines are kept for the next attempt. Or a line can
    /// never be written, and it is dropped.
    pub(super) async fn write(
        &mut self,
        journal: &mut Journal,
    ) -> Result<Option<DateTime<Utc>>, HistoryError> {
        let mut later = None;
        while let Some(line) = self.0.front() {
            let time = line.time;
            let appended = journal.append(line).await;
            if appended.as_ref().err().is_none_or(HistoryError::is_of_the_line) {
                self.0.pop_front();
            }
            match appended? {
                Appended::Written { cut: Some(fault) } => {
                    tracing::warn!(%fault, "torn line cut off");
                }
                Appended::NotLater { last } => {
                    tracing::warn!(%last, "tick dropped: the history has a line of the same time or later");
                    later = later.max(Some(last).filter(|last| time < *last));
                }
                Appended::Written { cut: None } => {}
            }
        }
        Ok(later)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chrono::TimeDelta;
    use history::Place;

    use super::*;

    fn line(minute: i64) -> Line {
        testkit::line(DateTime::UNIX_EPOCH + TimeDelta::minutes(minute), "a.b", [])
    }

    async fn times(journal: &Journal) -> Vec<i64> {
        let mut replay = journal.replay(None).await.unwrap();
        let mut times = Vec::new();
        while let Some(line) = replay.next().await.unwrap() {
            times.push(line.time.timestamp() / 60);
        }
        times
    }

    /// While a file takes the place of the folder, nothing can be written.
    #[tokio::test]
    async fn lines_that_the_storage_refused_are_written_once_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let (history, aside) = (folder.path().join("history"), folder.path().join("aside"));
        fs::create_dir(&history).unwrap();
        let place = Place::open(&history.display().to_string()).unwrap();
        let mut journal = Journal::open(place, "a.b").await.unwrap();
        let mut unwritten = Unwritten::default();
        unwritten.push(line(1));
        unwritten.write(&mut journal).await.unwrap();
        fs::rename(&history, &aside).unwrap();
        fs::write(&history, "").unwrap();
        for minute in [2, 3] {
            unwritten.push(line(minute));
            unwritten.write(&mut journal).await.unwrap_err();
        }
        fs::remove_file(&history).unwrap();
        fs::rename(&aside, &history).unwrap();
        unwritten.push(line(4));
        unwritten.write(&mut journal).await.unwrap();
        assert_eq!(times(&journal).await, [1, 2, 3, 4]);
        assert_eq!(unwritten.0.len(), 0);
        // Another replica wrote the same tick before a change of leader, or a later one.
        unwritten.push(line(4));
        assert_eq!(unwritten.write(&mut journal).await.unwrap(), None);
        unwritten.push(line(3));
        assert_eq!(unwritten.write(&mut journal).await.unwrap(), Some(line(4).time));
        assert_eq!(times(&journal).await, [1, 2, 3, 4]);
    }

    #[test]
    fn at_most_an_hour_of_lines_waits() {
        let mut unwritten = Unwritten::default();
        (0..100).for_each(|minute| unwritten.push(line(minute)));
        assert_eq!((unwritten.0.len(), unwritten.0.front()), (60, Some(&line(40))));
    }
}
