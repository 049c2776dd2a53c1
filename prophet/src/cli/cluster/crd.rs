//! `prophet crd`: prints the objects that must exist in a cluster before the controller starts.

use controller::cluster::{PRIORITIES, priority_class};
use controller::crd::definitions;
use serde_json::{Value, json};

use crate::cli::output;

const EXAMPLES: &str = "\
Examples:
  prophet crd | kubectl apply -f -
  prophet crd --without-priority-classes > crd.json

Prints the CustomResourceDefinitions of OverprovisioningPolicy and PlannedDemand, and the PriorityClasses that rank
placeholders by price, as a list in JSON.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// Print only the CustomResourceDefinitions
    #[arg(long)]
    without_priority_classes: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let definitions = definitions()?.to_vec();
    if args.without_priority_classes {
        return output::print_json(&list(definitions));
    }
    let classes = (PRIORITIES.0..=PRIORITIES.1).map(|value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": priority_class(value)},
            "value": value, "preemptionPolicy": "Never", "globalDefault": false,
            "description": "Placeholders of Prophet: real pods preempt them, the cheapest bucket's first.",
        })
    });
    output::print_json(&list(definitions.into_iter().chain(classes).collect()))
}
