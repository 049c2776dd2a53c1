//! Loopback ports that nobody else takes while a test holds them.

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, bail};

/// Below the ports that the kernel gives to outgoing connections.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port on 127.0.0.1, kept from other tests, also those of other processes, by a lock on a file.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// One that is free now.
    ///
    /// # Errors
    /// Where the folder of the locks cannot be made, or all ports are taken.
    pub fn free() -> Result<Self> {
        let folder = std::env::temp_dir().join("prophet-test-ports");
        fs::create_dir_all(&folder)
            .with_context(|| format!("failed to make {}", folder.display()))?;
        let start = RandomState::new().hash_one("port") % u64::from(COUNT);
        let start = u16::try_from(start).context("a port is a small number")?;
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            // What another user locks cannot even be opened: as good as taken.
            let Ok(lock) = File::create(folder.join(number.to_string())) else { continue };
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port between {FIRST} and {}", FIRST + COUNT)
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(formatter)
    }
}
