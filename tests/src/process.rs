//! Programs that a test starts. A program is killed when its [`Process`] is dropped, and when the
//! test itself is killed.

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

/// The number of last lines of a program's log in an error message.
const LINES: usize = 15;

/// A running program. Its output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; its standard output and error are appended to `FOLDER/NAME.log`.
    ///
    /// `Command::env_clear` has no effect here: set or remove variables one by one instead.
    ///
    /// # Errors
    /// The log cannot be opened, or the program cannot be started.
    pub fn start(name: &str, command: &Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("failed to open {}", log.display()))?;
        let mut bound = bound_to_this_process(command);
        bound.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        let child = spawn(bound).with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's output so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> Result<String> {
        let bytes = fs::read(&self.log)
            .with_context(|| format!("failed to read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    /// The deadline passes, or the program ends first. The message has `what` and the end of the
    /// log.
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
        let end = || format!("the last output of {}:\n{}", self.name, self.last_lines());
        waited.with_context(end)?;
        if let Some(status) = ended {
            bail!("{} ended with {status} before {what}\n{}", self.name, end());
        }
        Ok(())
    }

    /// Waits until the program listens on `port`.
    ///
    /// # Errors
    /// As [`Process::wait_until`].
    pub async fn wait_for_port(&mut self, port: &Port, deadline: Duration) -> Result<()> {
        let what = format!("a listener of {} on port {port}", self.name);
        let address = (Ipv4Addr::LOCALHOST, port.number());
        self.wait_until(&what, deadline, async || Ok(TcpStream::connect(address).is_ok())).await
    }

    /// Waits until the program ends by itself; returns its exit status.
    ///
    /// # Errors
    /// The program still runs after the deadline.
    pub async fn wait_for_end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        wait::until(&what, deadline, async || Ok(self.child.try_wait()?)).await
    }

    /// Sends SIGTERM, as the kubelet does; waits, and returns the exit status.
    ///
    /// # Errors
    /// The signal cannot be sent, or the program still runs after the deadline.
    pub async fn terminate(mut self, deadline: Duration) -> Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait_for_end(deadline).await
    }

    /// Sends a signal, such as `STOP`.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn signal(&self, name: &str) -> Result<()> {
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        let sent = status.context("failed to run kill")?.success();
        ensure!(sent, "failed to send {} the signal {name}", self.name);
        Ok(())
    }

    /// Kills the program, and waits until it has ended, so that its ports are free.
    pub fn kill(&mut self) {
        // Both calls fail if the program has already ended, which is no error here.
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
            eprintln!("the last output of {}:\n{}\n", self.name, self.last_lines());
        }
    }
}

/// The same command, with a parent-death signal: the kernel kills it when its parent ends.
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

/// A command to start, and the channel for its child process.
type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Starts a command on a thread that lives as long as this process.
///
/// The parent-death signal is sent when the *thread* that started the child ends, and the threads
/// of a test runner or a runtime end early. Therefore one permanent thread starts all programs.
fn spawn(command: Command) -> Result<Child> {
    static ORDERS: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                // The send fails only if the receiving test has ended.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, child) = mpsc::sync_channel(1);
    ORDERS.send((command, reply)).ok().context("the thread that starts programs has ended")?;
    Ok(child.recv().context("the thread that starts programs has ended")??)
}
