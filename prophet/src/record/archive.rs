//! Closed days, from JSON lines to one Parquet file each; and all days, to one file of a user's choice.
//!
//! The Parquet file is put under another name and read back. Only when every line of the day is in it, and equal, does it
//! get its own name, and only then are the segments removed. Cut off anywhere, a day is still complete: see
//! [`super::replay`].

use std::io::Write;

use chrono::{DateTime, NaiveDate, Utc};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};

use super::columns::{RowWriter, rows};
use super::fault::{FaultKind, HistoryError};
use super::journal::Journal;
use super::place::Place;
use super::replay::{Replay, Report, open_parquet};

/// What a compaction did.
#[derive(Debug, Default)]
pub struct Compaction {
    /// The days that are Parquet now, with their lines.
    pub compacted: Vec<(NaiveDate, u64)>,
    /// The days that were left as they are, and why.
    pub kept: Vec<(NaiveDate, HistoryError)>,
}

impl Journal {
    /// Compacts the days before `today` that still are JSON. One that fails is left as it is, and does not keep the others.
    /// Once a day is enough; a day of a thousand ticks with few shapes takes less than a second.
    ///
    /// # Errors
    /// The days cannot be listed.
    pub async fn compact(&mut self, today: NaiveDate) -> Result<Compaction, HistoryError> {
        let mut done = Compaction::default();
        for day in self.place.days(&self.policy).await?.into_iter().filter(|day| *day < today) {
            match compact_day(&self.place, &self.policy, day).await {
                Ok(None) => {}
                Ok(Some(lines)) => {
                    self.forget_open();
                    done.compacted.push((day, lines));
                }
                Err(error) => done.kept.push((day, error)),
            }
        }
        Ok(done)
    }
}

/// Compacts a day: its lines, or `None` where it is compact already.
async fn compact_day(place: &Place, policy: &str, day: NaiveDate) -> Result<Option<u64>, HistoryError> {
    let files = place.files(policy, day).await?;
    if files.segments.is_empty() {
        return Ok(None);
    }
    let path = place.parquet(policy, day);
    let name = place.display(&path);
    let written = |source| HistoryError::Parquet { act: "failed to write", file: name.clone(), source };
    let mut replay = Replay::of_days(place, policy, None, vec![day]);
    let mut writer = RowWriter::new(Vec::new()).map_err(written)?;
    while let Some(line) = replay.next().await? {
        writer.push(&line).map_err(written)?;
    }
    // A torn line was never acknowledged; any other may be somebody's, and is not ours to remove.
    let torn = |kind: &FaultKind| matches!(kind, FaultKind::Torn { .. });
    if let Some(fault) = replay.report().faults.iter().find(|fault| !torn(&fault.kind)) {
        return Err(HistoryError::Kept { day, fault: fault.clone() });
    }
    let lines = replay.report().lines;
    if lines > 0 {
        let bytes = writer.finish().map_err(written)?;
        let part = place.parquet_part(policy, day);
        let put = place.store.put(&part, PutPayload::from(bytes)).await;
        put.map_err(HistoryError::store("write", place, &part))?;
        compare(place, &part, Replay::of_segments(place, day, files.segments.clone())).await?;
        let renamed = place.store.rename(&part, &path).await;
        renamed.map_err(HistoryError::store("write", place, &path))?;
    }
    place.remove(&files.segments).await?;
    Ok(Some(lines))
}

/// Whether every line of the segments is in the Parquet file, and equal.
async fn compare(place: &Place, path: &Path, mut segments: Replay) -> Result<(), HistoryError> {
    let mut back = open_parquet(place, path).await?;
    while let Some(line) = segments.next().await? {
        let expected = rows(&line).map_err(HistoryError::Text)?;
        loop {
            let found = back.next_rows()?;
            if found == expected {
                break;
            }
            // Earlier ones are of a compaction before this one.
            if found.first().is_none_or(|row| row.time_micros() >= line.time.timestamp_micros()) {
                return Err(HistoryError::NotEqual { file: place.display(path), time: line.time });
            }
        }
    }
    Ok(())
}

/// What an export wrote.
#[derive(Debug)]
pub struct Export<W> {
    /// What was written to.
    pub to: W,
    /// How many lines there are.
    pub lines: u64,
    /// What was come across, per policy.
    pub reports: Vec<Report>,
}

/// Writes the lines of some policies, from `since` to before `until`, as one Parquet file.
///
/// # Errors
/// The place cannot be read, or `to` cannot be written.
pub async fn export<W: Write + Send>(
    place: &Place,
    policies: &[String],
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    to: W,
) -> Result<Export<W>, HistoryError> {
    let written =
        |source| HistoryError::Parquet { act: "failed to write", file: "the export".into(), source };
    let mut writer = RowWriter::new(to).map_err(written)?;
    let (mut lines, mut reports) = (0, Vec::new());
    for policy in policies {
        let mut replay = Replay::open(place, policy, since).await?;
        while let Some(line) = replay.next().await? {
            if until.is_some_and(|until| line.time >= until) {
                break;
            }
            writer.push(&line).map_err(written)?;
            lines += 1;
        }
        reports.push(replay.report().clone());
    }
    Ok(Export { to: writer.finish().map_err(written)?, lines, reports })
}

#[cfg(test)]
mod tests;
