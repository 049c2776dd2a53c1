//! A history as a log: what [`super::LogArgs`] uses of it.

use std::cell::OnceCell;

use anyhow::{Context as _, bail};
use embedder::Catalog;
use history::Place;
use recorded::{Recorded, RecordedWaiting, recorded};
use simulator::SimulationSettings;
use traces::{SchedulingDelay, Trace};
use usage::MeasuredRun;

use crate::cli::runtime;

/// A history, once it is read.
#[derive(Default)]
pub(in crate::cli) struct RecordedLog(OnceCell<Recorded>);

impl RecordedLog {
    /// Sets the options that the history has: buckets, launch latency, and objective.
    pub(super) fn take_over(
        &self,
        settings: &mut SimulationSettings,
        with_usage: bool,
    ) -> anyhow::Result<()> {
        let recorded = read_recorded(settings, with_usage)?;
        recorded.set(settings);
        // It is empty, because options are combined once.
        let _ = self.0.set(recorded);
        Ok(())
    }

    /// What the pods of the history used. Empty before [`Self::take_over`] has read the history.
    pub(in crate::cli) fn usage(&self) -> &[MeasuredRun] {
        self.0.get().map_or(&[], |recorded| &recorded.usage)
    }

    /// The finished pods of the history.
    pub(super) fn trace(
        &self,
        settings: &SimulationSettings,
        with_usage: bool,
    ) -> anyhow::Result<Trace> {
        let read;
        let recorded = if let Some(recorded) = self.0.get() {
            recorded
        } else {
            read = read_recorded(settings, with_usage)?;
            &read
        };
        Ok(pods_of(recorded, settings.data.clone().unwrap_or_default()))
    }
}

/// The pods of a history as a log. Prints how long they really waited.
fn pods_of(recorded: &Recorded, source: String) -> Trace {
    let RecordedWaiting { pods, earlier, hidden, seconds } = recorded.waiting;
    if earlier > 0 {
        eprintln!(
            "note: {earlier} pods are left out, because they were created before the first line"
        );
    }
    eprintln!(
        "note: recorded: {pods} pods ended, {:.1} % of them waited at most one scan, {:.1} pending pod-hours",
        100.0 * hidden as f64 / pods.max(1) as f64,
        seconds as f64 / 3_600.0
    );
    Trace {
        source,
        format: traces::Format::History,
        jobs: recorded.jobs.clone(),
        notes: traces::Notes::default(),
    }
}

/// The pods of a history as a log, their scheduling delays, and the buckets of the history.
pub(in crate::cli) fn recorded_log(
    data: &str,
    policy: Option<&str>,
) -> anyhow::Result<(Trace, Vec<SchedulingDelay>, Catalog)> {
    let settings = SimulationSettings {
        data: Some(data.into()),
        data_policy: policy.map(Into::into),
        ..SimulationSettings::default()
    };
    let recorded = read_recorded(&settings, false)?;
    Ok((pods_of(&recorded, data.into()), recorded.delays, recorded.catalog))
}

fn read_recorded(settings: &SimulationSettings, with_usage: bool) -> anyhow::Result<Recorded> {
    let data = settings.data.clone().unwrap_or_default();
    let runtime = runtime::of_this_thread()?;
    let place = Place::existing(&data)?;
    let read = async {
        let policies = place.policies().await?;
        let policy = match (&settings.data_policy, &*policies) {
            (Some(policy), all) if all.contains(policy) => policy,
            (Some(policy), _) => {
                bail!("there is no policy {policy}, only {}", policies.join(", "))
            }
            (None, [only]) => only,
            (None, []) => bail!("there is no history"),
            (None, _) => bail!("give --data-policy: one of {}", policies.join(", ")),
        };
        Ok(recorded(&place, policy, with_usage).await?)
    };
    let recorded = runtime.block_on(read).context(data)?;
    for fault in &recorded.report.faults {
        eprintln!("prophet: skipped: {fault}");
    }
    Ok(recorded)
}
