//! What the commands that look at a cluster have in common: how to reach it, and where its groups are read from.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;

use super::output;
use crate::catalog::CatalogFile;
use crate::cluster::{Config, RemoteNetwork, Source};
use crate::crd::Allowed;
use crate::forecast::onnx;
use crate::observe::Scope;
use crate::record::Place;
use crate::span::Span;

/// How a cluster is looked at. Which cluster, says the environment: `KUBECONFIG`, or the pod's service account.
#[derive(clap::Args)]
pub(super) struct ClusterArgs {
    /// Namespaces whose policies count; that of the context, or of the pod, when absent
    #[arg(
        long = "namespace",
        short,
        value_name = "NAMESPACE",
        env = "PROPHET_NAMESPACES",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// Read Auto Scaling groups with these tags, spelled as cluster-autoscaler's flag: asg:tag=KEY,KEY=VALUE
    #[cfg(feature = "aws")]
    #[arg(
        long,
        value_name = "ASG:TAG=…",
        env = "PROPHET_NODE_GROUP_AUTO_DISCOVERY",
        conflicts_with = "catalog"
    )]
    node_group_auto_discovery: Option<crate::catalog::aws::Discovery>,
    /// Read groups of nodes from a file; from live nodes when there is no other source
    #[arg(long, value_name = "FILE", env = "PROPHET_CATALOG")]
    catalog: Option<PathBuf>,
    /// The node label that tells placement groups apart
    #[arg(
        long,
        value_name = "LABEL",
        env = "PROPHET_PLACEMENT_GROUP_LABEL",
        default_value = "prophet.dev/placement-group"
    )]
    placement_group_label: String,
    /// Where the history lies: a folder, or a prefix in S3, as `s3://BUCKET/PREFIX`; nothing is recorded when absent
    #[arg(long, value_name = "PLACE", env = "PROPHET_DATA")]
    data: Option<String>,
    /// The network that forecasts hear: a file, or `s3://BUCKET/PREFIX/FILE`, read anew when it changes; the one that is shipped when
    /// absent
    #[arg(long, value_name = "PLACE", env = "PROPHET_MODEL")]
    model: Option<String>,
    /// The library of ONNX Runtime to run it with; the embedded engine when absent
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// The launch latency to reckon with until launches were seen
    #[arg(long, value_name = "TIME", env = "PROPHET_LAUNCH_LATENCY", default_value = "3m")]
    launch_latency: Span,
    /// cluster-autoscaler's flag of the same name: it ignores pods whose priority is below
    #[arg(long, value_name = "PRIORITY", default_value_t = -10, allow_negative_numbers = true)]
    expendable_pods_priority_cutoff: i32,
    /// The namespace of cluster-autoscaler's status
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    autoscaler_namespace: String,
    /// Policies may warm data into folders of the node below this one; into none when absent
    #[arg(long, value_name = "FOLDER", env = "PROPHET_WARM_HOST_PATH_PREFIX")]
    warm_host_path_prefix: Option<String>,
}

impl ClusterArgs {
    /// The client and the configuration that they mean.
    pub(super) async fn connect(self) -> anyhow::Result<(Client, Config)> {
        let client = connect().await?;
        let namespaces = if self.namespaces.is_empty() {
            vec![client.default_namespace().to_owned()]
        } else {
            self.namespaces.clone()
        };
        if let Some(library) = &self.onnx_runtime {
            onnx::start(Some(library))?;
        }
        let data = self.data.as_deref().map(Place::open).transpose()?;
        let config = Config {
            scope: Scope { namespaces, autoscaler_namespace: self.autoscaler_namespace.clone() },
            data,
            source: self.source().await?,
            placement_group_label: self.placement_group_label,
            launch_seconds: self.launch_latency.as_seconds(),
            priority_cutoff: self.expendable_pods_priority_cutoff,
            allowed: Allowed { host_path_prefix: self.warm_host_path_prefix },
            network: network(self.model.as_deref()).await?,
        };
        Ok((client, config))
    }

    async fn source(&self) -> anyhow::Result<Source> {
        if let Some(path) = &self.catalog {
            let file = CatalogFile::parse(&output::read_text(path)?);
            let file = file.with_context(|| path.display().to_string())?;
            file.node_groups(&self.placement_group_label).with_context(|| path.display().to_string())?;
            return Ok(Source::File(file));
        }
        #[cfg(feature = "aws")]
        if let Some(discovery) = &self.node_group_auto_discovery {
            use crate::catalog::aws::{AwsCatalog, clients};
            return Ok(Source::Aws(Box::new(AwsCatalog::new(clients(None).await, discovery.clone()))));
        }
        std::future::ready(Ok(Source::Nodes)).await
    }
}

/// The network of an address. What is wrong with the file costs nothing but its vote; an address that is none is an error.
async fn network(address: Option<&str>) -> anyhow::Result<onnx::Source> {
    let Some(address) = address else { return Ok(onnx::Source::Pretrained) };
    if !address.contains("://") {
        return Ok(onnx::Source::File(address.into()));
    }
    let mut remote = RemoteNetwork::new(address)?;
    let slot = remote.slot();
    remote.fetch().await;
    tokio::spawn(remote.watch());
    Ok(onnx::Source::Slot(slot))
}

/// How long a command that looks once waits until the cluster has told all.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// A client of the cluster that the environment names.
pub(super) async fn connect() -> anyhow::Result<Client> {
    Client::try_default().await.context("failed to find a cluster: set KUBECONFIG, or run in a pod")
}

/// Runs a command that waits for a cluster.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start")?;
    runtime.block_on(work)
}
