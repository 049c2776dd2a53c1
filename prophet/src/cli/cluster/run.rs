//! `prophet run`: the controller.

use std::io::IsTerminal as _;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use base::span::Span;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::args::{ClusterArgs, block_on};
use controller::cluster::Reviewer;
use controller::cluster::{Controller, Election, Leadership};
use controller::explain::Explain;

const EXAMPLES: &str = "\
Examples:
  prophet run --namespace batch --data ./history
  prophet run --node-group-auto-discovery asg:tag=k8s.io/cluster-autoscaler/enabled --data s3://logs/prophet
  PROPHET_LOG=debug prophet run --catalog types.yaml --log-format json

A policy writes no placeholders until its mode is Act: see `prophet crd` and `prophet plan`.
After SIGTERM the controller completes the current turn and exits. Standing placeholders stay.
Of several replicas with --leader-elect, one writes, and the others stand by.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The address on which health, readiness, metrics and the dashboard are served
    #[arg(long, value_name = "ADDRESS", env = "PROPHET_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Serve over TLS with the certificate chain in this PEM file, which is read again when it
    /// changes
    #[arg(long, value_name = "FILE", env = "PROPHET_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The PEM file of the certificate's key
    #[arg(long, value_name = "FILE", env = "PROPHET_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve metrics and the dashboard only to bearer tokens whose user may get the path, as the
    /// API server decides. The probes need no token
    #[arg(long, env = "PROPHET_AUTHENTICATE", requires = "tls_cert")]
    authenticate: bool,
    /// Write only while this replica holds the Lease `prophet`, so that several replicas can run
    #[arg(long, env = "PROPHET_LEADER_ELECT")]
    leader_elect: bool,
    /// The namespace of the Lease [default: the namespace of the kubeconfig context or of the pod]
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "PROPHET_LEADER_ELECT_NAMESPACE",
        requires = "leader_elect"
    )]
    leader_elect_namespace: Option<String>,
    /// Record the history while another replica leads too, because the place of `--data` belongs to
    /// this replica alone, as a volume of its own does
    #[arg(long, env = "PROPHET_OWN_HISTORY", requires_all = ["leader_elect", "data"])]
    own_history: bool,
    /// Read the metrics API (metrics-server) once a minute, and record what finished pods used in
    /// the history, for `prophet rightsize --data`
    #[arg(long, env = "PROPHET_RECORD_USAGE", requires_all = ["record_names", "data"])]
    record_usage: bool,
    /// The time without progress after which the liveness probe fails, from 1m to 1h. Progress is a
    /// turn of a policy, or the end of a wait for its history, which takes up to 20s
    #[arg(
        long,
        value_name = "TIME",
        env = "PROPHET_STUCK_AFTER",
        default_value = "5m",
        value_parser = stuck_after
    )]
    stuck_after: Span,
    /// The format of the log; the variable `PROPHET_LOG` sets its filter (default: info)
    #[arg(long, value_name = "FORMAT", env = "PROPHET_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// A shorter time could end a controller that only waits for a slow API server, and a longer one
/// would leave a cluster without headroom for hours.
fn stuck_after(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let in_range = (60..=3_600).contains(&span.as_seconds());
    in_range.then_some(span).ok_or_else(|| "expected 1m to 1h".into())
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Text for people.
    Text,
    /// JSON for programs, one object per line.
    Json,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    log(args.log_format);
    block_on(async {
        let (client, mut config, source) = args.cluster.connect().await?;
        config.own_history = args.own_history;
        config.scope.usage = args.record_usage;
        config.stuck_after = Duration::from_secs(args.stuck_after.as_seconds().unsigned_abs());
        let explain = Explain::new(client.clone());
        let (metrics, dashboard) = (explain.metrics(), explain.dashboard());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), namespaces = ?config.scope.namespaces, "starting");
        let namespace = args.leader_elect_namespace;
        config.scope.off_switch_namespace =
            namespace.clone().or_else(|| config.scope.namespaces.first().cloned());
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let election = args.leader_elect.then(|| {
            // The name of the pod.
            let replica = std::env::var("HOSTNAME").unwrap_or_else(|_| "prophet".into());
            Election::new(client.clone(), &namespace, &replica)
        });
        let leadership = election.as_ref().map_or_else(Leadership::alone, Election::leadership);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let until_ended = async { drop(ended.await) };
        let electing = election.map(|election| tokio::spawn(election.run(until_ended)));
        let protection = controller::serve::Protection {
            certificate: args.tls_cert.zip(args.tls_key),
            reviewer: args.authenticate.then(|| Reviewer::new(client.clone())),
        };
        let controller = Controller::new(client, config, source, explain, leadership);
        {
            let health = controller.health();
            let address =
                controller::serve::serve(args.listen, protection, health, metrics, dashboard)?;
            tracing::info!(%address, "serving health, metrics and the dashboard");
        }
        Box::pin(controller.run(stopped()?)).await;
        // The Lease is given up after the last write.
        drop(end);
        if let Some(electing) = electing {
            electing.await.context("the election failed")?;
        }
        tracing::info!("stopped");
        Ok(())
    })
}

/// Registers the signal handlers; the returned future completes on SIGTERM or SIGINT.
fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).context("failed to listen for signals");
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Modules with a level of their own, whatever the filter, because they log what others must not
/// read. kube logs the whole body of a response that it cannot parse, such as a list of pods with
/// their environment variables; the watch logs the error. The SDKs of AWS log access keys and
/// requests at the level `debug`.
const HUSHED: [&str; 5] = [
    "kube_client::client=error",
    "aws_config=info",
    "aws_runtime=info",
    "aws_sigv4=info",
    "aws_smithy_runtime=info",
];

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("PROPHET_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let directives = HUSHED.iter().filter_map(|directive| directive.parse().ok());
    let filter = directives.fold(filter, EnvFilter::add_directive);
    // Colours would be escape codes in the log of a container.
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
