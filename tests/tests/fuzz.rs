//! Damaged input: valid texts with random changes. Whatever is parsed gives a value or an error,
//! and never a panic.
//!
//! `make fuzz` runs each property for longer. `PROPTEST_CASES` sets the number of cases. A case
//! that fails is kept in `fuzz.proptest-regressions` and is tried first from then on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use chrono::{DateTime, TimeDelta};
use controller::catalog::{Comparison, Launchers, NodeGroup, Pricing, Sizes, live_groups, offers};
use controller::cluster::Allowed;
use controller::crd::OverprovisioningPolicySpec;
use controller::observe::{Index, World, millis, units};
use demand::forecast::onnx::Spec;
use history::{Journal, Line, Place as Folder, parse_shape_key};
use instances::CatalogFile;
use proptest::prelude::*;
use proptest::sample::{Index as Place, select};
use usage::{BookSettings, ContainerRequest, RecordedUsage, UsageBook};

/// Texts that are easily mistaken: limits of numbers, other encodings, separators, nesting.
const ODD: [&str; 24] = [
    "",
    "-1",
    "0",
    "1e308",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "4294967296",
    "1.5",
    "\u{0}",
    "\u{feff}",
    "é",
    "\"",
    "'",
    ",",
    "\n",
    "\r\n",
    "{",
    "[[[[[[[[",
    "null",
    "9Ei",
    "1n",
];

/// A change of a text at a place: what is inserted, and the length of what it replaces.
type Change = (Place, &'static str, usize);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<Place>(), select(&ODD[..]), 0..12_usize), 1..5)
}

/// The text with the changes applied, one after the other.
fn damaged(text: &str, changes: &[Change]) -> String {
    let mut text = text.to_owned();
    for (place, insert, removed) in changes {
        let mut at: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        at.push(text.len());
        let from = place.index(at.len());
        let to = (from + removed).min(at.len() - 1);
        text.replace_range(at[from]..at[to], insert);
    }
    text
}

const LOGS: [&str; 7] = [
    "job,submit,runtime,cpu_millis,memory_bytes,accelerators,units\na,0,60,1000,1073741824,0,1\nb,5,60,4000,1073741824,1,3\n",
    "; UnixStartTime: 1000000000\n1 0 10 100 4 -1 1024 4 200 -1 1 3 1 -1 1 -1 -1 -1\n2 5 10 100 8 -1 -1 8 200 -1 1 3 1 -1 1 -1 -1 -1\n",
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 00:00:05,120,8,960,a\n2017-10-01 00:01:05,60,1,60,b\n",
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np,1000,1024,1,500,,LS,Succeeded,0,100,5\n",
    "{\"time\":\"1000000\",\"type\":\"0\",\"collection_id\":\"1\",\"priority\":\"200\",\"instance_index\":\"0\",\"resource_request\":{\"cpus\":0.1,\"memory\":0.2}}\n{\"time\":\"9000000\",\"type\":\"6\",\"collection_id\":\"1\",\"instance_index\":\"0\"}\n",
    "100,200,3,4,5,Terminated,50,0.0078125\n-60,110,6168,1,103,Terminated,100,0.5\n",
    "M1,5.0,j_1,1,Terminated,87076,87086,50.0,0.5\n",
];

const USAGES: [&str; 2] = [
    "time,owner,container,pod,cpu_millis,memory_bytes,cpu_request_millis,memory_request_bytes,class,oom_tolerance\n0,a,x,p,500.5,1048576,1000,2097152,batch,low\n300,a,x,p,600,1048576,1000,2097152,service,minimal\n",
    "{\"start_time\":\"300000000\",\"collection_id\":\"1\",\"instance_index\":\"0\",\"average_usage\":{\"cpus\":0.1,\"memory\":0.2},\"maximum_usage\":{\"cpus\":0.1,\"memory\":0.2},\"cpu_usage_distribution\":[0,0,0,0,0,0.1,0.1,0.1,0.1,0.1,0.2],\"tail_cpu_usage_distribution\":[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.2]}\n{\"start_time\":600000000,\"collection_id\":1,\"instance_index\":0,\"average_usage\":{\"cpus\":0.1}}\n",
];

const CATALOG: &str = "instanceTypes:
- name: m5.xlarge
  cpuMillis: 4000
  memoryBytes: 17179869184
  pods: 58
  pricePerHour: 0.192
  groups:
  - {name: a, placementGroup: pg-a, min: 0, max: 10, labels: {team: x}, taints: ['k=v:NoSchedule']}
  reserved: {cpuMillis: 100, memoryBytes: 1000}
";

const POLICY: &str = r#"{"mode": "Act", "tick": "1m",
  "workloads": {"namespaces": ["a"], "selector": {"matchLabels": {"a": "b"}}, "priority": {"min": 0, "max": 5}},
  "buckets": {"instanceTypes": ["m5.xlarge"], "groups": ["batch-*"], "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
  "objective": {"serviceLevel": 95}, "forecast": {"method": "ensemble", "ladder": {"nodesToReplicas": [[0, 100000]]}},
  "limits": {"placeholders": 5, "buckets": {"m5.xlarge": 1}, "dollarsPerHour": 3.5},
  "behavior": {"scaleUp": {"tolerance": 0.1, "stabilizationWindowSeconds": 60, "policies": [{"value": 1, "periodSeconds": 60}]}},
  "placeholders": {"warmData": [{"name": "d", "image": "i", "command": ["c"], "hostPath": "/data/x", "marker": "m"}]}}"#;

const POD: &str = r#"{"metadata": {"name": "p", "namespace": "a", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
  "spec": {"nodeName": "n", "priority": 5, "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}],
    "overhead": {"cpu": "10m"}, "schedulingGates": [{"name": "g"}],
    "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
    "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}, "limits": {"memory": "2Gi"}}}]},
  "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}]}}"#;

const NODE: &str = r#"{"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "m5.xlarge", "team": "a"}},
  "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
  "status": {"allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "58", "nvidia.com/gpu": "1"},
    "capacity": {"cpu": "4", "nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}}"#;

const LINE: &str = r#"{"v": 1, "time": "2026-07-01T12:00:00Z", "policy": "batch.night", "buckets": {"m5.large": {"demand": 4, "demand_max": 6, "announced": 0,
  "headroom": 3, "placeholders": 3, "ready": 2, "pods_hidden": 11, "pods_waited": 1, "room": {"cpu_millis=500,pods=1": 7},
  "arrivals": {"accelerators=1,cpu_millis=4000,pods=1;kind=nvidia.com/gpu;admits=a|b": 12}}},
  "launches": [{"bucket": "m5.large", "group": "asg-1", "requested": "2026-07-01T11:58:10Z", "ready": "2026-07-01T11:59:40Z"}]}"#;

const STATUS: &str = "time: 2026-08-01 12:00:00\nautoscalerStatus: Running
clusterWide: {health: {status: Healthy, nodeCounts: {registered: {total: 5, ready: 5}}}}
nodeGroups:
- {name: a, health: {status: Healthy, minSize: 0}, scaleUp: {status: Backoff, backoffInfo: {errorCode: x}}}
- {name: b, scaleUp: {status: InProgress, lastTransitionTime: '2026-08-01T11:59:00Z'}, scaleDown: {status: NoCandidates}}
";

/// Reads usage into a book.
fn usage_of(text: &str, lenient: bool) -> Result<RecordedUsage, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut book = UsageBook::new(BookSettings::default(), |_| ContainerRequest::default());
    let mut take = |row| {
        book.add(&row).map_err(|fault| traces::TraceFault {
            column: "".into(),
            problem: fault.to_string().into(),
            value: String::new(),
        })
    };
    let read = traces::read_usage(file.path(), lenient, &mut take);
    read.map(|_| book.finish()).map_err(|error| error.to_string())
}

/// The description of a model, as in the metadata of its file.
const SPEC: &str = r#"{"version": 1, "window": 2, "horizon": 1, "tick_seconds": 300, "levels": [0.5, 0.9], "buckets": ["a"],
  "covariates": [], "state": [], "lead_seconds": [60, 3600], "training": {"seed": 1},
  "golden": {"buckets": 1, "target": [1, 2], "time": [0, 300], "state": [], "quantiles": [1, 2], "headroom": [1, 2]}}"#;

fn a_catalog() -> embedder::Catalog {
    CatalogFile::parse(CATALOG, "f").unwrap().catalog().unwrap()
}

#[test]
fn a_description_of_a_model_with_huge_numbers_has_faults() {
    let most = usize::MAX.to_string();
    let huge = SPEC
        .replace("\"window\": 2", &format!("\"window\": {most}"))
        .replace("\"horizon\": 1", &format!("\"horizon\": {most}"))
        .replace("\"buckets\": 1", &format!("\"buckets\": {most}"));
    for headroom in [false, true] {
        assert!(Spec::parse(&huge).unwrap().faults(headroom).len() >= 3);
    }
}

/// Changes of an invalid text would show nothing.
#[test]
fn the_undamaged_texts_are_valid() {
    for log in LOGS {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(log.as_bytes()).unwrap();
        let trace = traces::read(file.path(), None, false).unwrap();
        assert!(!trace.jobs.is_empty(), "{log}");
    }
    for usage in USAGES {
        assert_eq!(usage_of(usage, false).unwrap().containers[0].samples, 2, "{usage}");
    }
    a_catalog();
    let spec: OverprovisioningPolicySpec = serde_json::from_str(POLICY).unwrap();
    let allowed = Allowed { host_path_prefix: Some("/data".into()), ..Allowed::default() };
    spec.settings(&allowed).unwrap();
    let mut index = Index::default();
    index.apply_node(&serde_json::from_str(NODE).unwrap());
    index.apply_pod(&serde_json::from_str(POD).unwrap());
    assert_eq!(index.pods(), 1);
    Line::parse(LINE.as_bytes()).unwrap();
    let mut world = World::default();
    world.read_autoscaler(STATUS);
    assert_eq!(world.backoff, ["a".to_owned()].into());
    assert_eq!(Spec::parse(SPEC).unwrap().faults(true), []);
}

proptest! {
    #[test]
    fn damaged_usage_is_read_or_refused(
        usage in select(&USAGES[..]),
        changes in changes(),
        lenient: bool,
    ) {
        match usage_of(&damaged(usage, &changes), lenient) {
            Ok(usage) => prop_assert!(usage.figures()[0].oom_day_share <= 1.0),
            Err(error) => prop_assert!(!error.is_empty()),
        }
    }

    #[test]
    fn a_damaged_log_is_read_or_refused(log in select(&LOGS[..]), changes in changes(), lenient: bool) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(damaged(log, &changes).as_bytes()).unwrap();
        if let Err(error) = traces::read(file.path(), None, lenient) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_damaged_catalog_is_read_or_refused(changes in changes()) {
        if let Ok(file) = CatalogFile::parse(&damaged(CATALOG, &changes), "types.yaml") {
            let _ = file.catalog();
            let groups: Vec<NodeGroup> = controller::catalog::file_groups(&file, "pg").unwrap_or_default();
            let index = Index::default();
            let comparison = Comparison::by_taints("pg");
            let _ = offers(&groups, index.nodes(), &[], (&comparison, &Pricing::of_table()), &mut Sizes::new());
        }
    }

    #[test]
    fn a_damaged_policy_has_settings_or_faults(changes in changes()) {
        if let Ok(spec) = serde_json::from_str::<OverprovisioningPolicySpec>(&damaged(POLICY, &changes))
            && let Err(faults) = spec.settings(&Allowed::default())
        {
            prop_assert!(!faults.is_empty());
        }
    }

    #[test]
    fn damaged_pods_and_nodes_are_counted_or_skipped(pods in prop::collection::vec(changes(), 1..4), node in changes()) {
        let mut index = Index::default();
        if let Ok(node) = serde_json::from_str(&damaged(NODE, &node)) {
            index.apply_node(&node);
        }
        index.begin_pods();
        for changes in &pods {
            if let Ok(pod) = serde_json::from_str(&damaged(POD, changes)) {
                index.apply_pod(&pod);
            }
        }
        index.end_pods();
        let comparison = Comparison::by_taints("pg");
        let groups = live_groups(index.nodes(), &[], &comparison, &Launchers::default());
        let _ = offers(&groups, index.nodes(), &[], (&comparison, &Pricing::of_table()), &mut Sizes::new());
    }

    #[test]
    fn a_damaged_status_of_cluster_autoscaler_names_groups_or_nothing(changes in changes()) {
        let damaged = damaged(STATUS, &changes);
        let mut world = World::default();
        world.read_autoscaler(&damaged);
        for group in world.backoff.iter().chain(world.scale_ups.keys()) {
            prop_assert!(group.len() <= damaged.len());
        }
    }

    #[test]
    fn a_damaged_description_of_a_model_is_used_or_has_faults(changes in changes(), headroom: bool) {
        match Spec::parse(&damaged(SPEC, &changes)) {
            Ok(spec) => {
                for fault in spec.faults(headroom) {
                    prop_assert!(!fault.to_string().is_empty());
                }
            }
            Err(fault) => prop_assert!(!fault.to_string().is_empty()),
        }
    }

    #[test]
    fn a_damaged_quantity_is_a_number_or_nothing(text in "[0-9.eE+-]{0,24}[a-zA-Z]{0,3}") {
        let _ = (millis(&text), units(&text));
    }

    #[test]
    fn a_damaged_line_of_the_history_is_read_or_refused(changes in changes()) {
        if let Ok(line) = Line::parse(damaged(LINE, &changes).as_bytes()) {
            let again = Line::parse(line.text().unwrap().as_bytes()).unwrap();
            prop_assert_eq!(&again, &line);
            let catalog = a_catalog();
            for key in line.buckets.values().flat_map(|bucket| bucket.arrivals.keys()) {
                let _ = parse_shape_key(key, &catalog);
            }
        }
    }
}

/// The Parquet file of a closed day, below its folder in a place.
async fn closed_day() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = Folder::open(&folder.path().display().to_string()).unwrap();
    let first = Line::parse(LINE.as_bytes()).unwrap();
    let mut journal = Journal::open(place, &first.policy).await.unwrap();
    for minute in 0..20 {
        let line = Line { time: first.time + TimeDelta::minutes(minute), ..first.clone() };
        journal.append(&line).await.unwrap();
    }
    let today = DateTime::from_timestamp(first.time.timestamp(), 0).unwrap() + TimeDelta::days(1);
    journal.compact(today.date_naive()).await.unwrap();
    let day = folder.path().join("policy=batch.night/day=2026-07-01/ticks.parquet");
    (folder, day)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_day_of_the_history_is_read_or_skipped(
        bytes in prop::collection::vec((any::<Place>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<Place>()),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (folder, day) = closed_day().await;
            let mut content = std::fs::read(&day).unwrap();
            for (place, byte) in &bytes {
                let at = place.index(content.len());
                content[at] = *byte;
            }
            if let Some(cut) = cut {
                content.truncate(cut.index(content.len()));
            }
            std::fs::write(&day, content).unwrap();
            let place = Folder::open(&folder.path().display().to_string()).unwrap();
            let Ok(journal) = Journal::open(place, "batch.night").await else { return };
            let Ok(mut replay) = journal.replay(None).await else { return };
            let mut lines = 0;
            while let Ok(Some(_)) = replay.next().await {
                lines += 1;
                assert!(lines <= 1_000, "more lines than the file has bytes for");
            }
        });
    }
}
