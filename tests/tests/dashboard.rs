//! The demo and its dashboard, in a real browser.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tests::axe::Rules;
use tests::browser::{Browser, installed};
use tests::ports::Port;
use tests::{prophet, run, wait};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// A running demo. It is killed when it is dropped.
struct Demo(Child);

impl Demo {
    fn start(log: &Path, port: &Port) -> Self {
        let (log, address) = (log.display().to_string(), format!("127.0.0.1:{}", port.number()));
        // Half of the log warms up the forecasts. The rest takes 18 minutes.
        let mut command =
            prophet(&["demo", "--trace", &log, "--listen", &address, "--speed", "240"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Sends SIGINT, and returns the exit code and standard output.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.0.wait().unwrap().code(), out)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Both calls fail if the demo has already ended, which is no error here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A small synthetic log.
fn log(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("jobs.csv");
    let file = path.display().to_string();
    let arguments =
        ["trace", "generate", "--days", "6", "--jobs-per-day", "100", "--out", file.as_str()];
    let (code, _, error) = run(&arguments);
    assert_eq!(code, 0, "{error}");
    path
}

/// Waits until an expression is true in the page.
async fn until(browser: &mut Browser, expression: &str) {
    let shown =
        wait::until_true(expression, DEADLINE, async || Ok(browser.evaluate(expression)? == true));
    if let Err(error) = shown.await {
        let page = browser.evaluate("document.body.innerText").unwrap_or_default();
        panic!("{error:#}\nthe page:\n{page:#}");
    }
}

const LIVE: &str = "document.getElementById('state').textContent === 'live'";

/// Whether the page has moved on since it was remembered.
const MOVED: &str = "document.getElementById('clock').textContent !== window.before";

const REMEMBER: &str = "window.before = document.getElementById('clock').textContent";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_draws_moves_and_survives_a_restart_without_console_errors() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (log, port) = (log(folder.path()), Port::free().unwrap());
    let mut demo = Demo::start(&log, &port);
    let mut browser = Browser::start(program).unwrap();
    let address = format!("http://127.0.0.1:{}/", port.number());
    wait::until_true("the page", DEADLINE, async || Ok(browser.open(&address).is_ok()))
        .await
        .unwrap();
    browser.errors.clear();
    until(&mut browser, LIVE).await;
    // Two policies, with curves in each plot, which is there for a wide and for a narrow screen;
    // the band and the decisions.
    until(&mut browser, "document.querySelectorAll('#curves svg path.line.strong').length === 8")
        .await;
    until(&mut browser, "document.querySelectorAll('#bucket svg path.band').length > 0").await;
    until(&mut browser, "document.querySelectorAll('#figures tbody tr').length === 7").await;
    until(&mut browser, "document.querySelectorAll('#decisions tbody tr').length > 0").await;
    browser.evaluate(REMEMBER).unwrap();
    until(&mut browser, MOVED).await;

    // The choice of a time is part of the address. Focus stays where it is when the page moves.
    browser.evaluate("document.getElementById('hour').click()").unwrap();
    until(&mut browser, "location.search.includes('range=hour')").await;
    until(&mut browser, LIVE).await;
    until(&mut browser, "document.querySelector('#ranges [aria-current]').id === 'hour'").await;
    until(&mut browser, "document.getElementById('policy ensemble (Prophet)') !== null").await;
    browser.evaluate("document.getElementById('policy ensemble (Prophet)').focus()").unwrap();
    browser.evaluate(REMEMBER).unwrap();
    until(&mut browser, MOVED).await;
    until(&mut browser, "document.activeElement.id === 'policy ensemble (Prophet)'").await;

    // A phone's width, and the dark scheme.
    let paper = "getComputedStyle(document.body).backgroundColor";
    browser.screen(390, "light").unwrap();
    until(&mut browser, "document.documentElement.scrollWidth <= 390").await;
    let light = browser.evaluate(paper).unwrap();
    browser.screen(1280, "dark").unwrap();
    until(&mut browser, &format!("{paper} !== {light}")).await;
    if let Some(rules) = Rules::downloaded() {
        for (width, scheme) in [(1280, "dark"), (1280, "light"), (390, "light")] {
            browser.screen(width, scheme).unwrap();
            let violations = rules.violations(&mut browser).unwrap();
            assert!(violations.is_empty(), "{width} pixels, {scheme}:\n{}", violations.join("\n"));
        }
    }
    assert_eq!(browser.errors, []);

    drop(demo);
    until(&mut browser, "document.getElementById('state').textContent.includes('lost')").await;
    demo = Demo::start(&log, &port);
    until(&mut browser, LIVE).await;
    // The evaluated time has begun once there are figures.
    until(&mut browser, "document.querySelectorAll('#figures tbody tr').length === 7").await;
    browser.evaluate(REMEMBER).unwrap();
    until(&mut browser, MOVED).await;
    // While the server is gone, the browser itself reports that requests fail.
    browser.errors.retain(|(source, _)| source != "network");
    assert_eq!(browser.errors, []);

    let (code, out) = demo.interrupt();
    assert_eq!(code, Some(0), "{out}");
    for policy in ["reactive ", "ensemble "] {
        assert!(out.lines().any(|line| line.starts_with(policy)), "{policy} is not in\n{out}");
    }
}

#[test]
fn the_demo_begins_with_the_comparison_and_stays_at_the_end_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path()).display().to_string();
    let arguments = ["demo", "--trace", &log, "--speed", "1e9", "--listen", "localhost:0"];
    let mut command = prophet(&arguments);
    let mut demo = Demo(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut find = |text: &str| {
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text} is not printed"))
    };
    // The rule of all commands for a log without a start.
    find("without --from, the first half of the log, at most 14 days, warms up the forecasts");
    let address = find("on the dashboard: http://127.0.0.1:");
    find("the log has ended; the dashboard stays until Ctrl-C");
    let (_, rest) = address.split_once("http://").unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    write!(connection, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    connection.read_to_string(&mut page).unwrap();
    for text in ["With ensemble, jobs would have waited", "the run below is finished"] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    let (code, out) = demo.interrupt();
    assert_eq!(code, Some(0), "{out}");
    // The same jobs over the same window: the demo and `simulate` agree.
    let (_, simulated, _) = run(&["simulate", "--trace", &log, "--policies", "reactive,ensemble"]);
    let rows = |text: &str| -> Vec<String> {
        let is_row = |line: &&str| line.starts_with("reactive ") || line.starts_with("ensemble ");
        text.lines().filter(is_row).map(str::to_owned).collect()
    };
    assert!(!rows(&out).is_empty(), "{out}");
    assert_eq!(rows(&out), rows(&simulated), "{out}\n{simulated}");
}
