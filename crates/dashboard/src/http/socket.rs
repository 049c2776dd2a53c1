//! A connection whose reads and writes have a common time limit.
//!
//! The limit holds for all of them together, so that a client cannot prolong it by sending, or
//! reading, a byte at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base::clock::Stopwatch;

/// How long the rest of a request is discarded after the response. A connection that is closed
/// while bytes are unread is reset, and the client may lose the response.
const LINGER: Duration = Duration::from_secs(1);
/// The most bytes that are discarded after the response.
const LINGER_BYTES: usize = 4 << 20;

/// What a response is sent through: a connection, or TLS over one.
pub trait Channel: Read + Write + Send {
    /// The connection.
    fn socket(&mut self) -> &mut Socket;

    /// Sends what has to be sent before the connection is closed.
    fn finish(&mut self) {}
}

/// A connection with a time limit.
#[derive(Debug)]
pub struct Socket {
    stream: Arc<TcpStream>,
    since: Stopwatch,
    limit: Duration,
}

impl Socket {
    /// A connection whose time begins now.
    pub(super) fn new(stream: Arc<TcpStream>, limit: Duration) -> Self {
        Self { stream, since: Stopwatch::now(), limit }
    }

    /// Begins a new time limit for the reads and writes from now on.
    pub(super) fn allow(&mut self, limit: Duration) {
        (self.since, self.limit) = (Stopwatch::now(), limit);
    }

    /// Ends the connection after the response.
    pub fn end(&mut self) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.allow(LINGER);
        let (mut part, mut left) = ([0; 4 << 10], LINGER_BYTES);
        while left > 0 {
            match self.read(&mut part) {
                Ok(count) if count > 0 => left = left.saturating_sub(count),
                _ => return,
            }
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.limit.checked_sub(self.since.elapsed());
        let left = left.filter(|left| !left.is_zero()).ok_or(io::ErrorKind::TimedOut)?;
        Ok(Some(left))
    }
}

/// A timed-out call of a socket fails with `WouldBlock`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&*self.stream).read(bytes).map_err(timed_out)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&*self.stream).write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.stream).flush()
    }
}

impl Channel for Socket {
    fn socket(&mut self) -> &mut Socket {
        self
    }
}
