//! Shared by the commands that read a cluster: the client, and the sources of groups, history and
//! model.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base::span::Span;
use controller::cluster::Allowed;
use controller::cluster::{Config, GroupSource, PriceReader, RemoteModel};
use controller::observe::{Scope, StoredPolicy, WATCH_SECONDS};
use demand::forecast::onnx;
use embedder::MicroDollars;
use history::Place;
use instances::PriceRules;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use placeholders::Ceiling;

use crate::cli::input;

/// The cluster of a command, as kubectl's options of the same names select it.
#[derive(clap::Args)]
pub(super) struct KubeArgs {
    /// The kubeconfig file [default: that of KUBECONFIG, else ~/.kube/config, else the service
    /// account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// The cluster of a command, and the namespaces whose policies it uses.
#[derive(clap::Args)]
pub(super) struct NamespacesArg {
    #[command(flatten)]
    kube: KubeArgs,
    /// The namespaces of the policies [default: the namespace of the kubeconfig context or of the
    /// pod]
    #[arg(
        long = "namespace",
        short,
        value_name = "NAMESPACE",
        env = "PROPHET_NAMESPACES",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// All namespaces that have a policy when the command starts
    #[arg(long, short = 'A', conflicts_with = "namespaces")]
    all_namespaces: bool,
}

impl NamespacesArg {
    /// A client of the cluster.
    ///
    /// # Errors
    /// See [`KubeArgs::connect`].
    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        self.kube.connect().await
    }

    /// Whether the policies of all namespaces are meant.
    pub(super) fn are_all(&self) -> bool {
        self.all_namespaces
    }

    /// The given namespaces, those that have a policy, or the default one of the client.
    ///
    /// # Errors
    /// The policies of all namespaces cannot be listed, or there is none.
    pub(super) async fn or_default(self, client: &Client) -> anyhow::Result<Vec<String>> {
        if self.all_namespaces {
            let api: Api<StoredPolicy> = Api::all(client.clone());
            let policies = api.list(&ListParams::default()).await?;
            let found: BTreeSet<String> = policies
                .items
                .iter()
                .filter_map(|StoredPolicy(policy)| policy.namespace())
                .collect();
            anyhow::ensure!(
                !found.is_empty(),
                "there is no OverprovisioningPolicy in any namespace"
            );
            return Ok(found.into_iter().collect());
        }
        if self.namespaces.is_empty() {
            return Ok(vec![client.default_namespace().to_owned()]);
        }
        Ok(self.namespaces)
    }
}

/// The most placeholders of all policies where no limit is given and none is required.
const PLACEHOLDERS_DEFAULT: u64 = 1_000;

/// The options of the commands that read a cluster.
#[derive(clap::Args)]
pub(super) struct ClusterArgs {
    #[command(flatten)]
    namespaces: NamespacesArg,
    /// Read the Auto Scaling groups that have these tags, in the syntax of cluster-autoscaler's
    /// flag: asg:tag=KEY,KEY=VALUE
    #[cfg(feature = "aws")]
    #[arg(
        long,
        value_name = "ASG:TAG=…",
        env = "PROPHET_NODE_GROUP_AUTO_DISCOVERY",
        conflicts_with = "catalog"
    )]
    node_group_auto_discovery: Option<controller::catalog::aws::Discovery>,
    /// How the VPC CNI gives addresses to pods, which limits the pods on a node of a group that has
    /// none yet: prefix-delegation, custom-networking, or both with a comma [default: an address of
    /// an interface for each pod]
    #[cfg(feature = "aws")]
    #[arg(
        long,
        value_name = "WAYS",
        env = "PROPHET_POD_ADDRESSES",
        requires = "node_group_auto_discovery"
    )]
    pod_addresses: Option<instances::PodAddresses>,
    /// Read the groups of nodes from a YAML file [default: derive them from the live nodes]
    #[arg(long, value_name = "FILE", env = "PROPHET_CATALOG")]
    catalog: Option<PathBuf>,
    /// What you pay for instances, as YAML: prices by instance type, or a percentage [default: the
    /// prices of the catalog file, else those of the built-in table]
    #[arg(long, value_name = "FILE", env = "PROPHET_PRICES")]
    prices: Option<PathBuf>,
    /// Whether to read the prices of the instance types on offer from AWS: on-demand prices from
    /// the Price List service, spot prices from their history, and the capacity reservations that
    /// --prices names [default: true with --node-group-auto-discovery, because it needs the
    /// credentials of AWS]
    #[cfg(feature = "aws")]
    #[arg(long, value_name = "BOOL", env = "PROPHET_AWS_PRICES", conflicts_with = "catalog")]
    aws_prices: Option<bool>,
    /// The node label whose value is the node's placement group
    #[arg(
        long,
        value_name = "LABEL",
        env = "PROPHET_PLACEMENT_GROUP_LABEL",
        default_value = "prophet.dev/placement-group"
    )]
    placement_group_label: String,
    /// The key of a taint that nodes have only until they are set up, as in cluster-autoscaler's
    /// flag of the same name; can be given several times
    #[arg(
        long = "startup-taint",
        value_name = "KEY",
        env = "PROPHET_STARTUP_TAINTS",
        value_delimiter = ','
    )]
    startup_taints: Vec<String>,
    /// The name of a scheduler whose pods preempt placeholders, in addition to default-scheduler;
    /// can be given several times. Pods of other schedulers are not counted
    #[arg(
        long = "preempting-scheduler",
        value_name = "NAME",
        env = "PROPHET_PREEMPTING_SCHEDULERS",
        value_delimiter = ','
    )]
    preempting_schedulers: Vec<String>,
    /// The location of the history: a folder, or a prefix in S3 as `s3://BUCKET/PREFIX` [default:
    /// no history is recorded]
    #[arg(long, value_name = "PLACE", env = "PROPHET_DATA")]
    data: Option<String>,
    /// The most days that the history keeps, at least 30: forecasts learn from the last 14. Once a
    /// day, the oldest day beyond them is removed
    #[arg(
        long,
        value_name = "DAYS",
        env = "PROPHET_RETENTION_DAYS",
        default_value_t = 180,
        value_parser = clap::value_parser!(u32).range(30..)
    )]
    retention_days: u32,
    /// Record the namespaces and names of the jobs of finished pods in the history
    #[arg(long, env = "PROPHET_RECORD_NAMES")]
    record_names: bool,
    /// A trained model, which the ensemble also follows: a file, or `s3://BUCKET/PREFIX/FILE`,
    /// reloaded when it changes. Without one, the method onnx runs the shipped model
    #[arg(long, value_name = "PLACE", env = "PROPHET_MODEL")]
    model: Option<String>,
    /// The ONNX Runtime library that runs the model [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// The launch latency that is assumed until launches have been observed
    #[arg(long, value_name = "TIME", env = "PROPHET_LAUNCH_LATENCY", default_value = "3m")]
    launch_latency: Span,
    /// The value of cluster-autoscaler's flag of the same name, or of Karpenter's consolidateAfter:
    /// how long an unneeded node stays. Pools of Karpenter and groups with the tag
    /// autoscaling-options/scaledownunneededtime have their own time
    #[arg(
        long,
        value_name = "TIME",
        env = "PROPHET_SCALE_DOWN_UNNEEDED_TIME",
        default_value = "10m"
    )]
    scale_down_unneeded_time: Span,
    /// The value of cluster-autoscaler's flag of the same name: it ignores pods with a lower
    /// priority
    #[arg(long, value_name = "PRIORITY", default_value_t = -10, allow_negative_numbers = true)]
    expendable_pods_priority_cutoff: i32,
    /// The namespace of cluster-autoscaler's status ConfigMap
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    autoscaler_namespace: String,
    /// The most placeholders of all policies together. Older policies come first [default: 1000,
    /// and no limit with --require-limits]
    #[arg(long, value_name = "NUMBER", env = "PROPHET_MAX_PLACEHOLDERS")]
    max_placeholders: Option<u64>,
    /// Refuse a policy in the mode Act without a limit: its own, --max-placeholders or
    /// --max-dollars-per-hour. The chart sets this option
    #[arg(long, env = "PROPHET_REQUIRE_LIMITS")]
    require_limits: bool,
    /// The most that the placeholders of all policies together may cost [default: no limit]
    #[arg(
        long,
        value_name = "DOLLARS",
        env = "PROPHET_MAX_DOLLARS_PER_HOUR",
        value_parser = dollars
    )]
    max_dollars_per_hour: Option<MicroDollars>,
    /// An instance type that policies may use, in which `*` stands for any characters; can be given
    /// several times [default: all]
    #[arg(
        long = "allowed-instance-type",
        value_name = "TYPE",
        env = "PROPHET_ALLOWED_INSTANCE_TYPES",
        value_delimiter = ','
    )]
    allowed_instance_types: Vec<String>,
    /// The highest value of a PriorityClass that placeholders may have
    #[arg(
        long,
        value_name = "PRIORITY",
        env = "PROPHET_MAX_PLACEHOLDER_PRIORITY",
        default_value_t = -1,
        allow_negative_numbers = true
    )]
    max_placeholder_priority: i32,
    /// The image of the placeholders of policies that name no other one, such as the pause image in
    /// a registry of yours [default: Kubernetes' pause image]
    #[arg(long, value_name = "IMAGE", env = "PROPHET_PLACEHOLDER_IMAGE")]
    placeholder_image: Option<String>,
    /// The most writes of placeholders a minute; the others wait. Statuses and Events of policies
    /// have a limit of their own: 300 a minute
    #[arg(
        long,
        value_name = "NUMBER",
        env = "PROPHET_MAX_WRITES_PER_MINUTE",
        default_value_t = 1_200,
        value_parser = clap::value_parser!(u32).range(10..)
    )]
    max_writes_per_minute: u32,
    /// The node folder in whose direct subfolders policies may warm data [default: policies may not
    /// warm data]
    #[arg(long, value_name = "FOLDER", env = "PROPHET_WARM_HOST_PATH_PREFIX")]
    warm_host_path_prefix: Option<String>,
}

impl ClusterArgs {
    /// Connects to the cluster, and converts the options into a configuration and the source of the
    /// groups of nodes.
    pub(super) async fn connect(self) -> anyhow::Result<(Client, Config, GroupSource)> {
        let client = self.namespaces.connect().await?;
        if let Some(library) = &self.onnx_runtime {
            onnx::start(Some(library))?;
        }
        let data = self.data.as_deref().map(Place::open).transpose()?;
        let given = self.prices.as_deref().map(input::prices).transpose()?;
        let source = self.source(given.as_ref()).await?;
        let price_reader = self.price_reader().await?;
        let prices = match (given, &source) {
            (Some(prices), _) => prices,
            (None, GroupSource::File(file)) => file.prices.clone(),
            (None, _) => PriceRules::default(),
        };
        if price_reader.is_none()
            && let Some((at, _)) = prices.reservations().next()
        {
            anyhow::bail!(
                "prices[{at}].reservation: capacity reservations are only read together with prices of AWS, which need a region and no --catalog: give --aws-prices true, or the number of instances as prepaid"
            );
        }
        let config = Config {
            scope: Scope {
                namespaces: self.namespaces.or_default(&client).await?,
                off_switch_namespace: None,
                autoscaler_namespace: self.autoscaler_namespace.clone(),
                karpenter: matches!(source, GroupSource::Nodes),
                usage: false,
            },
            data,
            own_history: false,
            stuck_after: Duration::from_secs(STUCK_AFTER.as_seconds().unsigned_abs()),
            retention_days: self.retention_days,
            record_names: self.record_names,
            placement_group_label: self.placement_group_label,
            startup_taints: self.startup_taints.into_iter().collect(),
            prices,
            price_reader,
            launch_seconds: self.launch_latency.as_seconds(),
            unneeded_seconds: self.scale_down_unneeded_time.as_seconds(),
            priority_cutoff: self.expendable_pods_priority_cutoff,
            writes_per_minute: self.max_writes_per_minute,
            allowed: Allowed {
                needs_limit: self.require_limits,
                host_path_prefix: self.warm_host_path_prefix,
                preempting_schedulers: self.preempting_schedulers.into_iter().collect(),
                instance_types: self.allowed_instance_types,
                ceiling: Ceiling {
                    placeholders: self
                        .max_placeholders
                        .or((!self.require_limits).then_some(PLACEHOLDERS_DEFAULT)),
                    hourly: self.max_dollars_per_hour,
                },
                placeholder_priority_max: self.max_placeholder_priority,
                placeholder_image: self.placeholder_image,
            },
            model: model_source(self.model.as_deref()).await?,
            simulate_if_acted: Some(Arc::new(super::if_acted::simulate)),
        };
        Ok((client, config, source))
    }

    async fn source(&self, prices: Option<&PriceRules>) -> anyhow::Result<GroupSource> {
        if let Some(path) = &self.catalog {
            let file = input::catalog_with(path, prices)?;
            controller::catalog::file_groups(&file, &self.placement_group_label)
                .with_context(|| path.display().to_string())?;
            return Ok(GroupSource::File(file));
        }
        #[cfg(feature = "aws")]
        if let Some(discovery) = &self.node_group_auto_discovery {
            use controller::catalog::aws::{AwsCatalog, DEADLINE, clients};
            let clients = clients(None, None).await;
            let catalog = AwsCatalog::new(clients, discovery.clone(), DEADLINE);
            let catalog = catalog.with_pod_addresses(self.pod_addresses.unwrap_or_default());
            return Ok(GroupSource::Aws(Box::new(catalog)));
        }
        std::future::ready(Ok(GroupSource::Nodes)).await
    }

    #[cfg(feature = "aws")]
    async fn price_reader(&self) -> anyhow::Result<Option<PriceReader>> {
        if !self.aws_prices.unwrap_or(self.node_group_auto_discovery.is_some()) {
            return Ok(None);
        }
        let reader = PriceReader::new(controller::catalog::aws::clients(None, None).await);
        // Without a region, the calls for the groups fail, too, with an error of their own.
        anyhow::ensure!(
            reader.is_some() || self.aws_prices.is_none(),
            "no region is configured for AWS, so its prices cannot be read: set AWS_REGION"
        );
        Ok(reader)
    }

    #[cfg(not(feature = "aws"))]
    async fn price_reader(&self) -> anyhow::Result<Option<PriceReader>> {
        std::future::ready(Ok(None)).await
    }
}

/// The source of the model at an address: a path or an S3 URL; without one, the shipped model.
///
/// A faulty file is no error here: the model then takes no part in forecasts.
///
/// # Errors
/// The address is malformed.
async fn model_source(address: Option<&str>) -> anyhow::Result<onnx::ModelSource> {
    let Some(address) = address else { return Ok(onnx::ModelSource::Pretrained) };
    if !address.contains("://") {
        return Ok(onnx::ModelSource::File(address.into()));
    }
    let mut remote = RemoteModel::new(address)?;
    let slot = remote.slot();
    remote.fetch().await;
    tokio::spawn(remote.watch());
    Ok(onnx::ModelSource::Slot(slot))
}

/// How long a controller may be without progress by default: 5 minutes. A turn takes seconds, and
/// each request has a time limit.
pub(super) const STUCK_AFTER: Span = Span::seconds(300);

/// How long `plan` and `catalog` wait until all watches of the cluster have synced.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// How much longer than a watch a connection to the API server may be silent, in seconds. A watch
/// may have no event from its start to its end.
const SILENCE_SECONDS: u32 = 15;

impl KubeArgs {
    /// A client of the cluster.
    ///
    /// # Errors
    /// There is neither a kubeconfig nor a service account, or the kubeconfig lacks the context.
    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        // The message of the error contains its causes, so they are not added.
        let none = |error: &dyn std::fmt::Display| {
            anyhow!(
                "failed to find a cluster: set KUBECONFIG, give --kubeconfig, or run in a pod: {error}"
            )
        };
        let inferred = match (&self.kubeconfig, &self.context) {
            (None, None) => {
                let inferred = kube::Config::infer().await;
                inferred.map_err(|error| none(&kube::Error::InferConfig(error)))
            }
            (path, context) => {
                let read = path.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
                let read = read.map_err(|error| none(&error))?;
                let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
                let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| none(&error))
            }
        };
        let mut config = inferred?;
        config.read_timeout = Some(Duration::from_secs((WATCH_SECONDS + SILENCE_SECONDS).into()));
        // Otherwise the time for which a connection was idle before a request counts, too.
        config.reset_reader_on_write = true;
        Client::try_from(config).map_err(|error| none(&error))
    }
}

fn dollars(text: &str) -> Result<MicroDollars, String> {
    let dollars = text.parse().ok().and_then(MicroDollars::from_dollars);
    dollars.ok_or_else(|| format!("expected dollars between 0 and a billion, got {text:?}"))
}

/// Runs an asynchronous command to its end, on a multi-threaded runtime.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start")?;
    let done = runtime.block_on(work);
    // A read of the history that hangs must not keep the process from ending.
    runtime.shutdown_background();
    done
}
