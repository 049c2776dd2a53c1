//! One policy's history: it is opened and read before the first turn, replayed into each new
//! control, and a line is appended at each tick.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use control::{Control, Turn};
use dashboard::Dashboard;
use embedder::Catalog;
use history::{
    BucketExtras, EndedLaunch, HistoryFaultKind, HistoryReplay, Journal, Line, Place, UsedLaunch,
};
use placeholders::{Objective, Standing};

use super::background_read::BackgroundRead;
use super::closing::Closing;
use super::config::Config;
use super::control_config::ControlConfig;
use super::finished::Finished;
use super::retry::Retry;
use super::turn_input::TurnInput;
use super::unwritten::Unwritten;
use crate::account::Account;
use crate::catalog::{Offers, named_parts};
use crate::observe::{Key, Shared};
use crate::outcome::{Cause, Faults};

/// The history of one policy, and what is not in it yet.
#[derive(Default)]
pub(super) struct PolicyHistory {
    /// `None` without a place for histories, and until the history is opened.
    journal: Option<Journal>,
    /// The parts in the names of the history's buckets. `None` until the history is read.
    parts: Option<BTreeSet<String>>,
    /// The first read, while it goes on.
    first: Option<BackgroundRead<First>>,
    /// The control that is being built from the history.
    rebuild: Option<Rebuild>,
    /// When the history is read again after a failure.
    retry: Retry,
    /// Why the line of the last tick could not be appended.
    unappended: Option<String>,
    /// The damaged files of the history, which the last replay skipped.
    damaged: Vec<String>,
    /// The lines that the last replay passed over.
    later: Later,
    /// Launches that ended and are not in the history yet.
    launches: Vec<EndedLaunch>,
    /// Launches that were used and are not in the history yet.
    used: Vec<UsedLaunch>,
    /// Pods that ended and are not in the history yet.
    pub(super) finished: Finished,
    /// Lines that could not be written yet.
    unwritten: Unwritten,
    closing: Closing,
}

/// What a turn decided, for the line of its tick.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) control: &'a Control,
    pub(super) turn: &'a Turn,
    pub(super) offers: &'a Offers,
    pub(super) standing: &'a Standing,
    /// By bucket, the placeholders on nodes that are paid anyway.
    pub(super) prepaid: &'a [u64],
    pub(super) objective: Objective,
}

/// The length of the history that is recalled: 14 days, as much as the history keeps in memory.
pub(super) const RECALLED: TimeDelta = TimeDelta::days(14);

/// By how much the clocks of two replicas may differ. A line that is later by less was written
/// before a change of leader.
const SKEW: TimeDelta = TimeDelta::seconds(30);

/// The time limit for writing to the history. A line that is not written is tried again.
const APPEND: Duration = Duration::from_secs(20);

impl PolicyHistory {
    /// A history that is opened and read again, while a closing of its days goes on.
    pub(super) fn restarted(self) -> Self {
        Self { closing: self.closing.restarted(), ..Self::default() }
    }

    /// The parts in the names of the buckets of the history.
    pub(super) fn parts(&self) -> impl Iterator<Item = &String> {
        self.parts.iter().flatten()
    }

    /// Starts to open the history and to read what later steps need before the first turn: the
    /// names of buckets, the launches, and the account of the dashboard. Does nothing once that is
    /// done or in progress, and after a failure until the next attempt is due.
    pub(super) fn begin(
        &mut self,
        key: &Key,
        config: &Config,
        shared: &Arc<Shared>,
        (dashboard, tick_seconds): (&Arc<Dashboard>, i64),
        now: DateTime<Utc>,
    ) {
        if self.parts.is_some() || self.first.is_some() || !self.is_due(now) {
            return;
        }
        let Some(place) = config.data.clone() else {
            self.parts = Some(BTreeSet::new());
            return;
        };
        let (name, shown) = (history_name(key), key.to_string());
        let dashboard = Arc::clone(dashboard);
        self.first = Some(BackgroundRead::start(shared, async move |cancelled| {
            first(place, &name, (&dashboard, &shown, tick_seconds), now, &cancelled).await
        }));
    }

    /// Waits for the end of what [`PolicyHistory::begin`] started, until `limit` after its start.
    /// Returns the launches and the account once, when they have been read.
    pub(super) async fn read(
        &mut self,
        limit: Duration,
        now: DateTime<Utc>,
    ) -> Option<(Vec<EndedLaunch>, Account)> {
        let ended = self.first.as_mut()?.ended(limit).await?;
        self.first = None;
        match ended {
            Ok(First { journal, parts, launches, account }) => {
                (self.journal, self.parts) = (Some(journal), Some(parts));
                self.note(Ok(()), now);
                Some((launches, account))
            }
            Err(error) => {
                self.note(Err(error), now);
                None
            }
        }
    }

    /// Whether the first read goes on.
    pub(super) fn is_reading(&self) -> bool {
        self.first.is_some()
    }

    /// Whether any read of the history goes on.
    pub(super) fn is_busy(&self) -> bool {
        self.first.is_some() || self.rebuild.is_some()
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
        failed.into_iter().chain(self.damaged.iter().cloned()).chain(self.later.fault(now))
    }

    /// A control of this configuration that has learnt from the history. The first call starts its
    /// replay, and each call waits for the replay until `limit` after its start; `None` while it
    /// goes on.
    pub(super) async fn rebuilt(
        &mut self,
        config: &ControlConfig,
        shared: &Arc<Shared>,
        limit: Duration,
        now: DateTime<Utc>,
    ) -> anyhow::Result<Option<Control>> {
        let Some(journal) = &self.journal else {
            return Ok(Some(config.control(now)));
        };
        let wanted = |rebuild: &Rebuild| rebuild.config == *config;
        if let Some(outdated) = self.rebuild.as_ref().filter(|rebuild| !wanted(rebuild)) {
            outdated.reading.cancel();
            // One replay at a time: a place that hangs must not collect threads.
            if !outdated.reading.is_over() {
                return Ok(None);
            }
            self.rebuild = None;
        }
        let rebuild = self.rebuild.get_or_insert_with(|| {
            let (place, policy) = (journal.place().clone(), journal.policy().to_owned());
            let of = config.clone();
            let reading = BackgroundRead::start(shared, async move |cancelled| {
                replayed(&place, &policy, &of, now, &cancelled).await
            });
            Rebuild { config: config.clone(), reading, meanwhile: Vec::new() }
        });
        let Some(ended) = rebuild.reading.ended(limit).await else { return Ok(None) };
        let meanwhile = std::mem::take(&mut rebuild.meanwhile);
        self.rebuild = None;
        let Replayed { mut control, mut recalled, last, damaged, later } = ended?;
        for line in meanwhile.iter().filter(|line| last.is_none_or(|last| line.time > last)) {
            recall(&mut control, line, &config.forecaster.catalog);
            recalled += 1;
        }
        (self.damaged, self.later) = (damaged, later);
        tracing::info!(recalled, "history recalled");
        Ok(Some(control))
    }

    /// Adds launches that ended, and those that were used, to the next line.
    pub(super) fn ended(&mut self, launches: &[EndedLaunch], used: &[UsedLaunch]) {
        self.launches.extend_from_slice(launches);
        self.used.extend_from_slice(used);
    }

    /// Drops the launches and the ended pods that the next line would have.
    pub(super) fn forget(&mut self) {
        self.launches.clear();
        self.used.clear();
        self.finished.clear();
    }

    /// Appends the tick's line to the history, and closes the days that are over, if this replica
    /// leads or has a history of its own. Without a decision, `record` is `None`.
    pub(super) async fn record(
        &mut self,
        TurnInput { key, context, now, writes, .. }: &TurnInput<'_>,
        record: Option<Record<'_>>,
    ) -> Faults {
        let config = context.config;
        let records = config.own_history || (*writes && context.leadership.leads());
        if !records {
            if !writes {
                // The replica that leads records them.
                self.forget();
            }
            return Faults::default();
        }
        self.write(key, record, config, *now).await
    }

    async fn write(
        &mut self,
        key: &Key,
        record: Option<Record<'_>>,
        config: &Config,
        now: DateTime<Utc>,
    ) -> Faults {
        let mut faults = Faults::default();
        let appended = tokio::time::timeout(APPEND, self.append(key, record));
        let no_response = || format!("no response of the history within {}s", APPEND.as_secs());
        match appended.await.with_context(no_response).flatten() {
            Ok(false) => {}
            Ok(true) => self.unappended = None,
            Err(error) => self.unappended = Some(format!("{error:#}")),
        }
        // Between ticks, nothing is appended, and the last failure stays.
        faults.add_all(Cause::HistoryFailed, &self.unappended);
        // Lines that wait could be written into a day while it is closed.
        let Some(place) = config.data.as_ref().filter(|_| self.unwritten.is_empty()) else {
            return faults;
        };
        let (name, days) = (history_name(key), config.retention_days);
        faults.add_all(Cause::HistoryFailed, self.closing.close(place, &name, now, days).await);
        faults
    }

    /// Appends the tick's line to the history. Returns whether there was a tick.
    async fn append(&mut self, key: &Key, record: Option<Record<'_>>) -> anyhow::Result<bool> {
        let Some(Record { control, turn, offers, standing, prepaid, objective }) = record else {
            return Ok(false);
        };
        let Some(tick) = &turn.tick else { return Ok(false) };
        let launches = std::mem::take(&mut self.launches);
        let used = std::mem::take(&mut self.used);
        let Some(journal) = &mut self.journal else { return Ok(false) };
        let extras = turn.plan.buckets.iter().map(|bucket| BucketExtras {
            headroom: bucket.target,
            placeholders: standing.placeholders(bucket.bucket),
            prepaid: prepaid.get(bucket.bucket).copied().unwrap_or(0),
        });
        let extras: Vec<BucketExtras> = extras.collect();
        let catalog = &offers.catalog;
        let mut line =
            Line::new(&history_name(key), tick, &extras, launches, catalog, control.shapes());
        line.used = used;
        line.finished = self.finished.take();
        line.offered = self.finished.offered(tick.time, catalog, objective);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.meanwhile.push(line.clone());
        }
        self.unwritten.push(line);
        let dropped = self.unwritten.write(journal).await.context("failed to write the history")?;
        if let Some(last) = dropped {
            let last = last.format("%Y-%m-%d %H:%M:%S");
            anyhow::bail!("the tick is not written: the history has a later line, of {last}");
        }
        Ok(true)
    }
}

/// What is read of a history before the first turn.
struct First {
    journal: Journal,
    parts: BTreeSet<String>,
    launches: Vec<EndedLaunch>,
    account: Account,
}

async fn first(
    place: Place,
    name: &str,
    (dashboard, shown, tick_seconds): (&Dashboard, &str, i64),
    now: DateTime<Utc>,
    cancelled: &AtomicBool,
) -> anyhow::Result<First> {
    let journal = Journal::open(place, name).await.context("failed to open the history")?;
    let (mut launches, mut account) = (Vec::new(), Account::default());
    let mut parts = BTreeSet::new();
    let mut replay = journal.replay(Some(now - RECALLED)).await?;
    let mut later = Later::default();
    while let Some(line) = replay.next().await? {
        anyhow::ensure!(!cancelled.load(Ordering::Relaxed), "no longer needed");
        if later.is_later(&line, now) {
            continue;
        }
        account.recall(&line);
        dashboard.recall(shown, line.time.timestamp(), tick_seconds, &counts(&line));
        parts.extend(line.buckets.keys().flat_map(|name| named_parts(name)));
        launches.extend(line.launches);
    }
    Ok(First { journal, parts, launches, account })
}

/// A control that is being built from the history.
struct Rebuild {
    config: ControlConfig,
    reading: BackgroundRead<Replayed>,
    /// The lines that were recorded since its start.
    meanwhile: Vec<Line>,
}

/// A control that has learnt from the history.
struct Replayed {
    control: Control,
    /// The number of lines.
    recalled: u64,
    /// The time of the last line.
    last: Option<DateTime<Utc>>,
    /// The damaged files, which were skipped.
    damaged: Vec<String>,
    later: Later,
}

async fn replayed(
    place: &Place,
    policy: &str,
    config: &ControlConfig,
    now: DateTime<Utc>,
    cancelled: &AtomicBool,
) -> anyhow::Result<Replayed> {
    let mut control = config.control(now);
    let (mut recalled, mut last) = (0, None);
    let mut replay = HistoryReplay::open(place, policy, Some(now - RECALLED)).await?;
    let mut later = Later::default();
    while let Some(line) = replay.next().await? {
        anyhow::ensure!(!cancelled.load(Ordering::Relaxed), "no longer needed");
        if later.is_later(&line, now) {
            continue;
        }
        recall(&mut control, &line, &config.forecaster.catalog);
        (recalled, last) = (recalled + 1, Some(line.time));
    }
    let faults = &replay.report().faults;
    for fault in faults {
        tracing::warn!(%fault, "part of the history skipped");
    }
    let damaged = faults.iter().filter(|fault| matches!(fault.kind, HistoryFaultKind::Damaged(_)));
    let damaged = damaged.map(ToString::to_string).collect();
    Ok(Replayed { control, recalled, last, damaged, later })
}

/// The lines of a history that are later than now, because the clock was wrong when they were
/// recorded. Nothing is learnt from them, because no tick would be due until their time.
#[derive(Debug, Default)]
struct Later {
    lines: u64,
    last: Option<DateTime<Utc>>,
}

impl Later {
    /// Whether a line is later than `now`, by more than clocks of replicas differ. Counts those
    /// that are.
    fn is_later(&mut self, line: &Line, now: DateTime<Utc>) -> bool {
        let is_later = line.time > now + SKEW;
        if is_later {
            self.lines += 1;
            self.last = self.last.max(Some(line.time));
        }
        is_later
    }

    /// A message, until the time of the last such line has come.
    fn fault(&self, now: DateTime<Utc>) -> Option<String> {
        let last = self.last.filter(|last| now < *last)?.format("%Y-%m-%d %H:%M");
        Some(format!(
            "{} lines of the history are later than now, up to {last}, and are passed over: move the days away that have them",
            self.lines
        ))
    }
}

/// Learns from a line of the history.
fn recall(control: &mut Control, line: &Line, catalog: &Catalog) {
    let tick = line.recall(catalog, control.shapes_mut()).tick;
    control.recall(tick, &line.targets(catalog));
}

/// By bucket of a line: its demand, target and placeholders.
fn counts(line: &Line) -> Vec<(&str, [u64; 3])> {
    let counts = line.buckets.iter().map(|(name, bucket)| {
        (name.as_str(), [bucket.demand, bucket.headroom, bucket.placeholders])
    });
    counts.collect()
}

/// The policy's name in the history.
pub(super) fn history_name(key: &Key) -> String {
    format!("{}.{}", key.namespace, key.name)
}
