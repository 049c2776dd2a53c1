//! Reads the lines of a history one at a time, oldest first.
//!
//! Of each day, the replay reads the Parquet file, then the segments. After an interrupted
//! compaction, a day may have both. Then the replay skips the lines of the segments that are also
//! in the Parquet file.

use std::collections::VecDeque;

use chrono::{DateTime, NaiveDate, Utc};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::columns::RowReader;
use super::fault::{HistoryError, HistoryFault, HistoryFaultKind};
use super::line::{Line, LineError};
use super::place::Place;
use super::raw::{RawLine, RawLines};

/// The most faults that a report lists, because the first ones are enough to find the cause.
const FAULTS_MAX: usize = 100;

/// The counts and faults of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Lines that were returned.
    pub lines: u64,
    /// Lines that were dropped because they are not later than the line before: repetitions, or a
    /// clock that went back.
    pub not_later: u64,
    /// The number of lines skipped because of a fault.
    pub faults_total: u64,
    /// The first 100 faults.
    pub faults: Vec<HistoryFault>,
}

impl ReplayReport {
    fn fault(&mut self, file: &str, line: u64, kind: HistoryFaultKind) {
        self.faults_total += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(HistoryFault { file: file.into(), line, kind });
        }
    }
}

/// A reader of the lines of a history. It holds one line at a time, or one row group of a closed
/// day.
pub struct HistoryReplay {
    place: Place,
    policy: String,
    since: Option<DateTime<Utc>>,
    days: VecDeque<NaiveDate>,
    day: Option<Day>,
    last: Option<DateTime<Utc>>,
    report: ReplayReport,
}

struct Day {
    date: NaiveDate,
    closed: Option<RowReader>,
    /// Lines of the segments up to this time are also in the Parquet file.
    closed_until: Option<DateTime<Utc>>,
    segments: VecDeque<Path>,
    segment: Option<Segment>,
}

struct Segment {
    path: Path,
    file: String,
    lines: RawLines,
}

impl HistoryReplay {
    /// Starts a replay at the first line of a policy at or after `since`, or at its first line if
    /// `None`.
    ///
    /// # Errors
    /// Returns an error if the place cannot be listed.
    pub async fn open(
        place: &Place,
        policy: &str,
        since: Option<DateTime<Utc>>,
    ) -> Result<Self, HistoryError> {
        let mut days = place.days(policy).await?;
        days.retain(|day| since.is_none_or(|since| *day >= since.date_naive()));
        Ok(Self::of_days(place, policy, since, days))
    }

    /// Starts a replay of some days, which must ascend.
    pub(crate) fn of_days(
        place: &Place,
        policy: &str,
        since: Option<DateTime<Utc>>,
        days: Vec<NaiveDate>,
    ) -> Self {
        Self {
            place: place.clone(),
            policy: policy.into(),
            since,
            days: days.into(),
            day: None,
            last: None,
            report: ReplayReport::default(),
        }
    }

    /// Starts a replay of some segments of a day, without the other files of the day.
    pub(crate) fn of_segments(place: &Place, day: NaiveDate, segments: Vec<Path>) -> Self {
        let segments = segments.into();
        let day = Day { date: day, closed: None, closed_until: None, segments, segment: None };
        Self { day: Some(day), ..Self::of_days(place, "", None, Vec::new()) }
    }

    /// The counts and faults so far.
    pub fn report(&self) -> &ReplayReport {
        &self.report
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the place cannot be read, or a line or a file has a newer format
    /// version. A damaged file is a fault of the report, and the other files are read.
    pub async fn next(&mut self) -> Result<Option<Line>, HistoryError> {
        loop {
            let Some(day) = &mut self.day else {
                let Some(day) = self.days.pop_front() else { return Ok(None) };
                let day = Day::open(&self.place, &self.policy, day, &mut self.report).await?;
                self.day = Some(day);
                continue;
            };
            match day.next(&self.place, &mut self.report).await {
                Ok(Some(line)) => {
                    if let Some(line) = self.in_order(line) {
                        return Ok(Some(line));
                    }
                }
                Ok(None) => self.day = None,
                // The day was compacted during the replay, so open it again and skip the lines that
                // were already returned.
                Err(HistoryError::Store {
                    source: object_store::Error::NotFound { .. }, ..
                }) => {
                    let again = day.date;
                    let report = &mut self.report;
                    let mut day = Day::open(&self.place, &self.policy, again, report).await?;
                    day.closed_until = self.last;
                    self.day = Some(day);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the line if it is later than the previous line and not earlier than `since`.
    fn in_order(&mut self, line: Line) -> Option<Line> {
        if self.last.is_some_and(|last| last >= line.time) {
            let repeats = self
                .day
                .as_ref()
                .and_then(|day| day.closed_until)
                .is_some_and(|end| line.time <= end);
            self.report.not_later += u64::from(!repeats);
            return None;
        }
        self.last = Some(line.time);
        if self.since.is_some_and(|since| line.time < since) {
            return None;
        }
        self.report.lines += 1;
        Some(line)
    }
}

impl Day {
    async fn open(
        place: &Place,
        policy: &str,
        day: NaiveDate,
        report: &mut ReplayReport,
    ) -> Result<Self, HistoryError> {
        let files = place.files(policy, day).await?;
        let closed = match &files.parquet {
            Some(path) => match open_parquet(place, path).await {
                Ok(closed) => Some(closed),
                Err(HistoryError::Parquet { file, source, .. }) => {
                    report.fault(&file, 0, HistoryFaultKind::Damaged(source.to_string()));
                    None
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        Ok(Self {
            date: day,
            closed,
            closed_until: None,
            segments: files.segments.into(),
            segment: None,
        })
    }

    async fn next(
        &mut self,
        place: &Place,
        report: &mut ReplayReport,
    ) -> Result<Option<Line>, HistoryError> {
        if let Some(closed) = &mut self.closed {
            match closed.next() {
                Ok(Some(line)) => {
                    self.closed_until = self.closed_until.max(Some(line.time));
                    return Ok(Some(line));
                }
                Ok(None) => {}
                Err(HistoryError::Parquet { file, source, .. }) => {
                    report.fault(&file, 0, HistoryFaultKind::Damaged(source.to_string()));
                }
                Err(HistoryError::Columns { file, fault }) => {
                    report.fault(&file, 0, HistoryFaultKind::Damaged(fault));
                }
                Err(error) => return Err(error),
            }
            self.closed = None;
        }
        loop {
            let Some(segment) = &mut self.segment else {
                let Some(path) = self.segments.pop_front() else { return Ok(None) };
                let lines = RawLines::open(&*place.store, &path).await;
                let lines = lines.map_err(HistoryError::store("read", place.display(&path)))?;
                self.segment = Some(Segment { file: place.display(&path), lines, path });
                continue;
            };
            let next = segment
                .lines
                .next()
                .await
                .map_err(HistoryError::store("read", place.display(&segment.path)))?;
            match next {
                None => self.segment = None,
                Some((number, raw)) => {
                    if let Some(line) = read(&segment.file, number, raw, report)? {
                        return Ok(Some(line));
                    }
                }
            }
        }
    }
}

/// The parsed line, or `None` if it is blank or has a fault, which is added to the report.
fn read(
    file: &str,
    number: u64,
    raw: RawLine,
    report: &mut ReplayReport,
) -> Result<Option<Line>, HistoryError> {
    let text = match raw {
        RawLine::Whole(text) if text.trim_ascii().is_empty() => return Ok(None),
        RawLine::Whole(text) => text,
        RawLine::TooLong => {
            report.fault(file, number, HistoryFaultKind::TooLong);
            return Ok(None);
        }
        RawLine::Torn { bytes } => {
            report.fault(file, number, HistoryFaultKind::Torn { bytes });
            return Ok(None);
        }
    };
    match Line::parse(&text) {
        Ok(line) => Ok(Some(line)),
        Err(source @ LineError::Newer(_)) => {
            Err(HistoryError::Line { file: file.into(), line: number, source })
        }
        Err(LineError::Malformed(error)) => {
            report.fault(file, number, HistoryFaultKind::Malformed(error.to_string()));
            Ok(None)
        }
        Err(error @ LineError::NoSuchVersion(_)) => {
            report.fault(file, number, HistoryFaultKind::Malformed(error.to_string()));
            Ok(None)
        }
    }
}

/// Opens the Parquet file of a closed day. The reader holds its compressed bytes and one decoded
/// row group.
pub(crate) async fn open_parquet(place: &Place, path: &Path) -> Result<RowReader, HistoryError> {
    let bytes = async { place.store.get(path).await?.bytes().await };
    let bytes = bytes.await.map_err(HistoryError::store("read", place.display(path)))?;
    RowReader::new(bytes, place.display(path))
}
