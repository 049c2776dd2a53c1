//! One policy's history: it is opened and read before the first turn, replayed into each new
//! control, and a line is appended at each tick.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use embedder::Catalog;

use super::closing::Closing;
use super::config::Config;
use super::finished::Finished;
use super::health::Health;
use super::retry::Retry;
use super::unwritten::Unwritten;
use crate::account::Account;
use crate::catalog::named_parts;
use crate::control::Control;
use crate::dashboard::Dashboard;
use crate::observe::Key;
use crate::outcome::{Cause, Outcome};
use crate::record::store::{BucketExtras, EndedLaunch, HistoryFaultKind, Journal, Line};

/// The history of one policy, and what is not in it yet.
#[derive(Default)]
pub(super) struct PolicyHistory {
    /// `None` without a place for histories, and until the history is opened.
    journal: Option<Journal>,
    /// The parts in the names of the history's buckets. `None` until the history is read.
    parts: Option<BTreeSet<String>>,
    /// When the history is read again after a failure.
    retry: Retry,
    /// The damaged files of the history, which the last replay skipped.
    damaged: Vec<String>,
    /// Launches that are not in the history yet.
    launches: Vec<EndedLaunch>,
    /// Pods that ended and are not in the history yet.
    pub(super) finished: Finished,
    /// Lines that could not be written yet.
    unwritten: Unwritten,
    closing: Closing,
}

/// The length of the history that is recalled: 14 days, as much as the history keeps in memory.
const RECALLED: TimeDelta = TimeDelta::days(14);

/// The time limit for writing to the history. A line that is not written is tried again.
const APPEND: Duration = Duration::from_secs(20);

impl PolicyHistory {
    /// The parts in the names of the buckets of the history.
    pub(super) fn parts(&self) -> impl Iterator<Item = &String> {
        self.parts.iter().flatten()
    }

    /// Opens the history and reads what later steps need before the first turn: the names of
    /// buckets, the launches, and the account of the dashboard. Returns the launches and the
    /// account; `None` once they are read, and after a failure.
    pub(super) async fn read(
        &mut self,
        key: &Key,
        config: &Config,
        health: &Health,
        dashboard: &Dashboard,
        now: DateTime<Utc>,
    ) -> Option<(Vec<EndedLaunch>, Account)> {
        if self.parts.is_some() || !self.is_due(now) {
            return None;
        }
        match self.read_lines(key, config, health, dashboard, now).await {
            Ok(read) => {
                self.note(Ok(()), now);
                Some(read)
            }
            Err(error) => {
                self.note(Err(error), now);
                None
            }
        }
    }

    async fn read_lines(
        &mut self,
        key: &Key,
        config: &Config,
        health: &Health,
        dashboard: &Dashboard,
        now: DateTime<Utc>,
    ) -> anyhow::Result<(Vec<EndedLaunch>, Account)> {
        let (mut launches, mut account) = (Vec::new(), Account::default());
        let mut parts = BTreeSet::new();
        if let Some(place) = &config.data {
            if self.journal.is_none() {
                let opened = Journal::open(place.clone(), &history_name(key)).await;
                self.journal = Some(opened.context("failed to open the history")?);
            }
            let Some(journal) = &self.journal else { return Ok((launches, account)) };
            let name = key.to_string();
            let mut replay = journal.replay(Some(now - RECALLED)).await?;
            while let Some(line) = replay.next().await? {
                health.beat();
                account.recall(&line);
                dashboard.recall(&name, line.time.timestamp(), &counts(&line));
                parts.extend(line.buckets.keys().flat_map(|name| named_parts(name)));
                launches.extend(line.launches);
            }
        }
        self.parts = Some(parts);
        Ok((launches, account))
    }

    /// Whether the history may be read at `now`. After a failure, the next attempt is later.
    pub(super) fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.retry.error(now).is_none()
    }

    /// Records an attempt to read the history.
    pub(super) fn note(&mut self, attempt: anyhow::Result<()>, now: DateTime<Utc>) {
        self.retry.note(attempt.err().map(|error| format!("{error:#}")), now);
    }

    /// The faults of the last attempts to read the history.
    pub(super) fn faults(&self, now: DateTime<Utc>) -> impl Iterator<Item = String> {
        let failed = self.retry.error(now).map(str::to_owned);
        failed.into_iter().chain(self.damaged.iter().cloned())
    }

    /// Replays the history into a control of the buckets of `catalog`.
    pub(super) async fn replay(
        &mut self,
        control: &mut Control,
        catalog: &Catalog,
        health: &Health,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let mut recalled = 0_u64;
        if let Some(journal) = &self.journal {
            let mut replay = journal.replay(Some(now - RECALLED)).await?;
            while let Some(line) = replay.next().await? {
                health.beat();
                let tick = line.recall(catalog, control.shapes_mut()).tick;
                control.recall(tick, &line.targets(catalog));
                recalled += 1;
            }
            let faults = &replay.report().faults;
            for fault in faults {
                tracing::warn!(%fault, "part of the history skipped");
            }
            let damaged =
                faults.iter().filter(|fault| matches!(fault.kind, HistoryFaultKind::Damaged(_)));
            self.damaged = damaged.map(ToString::to_string).collect();
        }
        tracing::info!(recalled, "history recalled");
        Ok(())
    }

    /// Adds launches that ended to the next line.
    pub(super) fn ended(&mut self, launches: &[EndedLaunch]) {
        self.launches.extend_from_slice(launches);
    }

    /// Forgets what the next line would have of launches and pods that ended.
    pub(super) fn forget(&mut self) {
        self.launches.clear();
        self.finished.clear();
    }

    /// Appends the tick's line to the history, and closes the days that are over.
    pub(super) async fn write(
        &mut self,
        key: &Key,
        control: Option<&Control>,
        config: &Config,
        now: DateTime<Utc>,
        outcome: &mut Outcome,
    ) {
        let appended = tokio::time::timeout(APPEND, self.append(key, control, outcome));
        let no_response = || format!("no response of the history within {}s", APPEND.as_secs());
        if let Err(error) = appended.await.with_context(no_response).flatten() {
            outcome.fault(Cause::HistoryFailed, format!("{error:#}"));
        }
        // Lines that wait could be written into a day while it is closed.
        let Some(place) = config.data.as_ref().filter(|_| self.unwritten.is_empty()) else {
            return;
        };
        let (name, days) = (history_name(key), config.retention_days);
        for fault in self.closing.close(place, &name, now, days).await {
            outcome.fault(Cause::HistoryFailed, fault);
        }
    }

    /// Appends the tick's line to the history.
    async fn append(
        &mut self,
        key: &Key,
        control: Option<&Control>,
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        let (Some(control), Some(turn)) = (control, &outcome.turn) else { return Ok(()) };
        let Some(tick) = &turn.tick else { return Ok(()) };
        let launches = std::mem::take(&mut self.launches);
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let Some(offers) = &outcome.offers else { return Ok(()) };
        let extras = turn.plan.buckets.iter().map(|bucket| BucketExtras {
            headroom: bucket.target,
            placeholders: outcome.observed.standing.placeholders(bucket.bucket),
        });
        let extras: Vec<BucketExtras> = extras.collect();
        let catalog = &offers.catalog;
        let mut line =
            Line::new(&history_name(key), tick, &extras, launches, catalog, control.shapes());
        line.finished = self.finished.take();
        line.offered = self.finished.offered(tick.time, catalog, outcome.objective);
        self.unwritten.push(line);
        self.unwritten.write(journal).await.context("failed to write the history")?;
        Ok(())
    }
}

/// By bucket of a line: its demand, target and placeholders.
fn counts(line: &Line) -> Vec<(&str, [u64; 3])> {
    let counts = line.buckets.iter().map(|(name, bucket)| {
        (name.as_str(), [bucket.demand, bucket.headroom, bucket.placeholders])
    });
    counts.collect()
}

/// The policy's name in the history.
fn history_name(key: &Key) -> String {
    format!("{}.{}", key.namespace, key.name)
}
