//! Closes the days of the history once a day, in the background: days that are over become Parquet,
//! and days that are older than the retention are removed.

use chrono::{Days, NaiveDate};
use tokio::task::JoinHandle;

use crate::record::store::{HistoryError, Journal, Place};

/// The closing of the days of one policy's history.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// The day before which all days are closed.
    closed: Option<NaiveDate>,
    task: Option<JoinHandle<Result<Vec<String>, HistoryError>>>,
    /// The problems of the last attempt, one message each.
    faults: Vec<String>,
}

impl Closing {
    /// Closes the days before `today`, unless that is done or in progress. Days that began more
    /// than `retention_days` before `today` are removed. Returns the problems of the last attempt.
    pub(super) async fn close(
        &mut self,
        place: &Place,
        policy: &str,
        today: NaiveDate,
        retention_days: u32,
    ) -> &[String] {
        if let Some(task) = self.task.take_if(|task| task.is_finished()) {
            self.faults = match task.await {
                Ok(Ok(faults)) => {
                    self.closed = Some(today);
                    faults
                }
                Ok(Err(error)) => vec![format!("failed to close the history's days: {error}")],
                Err(error) => vec![format!("failed to close the history's days: {error}")],
            };
        }
        if self.task.is_none() && self.closed != Some(today) {
            let (place, policy) = (place.clone(), policy.to_owned());
            self.task = Some(tokio::spawn(run(place, policy, today, retention_days)));
        }
        &self.faults
    }
}

async fn run(
    place: Place,
    policy: String,
    today: NaiveDate,
    retention_days: u32,
) -> Result<Vec<String>, HistoryError> {
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
