//! No process that a test starts outlives the test, even if the test is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::control_plane::ControlPlane;
use tests::moto::Moto;
use tests::wait;

/// The environment variable that makes this binary start programs and wait to be killed.
const VICTIM: &str = "TESTS_VICTIM";

/// The longest time from the kill of the parent until the kernel has killed its children.
const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_runner_that_is_killed_leaves_no_process() {
    let mut runner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut folders, mut started) = (Vec::new(), BTreeMap::new());
    for line in BufReader::new(runner.stdout.take().unwrap()).lines().map(Result::unwrap) {
        match line.split_once(": ") {
            Some(("folder", path)) => folders.push(path.to_owned()),
            Some(("process", id)) => {
                started.insert(
                    id.to_owned(),
                    command_line(id).expect("the process has just been started"),
                );
            }
            _ if line == "up" => break,
            _ => {}
        }
    }
    assert_eq!(started.len(), 6, "{started:?}");
    runner.kill().unwrap();
    runner.wait().unwrap();

    let left =
        || started.iter().filter(|(id, line)| command_line(id).as_ref() == Some(line)).count();
    let gone =
        wait::until_true("all its processes to be gone", DEADLINE, async || Ok(left() == 0)).await;
    // A killed test leaves its temporary folders, so this test removes them.
    for folder in folders {
        assert!(Path::new(&folder).starts_with(std::env::temp_dir()), "{folder}");
        fs::remove_dir_all(folder).unwrap();
    }
    gone.unwrap();
}

#[tokio::test]
async fn a_control_plane_that_is_dropped_leaves_no_process_and_no_file() {
    let mut plane = ControlPlane::start().await.unwrap();
    let folder = plane.folder().to_owned();
    let started: Vec<String> =
        plane.processes().iter().map(|process| process.id().to_string()).collect();
    let lines: Vec<_> = started.iter().map(|id| command_line(id)).collect();
    assert!(lines.iter().all(Option::is_some), "{lines:?}");
    drop(plane);
    assert!(!folder.exists());
    for (id, line) in started.iter().zip(lines) {
        assert_ne!(command_line(id), line);
    }
}

#[tokio::test]
#[ignore = "another test starts and kills it"]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let (plane, moto) = tokio::join!(ControlPlane::start(), Moto::start());
    let (mut plane, mut moto) = (plane.unwrap(), moto.unwrap());
    println!("\nfolder: {}\nfolder: {}", plane.folder().display(), moto.folder().display());
    for process in plane.processes() {
        println!("process: {}", process.id());
    }
    println!("process: {}\nup", moto.process().id());
    std::future::pending::<()>().await;
}

/// The command line of a process; `None` if it has ended. The command line distinguishes reused
/// IDs.
fn command_line(id: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{id}/cmdline")).ok().filter(|line| !line.is_empty())
}
