//! A real Prometheus, which scrapes replicas of the controller and evaluates rules.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http;
use crate::ports::Port;
use crate::process::Process;
use crate::wait;

/// The program of Debian's package, which is looked up on the PATH.
const PROGRAM: &str = "prometheus";

/// The longest wait for the program, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Whether Prometheus is installed. If it is not, a note on standard error names what to install.
pub fn is_installed() -> bool {
    let mut version = Command::new(PROGRAM);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let installed = version.status().is_ok_and(|status| status.success());
    if !installed {
        // Written directly, because the output of a test that passes is not shown.
        let note = b"note: the panels and alerts are not tested with Prometheus, because there is none: apt-get install prometheus\n";
        let _ = std::io::stderr().write_all(note);
    }
    installed
}

/// A running Prometheus, killed on drop. It scrapes and evaluates once a second.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    port: Port,
}

impl Prometheus {
    /// Starts Prometheus with its data in a folder, and waits until it has scraped all targets, so
    /// that it counts what happens from now on. The targets are pods with their addresses;
    /// their series have the labels `namespace` and `pod`, which the Prometheus operator adds.
    ///
    /// # Errors
    /// A file cannot be written, or Prometheus refuses the rules or is not ready in time.
    pub async fn start(
        folder: &Path,
        namespace: &str,
        targets: &[(&str, String)],
        rules: &Value,
    ) -> Result<Self> {
        let port = Port::free()?;
        let of_pods = targets.iter().map(|(pod, address)| {
            json!({"targets": [address], "labels": {"namespace": namespace, "pod": pod}})
        });
        let static_configs: Vec<Value> = of_pods.collect();
        let configuration = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.json"],
            "scrape_configs": [{"job_name": "prophet", "static_configs": static_configs}],
        });
        fs::write(folder.join("rules.json"), rules.to_string())?;
        let file = folder.join("prometheus.json");
        fs::write(&file, configuration.to_string())?;
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let mut process = Process::start("prometheus", &command, folder)?;
        let ready = process.wait_until("Prometheus to be ready", DEADLINE, async || {
            Ok(http::body(port.number(), "/-/ready").await.is_ok())
        });
        ready.await?;
        let started = Self { _process: process, port };
        // Prometheus reads the list of targets up to 5 seconds after its start.
        wait::until_true("a scrape of all targets", DEADLINE, async || {
            Ok(started.values("up == 1").await?.len() == targets.len())
        })
        .await?;
        Ok(started)
    }

    /// The finite values of a query at this time, one for each series.
    ///
    /// # Errors
    /// Prometheus does not respond, or refuses the query.
    pub async fn values(&self, expression: &str) -> Result<Vec<f64>> {
        let mut query = String::from("/api/v1/query?query=");
        for byte in expression.bytes() {
            write!(query, "%{byte:02X}")?;
        }
        let data = self.get(&query).await?;
        let series = data["result"].as_array().context("the result is no list")?;
        let values = series.iter().filter_map(|of| of["value"][1].as_str()?.parse::<f64>().ok());
        Ok(values.filter(|value| value.is_finite()).collect())
    }

    /// The names of the alerts that fire.
    ///
    /// # Errors
    /// Prometheus does not respond.
    pub async fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.get("/api/v1/alerts").await?;
        let alerts = data["alerts"].as_array().context("the alerts are no list")?;
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let names = firing.filter_map(|alert| alert["labels"]["alertname"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let body = http::body(self.port.number(), path).await?;
        let mut answer: Value = serde_json::from_str(&body)?;
        Ok(answer["data"].take())
    }
}
