//! The off switch removes all placeholders: of an invalid policy, without a leader, and without a
//! controller.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tests::installed::{NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::wait;
use tokio::time::Instant;

use super::world::{Plan, World};

/// The time within which every replica honours the switch, with a margin for the deletion of pods
/// on a loaded machine.
const HONOURED: Duration = Duration::from_secs(20);

const ELECT: [&str; 2] = ["--leader-elect", "--leader-elect-namespace=prophet"];

const HELD: [usize; 3] = [2, 0, 0];
const NONE: [usize; 3] = [0, 0, 0];

impl World {
    async fn wait_until_off(&self) {
        let since = Instant::now();
        let none = async || Ok(self.placeholders().await? == NONE && self.sets().await?.is_empty());
        let waited = wait::until_true("no placeholders", HONOURED, none).await;
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
        println!("no placeholder {:.1} s after the switch", since.elapsed().as_secs_f64());
    }

    fn command(&self, arguments: &[&str]) -> String {
        let mut command = tests::prophet(arguments);
        let done = command.env("KUBECONFIG", self.plane.kubeconfig()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

/// Lets another holder change the Lease for ever: its renewal, or an annotation alone.
async fn hold_lease(leases: Api<Lease>, renews: bool) {
    for at in 0_u64.. {
        let mut held = json!({"metadata": {"annotations": {"change": at.to_string()}}});
        if renews {
            let time = format!("2026-07-01T00:{:02}:{:02}.000000Z", at / 60 % 60, at % 60);
            held["spec"] = json!({"holderIdentity": "another", "leaseDurationSeconds": 15,
                "renewTime": time});
        }
        let patched = leases.patch("prophet", &PatchParams::default(), &Patch::Merge(held)).await;
        drop(patched);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_off_switch_removes_all_placeholders() {
    let arguments = ELECT.map(str::to_owned).to_vec();
    let plan = Plan { arguments, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let steps = json!({"nodesToReplicas": [[0, 2]]});
    let ladder = json!({"method": "ladder", "ladder": steps, "expression": null});
    let spec = json!({"mode": "Act", "tick": "10s", "forecast": ladder});
    let mut world = plan.start(&policy("batch", &spec.to_string())).await;
    world.wait_for_placeholders(HELD).await;

    // The policy is invalid, so its placeholders stay until the switch is set.
    let invalid = json!({"method": "expression", "expression": "nodes +", "ladder": null});
    world.patch_policy("batch", json!({"forecast": invalid})).await;
    let is_invalid = |status: &Value| status.to_string().contains("InvalidPolicy");
    world.wait_for_status("batch", "an invalid policy", is_invalid).await;
    world.wait_for_placeholders(HELD).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.plane.client(), NAMESPACE);
    let switch: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "prophet-off"}})).unwrap();
    maps.create(&PostParams::default(), &switch).await.unwrap();
    world.wait_until_off().await;
    let is_off = |status: &Value| status.to_string().contains("SwitchedOff");
    world.wait_for_status("batch", "the off switch", is_off).await;

    // A valid policy holds none while the switch is set, and acts once it is gone.
    world.patch_policy("batch", json!({"forecast": ladder})).await;
    let is_valid = |status: &Value| !status.to_string().contains("InvalidPolicy");
    world.wait_for_status("batch", "a valid policy", is_valid).await;
    let none = async || Ok(world.sets().await?.is_empty());
    wait::stays_true("no ReplicaSet", Duration::from_secs(12), none).await.unwrap();
    maps.delete("prophet-off", &DeleteParams::default()).await.unwrap();
    world.wait_for_placeholders(HELD).await;

    // No replica leads, because something else renews the Lease.
    let leases: Api<Lease> = Api::namespaced(world.plane.client(), NAMESPACE);
    world.prophet.take().unwrap().stop().await.unwrap();
    let holding = tokio::spawn(hold_lease(leases.clone(), true));
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.start_controller(&ELECT.map(str::to_owned)).await;
    maps.create(&PostParams::default(), &switch).await.unwrap();
    world.wait_until_off().await;
    let lease = leases.get("prophet").await.unwrap().spec.unwrap_or_default();
    assert_eq!(lease.holder_identity.as_deref(), Some("another"));
    holding.abort();

    // A change of the Lease's metadata is no renewal, so the replica leads once the Lease has
    // ended.
    let annotating = tokio::spawn(hold_lease(leases.clone(), false));
    maps.delete("prophet-off", &DeleteParams::default()).await.unwrap();
    world.wait_for_placeholders(HELD).await;
    annotating.abort();

    // No controller runs, and the command removes the placeholders itself.
    world.prophet.take().unwrap().stop().await.unwrap();
    let off = world.command(&["off", "--namespace", NAMESPACE]);
    assert!(off.contains("off: the ConfigMap prophet/prophet-off is set"), "{off}");
    assert!(off.contains("1 ReplicaSets and CapacityBuffers"), "{off}");
    world.wait_until_off().await;
    assert_eq!(
        world.command(&["on", "--namespace", NAMESPACE]),
        "on: the policies act as their mode says\n"
    );
}
