//! Situations of real clusters, as users of autoscalers, queues and placeholder charts report them,
//! on one real control plane: the objects, and the status that the policy then has.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod table;

use std::fs;
use std::time::Duration;

use tests::built;
use tests::control_plane::{ControlPlane, Options};
use tests::installed::Prophet;
use tests::wait;

use self::cluster::Cluster;
use self::table::{SITUATIONS, Situation, WAITING};

/// Starts a cluster with Karpenter's kinds, and the controller.
async fn start() -> (ControlPlane, Prophet) {
    let options = Options { adds_to_pods: true, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    for entry in fs::read_dir(built::control_plane("crds").unwrap()).unwrap() {
        plane.apply_yaml(&fs::read_to_string(entry.unwrap().path()).unwrap()).await.unwrap();
    }
    let prophet = Prophet::install(&plane, &["--launch-latency=5s"], &[]).await.unwrap();
    (plane, prophet)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_counts_what_the_cluster_runs() {
    let (plane, prophet) = start().await;
    let cluster = Cluster::new(&plane).await;
    let mut failures = Vec::new();
    for situation in SITUATIONS {
        let Situation { name, nodes, objects, changes, policy, no_scale_up, expected } = situation;
        for node in *nodes {
            cluster.add_node(node).await;
        }
        cluster.apply(objects).await;
        if objects.contains("MutatingAdmissionPolicy") {
            cluster.wait_for_mutation().await;
        }
        for change in *changes {
            cluster.change(change).await;
        }
        cluster.apply_policy(policy).await;
        let found = cluster.wait_for(expected, no_scale_up).await;
        if found != *expected {
            failures.push(format!("{name}: expected\n{expected}\nfound\n{found}"));
        }
        cluster.clean().await;
    }
    let log = prophet.log().unwrap();
    let last: Vec<&str> = log.lines().rev().take(40).collect();
    assert!(failures.is_empty(), "{}\n{}", failures.join("\n"), last.join("\n"));
}

/// The lead time is 30 seconds, after which placeholders would yield to pods that wait for nodes.
const LONGER: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_wait_for_something_else_remove_no_placeholders() {
    let (plane, prophet) = start().await;
    let cluster = Cluster::new(&plane).await;
    let Situation { nodes, objects, policy, expected, .. } = WAITING;
    for node in nodes {
        cluster.add_node(node).await;
    }
    cluster.apply_policy(policy).await;
    assert_eq!(cluster.wait_for(expected, "").await, expected);
    cluster.apply(objects).await;
    let stays = wait::stays_true("the placeholders stay", LONGER, async || {
        Ok(cluster.state().await.lines().last() == expected.lines().last())
    });
    let log = prophet.log().unwrap();
    stays.await.unwrap_or_else(|error| panic!("{error:#}\n{log}"));
}
