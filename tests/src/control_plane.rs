//! A real Kubernetes on loopback, without containers: etcd, API server, controller manager, scheduler, and kwok, which
//! keeps nodes alive and runs their pods in name only. Each [`ControlPlane`] has its own folder and ports, so several
//! run side by side.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ListParams, PostParams, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;

use crate::apply;
use crate::audit::{self, Entry};
pub use crate::options::Options;
use crate::ports::Port;
use crate::process::Process;
use crate::programs::{self, ADMINISTRATOR};
use crate::wait;

/// The four are up in seven seconds on two idle cores; tests share theirs.
const DEADLINE: Duration = Duration::from_mins(2);

/// A running cluster, without a node at first. Dropped, it stops in the order of its fields, each waited for.
pub struct ControlPlane {
    kwok: Option<Process>,
    scheduler: Process,
    controller_manager: Process,
    api_server: Process,
    etcd: Process,
    client: Client,
    server: String,
    folder: TempDir,
    _ports: Vec<Port>,
}

impl ControlPlane {
    /// One with kwok and nothing else.
    ///
    /// # Errors
    /// Where `make control-plane` has not been run, or a part does not come up; the message has the end of its log.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// One as the options say.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn start_with(options: Options) -> Result<Self> {
        // Boxed, or the futures of tests become large.
        Box::pin(Self::start_all(options)).await
    }

    async fn start_all(options: Options) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prophet-control-plane-").tempdir()?;
        let path = folder.path();
        let (etcd_port, peer_port) = (Port::free()?, Port::free()?);
        let (api_port, manager_port, scheduler_port) =
            (Port::free()?, Port::free()?, Port::free()?);

        let mut etcd =
            Process::start("etcd", &programs::etcd(path, &etcd_port, &peer_port)?, path)?;
        etcd.wait_for_port(&etcd_port, DEADLINE).await?;

        let command = programs::api_server(path, &api_port, &etcd_port, options)?;
        let mut api_server = Process::start("kube-apiserver", &command, path)?;
        // It writes its certificate before it listens.
        api_server.wait_for_port(&api_port, DEADLINE).await?;
        let server = format!("https://127.0.0.1:{api_port}");
        write_kubeconfig(path, &server, "admin", ADMINISTRATOR)?;
        let client = connect(&kubeconfig_path(path, "admin")).await?;
        let ready = async || {
            let request = Request::new("/readyz").list(&ListParams::default())?;
            Ok(client.request_text(request).await? == "ok")
        };
        api_server.wait_until("the API server to be ready", DEADLINE, ready).await?;

        let kubeconfig = kubeconfig_path(path, "admin");
        let command = programs::controller_manager(path, &kubeconfig, &manager_port)?;
        let mut controller_manager = Process::start("kube-controller-manager", &command, path)?;
        let command = programs::scheduler(path, &kubeconfig, &scheduler_port)?;
        let mut scheduler = Process::start("kube-scheduler", &command, path)?;
        let kwok =
            options.kwok.then(|| Process::start("kwok", &programs::kwok(path, &kubeconfig)?, path));
        let kwok = kwok.transpose()?;
        controller_manager.wait_for_port(&manager_port, DEADLINE).await?;
        scheduler.wait_for_port(&scheduler_port, DEADLINE).await?;

        let plane = Self {
            kwok,
            scheduler,
            controller_manager,
            api_server,
            etcd,
            client,
            server,
            folder,
            _ports: vec![etcd_port, peer_port, api_port, manager_port, scheduler_port],
        };
        if options.service_accounts {
            plane.wait_for_service_account("default", "default").await?;
        }
        Ok(plane)
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server's address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_path(self.folder(), "admin")
    }

    /// A temporary folder, gone with the control plane, with the logs of its parts.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A token of a service account, by `TokenRequest`, good for an hour.
    ///
    /// # Errors
    /// Where there is no such account.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
        let request = TokenRequest { spec: Some(spec), ..Default::default() };
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let answer =
            answer.with_context(|| format!("failed to get a token of {namespace}/{account}"))?;
        answer.status.and_then(|status| status.token).context("a token request without a token")
    }

    /// A kubeconfig of a service account, with what RBAC gives it and nothing more.
    ///
    /// # Errors
    /// As [`ControlPlane::token`].
    pub async fn kubeconfig_for(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let token = self.token(namespace, account).await?;
        write_kubeconfig(self.folder(), &self.server, &format!("{namespace}-{account}"), &token)
    }

    /// A client of a service account.
    ///
    /// # Errors
    /// As [`ControlPlane::token`].
    pub async fn client_for(&self, namespace: &str, account: &str) -> Result<Client> {
        connect(&self.kubeconfig_for(namespace, account).await?).await
    }

    /// All requests so far, where [`Options::audited`] was set.
    ///
    /// # Errors
    /// Where it was not.
    pub fn audit_log(&self) -> Result<Vec<Entry>> {
        audit::read(&self.folder().join(audit::LOG))
    }

    /// Applies all documents of a YAML text, in their order, and waits until a `CustomResourceDefinition` is served.
    ///
    /// # Errors
    /// Where the API server refuses one.
    pub async fn apply_yaml(&self, text: &str) -> Result<()> {
        apply::yaml(&self.client, text).await
    }

    /// All its processes, in the order in which they stop.
    pub fn processes(&mut self) -> Vec<&mut Process> {
        let Self { kwok, scheduler, controller_manager, api_server, etcd, .. } = self;
        kwok.iter_mut().chain([scheduler, controller_manager, api_server, etcd]).collect()
    }

    async fn wait_for_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let what = format!("the service account {namespace}/{name}");
        wait::until_true(&what, DEADLINE, async || Ok(accounts.get_opt(name).await?.is_some()))
            .await
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ControlPlane").field("server", &self.server).finish_non_exhaustive()
    }
}

fn kubeconfig_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.kubeconfig"))
}

/// JSON is YAML, too.
fn write_kubeconfig(folder: &Path, server: &str, name: &str, token: &str) -> Result<PathBuf> {
    let path = kubeconfig_path(folder, name);
    let certificate = programs::certificate(folder);
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": certificate}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
        "current-context": "tests",
    });
    fs::write(&path, content.to_string())
        .with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

pub(crate) async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
