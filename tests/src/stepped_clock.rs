//! A wall clock that a test steps, as NTP or an operator does, for one program. Its monotonic clock
//! goes on. A small library, which is compiled here and preloaded into the program, replaces the
//! C function that reads the clock.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The wall clock of one program.
#[derive(Debug)]
pub struct SteppedClock {
    folder: TempDir,
}

impl SteppedClock {
    /// Creates a clock that shows the time of the machine.
    ///
    /// # Errors
    /// The machine has no C compiler, `cc`, or its temporary folder cannot be written.
    pub fn new() -> Result<Self> {
        let clock = Self { folder: tempfile::tempdir()? };
        fs::write(clock.file("seconds"), 0_i64.to_ne_bytes())?;
        let source = clock.file("stepped_clock.c");
        fs::write(&source, include_str!("stepped_clock.c"))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.file("library.so")).arg(source);
        let output = compiler.output().context("failed to start cc")?;
        ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
        Ok(clock)
    }

    /// The environment of the program.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let path = |name| self.file(name).display().to_string();
        [("LD_PRELOAD", path("library.so")), ("STEPPED_CLOCK", path("seconds"))]
    }

    /// Sets the difference to the clock of the machine.
    ///
    /// # Errors
    /// The temporary folder cannot be written.
    pub fn step(&self, seconds: i64) -> Result<()> {
        let file = fs::File::options().write(true).open(self.file("seconds"))?;
        Ok(file.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds since 1970 that a program sees.
    fn seen(clock: &SteppedClock) -> i64 {
        let mut command = Command::new("date");
        let output = command.arg("+%s").envs(clock.environment()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn a_program_sees_the_stepped_clock() {
        let clock = SteppedClock::new().unwrap();
        let start = seen(&clock);
        for step in [3_600, -3_600, 0] {
            clock.step(step).unwrap();
            let passed = seen(&clock) - start - step;
            assert!((0..60).contains(&passed), "{passed} s after a step of {step} s");
        }
    }
}
