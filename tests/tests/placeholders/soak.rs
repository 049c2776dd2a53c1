//! A soak: jobs come and go for minutes, and the controller's memory, open files, watches and
//! requests stay as they are. `make soak` runs it and prints a table.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use tests::autoscaler::AutoscalerSettings;
use tests::control_plane::Options;
use tests::installed::policy;
use tests::node_group::NodeGroup;
use tokio::time::Instant;

use super::world::{Plan, World, job};

/// A minute of the soak.
#[derive(Debug)]
struct Minute {
    resident_mb: f64,
    open_files: usize,
    watches: usize,
    reads: usize,
    writes: usize,
}

impl World {
    /// The state at the end of a minute. `before` is the number of requests until its start.
    fn minute(&self, before: &mut usize) -> Minute {
        let log = self.plane.audit_log().unwrap_or_else(|error| panic!("{error:#}"));
        let ours: Vec<_> = log
            .into_iter()
            .filter(|entry| entry.user == "system:serviceaccount:prophet:prophet")
            .collect();
        let new = &ours[*before..];
        *before = ours.len();
        let watches = new.iter().filter(|entry| entry.verb == "watch").count();
        let writes = new.iter().filter(|entry| entry.writes()).count();
        let prophet = self.prophet.as_ref().unwrap();
        Minute {
            resident_mb: prophet.resident_bytes().unwrap() as f64 / 1e6,
            open_files: prophet.open_files().unwrap(),
            watches,
            reads: new.len() - watches - writes,
            writes,
        }
    }

    /// Ends the pods that run, deletes the jobs that are older than two rounds, and starts one.
    async fn round(&self, round: usize) {
        self.end_pods("default").await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "Job"));
        let jobs: Api<DynamicObject> =
            Api::namespaced_with(self.plane.client(), "default", &resource);
        let background = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let old = ListParams::default().labels(&format!("job=job-{}", round.saturating_sub(2)));
        jobs.delete_collection(&background, &old).await.unwrap();
        self.apply(&job(&format!("job-{round}"), 1 + round % 3)).await;
    }
}

/// The largest value of some minutes.
fn most(minutes: &[Minute], value: fn(&Minute) -> f64) -> f64 {
    minutes.iter().map(value).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes ten minutes: make soak"]
async fn a_soak_with_churn_changes_neither_memory_nor_requests() {
    let minutes = std::env::var("MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let folder = tempfile::tempdir().unwrap();
    let arguments = vec![format!("--data={}", folder.path().display())];
    let options = Options { audited: true, ..Options::default() };
    let autoscaler = AutoscalerSettings::default();
    let group = NodeGroup::new("small", "m5.xlarge").sizes(0, 30);
    let plan = Plan { options, autoscaler, arguments, ..Plan::of([group]) };
    let spec = "{mode: Act, tick: 10s, limits: {placeholders: 4}, forecast: {ladder: {nodesToReplicas: [[0, 1]]}}}";
    let world = plan.start(&policy("batch", spec)).await;
    world.wait_for_placeholders([1, 0, 0]).await;

    println!("minute  resident MB  open files  watches  reads  writes");
    let (mut all, mut requests, mut round) = (Vec::new(), 0, 0);
    world.minute(&mut requests);
    for number in 1..=minutes {
        let end = Instant::now() + Duration::from_mins(1);
        while Instant::now() < end {
            world.round(round).await;
            round += 1;
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let minute = world.minute(&mut requests);
        let Minute { resident_mb, open_files, watches, reads, writes } = &minute;
        println!(
            "{number:6}  {resident_mb:11.0}  {open_files:10}  {watches:7}  {reads:5}  {writes:6}"
        );
        all.push(minute);
    }
    println!("{round} rounds of jobs");
    // The first minutes fill caches.
    let (first, last) = all.split_at(all.len() / 2);
    for (what, value, slack) in [
        ("resident MB", (|minute| minute.resident_mb) as fn(&Minute) -> f64, 20.0),
        ("open files", |minute| minute.open_files as f64, 5.0),
        ("watches", |minute| minute.watches as f64, 10.0),
        ("reads", |minute| minute.reads as f64, 10.0),
        ("writes", |minute| minute.writes as f64, 50.0),
    ] {
        let (before, after) = (most(first, value), most(last, value));
        assert!(after <= before * 1.2 + slack, "{what} grow from {before} to {after}: {all:#?}");
    }
}
