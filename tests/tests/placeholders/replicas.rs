//! Several replicas of the controller: one leads and writes.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::json;
use tests::audit::Entry;
use tests::control_plane::Options;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DISCOVERY, Plan, World};

/// The longest wait for another leader, long enough for a loaded machine. Taking over a Lease that
/// nobody renews takes 15 to 20 seconds.
const DEADLINE: Duration = Duration::from_mins(1);

/// The time within which a standby leads after its predecessor gave up the Lease.
const HANDOVER: Duration = Duration::from_secs(10);

const ELECT: [&str; 2] = ["--leader-elect", "--leader-elect-namespace=prophet"];

fn ladder(placeholders: u32) -> serde_json::Value {
    json!({"forecast": {"method": "ladder", "ladder": {"nodesToReplicas": [[0, placeholders]]}}})
}

impl World {
    async fn replica(&self) -> Prophet {
        let arguments = [&[DISCOVERY][..], &ELECT].concat();
        let prophet = Prophet::start(&self.plane, &arguments, &self.moto.environment()).await;
        prophet.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn holder(&self) -> String {
        let leases: Api<Lease> = Api::namespaced(self.plane.client(), NAMESPACE);
        let lease = leases.get_opt("prophet").await.unwrap_or_else(|error| panic!("{error:#}"));
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    async fn wait_for_other_holder(&self, before: &str, deadline: Duration) {
        let other = async || {
            let holder = self.holder().await;
            Ok(!holder.is_empty() && holder != before)
        };
        let waited = wait::until_true("another holder of the Lease", deadline, other).await;
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// The credentials of the controllers' writes except of the Lease, without repetitions in a
    /// row.
    fn writers(&self) -> Vec<String> {
        let log = self.plane.audit_log().unwrap_or_else(|error| panic!("{error:#}"));
        let ours = |entry: &Entry| {
            entry.user == "system:serviceaccount:prophet:prophet"
                && entry.writes()
                && entry.resource != "leases"
        };
        let mut writers: Vec<String> =
            log.into_iter().filter(ours).map(|entry| entry.credential).collect();
        writers.dedup();
        writers
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_replicas_one_writes_and_another_takes_over() {
    let options = Options { audited: true, ..Options::default() };
    let arguments = ELECT.map(str::to_owned).to_vec();
    let plan = Plan { options, arguments, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let spec = json!({"mode": "Act", "tick": "10s", "forecast": ladder(1)["forecast"]});
    let mut world = plan.start(&policy("batch", &spec.to_string())).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    let first = world.holder().await;

    // A clean handover: the leader gives up the Lease.
    let second = world.replica().await;
    world.prophet.take().unwrap().stop().await.unwrap();
    world.wait_for_other_holder(&first, HANDOVER).await;
    world.patch_policy("batch", ladder(2)).await;
    world.wait_for_placeholders([2, 0, 0]).await;

    // A leader that is stopped for longer than its Lease writes nothing when it goes on.
    let before = world.holder().await;
    let third = world.replica().await;
    second.pause().unwrap();
    world.wait_for_other_holder(&before, DEADLINE).await;
    world.patch_policy("batch", ladder(3)).await;
    world.wait_for_placeholders([3, 0, 0]).await;
    second.resume().unwrap();
    world.patch_policy("batch", ladder(1)).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    tokio::time::sleep(Duration::from_secs(12)).await;

    // A deleted Lease is taken again, and the other replica does not write meanwhile.
    let leases: Api<Lease> = Api::namespaced(world.plane.client(), NAMESPACE);
    leases.delete("prophet", &kube::api::DeleteParams::default()).await.unwrap();
    wait::until_true("a holder", DEADLINE, async || Ok(!world.holder().await.is_empty()))
        .await
        .unwrap();
    let writers = world.writers();
    assert_eq!(writers.len(), 3, "{writers:?}");
    drop((second, third));
}
