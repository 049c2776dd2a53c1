//! Compacts each closed day from JSON lines to one Parquet file, and exports days to one file.
//!
//! A compaction writes the Parquet file under a temporary name and reads it back. It renames the
//! file only if every line of the day is in it unchanged, and only then removes the segments. So a
//! day is complete even if the compaction is interrupted at any step, because
//! [`crate::replay`] reads both forms and skips repeated lines.

use std::io::Write;

use chrono::{DateTime, NaiveDate, Utc};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};

use super::columns::{RowWriter, rows};
use super::fault::{HistoryError, HistoryFaultKind};
use super::journal::Journal;
use super::place::Place;
use super::replay::{HistoryReplay, ReplayReport, open_parquet};

/// The result of a compaction.
#[derive(Debug, Default)]
pub struct Compaction {
    /// The days that were converted to Parquet, each with its number of lines.
    pub compacted: Vec<(NaiveDate, u64)>,
    /// The days that were left unchanged, each with the reason.
    pub kept: Vec<(NaiveDate, HistoryError)>,
}

/// The fewest days that a history keeps: two weeks, from which forecasts learn.
pub const KEPT_MIN: usize = 14;

impl Journal {
    /// Compacts the days before `today` that are still JSON.
    ///
    /// A day that fails is left unchanged and does not prevent the compaction of the other days.
    /// One call per day is enough. A day of a thousand ticks with few shapes takes less than a
    /// second.
    ///
    /// # Errors
    /// Returns an error if the days cannot be listed.
    pub async fn compact(&mut self, today: NaiveDate) -> Result<Compaction, HistoryError> {
        let mut done = Compaction::default();
        for day in self.place().days(self.policy()).await?.into_iter().filter(|day| *day < today) {
            match compact_day(self.place(), self.policy(), day).await {
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

impl Journal {
    /// Removes the oldest day if the history has more than `keep` days. Returns it.
    ///
    /// The clock does not count, because a wrong one would remove all days. One call removes one
    /// day at most, and never one of the newest [`KEPT_MIN`] days, from which forecasts learn.
    ///
    /// # Errors
    /// Returns an error if the days cannot be listed, or a file cannot be removed. A file that no
    /// history has is not touched, and a day with such files alone is passed over.
    pub async fn expire(&mut self, keep: usize) -> Result<Option<NaiveDate>, HistoryError> {
        let days = self.place().days(self.policy()).await?;
        let oldest = days.len().saturating_sub(keep.max(KEPT_MIN));
        for day in days.into_iter().take(oldest) {
            let files = self.place().files(self.policy(), day).await?;
            if files.is_empty() {
                continue;
            }
            self.place().remove(&files.segments).await?;
            self.place().remove(files.parquet.as_slice()).await?;
            self.place().remove(files.part.as_slice()).await?;
            return Ok(Some(day));
        }
        Ok(None)
    }
}

/// Compacts a day and returns its number of lines, or `None` if the day is already compacted.
async fn compact_day(
    place: &Place,
    policy: &str,
    day: NaiveDate,
) -> Result<Option<u64>, HistoryError> {
    let files = place.files(policy, day).await?;
    if files.segments.is_empty() {
        return Ok(None);
    }
    let path = place.parquet(policy, day);
    let name = place.display(&path);
    let written =
        |source| HistoryError::Parquet { act: "failed to write", file: name.clone(), source };
    let mut replay = HistoryReplay::of_days(place, policy, None, vec![day]);
    let mut writer = RowWriter::new(Vec::new()).map_err(written)?;
    while let Some(line) = replay.next().await? {
        writer.push(&line).map_err(written)?;
    }
    // A torn line was never acknowledged, so it may be removed. Another malformed line may be data
    // of another program, so the day must stay as it is.
    let torn = |kind: &HistoryFaultKind| matches!(kind, HistoryFaultKind::Torn { .. });
    if let Some(fault) = replay.report().faults.iter().find(|fault| !torn(&fault.kind)) {
        return Err(HistoryError::Kept { day, fault: fault.clone() });
    }
    let lines = replay.report().lines;
    if lines > 0 {
        let bytes = writer.finish().map_err(written)?;
        let part = place.parquet_part(policy, day);
        let put = place.store.put(&part, PutPayload::from(bytes)).await;
        put.map_err(HistoryError::store("write", place.display(&part)))?;
        compare(place, &part, HistoryReplay::of_segments(place, day, files.segments.clone()))
            .await?;
        let renamed = place.store.rename(&part, &path).await;
        renamed.map_err(HistoryError::store("write", place.display(&path)))?;
    }
    place.remove(&files.segments).await?;
    Ok(Some(lines))
}

/// Checks that every line of the segments is in the Parquet file unchanged.
async fn compare(
    place: &Place,
    path: &Path,
    mut segments: HistoryReplay,
) -> Result<(), HistoryError> {
    let mut back = open_parquet(place, path).await?;
    while let Some(line) = segments.next().await? {
        let expected = rows(&line).map_err(HistoryError::Text)?;
        loop {
            let found = back.next_rows()?;
            if found == expected {
                break;
            }
            // Earlier lines come from a previous compaction of the same day.
            if found.first().is_none_or(|row| row.time_micros() >= line.time.timestamp_micros()) {
                return Err(HistoryError::NotEqual { file: place.display(path), time: line.time });
            }
        }
    }
    Ok(())
}

/// The result of an export.
#[derive(Debug)]
pub struct Export<W> {
    /// The writer.
    pub to: W,
    /// The number of lines written.
    pub lines: u64,
    /// The replay report of each policy, in the order of the policies.
    pub reports: Vec<ReplayReport>,
}

/// Writes the lines of some policies, from `since` (inclusive) to `until` (exclusive), as one
/// Parquet file.
///
/// # Errors
/// Returns an error if the place cannot be read or `to` cannot be written.
pub async fn export<W: Write + Send>(
    place: &Place,
    policies: &[String],
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    to: W,
) -> Result<Export<W>, HistoryError> {
    let written = |source| HistoryError::Parquet {
        act: "failed to write",
        file: "the export".into(),
        source,
    };
    let mut writer = RowWriter::new(to).map_err(written)?;
    let (mut lines, mut reports) = (0, Vec::new());
    for policy in policies {
        let mut replay = HistoryReplay::open(place, policy, since).await?;
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
