//! The `ConfigMap` with cluster-autoscaler's status of its groups, in YAML as since its release
//! 1.30.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// The name of the `ConfigMap`, in the namespace `kube-system`.
const NAME: &str = "cluster-autoscaler-status";

/// The status of one group.
#[derive(Debug)]
pub(super) struct GroupStatus {
    pub(super) name: String,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) target: usize,
    pub(super) registered: usize,
    pub(super) ready: usize,
    pub(super) unregistered: usize,
    /// The reason of the backoff, if the group backs off.
    pub(super) backoff: Option<String>,
    /// The age of the scale-up that is in progress.
    pub(super) scale_up: Option<Duration>,
    /// The number of unneeded nodes.
    pub(super) candidates: usize,
}

pub(super) async fn write(client: &Client, groups: &[GroupStatus]) -> Result<()> {
    let now = Timestamp::now();
    let updated = now.strftime("%F %T.%6f +0000 UTC").to_string();
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": updated}},
        "data": {"status": text(groups, &updated, now)?},
    });
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let params = PatchParams::apply("cluster-autoscaler").force();
    maps.patch(NAME, &params, &Patch::Apply(&map)).await.context("failed to write the status")?;
    Ok(())
}

fn text(groups: &[GroupStatus], updated: &str, time: Timestamp) -> Result<String> {
    let now = &time.strftime("%FT%TZ").to_string();
    let sum = |of: fn(&GroupStatus) -> usize| groups.iter().map(of).sum::<usize>();
    let (registered, ready) = (sum(|group| group.registered), sum(|group| group.ready));
    let mut text = format!("time: {updated}\nautoscalerStatus: Running\nclusterWide:\n  health:\n");
    let counts = counts(registered, ready, sum(|group| group.unregistered));
    write!(text, "    status: Healthy\n{counts}{}", times(now))?;
    let scale_up = if groups.iter().any(|group| group.scale_up.is_some()) {
        "InProgress"
    } else {
        "NoActivity"
    };
    write!(text, "  scaleUp:\n    status: {scale_up}\n{}", times(now))?;
    text += &scale_down(sum(|group| group.candidates), now);
    text += "nodeGroups:\n";
    for group in groups {
        text += &of_group(group, now, time)?;
    }
    Ok(text)
}

fn of_group(group: &GroupStatus, now: &str, time: Timestamp) -> Result<String> {
    let GroupStatus {
        name,
        min,
        max,
        target,
        registered,
        ready,
        unregistered,
        backoff,
        scale_up,
        candidates,
    } = group;
    let mut text = format!("- name: {name}\n  health:\n    status: Healthy\n");
    text += &counts(*registered, *ready, *unregistered);
    write!(
        text,
        "    cloudProviderTarget: {target}\n    minSize: {min}\n    maxSize: {max}\n{}",
        times(now)
    )?;
    text += "  scaleUp:\n";
    match backoff {
        Some(message) => {
            let message = message.replace(['"', '\n'], " ");
            text += "    status: Backoff\n    backoffInfo:\n      errorCode: timeout\n";
            writeln!(text, "      errorMessage: \"{message}\"")?;
        }
        None if scale_up.is_some() => text += "    status: InProgress\n",
        None => text += "    status: NoActivity\n",
    }
    // The time of the transition is the beginning of the scale-up.
    let began = (time - scale_up.unwrap_or_default()).strftime("%FT%TZ").to_string();
    writeln!(text, "    lastProbeTime: \"{now}\"\n    lastTransitionTime: \"{began}\"")?;
    text += &scale_down(*candidates, now);
    Ok(text)
}

fn counts(registered: usize, ready: usize, unregistered: usize) -> String {
    let not_started = registered - ready;
    format!(
        "    nodeCounts:
      registered:
        total: {registered}
        ready: {ready}
        notStarted: {not_started}
      longUnregistered: 0
      unregistered: {unregistered}
"
    )
}

fn scale_down(candidates: usize, now: &str) -> String {
    let status = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
    format!("  scaleDown:\n    status: {status}\n    candidates: {candidates}\n{}", times(now))
}

fn times(now: &str) -> String {
    format!("    lastProbeTime: \"{now}\"\n    lastTransitionTime: \"{now}\"\n")
}
