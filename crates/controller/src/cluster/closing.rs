//! Closes the days of the history once a day, in the background: days that are over become Parquet,
//! and the oldest day is removed if the history has more of them than are to be kept. While it has,
//! the next attempt follows after an hour.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use history::{HistoryError, Journal, Place};
use tokio::task::JoinHandle;

/// What an attempt did, or why no day was closed.
type Attempt = Result<Closed, HistoryError>;

/// What an attempt did.
#[derive(Debug)]
struct Closed {
    /// Whether the oldest day was removed, so that another one may have to be.
    removed: bool,
    /// The problems of single days, one message each.
    faults: Vec<String>,
}

/// The pause after an attempt that removed a day, or that could not close single days.
const PAUSE: TimeDelta = TimeDelta::hours(1);

/// The pause after an attempt that could not read the history. Its fault stays until the next one.
const RETRY: TimeDelta = TimeDelta::minutes(1);

/// The closing of the days of one policy's history.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// The day before which all days are closed.
    closed: Option<NaiveDate>,
    /// The attempt in progress, with the day before which it closes all days.
    task: Option<(NaiveDate, JoinHandle<Attempt>)>,
    /// When the next attempt may begin.
    next: Option<DateTime<Utc>>,
    /// The problems of the last attempt, one message each.
    faults: Vec<String>,
}

impl Closing {
    /// The state after a restart of the controller. The attempt in progress goes on, because two at
    /// once would write the same files.
    pub(super) fn restarted(self) -> Self {
        Self { task: self.task, ..Self::default() }
    }

    /// Closes the days before that of `now`, unless that is done or in progress. If the history has
    /// more than `retention_days` days, the oldest is removed. Returns the problems of the last
    /// attempt.
    pub(super) async fn close(
        &mut self,
        place: &Place,
        policy: &str,
        now: DateTime<Utc>,
        retention_days: u32,
    ) -> &[String] {
        let today = now.date_naive();
        if let Some((day, task)) = self.task.take_if(|(_, task)| task.is_finished()) {
            let attempt = task.await;
            if !matches!(attempt, Ok(Ok(_))) {
                self.next = Some(now + RETRY);
            }
            self.faults = match attempt {
                Ok(Ok(Closed { removed, faults })) => {
                    if !removed {
                        self.closed = Some(day);
                        self.next = None;
                    }
                    faults
                }
                Ok(Err(error)) => vec![format!("failed to close the history's days: {error}")],
                Err(error) => vec![format!("failed to close the history's days: {error}")],
            };
        }
        let due = self.closed != Some(today) && self.next.is_none_or(|next| next <= now);
        if self.task.is_none() && due {
            let (place, policy) = (place.clone(), policy.to_owned());
            self.next = Some(now + PAUSE);
            self.task = Some((today, tokio::spawn(run(place, policy, today, retention_days))));
        }
        &self.faults
    }
}

async fn run(place: Place, policy: String, today: NaiveDate, retention_days: u32) -> Attempt {
    let mut journal = Journal::open(place, &policy).await?;
    let keep = usize::try_from(retention_days).unwrap_or(usize::MAX);
    let removed = journal.expire(keep).await?;
    if let Some(day) = removed {
        tracing::info!(policy, %day, "the oldest day of the history removed");
    }
    let done = journal.compact(today).await?;
    let faults = done.kept.iter().map(|(day, error)| format!("{day} stays JSON: {error}"));
    Ok(Closed { removed: removed.is_some(), faults: faults.collect() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use chrono::TimeZone as _;
    use history::Line;

    use super::*;

    const POLICY: &str = "batch.night";

    /// A moment of a day in July 2026.
    fn at(day: u32, hour: u32) -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 7, day, hour, 0, 0).unwrap()
    }

    /// Closes days until an attempt ends. Returns its problems.
    async fn closed(closing: &mut Closing, place: &Place, now: DateTime<Utc>) -> Vec<String> {
        closing.close(place, POLICY, now, 2).await;
        for _ in 0..1_000 {
            if closing.task.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            closing.close(place, POLICY, now, 2).await;
        }
        assert!(closing.task.is_none(), "the attempt does not end");
        closing.faults.clone()
    }

    /// The files of all days, as DAY/FILE.
    fn files(folder: &Path) -> Vec<String> {
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).unwrap().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let policy = folder.join(format!("policy={POLICY}"));
        let days = names(&policy).into_iter();
        let files = days.flat_map(|day| {
            let of_day = names(&policy.join(&day)).into_iter();
            of_day.map(|file| format!("{day}/{file}")).collect::<Vec<_>>()
        });
        let mut files: Vec<String> = files.collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn days_are_closed_once_a_day_and_the_oldest_of_too_many_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(&folder.path().display().to_string()).unwrap();
        let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
        for day in 1..=16 {
            let line = format!(
                r#"{{"v": 1, "time": "2026-07-{day:02}T12:00:00Z", "policy": "{POLICY}", "buckets": {{}}}}"#
            );
            journal.append(&Line::parse(line.as_bytes()).unwrap()).await.unwrap();
        }
        let malformed =
            folder.path().join(format!("policy={POLICY}/day=2026-07-03/ticks-00000.jsonl"));
        let good = fs::read_to_string(&malformed).unwrap();
        fs::write(&malformed, format!("not JSON\n{good}")).unwrap();

        let mut closing = Closing::default();
        let faults = closed(&mut closing, &place, at(16, 13)).await;
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("2026-07-03 stays JSON: "), "{faults:?}");
        let parquet = |day: u32| format!("day=2026-07-{day:02}/ticks.parquet");
        let lines = |day: u32| format!("day=2026-07-{day:02}/ticks-00000.jsonl");
        let days = |from: u32, until: u32| (from..until).map(parquet).collect::<Vec<_>>();
        let expected = [vec![parquet(2), lines(3)], days(4, 16), vec![lines(16)]].concat();
        assert_eq!(files(folder.path()), expected);

        // One day at a time is removed, and the next attempt follows after an hour. Once it removes
        // none, the days before this one are closed, and the next attempt is due tomorrow.
        assert_eq!(closed(&mut closing, &place, at(16, 13)).await, faults);
        assert_eq!(files(folder.path()), expected);
        assert_eq!(closed(&mut closing, &place, at(16, 14)).await, faults);
        let expected = [vec![lines(3)], days(4, 16), vec![lines(16)]].concat();
        assert_eq!(files(folder.path()), expected);
        assert_eq!(closed(&mut closing, &place, at(16, 15)).await, faults);
        fs::write(&malformed, good).unwrap();
        assert_eq!(closed(&mut closing, &place, at(16, 20)).await, faults);
        assert_eq!(files(folder.path()), expected);
        assert_eq!(closed(&mut closing, &place, at(17, 0)).await, [""; 0]);
        assert_eq!(files(folder.path()), days(3, 17));
        // Two weeks stay, whatever the clock shows and the operator keeps.
        let wrong = at(17, 0) + TimeDelta::days(182);
        assert_eq!(closed(&mut closing, &place, wrong).await, [""; 0]);
        assert_eq!(files(folder.path()), days(3, 17));
    }
}
