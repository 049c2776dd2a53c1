//! `prophet off` and `prophet on`: the off switch of all policies.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use controller::actuate::Actuator;
use controller::cluster::{switch_off, switch_on};
use controller::observe::OFF_SWITCH;
use kube::Client;

use super::args::{NamespacesArg, block_on};
use crate::cli::output;

const OFF_EXAMPLES: &str = "\
Examples:
  prophet off --namespace prophet
  prophet off --namespace prophet,batch

The command creates the ConfigMap prophet-off in the namespace of the controller, and deletes the
placeholders of the namespaces. While the ConfigMap exists, every replica of the controller deletes
placeholders within 10 seconds, whether it leads or not, and policies only observe and learn. With
no controller at all, kubectl does the same:
  kubectl create configmap prophet-off --namespace prophet
  kubectl delete replicasets --all-namespaces --selector app.kubernetes.io/managed-by=prophet";

const ON_EXAMPLES: &str = "\
Examples:
  prophet on --namespace prophet

The command deletes the ConfigMap prophet-off.";

/// The time limit for the deletions in one namespace.
const LIMIT: Duration = Duration::from_mins(1);

/// The time after which a write that a controller began before the switch was set has ended.
const LAST_WRITE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
struct SwitchArgs {
    #[command(flatten)]
    namespaces: NamespacesArg,
    /// The namespace of the controller [default: the first namespace of the policies]
    #[arg(long, value_name = "NAMESPACE", env = "PROPHET_LEADER_ELECT_NAMESPACE")]
    controller_namespace: Option<String>,
}

impl SwitchArgs {
    /// The namespaces of the policies, and the one of the controller.
    async fn or_default(self, client: &Client) -> anyhow::Result<(Vec<String>, String)> {
        anyhow::ensure!(
            !self.namespaces.are_all() || self.controller_namespace.is_some(),
            "--all-namespaces needs --controller-namespace: the switch is in the namespace of the controller"
        );
        let namespaces = self.namespaces.or_default(client).await?;
        let first = || namespaces.first().cloned().unwrap_or_default();
        let controller = self.controller_namespace.unwrap_or_else(first);
        Ok((namespaces, controller))
    }
}

#[derive(clap::Args)]
#[command(after_help = OFF_EXAMPLES)]
pub(in crate::cli) struct OffArgs {
    #[command(flatten)]
    switch: SwitchArgs,
}

#[derive(clap::Args)]
#[command(after_help = ON_EXAMPLES)]
pub(in crate::cli) struct OnArgs {
    #[command(flatten)]
    switch: SwitchArgs,
}

pub(super) fn off(args: OffArgs) -> anyhow::Result<()> {
    block_on(async {
        let client = args.switch.namespaces.connect().await?;
        let (namespaces, at) = args.switch.or_default(&client).await?;
        let set = switch_off(client.clone(), &at).await;
        let set = set.with_context(|| format!("failed to create the ConfigMap {at}/{OFF_SWITCH}"));
        let how = if set? { "is set" } else { "was set already" };
        output::print(&format!("off: the ConfigMap {at}/{OFF_SWITCH} {how}\n"))?;
        let mut removed = remove(&client, &namespaces).await?;
        // A controller that saw the switch late may have written once more.
        tokio::time::sleep(LAST_WRITE).await;
        removed += remove(&client, &namespaces).await?;
        tokio::time::sleep(LAST_WRITE).await;
        let again = remove(&client, &namespaces).await?;
        anyhow::ensure!(
            again == 0,
            "{again} ReplicaSets or CapacityBuffers of placeholders were created again: is {at} the namespace of the controller? Give it by --controller-namespace"
        );
        let namespaces = namespaces.join(", ");
        output::print(&format!(
            "{removed} ReplicaSets and CapacityBuffers of placeholders deleted in {namespaces}\n\
            The policies hold no placeholders until `prophet on`.\n"
        ))
    })
}

async fn remove(client: &Client, namespaces: &[String]) -> anyhow::Result<usize> {
    let (mut removed, mut first) = (0, None);
    for namespace in namespaces {
        let actuator = Actuator::new(client.clone(), namespace, Arc::new(|| true));
        let done = tokio::time::timeout(LIMIT, actuator.remove_all()).await;
        match done.context("no response of the API server in time") {
            Ok(Ok(count)) => removed += count,
            Ok(Err(error)) => _ = first.get_or_insert(error.into()),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    first.map_or(Ok(removed), Err)
}

pub(super) fn on(args: OnArgs) -> anyhow::Result<()> {
    block_on(async {
        let client = args.switch.namespaces.connect().await?;
        let (_, at) = args.switch.or_default(&client).await?;
        let removed = switch_on(client, &at).await;
        let removed =
            removed.with_context(|| format!("failed to delete the ConfigMap {at}/{OFF_SWITCH}"));
        output::print(if removed? {
            "on: the policies act as their mode says\n"
        } else {
            "on: the policies were not switched off\n"
        })
    })
}
