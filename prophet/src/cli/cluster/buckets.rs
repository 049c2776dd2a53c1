//! `prophet catalog` without a subcommand: lists the buckets that a cluster offers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use controller::catalog::{Offer, Offers};
use controller::cluster::{Controller, Leadership};
use controller::explain::Explain;
use embedder::{Bucket, CapacityType, Resource, UNLIMITED};
use instances::PriceSource;
use serde_json::{Value, json};

use super::args::{ClusterArgs, PATIENCE, block_on};
use crate::cli::output;
use crate::cli::output::OutputFormat;

#[derive(clap::Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

pub(in crate::cli) fn run(args: ListArgs) -> anyhow::Result<()> {
    let offers = block_on(async {
        let (client, config, source) = args.cluster.connect().await?;
        let explain = Explain::new(client.clone());
        let mut controller = Controller::new(client, config, source, explain, Leadership::alone());
        match tokio::time::timeout(PATIENCE, controller.catalog()).await {
            Ok(offers) => offers.context("failed to read the groups of nodes"),
            Err(_) => bail!(
                "the watches of the cluster have not synced within {}s: {}",
                PATIENCE.as_secs(),
                controller.failing().join("; ")
            ),
        }
    })?;
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            let all = offers.catalog.buckets().iter().zip(&offers.groups).zip(&offers.prices);
            let buckets: Vec<Value> =
                all.map(|((bucket, groups), source)| as_json(bucket, groups, *source)).collect();
            output::print_document(
                args.output,
                &json!({"buckets": buckets, "problems": offers.problems}),
            )
        }
        OutputFormat::Table => output::print(&as_table(&offers)),
    }
}

fn as_json(bucket: &Bucket, offers: &[Offer], source: PriceSource) -> Value {
    let resources: serde_json::Map<String, Value> = Resource::ALL
        .into_iter()
        .zip(bucket.allocatable.components())
        .filter(|(_, amount)| *amount != UNLIMITED)
        .map(|(resource, amount)| (resource.label().to_owned(), json!(amount)))
        .collect();
    let groups = bucket.groups.iter().zip(offers).map(|(group, offer)| {
        json!({
            "name": group.name, "members": offer.members, "placement_group": group.placement_group, "min": group.min,
            "max": (group.max != UNLIMITED).then_some(group.max), "pins": offer.pins,
            "taints": offer.taints.iter().map(|t| format!("{}={}:{}", t.key, t.value, t.effect)).collect::<Vec<_>>(),
        })
    });
    json!({
        "name": bucket.name, "capacity_type": bucket.capacity_type, "allocatable": resources,
        "dollars_per_hour": bucket.hourly.dollars(), "price_source": source,
        "price_date": source.is_listed().then(instances::prices_date), "groups": groups.collect::<Vec<_>>(),
    })
}

fn as_table(offers: &Offers) -> String {
    let mut text = format!(
        "{:<24} {:>5} {:>9} {:>11} {:>6} {:>12}  groups\n",
        "bucket", "accel", "cpu", "memory GiB", "pods", "dollars/hour"
    );
    let shown = |amount: u64, of: f64| {
        if amount == UNLIMITED { "-".into() } else { format!("{:.1}", amount as f64 / of) }
    };
    for bucket in offers.catalog.buckets() {
        let has = bucket.allocatable;
        let groups: Vec<String> = bucket
            .groups
            .iter()
            .map(|group| {
                let most =
                    if group.max == UNLIMITED { String::new() } else { group.max.to_string() };
                let placement = group
                    .placement_group
                    .as_ref()
                    .map(|name| format!(" in {name}"))
                    .unwrap_or_default();
                format!("{} {}..{most}{placement}", group.name, group.min)
            })
            .collect();
        let spot = if bucket.capacity_type == CapacityType::Spot { " (spot)" } else { "" };
        let _ = writeln!(
            text,
            "{:<24} {:>5} {:>9} {:>11} {:>6} {:>12.3}  {}{spot}",
            bucket.name,
            has.accelerators,
            shown(has.cpu_millis, 1_000.0),
            shown(has.memory_bytes, f64::from(1 << 30)),
            if has.pods == UNLIMITED { "-".into() } else { has.pods.to_string() },
            bucket.hourly.dollars(),
            groups.join(", ")
        );
    }
    let sources: BTreeSet<PriceSource> = offers.prices.iter().copied().collect();
    for source in sources {
        let all = offers.catalog.buckets().iter().zip(&offers.prices);
        let names = all.filter(|(_, of)| **of == source).map(|(bucket, _)| bucket.name.as_str());
        let names: Vec<&str> = names.collect();
        let _ = writeln!(text, "prices of {}: {}", names.join(", "), source.in_words());
    }
    for problem in &offers.problems {
        let _ = writeln!(text, "! {problem}");
    }
    text
}
