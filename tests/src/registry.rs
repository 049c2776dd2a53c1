//! A registry of images on loopback.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tempfile::TempDir;

use crate::built;
use crate::ports::Port;
use crate::process::Process;

/// The longest wait for the registry, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running registry, empty at first, and killed on drop.
#[derive(Debug)]
pub struct Registry {
    _process: Process,
    port: Port,
    _folder: TempDir,
}

impl Registry {
    /// Starts a registry, which serves plain HTTP.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or the registry does not start.
    pub async fn start() -> Result<Self> {
        let (folder, port) = (TempDir::new()?, Port::free()?);
        let storage = json!({"filesystem": {"rootdirectory": folder.path().join("images")}});
        let configuration = json!({
            "version": "0.1", "storage": storage,
            "http": {"addr": format!("127.0.0.1:{port}")}, "log": {"level": "error"},
        });
        let file = folder.path().join("registry.json");
        fs::write(&file, configuration.to_string())?;
        let mut command = Command::new(built::control_plane("bin/registry")?);
        command.arg("serve").arg(file);
        let mut process = Process::start("registry", &command, folder.path())?;
        process.wait_for_port(&port, DEADLINE).await?;
        Ok(Self { _process: process, port, _folder: folder })
    }

    /// The address on loopback.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }
}
