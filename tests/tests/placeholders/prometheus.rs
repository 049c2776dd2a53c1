//! A real Prometheus beside the replicas of the chart: whether each panel of the dashboard has
//! values, and whether alerts fire by a fault. Series that fire each alert are in
//! `chart/alerts.yaml`.

use std::collections::BTreeSet;

use tests::helm::NAMESPACE;
use tests::installed::Prophet;
use tests::prometheus::{Prometheus, is_installed};
use tests::{monitoring, wait};

use super::world::{DEADLINE, World};

/// Starts Prometheus for the replicas, with the alerts of the chart, which fire at once. Returns
/// `None` where it is not installed.
pub(crate) async fn start(
    world: &World,
    names: &[&str],
    replicas: &[Prophet],
) -> Option<Prometheus> {
    if !is_installed() {
        return None;
    }
    let mut rules = monitoring::rules().unwrap();
    for alert in rules["groups"][0]["rules"].as_array_mut().unwrap() {
        alert["for"] = "0s".into();
    }
    let addresses = replicas.iter().map(Prophet::address);
    let targets: Vec<(&str, String)> = names.iter().copied().zip(addresses).collect();
    let started = Prometheus::start(world.plane.folder(), NAMESPACE, &targets, &rules).await;
    Some(started.unwrap_or_else(|error| panic!("{error:#}")))
}

/// Waits until each query of the dashboard has had a finite value.
pub(crate) async fn wait_for_panels(prometheus: &Prometheus) {
    let mut empty = monitoring::queries().unwrap();
    let answered = wait::until_true("values in all panels", DEADLINE, async || {
        let mut still = Vec::new();
        for query in &empty {
            if prometheus.values(&query.1).await?.is_empty() {
                still.push(query.clone());
            }
        }
        empty = still;
        Ok(empty.is_empty())
    });
    if let Err(error) = answered.await {
        panic!("{error:#}; empty are {empty:#?}");
    }
}

/// Waits until these alerts fire, and no others.
pub(crate) async fn wait_for_alerts(prometheus: &Prometheus, expected: &[&str]) {
    let mut firing = BTreeSet::new();
    let fired = wait::until_true("the alerts", DEADLINE, async || {
        firing = prometheus.firing().await?;
        Ok(firing.iter().eq(expected))
    });
    if let Err(error) = fired.await {
        panic!("{error:#}; {firing:?} fire, and not {expected:?}");
    }
}
