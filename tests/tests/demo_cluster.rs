//! The demo on a real control plane, as `make demo-cluster` runs it, from its start to Ctrl-C.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tests::axe::Rules;
use tests::browser::{Browser, installed};
use tests::wait;

/// The longest wait for a condition of the page, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// The running demo. It is killed when it is dropped.
struct Demo {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Its output so far.
    text: String,
}

impl Demo {
    /// Starts the demo with bursts that follow each other at once, and with temporary files in
    /// `folder`.
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo-cluster"));
        command.arg("0").env("TMPDIR", folder).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, text: String::new() }
    }

    /// Reads lines up to the first one that contains `part`.
    fn read_until(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "no {part:?} in\n{}", self.text);
            self.text += &line;
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Sends SIGINT; returns the exit code.
    fn interrupt(&mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.out.read_to_string(&mut self.text).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Both calls fail if the demo has already ended, which is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The seconds in a line such as `0:21  burst 1 waited 18.9 s for nodes`.
fn seconds(line: &str) -> f64 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "waited").unwrap();
    words[at + 1].parse().unwrap()
}

/// The commands of the demo's output, without `--watch`, because they would never end.
fn commands(text: &str) -> String {
    let commands = text.lines().filter_map(|line| line.strip_prefix("    "));
    commands.map(|line| line.replace(" --watch", "") + "\n").collect()
}

/// The processes whose temporary files are in `folder`, by their command lines.
fn processes(folder: &Path) -> Vec<String> {
    let variable = format!("TMPDIR={}", folder.display());
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let text =
        |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let of_demo = all.filter(|path| text(&path.join("environ")).split('\0').any(|v| v == variable));
    of_demo.map(|path| text(&path.join("cmdline")).replace('\0', " ")).collect()
}

/// The page draws the buckets, and violates no rule of accessibility.
async fn check_page(address: &str) {
    let Some(program) = installed() else { return };
    let mut browser = Browser::start(program).unwrap();
    browser.open(address).unwrap();
    let drawn = "document.querySelectorAll('#bucket svg path.line').length > 0";
    let drawn = wait::until_true("a plot", DEADLINE, async || Ok(browser.evaluate(drawn)? == true));
    drawn.await.unwrap();
    // Pods did not wait for at least three nodes, which placeholders launched.
    let hidden = "Number(document.querySelector('#figures tbody td').textContent) >= 3";
    let hidden = wait::until_true("hidden launches", DEADLINE, async || {
        Ok(browser.evaluate(hidden)? == true)
    });
    hidden.await.unwrap();
    let policy = browser.evaluate("document.getElementById('choices').textContent").unwrap();
    assert!(policy.as_str().unwrap().contains("prophet/batch (Act)"), "{policy}");
    if let Some(rules) = Rules::downloaded() {
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "dark")] {
            browser.screen(width, scheme).unwrap();
            let violations = rules.violations(&mut browser).unwrap();
            assert!(violations.is_empty(), "{width} pixels, {scheme}:\n{}", violations.join("\n"));
        }
    }
    assert_eq!(browser.errors, []);
}

#[tokio::test]
async fn a_later_burst_finds_its_nodes_and_ctrl_c_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(folder.path());
    let dashboard = demo.read_until("the dashboard: ");
    demo.read_until("Ctrl-C");
    let first = seconds(&demo.read_until("burst 1 waited"));

    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &commands(&demo.text)]);
    let shown = bash.output().unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success(), "{}\n{out}\n{error}", demo.text);
    for part in ["Ready", "burst-1-1-", "Act", "m5.xlarge"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }

    let mut later = vec![seconds(&demo.read_until("burst 2 waited"))];
    // In one of 366 bursts on a loaded machine, kube-scheduler 1.36.3 preempted a placeholder for a
    // pod, and retried the pod only after a later event, such as a node that joins. Prophet cannot
    // prevent this, so only the next burst shows that its nodes are ready.
    let nominated = |line: &str| line.contains("burst-2-") && line.contains("had nominated one");
    if demo.text.lines().any(nominated) {
        later.push(seconds(&demo.read_until("burst 3 waited")));
    }
    println!("the first burst waits {first} s, and the later ones {later:?} s");
    // A launch takes 15 s.
    let last = later[later.len() - 1];
    assert!(first > 15.0 && last < first / 2.0, "{}", demo.text);
    check_page(dashboard.trim().rsplit(' ').next().unwrap()).await;

    // The demo itself, etcd, three parts of Kubernetes, kwok, moto and the controller.
    let running = processes(folder.path());
    assert_eq!(running.len(), 8, "{running:#?}");
    assert_eq!(demo.interrupt(), Some(0), "{}", demo.text);
    assert!(
        demo.text.contains(&format!("\nburst {} waited {last:.1} s for nodes\n", later.len() + 1)),
        "{}",
        demo.text
    );
    assert_eq!(processes(folder.path()), [""; 0]);
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
