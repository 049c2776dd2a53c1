//! Loopback ports, each reserved by one test at a time.

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, bail};

/// The first port. The range is below Linux's default ports for outgoing connections, from 32768.
const FIRST: u16 = 20_000;
/// The number of ports, so that the last one is 31999.
const COUNT: u16 = 12_000;

/// A port on 127.0.0.1. A lock on a file keeps other tests from using it, those of other processes
/// too.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port that is free now.
    ///
    /// # Errors
    /// The folder of the locks cannot be created, or all ports are in use.
    pub fn free() -> Result<Self> {
        let folder = std::env::temp_dir().join("prophet-test-ports");
        fs::create_dir_all(&folder)
            .with_context(|| format!("failed to create {}", folder.display()))?;
        let start = RandomState::new().hash_one("port") % u64::from(COUNT);
        let start = u16::try_from(start).context("a port is a small number")?;
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            // A lock file of another user cannot be opened, so its port counts as in use.
            let Ok(lock) = File::create(folder.join(number.to_string())) else { continue };
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port between {FIRST} and {}", FIRST + COUNT)
    }

    /// The number of the port.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(formatter)
    }
}
