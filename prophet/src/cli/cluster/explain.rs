//! `prophet explain BUCKET`: the reasons for a bucket's number of placeholders.

use std::fmt::Write as _;

use anyhow::bail;
use controller::crd::{
    BucketStatus, ExpectedStatus, GroupStatus, Mode, OverprovisioningPolicyStatus, PlanStatus,
    PlannedDemandStatus, RolloutStatus, StepStatus, WarmPoolStatus,
};
use controller::observe::StoredPolicy;
use instances::PriceSource;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde::Serialize;
use serde_json::json;

use super::args::{KubeArgs, block_on};
use crate::cli::output;
use crate::cli::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  prophet explain m5.4xlarge --namespace batch
  prophet explain --all-namespaces
  prophet explain g5.48xlarge/spot --output json

The command prints the status that the running controller wrote last.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// The bucket: an instance type, followed by /spot for spot capacity [default: all buckets]
    bucket: Option<String>,
    #[command(flatten)]
    kube: KubeArgs,
    /// The namespace of the policies [default: the namespace of the kubeconfig context]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The policies of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

#[derive(Serialize)]
struct Explained {
    policy: String,
    #[serde(flatten)]
    bucket: BucketStatus,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let policies = block_on(async {
        let client = args.kube.connect().await?;
        let namespace =
            args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let (api, place): (Api<StoredPolicy>, _) = if args.all_namespaces {
            (Api::all(client), "any namespace")
        } else {
            (Api::namespaced(client, &namespace), namespace.as_str())
        };
        let policies = api.list(&ListParams::default()).await?.items;
        if policies.is_empty() {
            bail!("there is no OverprovisioningPolicy in {place}");
        }
        Ok(policies.into_iter().map(|StoredPolicy(policy)| policy))
    })?;
    let (mut found, mut planned) = (Vec::new(), Vec::new());
    let (mut text, mut known) = (String::new(), Vec::new());
    for policy in policies {
        let name = format!("{}/{}", policy.namespace().unwrap_or_default(), policy.name_any());
        let status = policy.status.clone().unwrap_or_default();
        planned.extend(status.planned.iter().cloned().map(|mut plan| {
            plan.status.policy = Some(name.clone());
            plan
        }));
        known.extend(status.buckets.iter().map(|bucket| bucket.name.clone()));
        let wanted = |bucket: &&BucketStatus| {
            args.bucket.as_ref().is_none_or(|wanted| *wanted == bucket.name)
        };
        let buckets: Vec<&BucketStatus> = status.buckets.iter().filter(wanted).collect();
        if args.bucket.is_none() || !buckets.is_empty() {
            text += &describe(&name, policy.spec.mode, &status, args.bucket.as_deref());
        }
        found.extend(
            buckets
                .into_iter()
                .map(|bucket| Explained { policy: name.clone(), bucket: bucket.clone() }),
        );
    }
    if let Some(wanted) = args.bucket.as_ref().filter(|_| found.is_empty()) {
        bail!("no policy's status has a bucket {wanted}; known buckets: {}", known.join(", "));
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            output::print_document(args.output, &json!({"buckets": found, "planned": planned}))
        }
        OutputFormat::Table => output::print(&text),
    }
}

/// Formats a policy's status as text: all buckets, or only the bucket `only`.
pub(super) fn describe(
    policy: &str,
    mode: Mode,
    status: &OverprovisioningPolicyStatus,
    only: Option<&str>,
) -> String {
    let mut text = format!("{policy} ({mode:?})\n");
    for condition in &status.conditions {
        let _ = writeln!(
            text,
            "  {}: {} ({}: {})",
            condition.type_, condition.status, condition.reason, condition.message
        );
    }
    if let Some(RolloutStatus { percent, phase, since, message, measured }) = &status.rollout {
        let _ = writeln!(text, "  rollout: {percent} % since {since} ({phase:?}: {message})");
        if !measured.is_empty() {
            let _ = writeln!(text, "    since then: {measured}");
        }
    }
    for bucket in status.buckets.iter().filter(|bucket| only.is_none_or(|only| only == bucket.name))
    {
        describe_bucket(bucket, &mut text);
    }
    for controller::crd::TierStatus { name, waiting, running } in &status.tiers {
        let _ = writeln!(text, "  tier {name}: {waiting} pods wait, {running} run");
    }
    for PlanStatus { name, status } in &status.planned {
        let PlannedDemandStatus { next, came, kept, message, .. } = status;
        let next = next.as_deref().unwrap_or("never");
        let _ = writeln!(text, "  planned {name} at {next}: {came} pods came; {message}");
        if let Some(kept) = kept {
            let _ = writeln!(text, "    of the pods that its author planned before, {kept} came");
        }
    }
    for ExpectedStatus { name, chance, pods, held } in &status.expected {
        let _ = writeln!(
            text,
            "  expected {name}: {pods} pods with a chance of {chance} within a launch; {held} count as \
             demand"
        );
    }
    for (reason, pods) in &status.held_back {
        let _ = writeln!(text, "  {pods} announced pods are not counted: {reason}");
    }
    for unplaced in &status.unplaced {
        let _ = writeln!(
            text,
            "  {} pods of {} fit nowhere: {}",
            unplaced.pods, unplaced.shape, unplaced.reason
        );
    }
    text
}

fn describe_bucket(bucket: &BucketStatus, text: &mut String) {
    let BucketStatus {
        name,
        price_per_hour,
        price_source,
        demand,
        announced,
        outlook,
        lead_seconds,
        forecast_since: _,
        expert,
        target,
        placeholders,
        ready,
        reason: _,
        steps,
        groups,
        warm_pool,
    } = bucket;
    let _ = writeln!(text, "  {name}: {placeholders} -> {target} placeholders, {ready} on nodes");
    if let (Some(dollars), Some(source)) = (price_per_hour, price_source) {
        let source = PriceSource::of_label(source).map_or(source.clone(), PriceSource::in_words);
        let _ = writeln!(text, "    price: ${dollars} an hour, from {source}");
    }
    let _ = writeln!(text, "    demand {demand} nodes, {announced} more announced");
    let quantiles: Vec<String> =
        outlook.iter().map(|(name, nodes)| format!("{name} {nodes}")).collect();
    let quantiles = quantiles.join(", ");
    let _ = writeln!(text, "    new nodes needed within {lead_seconds}s: {quantiles}");
    if !expert.is_empty() {
        let _ = writeln!(text, "    carrier of the forecast: {expert}");
    }
    for StepStatus { reason, target } in steps {
        let _ = writeln!(text, "    {reason}: {target}");
    }
    if let Some(WarmPoolStatus { target, prepared, preparing }) = warm_pool {
        let _ = writeln!(
            text,
            "    warm pools: {prepared} prepared and {preparing} being prepared, target {target}"
        );
    }
    for group in groups {
        let GroupStatus { name, target, placeholders, ready, launch_seconds, .. } = group;
        let failing = match &group.backoff_until {
            Some(until) => format!(", launches fail, next try {until}"),
            None if group.backoff => ", launches fail".to_owned(),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "    group {name}: {placeholders} -> {target}, {ready} on nodes; a launch takes {launch_seconds}s{failing}"
        );
    }
}
