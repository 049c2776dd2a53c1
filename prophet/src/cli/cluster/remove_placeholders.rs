//! `prophet remove-placeholders`: deletes all placeholders before an uninstallation.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use controller::cluster::Election;
#[cfg(feature = "aws")]
use controller::cluster::Leadership;

use super::args::{NamespacesArg, block_on};
use crate::cli::output;

const EXAMPLES: &str = "\
Examples:
  prophet remove-placeholders --namespace prophet
  prophet remove-placeholders --namespace prophet,batch --leader-elect-namespace prophet
  prophet remove-placeholders --node-group-auto-discovery asg:tag=k8s.io/cluster-autoscaler/CLUSTER

The command takes the Lease of the controller first, so that a controller with --leader-elect that
still runs does not create the placeholders again at once. Policies stay, so stop the controller
within 15 seconds after the command. With --node-group-auto-discovery, it also restores the warm
pools that the policies sized. The chart runs the command before an uninstallation.";

/// The time limit for the deletions in one namespace.
const LIMIT: Duration = Duration::from_mins(1);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    namespaces: NamespacesArg,
    /// The namespace of the Lease [default: the namespace of the kubeconfig context or of the pod]
    #[arg(long, value_name = "NAMESPACE", env = "PROPHET_LEADER_ELECT_NAMESPACE")]
    leader_elect_namespace: Option<String>,
    /// Also restore the warm pools of the Auto Scaling groups that have these tags, in the syntax
    /// of cluster-autoscaler's flag: asg:tag=KEY,KEY=VALUE
    #[cfg(feature = "aws")]
    #[arg(long, value_name = "ASG:TAG=…", env = "PROPHET_NODE_GROUP_AUTO_DISCOVERY")]
    node_group_auto_discovery: Option<controller::catalog::aws::Discovery>,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    block_on(async {
        let client = args.namespaces.connect().await?;
        let lease_namespace = args.leader_elect_namespace.as_deref();
        let lease_namespace = lease_namespace.unwrap_or_else(|| client.default_namespace());
        let election = Election::new(client.clone(), lease_namespace, "remove-placeholders");
        let leadership = election.seize().await.context("failed to take the Lease")?;
        let namespaces = args.namespaces.or_default(&client).await?;
        for namespace in &namespaces {
            let current = Arc::clone(&leadership);
            let may_write = Arc::new(move || current.leads());
            let actuator = controller::actuate::Actuator::new(client.clone(), namespace, may_write);
            let removed = tokio::time::timeout(LIMIT, actuator.remove_all()).await;
            let removed = removed.context("no response of the API server in time")??;
            ensure!(
                leadership.leads(),
                "another replica took the Lease, so placeholders may remain"
            );
            output::print(&format!(
                "{namespace}: {removed} ReplicaSets and CapacityBuffers deleted\n"
            ))?;
        }
        #[cfg(feature = "aws")]
        if let Some(discovery) = args.node_group_auto_discovery {
            restore_pools(discovery, namespaces, &leadership).await?;
        }
        Ok(())
    })
}

/// Restores the warm pools of groups as they were before a policy of these namespaces sized them.
#[cfg(feature = "aws")]
async fn restore_pools(
    discovery: controller::catalog::aws::Discovery,
    namespaces: Vec<String>,
    leadership: &Leadership,
) -> anyhow::Result<()> {
    use controller::catalog::aws::{AwsCatalog, DEADLINE, clients};
    use controller::catalog::{StandingPools, WantedPools};

    let mut groups = AwsCatalog::new(clients(None, None).await, discovery, DEADLINE);
    if let Err(error) = groups.node_groups().await {
        // An installation without warm pools may have no credentials here. The pools are known
        // even if a later call failed.
        let error = anyhow::Error::from(error);
        eprintln!("note: warm pools that were not read are not restored: {error:#}");
    }
    let namespaces = namespaces.into_iter().collect();
    let wanted = WantedPools { namespaces, ..WantedPools::default() };
    let limit = || leadership.write_limit();
    let pools = groups.follow_pools(Some(&wanted), &limit, &StandingPools::default()).await;
    let faults = pools.faults.iter().map(|(group, fault)| format!("{group}: {fault}"));
    let faults: Vec<String> = faults.collect();
    ensure!(faults.is_empty(), "warm pools not restored: {}", faults.join("; "));
    ensure!(leadership.leads(), "another replica took the Lease, so warm pools may remain");
    Ok(())
}
