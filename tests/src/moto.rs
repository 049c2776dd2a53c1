//! AWS on loopback: moto emulates the Auto Scaling, EC2 and EKS APIs. An emulator starts without
//! groups.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::Credentials;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::built;
use crate::http;
use crate::ports::Port;
use crate::process::Process;

/// The region of all resources.
pub const REGION: &str = "us-east-1";

/// The longest wait for moto to listen. Python starts slowly on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running emulator, stopped on drop.
#[derive(Debug)]
pub struct Moto {
    process: Process,
    endpoint: String,
    config: SdkConfig,
    folder: TempDir,
    port: Port,
}

impl Moto {
    /// Starts an emulator, and waits until it responds.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or the emulator does not respond within a minute.
    pub async fn start() -> Result<Self> {
        // The future is boxed because it would make the futures of tests large.
        Box::pin(Self::start_and_probe()).await
    }

    async fn start_and_probe() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prophet-moto-").tempdir()?;
        let port = Port::free()?;
        let mut command = Command::new(built::control_plane("python/bin/moto_server")?);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        let mut process = Process::start("moto", &command, folder.path())?;
        process.wait_for_port(&port, DEADLINE).await?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let config = configure(&endpoint).await;
        let moto = Self { process, endpoint, config, folder, port };
        // The first response takes a second, because the emulator loads its tables.
        moto.ec2().describe_availability_zones().send().await?;
        moto.autoscaling().describe_auto_scaling_groups().send().await?;
        Ok(moto)
    }

    /// Creates an S3 bucket with one plain HTTP request.
    ///
    /// # Errors
    /// The emulator does not create it.
    pub fn make_bucket(&self, name: &str) -> Result<()> {
        let host = self.endpoint.trim_start_matches("http://");
        let mut connection = TcpStream::connect(host)?;
        let request = format!(
            "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(())
    }

    /// The URL of the emulator, for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The environment variables with which a program uses this emulator, and no real AWS.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// A client of the Auto Scaling API.
    pub fn autoscaling(&self) -> aws_sdk_autoscaling::Client {
        aws_sdk_autoscaling::Client::new(&self.config)
    }

    /// A client of the EC2 API.
    pub fn ec2(&self) -> aws_sdk_ec2::Client {
        aws_sdk_ec2::Client::new(&self.config)
    }

    /// Creates a managed node group of EKS, and its cluster if that does not exist. The emulator
    /// creates no Auto Scaling group for it.
    ///
    /// # Errors
    /// The emulator refuses the node group.
    pub async fn create_managed_group(
        &self,
        cluster: &str,
        name: &str,
        labels: Value,
        taints: Value,
    ) -> Result<()> {
        let role = "arn:aws:iam::123456789012:role/nodes";
        let body = json!({"name": cluster, "roleArn": role, "resourcesVpcConfig": {}});
        // A cluster that exists is refused.
        self.post_to_eks("/clusters", &body).await?;
        let body = json!({
            "nodegroupName": name, "nodeRole": role, "subnets": ["subnet-1"],
            "labels": labels, "taints": taints,
        });
        let answer = self.post_to_eks(&format!("/clusters/{cluster}/node-groups"), &body).await?;
        ensure!(answer.contains(" 200 "), "the emulator refuses the node group: {answer}");
        Ok(())
    }

    /// Posts to EKS, for which there is no client here. The emulator reads the service from the
    /// signature, which it does not check.
    async fn post_to_eks(&self, path: &str, body: &Value) -> Result<String> {
        let credential = format!("test/20260101/{REGION}/eks/aws4_request");
        let signature =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0");
        http::post(self.port.number(), path, &signature, &body.to_string()).await
    }

    /// Creates a bucket of S3.
    ///
    /// # Errors
    /// The emulator refuses the bucket.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let answer = http::put(self.port.number(), &format!("/{name}")).await?;
        ensure!(answer.contains(" 200 "), "the emulator refuses the bucket: {answer}");
        Ok(())
    }

    /// The response to a request for the objects of a bucket, which is XML.
    ///
    /// # Errors
    /// The emulator does not answer.
    pub async fn list_bucket(&self, name: &str) -> Result<String> {
        http::get(self.port.number(), &format!("/{name}")).await
    }

    /// The temporary folder of the emulator, with its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process of the emulator.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The configuration of clients for the emulator at `endpoint`.
pub(crate) async fn configure(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .load()
        .await
}
