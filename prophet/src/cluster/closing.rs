//! Closes the days of the history once a day, in the background: days that are over become Parquet,
//! and days that are older than the retention are removed.

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use tokio::task::JoinHandle;

use crate::record::store::{HistoryError, Journal, Place};

/// The problems of single days, or why no day was closed.
type Attempt = Result<Vec<String>, HistoryError>;

/// The pause after a failed attempt.
const RETRY: TimeDelta = TimeDelta::hours(1);

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
    /// Closes the days before that of `now`, unless that is done or in progress. Days that began
    /// more than `retention_days` earlier are removed. Returns the problems of the last attempt.
    pub(super) async fn close(
        &mut self,
        place: &Place,
        policy: &str,
        now: DateTime<Utc>,
        retention_days: u32,
    ) -> &[String] {
        let today = now.date_naive();
        if let Some((day, task)) = self.task.take_if(|(_, task)| task.is_finished()) {
            self.faults = match task.await {
                Ok(Ok(faults)) => {
                    self.closed = Some(day);
                    self.next = None;
                    faults
                }
                Ok(Err(error)) => vec![format!("failed to close the history's days: {error}")],
                Err(error) => vec![format!("failed to close the history's days: {error}")],
            };
        }
        let due = self.closed != Some(today) && self.next.is_none_or(|next| next <= now);
        if self.task.is_none() && due {
            let (place, policy) = (place.clone(), policy.to_owned());
            self.next = Some(now + RETRY);
            self.task = Some((today, tokio::spawn(run(place, policy, today, retention_days))));
        }
        &self.faults
    }
}

async fn run(place: Place, policy: String, today: NaiveDate, retention_days: u32) -> Attempt {
    let mut journal = Journal::open(place, &policy).await?;
    if let Some(first) = today.checked_sub_days(Days::new(retention_days.into())) {
        let removed = journal.expire(first).await?;
        if removed > 0 {
            tracing::info!(policy, removed, "old days of the history removed");
        }
    }
    let done = journal.compact(today).await?;
    Ok(done.kept.iter().map(|(day, error)| format!("{day} stays JSON: {error}")).collect())
}
