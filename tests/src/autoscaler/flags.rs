//! The flags and the configuration with which the real cluster-autoscaler runs over the emulated
//! AWS.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::settings::AutoscalerSettings;
use crate::moto::REGION;
use crate::node_group::{CLUSTER_TAG, ENABLED_TAG};

/// The services of AWS that cluster-autoscaler calls.
const SERVICES: [&str; 3] = ["ec2", "autoscaling", "eks"];

/// The text of the file for `--cloud-config`, which directs all calls to the emulator at the URL
/// `endpoint`. The environment variable `AWS_ENDPOINT_URL` alone has no effect on
/// cluster-autoscaler.
pub fn cloud_config(endpoint: &str) -> String {
    let mut text = String::new();
    for (number, service) in (1..).zip(SERVICES) {
        let _ = write!(
            text,
            "[ServiceOverride \"{number}\"]\nService = {service}\nRegion = {REGION}\nURL = {endpoint}\nSigningRegion = {REGION}\n\n"
        );
    }
    text
}

/// The arguments of cluster-autoscaler. `listen` is the address of its metrics.
pub fn arguments(
    settings: &AutoscalerSettings,
    kubeconfig: &Path,
    cloud_config: &Path,
    listen: &str,
) -> Vec<String> {
    let AutoscalerSettings {
        scan_interval,
        expendable_cutoff,
        max_nodes_total,
        max_node_provision_time,
        backoff,
        backoff_max,
        unneeded_time,
        delay_after_add,
        delay_type_local,
        capacity_buffers,
    } = settings;
    let mut arguments = vec![
        "--cloud-provider=aws".to_owned(),
        format!("--cloud-config={}", cloud_config.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--address={listen}"),
        // Otherwise it reads the instance types of all regions from a price list on the internet.
        "--aws-use-static-instance-list=true".to_owned(),
        format!("--node-group-auto-discovery=asg:tag={ENABLED_TAG},{CLUSTER_TAG}"),
        "--leader-elect=false".to_owned(),
        format!("--scan-interval={}", duration(*scan_interval)),
        format!("--expendable-pods-priority-cutoff={expendable_cutoff}"),
        format!("--max-node-provision-time={}", duration(*max_node_provision_time)),
        format!("--initial-node-group-backoff-duration={}", duration(*backoff)),
        format!("--max-node-group-backoff-duration={}", duration(*backoff_max)),
        format!("--scale-down-unneeded-time={}", duration(*unneeded_time)),
        format!("--scale-down-delay-after-add={}", duration(*delay_after_add)),
    ];
    arguments.extend(max_nodes_total.map(|nodes| format!("--max-nodes-total={nodes}")));
    if *delay_type_local {
        arguments.push("--scale-down-delay-type-local=true".to_owned());
    }
    if *capacity_buffers {
        arguments.push("--capacity-buffer-controller-enabled=true".to_owned());
        arguments.push("--capacity-buffer-pod-injection-enabled=true".to_owned());
    }
    arguments
}

/// A duration in the syntax of Go.
fn duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}
