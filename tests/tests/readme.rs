//! The commands of the README's section about a real cluster, run verbatim by bash with a real
//! kubectl.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::control_plane::ControlPlane;
use tests::joiner::{self, Joiner};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tests::process::Process;
use tests::{built, wait};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

const HEADING: &str = "## On your own cluster";

/// The commands of the section, without `cargo build`, because the binary is already built, without
/// `prophet simulate` and `prophet advise`, because no pod of this cluster ends, and without
/// `--watch`, because the command would never end.
fn commands() -> Vec<String> {
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let section = readme.split(HEADING).nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let code = section.lines().filter_map(|line| line.strip_prefix("    "));
    let left_out = ["cargo build", "prophet simulate", "prophet advise"];
    code.filter(|line| !left_out.iter().any(|command| line.starts_with(command)))
        .map(|line| line.replace(" --watch", ""))
        .collect()
}

/// Creates a folder with `prophet` and `kubectl`, for the PATH of the commands.
fn programs(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let link =
        |program: &Path, name: &str| std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    link(&PathBuf::from(tests::prophet(&[]).get_program()), "prophet");
    link(&built::control_plane("bin/kubectl").unwrap(), "kubectl");
    bin
}

fn bash(plane: &ControlPlane, bin: &Path, script: &str) -> Command {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(plane.folder());
    bash.env("PATH", path)
        .env("KUBECONFIG", plane.kubeconfig())
        .env("PROPHET_LISTEN", "127.0.0.1:0");
    bash
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_create_a_placeholder() {
    let (plane, moto) = tokio::try_join!(ControlPlane::start(), Moto::start()).unwrap();
    NodeGroup::new("small", "m5.xlarge").sizes(1, 5).create(&moto).await.unwrap();
    let _joiner = Joiner::start(&plane, &moto, joiner::JoinerSettings::default()).unwrap();
    let _autoscaler = Autoscaler::start(&plane, &moto, AutoscalerSettings::default()).unwrap();
    let bin = programs(plane.folder());
    let commands = commands();
    let at = commands.iter().position(|line| line.starts_with("prophet run")).unwrap();
    let (before, rest) = commands.split_at(at);
    let (running, after) = rest.split_first().unwrap();

    let run = |lines: &[String]| {
        let Output { status, stdout, stderr } =
            bash(&plane, &bin, &lines.join("\n")).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(status.success(), "{}\n{}", text(&stdout), text(&stderr));
        text(&stdout)
    };
    let planned = run(before);
    assert!(planned.contains("m5.xlarge"), "the output of prophet plan:\n{planned}");
    let mut controller =
        Process::start("controller", &bash(&plane, &bin, running), plane.folder()).unwrap();
    run(after);
    let pods: Api<Pod> = Api::namespaced(plane.client(), "prophet");
    let list = ListParams::default().fields("status.phase=Running");
    controller
        .wait_until(
            "a placeholder",
            DEADLINE,
            async || Ok(pods.list(&list).await?.items.len() == 1),
        )
        .await
        .unwrap();
    let explained = run(&[
        "kubectl get opp --namespace prophet".into(),
        "prophet explain --namespace prophet".into(),
    ]);
    assert!(explained.contains("Act") && explained.contains("m5.xlarge"), "{explained}");

    let back = "kubectl patch opp batch --namespace prophet --type merge --patch '{\"spec\": {\"mode\": \"Observe\"}}'";
    run(&[back.into()]);
    wait::until_true("no placeholder", DEADLINE, async || {
        Ok(pods.list(&list).await?.items.is_empty())
    })
    .await
    .unwrap();
}
