//! A pipe for the log of a program. A test can stop to read from it, as a container runtime does
//! whose log driver blocks. The program then hangs as soon as it writes to its log.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The pause between two looks whether the pipe is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// The byte that fills the pipe while nobody reads from it. No log has it.
const FILLER: u8 = 0;

/// More than a pipe holds, which is 64 KiB.
const FILLERS: usize = 1 << 20;

/// A pipe, which is read at first. Its threads end with the process of the test.
#[derive(Debug)]
pub struct LogPipe {
    path: PathBuf,
    pipe: File,
    blocked: Arc<AtomicBool>,
}

impl LogPipe {
    /// Makes a pipe in a folder. What is written to it is appended to the file `log`.
    ///
    /// # Errors
    /// `mkfifo` fails, or the log cannot be opened.
    pub fn create(folder: &Path, log: &Path) -> Result<Self> {
        let path = folder.join("log-pipe");
        let made = Command::new("mkfifo").arg(&path).status().context("failed to run mkfifo")?;
        ensure!(made.success(), "failed to make {}", path.display());
        // On Linux, a pipe that is opened for both neither waits for the other side nor ends.
        let pipe = File::options().read(true).write(true).open(&path)?;
        let log = File::options().create(true).append(true).open(log)?;
        let (reader, blocked) = (pipe.try_clone()?, Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&blocked);
        thread::spawn(move || read(reader, log, &stop));
        Ok(Self { path, pipe, blocked })
    }

    /// The same command, with its standard error written to the pipe.
    pub fn connect(&self, command: &Command) -> Command {
        let mut connected = Command::new("sh");
        connected.args(["-c", r#"exec "$@" 2>"$0""#]).arg(&self.path);
        connected.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => connected.env(name, value),
                None => connected.env_remove(name),
            };
        }
        connected
    }

    /// Stops to read from the pipe, and fills it.
    ///
    /// # Errors
    /// The pipe cannot be written.
    pub fn block(&self) -> Result<()> {
        self.blocked.store(true, Ordering::Relaxed);
        let mut pipe = self.pipe.try_clone()?;
        // It hangs until the pipe is read again. An error leaves room in the pipe, so the test
        // that waits for a hanging program fails.
        thread::spawn(move || pipe.write_all(&vec![FILLER; FILLERS]));
        Ok(())
    }

    /// Reads from the pipe again.
    pub fn unblock(&self) {
        self.blocked.store(false, Ordering::Relaxed);
    }
}

/// Copies the pipe to the log, except while it is blocked.
fn read(mut pipe: File, mut log: File, blocked: &AtomicBool) {
    let mut part = [0; 1 << 12];
    loop {
        if blocked.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
            continue;
        }
        let Ok(length) = pipe.read(&mut part) else { return };
        let text: Vec<u8> = part[..length].iter().copied().filter(|byte| *byte != FILLER).collect();
        if log.write_all(&text).is_err() {
            return;
        }
    }
}
