//! Scripted scenarios: a file of steps in a cluster, with what the controller then writes, plans
//! and reports, in one text.
//!
//! Each file of `crates/controller/scenarios` is one scenario. A line that is not indented is a
//! step, and the indented lines below it are what the controller did, which the test compares.
//! `UPDATE_EXPECT=1 cargo test -p controller scenarios` writes them anew. `#` begins a comment. The
//! steps:
//!
//! ```text
//! operator {…}          limits of the operator, before the first turn: placeholders,
//!                       dollarsPerHour
//! groups {NAME: {…}}    the groups of nodes: their type, max, and other fields of a catalog file
//! groups of nodes       the groups are those of the live nodes
//! policy [NAME] {…}     creates the policy `batch`, or replaces its specification
//! policy [NAME] gone    deletes it
//! node NAME TYPE {…}    a ready node; taints, labels, unschedulable and ready can be given
//! node NAME gone        deletes it
//! pod NAME {…}          a pending batch pod with these requests; `on NODE` behind it binds it
//! pods N NAME {…}       N pending batch pods
//! pod NAME on NODE      binds a pod
//! pod NAME ends         it completes
//! object {…}            any other object that the controller watches
//! placeholder on NODE   the scheduler binds a pending placeholder to the node
//! preempt on NODE       the scheduler preempts the placeholder on the node
//! autoscaler {…}        the status of cluster-autoscaler
//! watch NAME fails      a watch of the API server fails, or `works` again
//! off                   the off switch is set, or `on` again
//! api refuses           writes to the API server fail, or it `works` again
//! wait TIME             turns every 10 seconds for a time, such as 10m
//! turn                  one turn
//! ```
//!
//! There is no API server: [`api`] accepts the writes and does what the ReplicaSet controller does.

mod api;
mod cluster;
mod random;
mod step;

use std::fs;
use std::path::{Path, PathBuf};

use self::cluster::Cluster;
use self::step::Step;

/// The folder of the scenarios.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Runs the steps of a text, and returns it with what the controller did.
async fn transcript(text: &str) -> anyhow::Result<String> {
    let mut cluster = Cluster::new();
    let mut transcript = String::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with(' ') {
            continue;
        }
        transcript.push_str(line);
        transcript.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let step = Step::parse(line).map_err(|error| error.context(format!("line {}", at + 1)))?;
        for done in cluster.step(step).await? {
            for part in ["    ", &done, "\n"] {
                transcript.push_str(part);
            }
        }
    }
    Ok(transcript)
}

/// Each pod requests another number of GPUs, so no sizes are rounded to one.
#[tokio::test]
async fn too_many_sizes_of_pods_are_reported() {
    let mut cluster = Cluster::new();
    let lines = [
        "groups {g: {type: g4dn.xlarge, max: 2}}".to_owned(),
        "policy {mode: Observe, tick: 10s}".to_owned(),
        "turn".to_owned(),
    ];
    let pods = (1..=10_001).map(|n| format!("pod p{n} {{cpu: 1, nvidia.com/gpu: {n}}}"));
    for line in lines.into_iter().chain(pods) {
        cluster.step(Step::parse(&line).unwrap()).await.unwrap();
    }
    let done = cluster.step(Step::parse("wait 20s").unwrap()).await.unwrap();
    let reported = done.iter().any(|line| line.contains("ShapesFull"));
    assert!(reported, "{done:?}");
}

#[tokio::test]
async fn each_scenario_has_its_transcript() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut differ = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let updates = std::env::var_os("UPDATE_EXPECT").is_some();
        match transcript(&text).await {
            Ok(found) if found == text => {}
            Ok(found) if updates => fs::write(&file, &found).unwrap(),
            Ok(found) => differ.push(format!("{}\n{found}", file.display())),
            Err(error) => differ.push(format!("{}: {error:#}", file.display())),
        }
    }
    assert!(
        differ.is_empty(),
        "these scenarios differ; UPDATE_EXPECT=1 writes them anew:\n{}",
        differ.join("\n")
    );
}
