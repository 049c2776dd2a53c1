//! A real Karpenter with its kwok provider: the provider creates Node objects, and kwok keeps them
//! alive.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::built;
use crate::control_plane::ControlPlane;
use crate::instances::instance;
use crate::ports::Port;
use crate::process::Process;

/// The longest wait for Karpenter's health port, which it opens when its caches are filled.
const DEADLINE: Duration = Duration::from_mins(1);

/// The zones of every offered instance type.
const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// A running Karpenter, stopped on drop.
#[derive(Debug)]
pub struct Karpenter {
    process: Process,
    _ports: [Port; 2],
}

impl Karpenter {
    /// Applies Karpenter's kinds and a `KWOKNodeClass` named `default`, and starts Karpenter.
    ///
    /// It offers `instance_types` of the tests' table, each as spot and on demand in the zones
    /// us-east-1a and us-east-1b, and a node joins `latency` after its request. It launches nothing
    /// before a `NodePool` exists, see [`node_pool`].
    ///
    /// # Errors
    /// `make control-plane` has not been run, or Karpenter does not start in time.
    pub async fn start(
        plane: &ControlPlane,
        instance_types: &[&str],
        latency: Duration,
    ) -> Result<Self> {
        for entry in fs::read_dir(built::control_plane("crds")?)? {
            plane.apply_yaml(&fs::read_to_string(entry?.path())?).await?;
        }
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": format!("{}s", latency.as_secs())},
        });
        plane.apply_yaml(&class.to_string()).await?;
        let types: Vec<Value> =
            instance_types.iter().map(|name| offered(name)).collect::<Result<_>>()?;
        let file = plane.folder().join("instance-types.json");
        fs::write(&file, Value::from(types).to_string())
            .context("failed to write the instance types")?;

        let (metrics, health) = (Port::free()?, Port::free()?);
        let mut command = Command::new(built::control_plane("bin/karpenter")?);
        command
            .env("KUBECONFIG", plane.kubeconfig())
            .env("SYSTEM_NAMESPACE", "kube-system")
            .env("KARPENTER_SERVICE", "karpenter")
            .env("DISABLE_LEADER_ELECTION", "true")
            .env("METRICS_PORT", metrics.to_string())
            .env("HEALTH_PROBE_PORT", health.to_string())
            .env("CPU_REQUESTS", "1000")
            .env("INSTANCE_TYPES_FILE_PATH", file)
            .env("FEATURE_GATES", FEATURE_GATES);
        let mut process = Process::start("karpenter", &command, plane.folder())?;
        process.wait_for_port(&health, DEADLINE).await?;
        Ok(Self { process, _ports: [metrics, health] })
    }

    /// The process of Karpenter.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Karpenter's feature gates. Without an object of its kind, the gate `NodeOverlay` or
/// `CapacityBuffer` changes nothing.
const FEATURE_GATES: &str = "NodeRepair=false,ReservedCapacity=false,SpotToSpotConsolidation=false,NodeOverlay=true,StaticCapacity=false,CapacityBuffer=true";

/// A `NodePool` of one instance type and one capacity type (`spot` or `on-demand`).
/// Karpenter removes its nodes once they have been empty for `empty_after`.
pub fn node_pool(
    name: &str,
    instance_type: &str,
    capacity_type: &str,
    empty_after: Duration,
) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                ],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": format!("{}s", empty_after.as_secs()),
                "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// An entry of the provider's file of instance types. The prices are proportional to the number of
/// CPUs, which is enough for the tests.
fn offered(name: &str) -> Result<Value> {
    let size = instance(name)?;
    let offering = |(zone, (capacity_type, price)): (&str, (&str, f64))| {
        json!({
            "Price": price * f64::from(size.cpus),
            "Available": true,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
        })
    };
    let prices = [("spot", 0.02), ("on-demand", 0.05)];
    let offerings = ZONES.iter().flat_map(|zone| prices.map(|price| offering((zone, price))));
    Ok(json!({
        "name": name,
        "offerings": offerings.collect::<Vec<Value>>(),
        "architecture": size.architecture,
        "operatingSystems": ["linux"],
        "resources": size.capacity(),
    }))
}
