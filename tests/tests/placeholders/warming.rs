//! Warm images and data: placeholders load them onto a node before its first job.
//!
//! kwok runs no containers. The tests check the ReplicaSet that the API server stored, and run its
//! command as a process.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::installed::policy;
use tests::node_group::NodeGroup;

use super::world::Plan;

fn warming(folder: &Path) -> String {
    format!(
        "{{mode: Act, tick: 10s, forecast: {{method: ladder, ladder: {{nodesToReplicas: [[0, 1]]}}}}, placeholders: {{
           warmImages: [{{image: example.com/torch:2}}, {{image: example.com/static:1, volume: true}}],
           warmData: [{{name: weights, image: busybox, hostPath: {folder}, marker: .done,
             command: [sh, -c, 'echo a line >> {folder}/data']}}]}}}}",
        folder = folder.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_load_images_and_data_and_load_the_data_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("--warm-host-path-prefix={}", folder.path().display());
    let data = folder.path().join("weights");
    let plan = Plan { arguments: vec![prefix], ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", &warming(&data))).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    let sets = serde_json::to_value(world.sets().await.unwrap()).unwrap();
    let pod = &sets[0]["spec"]["template"]["spec"];
    let first = |at: usize, field: &str| pod["initContainers"][at][field].clone();
    assert_eq!(
        (first(0, "image"), first(0, "command")),
        (json!("example.com/torch:2"), json!(["true"]))
    );
    assert_eq!((first(1, "name"), first(1, "image")), (json!("warm-weights"), json!("busybox")));
    let volumes = pod["volumes"].as_array().unwrap();
    let image = json!({"reference": "example.com/static:1", "pullPolicy": "IfNotPresent"});
    let path = json!({"path": data, "type": "DirectoryOrCreate"});
    let has = |key: &str, volume: &Value| volumes.iter().any(|found| found[key] == *volume);
    assert!(has("image", &image) && has("hostPath", &path), "{volumes:#?}");

    // As with a kubelet, the folder exists, and the command runs for each new placeholder of the
    // node.
    fs::create_dir_all(&data).unwrap();
    let command: Vec<String> = serde_json::from_value(first(1, "command")).unwrap();
    let run = || Command::new(&command[0]).args(&command[1..]).status().unwrap().success();
    assert!(run() && run());
    assert_eq!(fs::read_to_string(data.join("data")).unwrap(), "a line\n");

    // A command that was killed before its end leaves no marker, so the next one loads the data
    // again.
    fs::remove_file(data.join(".done")).unwrap();
    assert!(run());
    assert_eq!(fs::read_to_string(data.join("data")).unwrap(), "a line\na line\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_outside_the_operators_prefix_is_refused() {
    let plan = Plan {
        arguments: vec!["--warm-host-path-prefix=/var/warm".into()],
        ..Plan::of([NodeGroup::new("small", "m5.xlarge")])
    };
    let world = plan.start(&policy("batch", &warming(Path::new("/etc/kubernetes")))).await;
    let refused = |status: &Value| status["conditions"][0]["reason"] == "InvalidPolicy";
    world.wait_for_status("batch", "the folder to be refused", refused).await;
    // A command that may write into the prefix itself, or into a parent of another folder, could
    // replace that folder by a symbolic link to any folder of the node.
    for folder in
        ["/var/warm", "/var/warm/", "/var/warm/.", "/var/warm/a/b", "/var/warm//", "/var/warmer/a"]
    {
        world.apply(&policy("batch", &warming(Path::new(folder)))).await;
        let named = |status: &Value| {
            let message = status["conditions"][0]["message"].as_str().unwrap_or_default();
            refused(status) && message.contains(&format!("hostPath: {folder} "))
        };
        world.wait_for_status("batch", folder, named).await;
    }
    assert!(world.sets().await.unwrap().is_empty());
}
