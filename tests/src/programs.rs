//! The command lines of the parts of a control plane, with the fewest flags that work on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::audit;
use crate::built;
use crate::options::Options;
use crate::ports::Port;

/// The token of the user `admin`, who is in the group `system:masters` and has all permissions.
pub(crate) const ADMINISTRATOR: &str = "administrator-of-the-tests";

/// The kwok stage that completes pods after an annotated time. It replaces kwok's own stage, which
/// completes the pods of jobs at once.
const RUN_SECONDS: &str = include_str!("../stages/run-seconds.yaml");

/// The path of the API server's certificate, which its clients trust.
pub(crate) fn certificate(folder: &Path) -> PathBuf {
    folder.join("certificates/apiserver.crt")
}

pub(crate) fn etcd(folder: &Path, clients: &Port, peers: &Port) -> Result<Command> {
    let (clients, peers) =
        (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
    let mut command = Command::new(built::control_plane("bin/etcd")?);
    command
        .arg(format!("--data-dir={}", folder.join("etcd").display()))
        .args([
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
        ])
        .args([
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
        ])
        .arg(format!("--initial-cluster=default={peers}"))
        // The data need not survive a crash, because nothing here outlives the test.
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    Ok(command)
}

pub(crate) fn api_server(
    folder: &Path,
    port: &Port,
    etcd: &Port,
    options: Options,
) -> Result<Command> {
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, format!("{ADMINISTRATOR},admin,admin,\"system:masters\"\n"))?;
    // The key of the API server's self-signed certificate also signs the service account tokens.
    let key = folder.join("certificates/apiserver.key");
    let mut command = Command::new(built::control_plane("bin/kube-apiserver")?);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .arg(format!("--secure-port={port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--cert-dir={}", folder.join("certificates").display()))
        .arg(format!("--service-account-signing-key-file={}", key.display()))
        .arg(format!("--service-account-key-file={}", key.display()))
        .arg(format!("--service-account-issuer=https://127.0.0.1:{port}"))
        .arg(format!("--token-auth-file={}", tokens.display()))
        .args(["--authorization-mode=RBAC,Node", "--service-cluster-ip-range=10.96.0.0/16"])
        .args(["--endpoint-reconciler-type=none", "--profiling=false"]);
    if !options.service_accounts {
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    if options.adds_to_pods {
        command.arg(
            "--enable-admission-plugins=ExtendedResourceToleration,PodNodeSelector,PodTolerationRestriction",
        );
    }
    if !options.streaming_lists {
        command.arg("--feature-gates=WatchList=false");
    }
    if options.gangs {
        command.args([GANGS, "--runtime-config=scheduling.k8s.io/v1beta1=true"]);
    }
    if options.replicated {
        // The flag is deprecated, and delays a definition as long as it exists.
        command.arg("--apiserver-count=2");
    }
    if options.audited {
        let policy = folder.join("audit-policy.yaml");
        fs::write(&policy, audit::POLICY)?;
        command
            .arg(format!("--audit-policy-file={}", policy.display()))
            .arg(format!("--audit-log-path={}", folder.join(audit::LOG).display()))
            // In this mode an entry is written before its response is sent, so no entry is missing.
            .arg("--audit-log-mode=blocking-strict");
    }
    Ok(command)
}

pub(crate) fn controller_manager(folder: &Path, kubeconfig: &Path, port: &Port) -> Result<Command> {
    let mut command = with_kubeconfig("bin/kube-controller-manager", kubeconfig, port)?;
    command.arg(format!("--root-ca-file={}", certificate(folder).display())).args([
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    ]);
    Ok(command)
}

pub(crate) fn scheduler(kubeconfig: &Path, port: &Port, options: Options) -> Result<Command> {
    let mut command = with_kubeconfig("bin/kube-scheduler", kubeconfig, port)?;
    if options.gangs {
        command.arg(GANGS);
    }
    Ok(command)
}

/// The feature of [`Options::gangs`].
const GANGS: &str = "--feature-gates=GenericWorkload=true";

fn with_kubeconfig(program: &str, kubeconfig: &Path, port: &Port) -> Result<Command> {
    let mut command = Command::new(built::control_plane(program)?);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--secure-port={port}"))
        .args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
    Ok(command)
}

pub(crate) fn kwok(folder: &Path, kubeconfig: &Path) -> Result<Command> {
    let mut command = Command::new(built::control_plane("bin/kwok")?);
    command.arg(format!("--kubeconfig={}", kubeconfig.display())).args([
        "--manage-all-nodes=true",
        "--node-ip=127.0.0.1",
        "--node-lease-duration-seconds=40",
    ]);
    for entry in fs::read_dir(built::control_plane("stages")?)? {
        let stage = entry?.path();
        if stage.file_name().is_some_and(|name| name != "pod-complete.yaml") {
            command.arg(format!("--config={}", stage.display()));
        }
    }
    let run_seconds = folder.join("run-seconds.yaml");
    fs::write(&run_seconds, RUN_SECONDS).context("failed to write a stage")?;
    command.arg(format!("--config={}", run_seconds.display()));
    Ok(command)
}
