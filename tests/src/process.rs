//! Programs that a test starts. Each ends when its [`Process`] is dropped, and when the test itself is killed.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::ports::Port;
use crate::wait;

/// How many lines of its log an error shows.
const LINES: usize = 15;

/// A running program whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; standard output and error go to `FOLDER/NAME.log`, after what is there. A command that clears its
    /// environment is started with it all the same: set what it is to have.
    ///
    /// # Errors
    /// Where the program cannot be started.
    pub fn start(name: &str, command: &Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("failed to open {}", log.display()))?;
        let mut bound = bound_to_this_process(command);
        bound.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        let child = spawn(bound).with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All that it wrote.
    ///
    /// # Errors
    /// Where its log cannot be read.
    pub fn log(&self) -> Result<String> {
        let bytes = fs::read(&self.log)
            .with_context(|| format!("failed to read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until `ready`. A program that ends before fails at once.
    ///
    /// # Errors
    /// Names what was awaited, with the end of the log.
    pub async fn wait_until(
        &mut self,
        what: &str,
        deadline: Duration,
        mut ready: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let mut ended = None;
        let waited = wait::until_true(what, deadline, async || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some() || ready().await?)
        });
        let waited = waited.await;
        let end = || format!("{} wrote at its end:\n{}", self.name, self.last_lines());
        waited.with_context(end)?;
        if let Some(status) = ended {
            bail!("{} ended with {status} before {what}\n{}", self.name, end());
        }
        Ok(())
    }

    /// Waits until something listens on the port.
    ///
    /// # Errors
    /// As [`Process::wait_until`].
    pub async fn wait_for_port(&mut self, port: &Port, deadline: Duration) -> Result<()> {
        let what = format!("a listener of {} on port {port}", self.name);
        let address = (Ipv4Addr::LOCALHOST, port.number());
        self.wait_until(&what, deadline, async || Ok(TcpStream::connect(address).is_ok())).await
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// Where it runs on.
    pub async fn wait_for_end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        wait::until(&what, deadline, async || Ok(self.child.try_wait()?)).await
    }

    /// Asks it to end, as the kubelet does, with SIGTERM; waits, and returns its exit status.
    ///
    /// # Errors
    /// Where it runs on after the deadline.
    pub async fn terminate(mut self, deadline: Duration) -> Result<ExitStatus> {
        let status = Command::new("kill").arg("-TERM").arg(self.id().to_string()).status();
        ensure!(
            status.context("failed to run kill")?.success(),
            "failed to send {} a signal",
            self.name
        );
        self.wait_for_end(deadline).await
    }

    /// Kills it, and waits until it is gone, its ports with it.
    pub fn kill(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn last_lines(&self) -> String {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{} wrote at its end:\n{}\n", self.name, self.last_lines());
        }
    }
}

/// The same command, killed by the kernel when its parent is gone.
fn bound_to_this_process(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

/// A command to start, and where its child goes.
type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// The kernel takes the *thread* that started a child for its parent. One thread starts all of them, and lives as
/// long as the process: those of a test runner or a runtime come and go.
fn spawn(command: Command) -> Result<Child> {
    static ORDERS: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                // Nobody waits for the reply only where the test has died.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, child) = mpsc::sync_channel(1);
    ORDERS.send((command, reply)).ok().context("the thread that starts programs is gone")?;
    Ok(child.recv().context("the thread that starts programs is gone")??)
}
