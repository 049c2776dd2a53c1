//! A headless Chromium, driven over the pipe of its remote debugging protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The programs that are tried, in this order.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The time limit of one call, long enough for a loaded machine.
const CALL: Duration = Duration::from_mins(1);

/// Connects the pipe of the protocol, file descriptors 3 and 4, with standard input and output.
const SCRIPT: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// A browser with one page. It ends when it is dropped.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    calls: u64,
    /// The errors of the console so far: the source and the text of each.
    pub errors: Vec<(String, String)>,
    _profile: TempDir,
}

/// The path of an installed browser. `None` if there is none; a note on standard error then names
/// what to install.
pub fn installed() -> Option<&'static str> {
    let runs = |program: &&&str| {
        let mut version = Command::new(program);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    let found = PROGRAMS.iter().find(runs).copied();
    if found.is_none() {
        // Written directly, because the output of a test that passes is not shown.
        let note = b"note: the dashboard is not tested in a browser, because there is none: apt-get install chromium\n";
        let _ = std::io::stderr().write_all(note);
    }
    found
}

impl Browser {
    /// Starts a browser with an empty page.
    ///
    /// # Errors
    /// The browser cannot be started, or does not respond.
    pub fn start(program: &str) -> Result<Self> {
        let profile = TempDir::new()?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "bash", "-c", SCRIPT, program]);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "about:blank"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("failed to start the browser")?;
        let to = child.stdin.take().context("no standard input")?;
        let from = messages(&mut child)?;
        let (session, errors) = (String::new(), Vec::new());
        let mut browser = Self { child, to, from, session, calls: 0, errors, _profile: profile };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let target = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &target)?;
        attached["sessionId"].as_str().context("no session")?.clone_into(&mut browser.session);
        for domain in ["Runtime", "Log", "Page"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Opens an address.
    ///
    /// # Errors
    /// The browser does not respond, or cannot load the page.
    pub fn open(&mut self, address: &str) -> Result<()> {
        let opened = self.call("Page.navigate", &json!({"url": address}))?;
        ensure!(opened.get("errorText").is_none(), "{address}: {opened}");
        Ok(())
    }

    /// Sets the width of the page in pixels, and the colour scheme, `light` or `dark`.
    ///
    /// # Errors
    /// The browser does not respond.
    pub fn screen(&mut self, width: u32, scheme: &str) -> Result<()> {
        let size =
            json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", &json!({"features": [feature]})).map(drop)
    }

    /// Evaluates an expression in the page. The result of a promise is awaited.
    ///
    /// # Errors
    /// The browser does not respond, or the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &parameters)?;
        ensure!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        Ok(result["result"]["value"].clone())
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        loop {
            let reply = self.from.recv_timeout(CALL);
            let mut reply = reply.with_context(|| format!("no response to {method}"))?;
            if reply["id"] != self.calls {
                self.errors.extend(error(&reply));
            } else if reply.get("error").is_some() {
                bail!("{method}: {reply}");
            } else {
                return Ok(reply["result"].take());
            }
        }
    }
}

/// Reads the messages of a browser in a thread of its own. They end with NUL.
fn messages(child: &mut Child) -> Result<Receiver<Value>> {
    let from = BufReader::new(child.stdout.take().context("no standard output")?);
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        for message in from.split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else { return };
            if sender.send(message).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("devtools".into()).spawn(read)?;
    Ok(receiver)
}

/// The source and the text of an error of the console. `None` for other events.
fn error(event: &Value) -> Option<(String, String)> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            Some(("exception".into(), parameters["exceptionDetails"].to_string()))
        }
        "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
            let source = parameters["entry"]["source"].as_str().unwrap_or_default();
            Some((source.into(), parameters["entry"].to_string()))
        }
        "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
            Some(("console".into(), parameters["args"].to_string()))
        }
        _ => None,
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both calls fail if the browser has already ended, which is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
