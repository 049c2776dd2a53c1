//! Several replicas of the controller: one leads and writes.

use std::time::{Duration, SystemTime};

use chrono::TimeDelta;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::Api;
use serde_json::json;
use tests::api_proxy::ApiProxy;
use tests::audit::Entry;
use tests::control_plane::Options;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::node_group::NodeGroup;
use tests::stepped_clock::SteppedClock;
use tests::wait;
use tokio::time::Instant;

use super::policies::all_writes;
use super::world::{DISCOVERY, Plan, World};

/// The longest wait for another leader, long enough for a loaded machine. Taking over a Lease that
/// nobody renews takes 15 to 20 seconds.
const DEADLINE: Duration = Duration::from_mins(1);

/// The time within which a standby leads after its predecessor gave up the Lease.
const HANDOVER: Duration = Duration::from_secs(10);

/// How long after its last renewal of the Lease the leader begins writes.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How long a Lease lasts that nobody renews.
const LEASE: Duration = Duration::from_secs(15);

const ELECT: [&str; 2] = ["--leader-elect", "--leader-elect-namespace=prophet"];

/// The milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clocks of replicas are compared with this one")]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

fn ladder(placeholders: u32) -> serde_json::Value {
    json!({"forecast": {"method": "ladder", "ladder": {"nodesToReplicas": [[0, placeholders]]}}})
}

/// A replica with a network path and a clock of its own.
struct Replica {
    prophet: Prophet,
    proxy: ApiProxy,
    clock: SteppedClock,
}

impl World {
    async fn replica(&self) -> Replica {
        let arguments = [&[DISCOVERY][..], &ELECT].concat();
        let (proxy, clock) =
            (ApiProxy::start(self.plane.server()).unwrap(), SteppedClock::new().unwrap());
        let kubeconfig = self.plane.kubeconfig_at(&proxy.url(), NAMESPACE, "prophet").await;
        let kubeconfig = kubeconfig.unwrap_or_else(|error| panic!("{error:#}"));
        let mut environment = self.moto.environment().to_vec();
        environment.push(("KUBECONFIG", kubeconfig.display().to_string()));
        environment.extend(clock.environment());
        let prophet = Prophet::start(&self.plane, &arguments, &environment).await;
        let prophet = prophet.unwrap_or_else(|error| panic!("{error:#}"));
        Replica { prophet, proxy, clock }
    }

    async fn lease(&self) -> LeaseSpec {
        let leases: Api<Lease> = Api::namespaced(self.plane.client(), NAMESPACE);
        let lease = leases.get("prophet").await.unwrap_or_else(|error| panic!("{error:#}"));
        lease.spec.unwrap_or_default()
    }

    /// The time of the holder's clock at its last renewal, less that of the API server.
    async fn clock_of_holder(&self) -> TimeDelta {
        let renewed = self.lease().await.renew_time.map_or(0, |time| time.0.as_millisecond());
        // The machine's clock is that of the API server.
        TimeDelta::milliseconds(renewed - now())
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

    /// The controllers' writes by a replica other than the one that wrote the Lease last.
    fn stale_writes(&self) -> Vec<Entry> {
        let (mut holder, mut stale) = (String::new(), Vec::new());
        for entry in all_writes(self) {
            if entry.resource == "leases" {
                // A write that was refused changed no holder.
                if entry.code < 400 {
                    holder = entry.credential;
                }
            } else if entry.credential != holder {
                stale.push(entry);
            }
        }
        stale
    }

    /// The credentials of the controllers' writes except of the Lease, without repetitions in a
    /// row.
    fn writers(&self) -> Vec<String> {
        let of_lease = |entry: &Entry| entry.resource == "leases";
        let placeholders = all_writes(self).into_iter().filter(|entry| !of_lease(entry));
        let mut writers: Vec<String> = placeholders.map(|entry| entry.credential).collect();
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
    second.prophet.pause().unwrap();
    world.wait_for_other_holder(&before, DEADLINE).await;
    world.patch_policy("batch", ladder(3)).await;
    world.wait_for_placeholders([3, 0, 0]).await;
    second.prophet.resume().unwrap();
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

    // Clocks that are stepped by an hour change no leader.
    let leader = world.holder().await;
    for step in [3_600, -3_600] {
        third.clock.step(step).unwrap();
        second.clock.step(-step).unwrap();
        wait::until_true("a renewal by the stepped clock", DEADLINE, async || {
            Ok((world.clock_of_holder().await.num_seconds() - step).abs() < 60)
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
        let same = async || Ok(world.holder().await == leader);
        let stays = wait::stays_true("the leader stays", LEASE, same).await;
        stays.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    }
    third.clock.step(0).unwrap();
    second.clock.step(0).unwrap();

    // The leader's connections hang for a minute: another replica takes over, and the old leader
    // writes nothing when its connections work again.
    let cut = Instant::now();
    third.proxy.silence();
    world.wait_for_other_holder(&leader, DEADLINE).await;
    world.patch_policy("batch", ladder(2)).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    tokio::time::sleep_until(cut + Duration::from_mins(1)).await;
    third.proxy.open();
    world.patch_policy("batch", ladder(3)).await;
    world.wait_for_placeholders([3, 0, 0]).await;

    // Both replicas are cut off, for longer than a Lease lasts. Afterwards one of them leads.
    second.proxy.close();
    third.proxy.close();
    tokio::time::sleep(LEASE).await;
    world.patch_policy("batch", ladder(1)).await;
    second.proxy.open();
    third.proxy.open();
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(world.stale_writes(), []);

    // Each flight of the leader's requests takes 4.5 s, and a new connection needs two, so a write
    // takes almost as long as one may last. The leader begins one shortly before it would cease to.
    // The write would arrive when the other replica holds the Lease.
    let leader = world.holder().await;
    let leads = |of: &Replica| leader.contains(&format!("_{}_", of.prophet.id()));
    let delayed = [&second, &third].into_iter().find(|replica| leads(replica)).unwrap();
    delayed.proxy.delay(Duration::from_millis(4_500));
    // A renewal that was under way is complete.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = RENEW_DEADLINE.saturating_sub(Duration::from_secs(1));
    let since = (-world.clock_of_holder().await).to_std().unwrap();
    tokio::time::sleep(begin.saturating_sub(since)).await;
    world.patch_policy("batch", ladder(2)).await;
    world.wait_for_other_holder(&leader, DEADLINE).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    tokio::time::sleep(RENEW_DEADLINE).await;
    assert_eq!(world.stale_writes(), []);
}
