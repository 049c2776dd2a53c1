//! `prophet plan`: prints the decisions that the controller would make now.

use anyhow::bail;
use controller::cluster::{Controller, Leadership};
use controller::crd::OverprovisioningPolicyStatus;
use controller::explain::{Explain, status};
use serde::Serialize;
use serde_json::json;

use super::args::{ClusterArgs, PATIENCE, block_on};
use super::explain::describe;
use crate::cli::output;
use crate::cli::output::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  prophet plan --namespace batch
  prophet plan --namespace batch --data ./history --output json

The command writes nothing to the cluster. With --data, forecasters first learn from that history.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

#[derive(Serialize)]
struct Planned {
    policy: String,
    mode: controller::crd::Mode,
    #[serde(flatten)]
    status: OverprovisioningPolicyStatus,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let planned = block_on(async {
        let (client, config, source) = args.cluster.connect().await?;
        let namespaces = config.scope.namespaces.join(", ");
        let explain = Explain::new(client.clone());
        let mut controller = Controller::new(client, config, source, explain, Leadership::alone());
        let in_time = tokio::time::timeout(PATIENCE, controller.look()).await;
        let Ok(outcomes) = in_time else {
            bail!(
                "the watches of the cluster have not synced within {}s: {}",
                PATIENCE.as_secs(),
                controller.failing().join("; ")
            )
        };
        if outcomes.is_empty() {
            bail!("there is no OverprovisioningPolicy in {namespaces}");
        }
        Ok(outcomes)
    })?;
    let before = OverprovisioningPolicyStatus::default();
    let planned: Vec<Planned> = planned
        .into_iter()
        .map(|turn| Planned {
            policy: turn.key.to_string(),
            mode: turn.policy.spec.mode,
            status: status(&turn.policy, &turn.outcome, &before, turn.time),
        })
        .collect();
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            output::print_document(args.output, &json!({"policies": planned}))
        }
        OutputFormat::Table => {
            let texts: Vec<String> = planned
                .iter()
                .map(|Planned { policy, mode, status }| describe(policy, *mode, status, None))
                .collect();
            output::print(&texts.join("\n"))
        }
    }
}
