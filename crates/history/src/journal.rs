//! Writes the history of one policy, one line per tick.
//!
//! In a folder, a day is one file, and a line is acknowledged once it is on the disk. S3 cannot
//! append to an object, so there a day is a sequence of small segments, and a line is acknowledged
//! once the segment that ends with it has been put. Every put is conditional on the version that it
//! replaces. So a second writer is detected, and no acknowledged line is overwritten.

use chrono::{DateTime, NaiveDate, Utc};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::fault::{HistoryError, HistoryFault, HistoryFaultKind};
use super::file;
use super::file::Grown;
use super::line::Line;
use super::place::{Place, segment_number};
use super::raw::LINE_BYTES_MAX;
use super::replay::HistoryReplay;

/// The most lines in a segment: one hour of one-minute ticks, so that a day is 24 objects and a put
/// is seldom larger than 100 KB.
const SEGMENT_LINES: usize = 60;

/// The most bytes in a segment of several lines: 1 MiB, because every tick puts the whole segment
/// again.
const SEGMENT_BYTES: usize = 1 << 20;

/// The history of one policy, open for writing.
pub struct Journal {
    place: Place,
    policy: String,
    /// The end of the history. `None` before the first read and after any failure.
    tail: Option<Tail>,
}

/// The end of a history.
#[derive(Default)]
struct Tail {
    last: Option<Line>,
    open: Option<Open>,
}

/// The file or segment that the next line is written to.
enum Open {
    File { day: NaiveDate, path: Path, bytes: u64 },
    Segment { day: NaiveDate, segment: Segment },
}

/// An object of at most [`SEGMENT_LINES`] lines, in the version that was last put.
struct Segment {
    path: Path,
    text: String,
    version: Option<UpdateVersion>,
}

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The line is durable: it survives a crash.
    Written {
        /// The torn last line that was removed first.
        cut: Option<HistoryFault>,
    },
    /// The line was dropped, because the tick is a repetition or the clock went back.
    NotLater {
        /// The time of the last line.
        last: DateTime<Utc>,
    },
}

/// The outcome of one attempt to write.
enum Attempt {
    Written {
        cut: Option<HistoryFault>,
    },
    /// Another process wrote to the history after the last read.
    Changed,
}

impl Journal {
    /// Opens the history of a policy, NAMESPACE.NAME, and finds its end.
    ///
    /// # Errors
    /// Returns an error if the name is not valid as a folder name, the place cannot be read, or the
    /// last day has a line of a newer format version.
    pub async fn open(place: Place, policy: &str) -> Result<Self, HistoryError> {
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
        if policy.is_empty() || policy.starts_with('.') || !policy.chars().all(fine) {
            return Err(HistoryError::PolicyName(policy.into()));
        }
        let mut journal = Self { place, policy: policy.into(), tail: None };
        journal.tail = Some(journal.find_tail().await?);
        Ok(journal)
    }

    /// Returns the place of the history.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the name of the policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The time of the last line. `None` if the history is empty, and after a failure until the
    /// next line is written.
    pub fn last(&self) -> Option<DateTime<Utc>> {
        Some(self.tail.as_ref()?.last.as_ref()?.time)
    }

    /// Writes a line.
    ///
    /// If it returns `Written`, the line survives a crash. If it fails, either the whole line or
    /// none of it remains, and the same line may be written again.
    ///
    /// # Errors
    /// Returns an error if the line belongs to another policy, is too long, or the place cannot be
    /// written to.
    pub async fn append(&mut self, line: &Line) -> Result<Appended, HistoryError> {
        if line.policy != self.policy {
            let (line, journal) = (line.policy.clone(), self.policy.clone());
            return Err(HistoryError::OtherPolicy { line, journal });
        }
        let mut text = line.text().map_err(HistoryError::Text)?;
        if text.len() > LINE_BYTES_MAX {
            return Err(HistoryError::TooLong(text.len()));
        }
        text.push('\n');
        let mut attempted = false;
        loop {
            // `take` makes the next append find the end again if anything below fails.
            let mut tail = match self.tail.take() {
                Some(tail) => tail,
                None => self.find_tail().await?,
            };
            if let Some(last) = tail.last.as_ref().filter(|last| last.time >= line.time) {
                let ours = attempted && last == line;
                let last = last.time;
                self.tail = Some(tail);
                // The first attempt succeeded, but its response was lost.
                return Ok(if ours {
                    Appended::Written { cut: None }
                } else {
                    Appended::NotLater { last }
                });
            }
            match self.attempt(&mut tail, line, &text).await? {
                Attempt::Written { cut } => {
                    tail.last = Some(line.clone());
                    self.tail = Some(tail);
                    return Ok(Appended::Written { cut });
                }
                Attempt::Changed if attempted => {
                    let day = self.place.day(&self.policy, line.time.date_naive());
                    return Err(HistoryError::OtherWriter(self.place.display(&day)));
                }
                Attempt::Changed => attempted = true,
            }
        }
    }

    /// The lines at or after `since`, or all lines if `None`, oldest first.
    ///
    /// # Errors
    /// Returns an error if the place cannot be listed.
    pub async fn replay(
        &self,
        since: Option<DateTime<Utc>>,
    ) -> Result<HistoryReplay, HistoryError> {
        HistoryReplay::open(&self.place, &self.policy, since).await
    }

    /// Discards the cached end of the open day, so that the next append finds it again.
    pub(crate) fn forget_open(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.open = None;
        }
    }

    /// Finds the last line, which is in the last day that has a line.
    async fn find_tail(&self) -> Result<Tail, HistoryError> {
        let mut tail = Tail::default();
        for day in self.place.days(&self.policy).await?.into_iter().rev() {
            let mut replay = HistoryReplay::of_days(&self.place, &self.policy, None, vec![day]);
            while let Some(line) = replay.next().await? {
                tail.last = Some(line);
            }
            if tail.last.is_some() {
                break;
            }
        }
        Ok(tail)
    }

    async fn attempt(
        &self,
        tail: &mut Tail,
        line: &Line,
        text: &str,
    ) -> Result<Attempt, HistoryError> {
        let day = line.time.date_naive();
        if self.place.folder.is_some() {
            self.grow(tail, day, text).await
        } else {
            self.put(tail, day, text).await
        }
    }

    /// Appends to the file of a day.
    async fn grow(
        &self,
        tail: &mut Tail,
        today: NaiveDate,
        text: &str,
    ) -> Result<Attempt, HistoryError> {
        let (path, expected) = match tail.open.take() {
            Some(Open::File { day, path, bytes }) if day == today => (path, Some(bytes)),
            _ => {
                let last = self.place.files(&self.policy, today).await?.segments.pop();
                (last.unwrap_or_else(|| self.place.segment(&self.policy, today, 0)), None)
            }
        };
        let name = self.place.display(&path);
        let failed = |source| HistoryError::Append { file: name.clone(), source };
        let file = self.place.folder.clone().unwrap_or_default().join(path.as_ref());
        let text = text.to_owned();
        // File I/O may block, so it must not run on the async executor.
        let grown =
            tokio::task::spawn_blocking(move || file::grow(&file, expected, text.as_bytes())).await;
        match grown.map_err(|error| failed(error.into()))?.map_err(failed)? {
            Grown::Changed => Ok(Attempt::Changed),
            Grown::To { bytes, cut } => {
                tail.open = Some(Open::File { day: today, path, bytes });
                let cut = cut.map(|(line, bytes)| HistoryFault {
                    file: name,
                    line,
                    kind: HistoryFaultKind::Torn { bytes },
                });
                Ok(Attempt::Written { cut })
            }
        }
    }

    /// Puts the last segment of a day with one more line, or a new segment with its first line.
    async fn put(
        &self,
        tail: &mut Tail,
        today: NaiveDate,
        line: &str,
    ) -> Result<Attempt, HistoryError> {
        let mut segment = match tail.open.take() {
            Some(Open::Segment { day, segment }) if day == today => segment,
            _ => self.last_segment(today).await?,
        };
        if !segment.has_room(line) {
            let number = segment_number(&segment.path).map_or(0, |number| number + 1);
            segment = Segment::new(self.place.segment(&self.policy, today, number));
        }
        let Segment { path, mut text, version } = segment;
        text.push_str(line);
        let mode = version.map_or(PutMode::Create, PutMode::Update);
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.place.store.put_opts(&path, PutPayload::from(text.clone()), options).await {
            Ok(put) => {
                let segment = Segment { path, text, version: Some(put.into()) };
                tail.open = Some(Open::Segment { day: today, segment });
                Ok(Attempt::Written { cut: None })
            }
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Attempt::Changed),
            Err(error) => Err(HistoryError::store("append to", self.place.display(&path))(error)),
        }
    }

    async fn last_segment(&self, day: NaiveDate) -> Result<Segment, HistoryError> {
        let Some(path) = self.place.files(&self.policy, day).await?.segments.pop() else {
            return Ok(Segment::new(self.place.segment(&self.policy, day, 0)));
        };
        let read = async {
            let found = self.place.store.get(&path).await?;
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            Ok((found.bytes().await?, version))
        };
        let (bytes, version) =
            read.await.map_err(HistoryError::store("read", self.place.display(&path)))?;
        // A segment that is not UTF-8 was written by another program. `has_room` rejects it because
        // of the replacement characters, so it stays as it is and the next line starts a new
        // segment.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Segment { path, text, version: Some(version) })
    }
}

impl Segment {
    fn new(path: Path) -> Self {
        Self { path, text: String::new(), version: None }
    }

    fn has_room(&self, line: &str) -> bool {
        let whole = self.text.ends_with('\n') && !self.text.contains(char::REPLACEMENT_CHARACTER);
        let short = self.text.lines().count() < SEGMENT_LINES
            && self.text.len() + line.len() <= SEGMENT_BYTES;
        self.version.is_none() || (whole && short)
    }
}

#[cfg(test)]
mod tests;
