//! The lines of a history, oldest first, one at a time: a restart replays them, and so does whoever reads.
//!
//! A day is its Parquet file, then its segments. Both may be there, when a compaction was cut off: then the lines that are
//! in the Parquet file are passed over in the segments.

use std::collections::VecDeque;

use chrono::{DateTime, NaiveDate, Utc};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::columns::RowReader;
use super::fault::{Fault, FaultKind, HistoryError};
use super::line::{Line, LineError};
use super::place::Place;
use super::raw::{RawLine, RawLines};

/// Faults that are reported one by one: the first ones say what is wrong.
const FAULTS_MAX: usize = 100;

/// What a replay came across.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines that were passed on.
    pub lines: u64,
    /// Lines that were dropped because they are not after the one before: repetitions, or a clock that went back.
    pub not_later: u64,
    /// All that were passed over.
    pub faults_total: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
}

impl Report {
    fn fault(&mut self, file: &str, line: u64, kind: FaultKind) {
        self.faults_total += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { file: file.into(), line, kind });
        }
    }
}

/// A walk through a history. One line is held at a time, or one row group of a closed day.
pub struct Replay {
    place: Place,
    policy: String,
    since: Option<DateTime<Utc>>,
    days: VecDeque<NaiveDate>,
    day: Option<Day>,
    last: Option<DateTime<Utc>>,
    report: Report,
}

struct Day {
    date: NaiveDate,
    closed: Option<RowReader>,
    /// Until here, segments repeat what is in the Parquet file.
    closed_until: Option<DateTime<Utc>>,
    segments: VecDeque<Path>,
    segment: Option<Segment>,
}

struct Segment {
    path: Path,
    file: String,
    lines: RawLines,
}

impl Replay {
    /// From the first line of a policy at or after `since`, or from the first of all.
    ///
    /// # Errors
    /// The place cannot be listed.
    pub async fn open(
        place: &Place,
        policy: &str,
        since: Option<DateTime<Utc>>,
    ) -> Result<Self, HistoryError> {
        let mut days = place.days(policy).await?;
        days.retain(|day| since.is_none_or(|since| *day >= since.date_naive()));
        Ok(Self::of_days(place, policy, since, days))
    }

    /// Over some days, ascending.
    pub(super) fn of_days(
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
            report: Report::default(),
        }
    }

    /// Over some segments of a day, whatever else there is of it.
    pub(super) fn of_segments(place: &Place, day: NaiveDate, segments: Vec<Path>) -> Self {
        let segments = segments.into();
        let day = Day { date: day, closed: None, closed_until: None, segments, segment: None };
        Self { day: Some(day), ..Self::of_days(place, "", None, Vec::new()) }
    }

    /// What it came across so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The next line.
    ///
    /// # Errors
    /// A file cannot be read, or a line is of a newer version.
    pub async fn next(&mut self) -> Result<Option<Line>, HistoryError> {
        loop {
            let Some(day) = &mut self.day else {
                let Some(day) = self.days.pop_front() else { return Ok(None) };
                self.day = Some(Day::open(&self.place, &self.policy, day).await?);
                continue;
            };
            match day.next(&self.place, &mut self.report).await {
                Ok(Some(line)) => {
                    if let Some(line) = self.in_order(line) {
                        return Ok(Some(line));
                    }
                }
                Ok(None) => self.day = None,
                // It was compacted as we read: look again, and pass over what we have.
                Err(HistoryError::Store { source: object_store::Error::NotFound { .. }, .. }) => {
                    let again = day.date;
                    let mut day = Day::open(&self.place, &self.policy, again).await?;
                    day.closed_until = self.last;
                    self.day = Some(day);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A line that is after the one before and in the range.
    fn in_order(&mut self, line: Line) -> Option<Line> {
        if self.last.is_some_and(|last| last >= line.time) {
            let repeats =
                self.day.as_ref().and_then(|day| day.closed_until).is_some_and(|end| line.time <= end);
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
    async fn open(place: &Place, policy: &str, day: NaiveDate) -> Result<Self, HistoryError> {
        let files = place.files(policy, day).await?;
        let closed = match &files.parquet {
            Some(path) => Some(open_parquet(place, path).await?),
            None => None,
        };
        Ok(Self { date: day, closed, closed_until: None, segments: files.segments.into(), segment: None })
    }

    async fn next(&mut self, place: &Place, report: &mut Report) -> Result<Option<Line>, HistoryError> {
        if let Some(closed) = &mut self.closed {
            if let Some(line) = closed.next()? {
                self.closed_until = self.closed_until.max(Some(line.time));
                return Ok(Some(line));
            }
            self.closed = None;
        }
        loop {
            let Some(segment) = &mut self.segment else {
                let Some(path) = self.segments.pop_front() else { return Ok(None) };
                let lines = RawLines::open(&*place.store, &path).await;
                let lines = lines.map_err(HistoryError::store("read", place, &path))?;
                self.segment = Some(Segment { file: place.display(&path), lines, path });
                continue;
            };
            let next =
                segment.lines.next().await.map_err(HistoryError::store("read", place, &segment.path))?;
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

/// The line, or `None` and a report of what is wrong with it.
fn read(file: &str, number: u64, raw: RawLine, report: &mut Report) -> Result<Option<Line>, HistoryError> {
    let text = match raw {
        RawLine::Whole(text) if text.trim_ascii().is_empty() => return Ok(None),
        RawLine::Whole(text) => text,
        RawLine::TooLong => {
            report.fault(file, number, FaultKind::TooLong);
            return Ok(None);
        }
        RawLine::Torn { bytes } => {
            report.fault(file, number, FaultKind::Torn { bytes });
            return Ok(None);
        }
    };
    match Line::parse(&text) {
        Ok(line) => Ok(Some(line)),
        Err(source @ LineError::Newer(_)) => {
            Err(HistoryError::Line { file: file.into(), line: number, source })
        }
        Err(LineError::Malformed(error)) => {
            report.fault(file, number, FaultKind::Malformed(error.to_string()));
            Ok(None)
        }
        Err(error @ LineError::NoSuchVersion(_)) => {
            report.fault(file, number, FaultKind::Malformed(error.to_string()));
            Ok(None)
        }
    }
}

/// A closed day. Its compressed bytes are held, and one row group of what they mean.
pub(super) async fn open_parquet(place: &Place, path: &Path) -> Result<RowReader, HistoryError> {
    let bytes = async { place.store.get(path).await?.bytes().await };
    let bytes = bytes.await.map_err(HistoryError::store("read", place, path))?;
    RowReader::new(bytes, place.display(path))
}
