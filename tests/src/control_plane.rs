//! A real Kubernetes control plane on loopback, without containers.
//!
//! It has etcd, the API server, the controller manager, the scheduler and kwok, which keeps nodes
//! alive and simulates their pods. Each [`ControlPlane`] has its own folder and ports, so several
//! can run side by side.

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

/// The longest wait for each part. All parts start within seven seconds on two idle cores, but
/// tests share their cores.
const DEADLINE: Duration = Duration::from_mins(2);

/// A running control plane, without nodes at first. On drop, its processes are killed and awaited
/// in the order of the fields.
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
    /// Starts a control plane with the default options.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or a part does not start in time. The message has the
    /// end of its log.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Starts a control plane with these options.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn start_with(options: Options) -> Result<Self> {
        // The future is boxed because it would make the futures of tests large.
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
        // The API server writes its certificate before it listens, so the certificate exists now.
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
        let command = programs::scheduler(&kubeconfig, &scheduler_port, options)?;
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

    /// A client with the administrator's permissions.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The path of the API server's certificate, which clients trust.
    pub fn certificate(&self) -> PathBuf {
        programs::certificate(self.folder())
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_path(self.folder(), "admin")
    }

    /// The temporary folder with the logs of the parts. It is deleted when the control plane is
    /// dropped.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Requests a token of a service account, valid for an hour.
    ///
    /// # Errors
    /// The service account does not exist.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
        let request = TokenRequest { spec: Some(spec), ..Default::default() };
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let answer =
            answer.with_context(|| format!("failed to get a token of {namespace}/{account}"))?;
        answer
            .status
            .and_then(|status| status.token)
            .context("the response to the token request has no token")
    }

    /// Writes a kubeconfig of a service account, which has only the permissions of its RBAC roles;
    /// returns its path.
    ///
    /// # Errors
    /// As [`ControlPlane::token`].
    pub async fn kubeconfig_for(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let token = self.token(namespace, account).await?;
        write_kubeconfig(self.folder(), &self.server, &format!("{namespace}-{account}"), &token)
    }

    /// Writes a kubeconfig of a service account for another URL of the API server, such as that of
    /// a proxy; returns its path.
    ///
    /// # Errors
    /// As [`ControlPlane::token`].
    pub async fn kubeconfig_at(
        &self,
        server: &str,
        namespace: &str,
        account: &str,
    ) -> Result<PathBuf> {
        let token = self.token(namespace, account).await?;
        let port = server.rsplit(':').next().unwrap_or_default();
        let name = format!("{namespace}-{account}-{port}");
        write_kubeconfig(self.folder(), server, &name, &token)
    }

    /// A client with the permissions of a service account.
    ///
    /// # Errors
    /// As [`ControlPlane::token`].
    pub async fn client_for(&self, namespace: &str, account: &str) -> Result<Client> {
        connect(&self.kubeconfig_for(namespace, account).await?).await
    }

    /// All completed requests so far.
    ///
    /// # Errors
    /// [`Options::audited`] was not set, or the log cannot be read.
    pub fn audit_log(&self) -> Result<Vec<Entry>> {
        audit::read(&self.folder().join(audit::LOG))
    }

    /// Applies all documents of a YAML text, in order. Waits until the kinds of each
    /// `CustomResourceDefinition` are served.
    ///
    /// # Errors
    /// A document is not an object, or the API server refuses it.
    pub async fn apply_yaml(&self, text: &str) -> Result<()> {
        apply::yaml(&self.client, text).await
    }

    /// All processes, in the order in which they are stopped.
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

/// Writes a kubeconfig as JSON, which is valid YAML; returns its path.
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
    // Two processes may start at the same time with the same file.
    let new = tempfile::NamedTempFile::new_in(folder).context("failed to create a file")?;
    fs::write(new.path(), content.to_string())
        .and_then(|()| fs::rename(new.path(), &path))
        .with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

pub(crate) async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
