//! Loopback ports, each reserved by one test at a time.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Context, Result, bail};

/// The first port. The range is below Linux's default ports for outgoing connections, from 32768.
const FIRST: u16 = 20_000;
/// The number of ports, so that the last one is 31999.
const COUNT: u16 = 12_000;

/// A port on 127.0.0.1. A socket of the same number keeps other tests from using it, those of other
/// processes too. The socket has an abstract name, so it is no file, and it ends with the process.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reservation: UnixListener,
}

impl Port {
    /// Reserves a port that is free now.
    ///
    /// # Errors
    /// All ports are in use.
    pub fn free() -> Result<Self> {
        let start = RandomState::new().hash_one("port") % u64::from(COUNT);
        let start = u16::try_from(start).context("a port is a small number")?;
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            let Some(port) = Self::reserve(number) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(port);
            }
        }
        bail!("no free port between {FIRST} and {}", FIRST + COUNT)
    }

    /// Reserves this port, unless a test has. Another program may use it.
    pub(crate) fn reserve(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("prophet-test-port-{number}")).ok()?;
        let reservation = UnixListener::bind_addr(&name).ok()?;
        Some(Self { number, _reservation: reservation })
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
