//! A TCP proxy between the controller and the API server, to interrupt the network between them
//! while the API server keeps running for everything else.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::background::Background;
use crate::ports::Port;

/// A running proxy. It ends when this value is dropped.
#[derive(Debug)]
pub struct ApiProxy {
    port: Port,
    mode: watch::Sender<Mode>,
    _work: Background,
}

/// What the proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Forwards them.
    Open,
    /// Drops and refuses them.
    Closed,
    /// Accepts and keeps them, and forwards nothing.
    Silent,
    /// Forwards requests after this time, unless the client has closed the connection by then.
    Delayed(Duration),
}

/// The most pieces of requests that are delayed at once on one connection.
const PIECES: usize = 1_024;

/// The size of a piece.
const PIECE_BYTES: usize = 16 << 10;

/// The pause after a failure to listen or to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

impl ApiProxy {
    /// Starts a proxy to the API server with this URL. It is open at first.
    ///
    /// # Errors
    /// The URL is not an https URL, or no port is free.
    pub fn start(server: &str) -> Result<Self> {
        let upstream = server.strip_prefix("https://").context("not an https URL")?.to_owned();
        let (port, (mode, modes)) = (Port::free()?, watch::channel(Mode::Open));
        let number = port.number();
        let work = Background::start("api-proxy", move || serve(number, upstream, modes))?;
        Ok(Self { port, mode, _work: work })
    }

    /// The URL of the proxy. The API server's certificate is valid for it, because it names the
    /// host and not the port.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Drops all connections, and refuses new ones until [`ApiProxy::open`].
    pub fn close(&self) {
        self.mode.send_replace(Mode::Closed);
    }

    /// Keeps all connections, and accepts new ones, but forwards nothing on them, also after
    /// [`ApiProxy::open`]: to the controller, they are half open.
    pub fn silence(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Forwards requests after a time, and responses at once. What a client sent before it closed
    /// the connection is not forwarded.
    pub fn delay(&self, time: Duration) {
        self.mode.send_replace(Mode::Delayed(time));
    }

    /// Accepts and forwards new connections again.
    pub fn open(&self) {
        self.mode.send_replace(Mode::Open);
    }
}

async fn serve(port: u16, upstream: String, mut mode: watch::Receiver<Mode>) {
    // An error means that the proxy was dropped.
    while mode.wait_for(|mode| *mode != Mode::Closed).await.is_ok() {
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Connections end when the set is dropped.
        let mut connections = JoinSet::new();
        let modes = mode.clone();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        connections.spawn(forward(client, upstream.clone(), modes.clone()));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                _ = mode.wait_for(|mode| *mode == Mode::Closed) => break,
            }
        }
    }
}

async fn forward(mut client: TcpStream, upstream: String, mut mode: watch::Receiver<Mode>) {
    let delays = mode.clone();
    let forwarded = async {
        let Ok(mut server) = TcpStream::connect(upstream).await else { return };
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let (pieces, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
        let read = async {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let length = from_client.read(&mut piece).await.unwrap_or(0);
                piece.truncate(length);
                let delay = match *delays.borrow() {
                    Mode::Delayed(delay) => delay,
                    Mode::Open | Mode::Closed | Mode::Silent => Duration::ZERO,
                };
                if length == 0 || pieces.send((Instant::now() + delay, piece)).await.is_err() {
                    return;
                }
            }
        };
        let write = async {
            while let Some((at, piece)) = due.recv().await {
                tokio::time::sleep_until(at).await;
                if to_server.write_all(&piece).await.is_err() {
                    return;
                }
            }
        };
        // Once one side has closed its connection, the other one ends, too.
        tokio::select! {
            () = read => {}
            () = write => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    };
    let silent = tokio::select! {
        silent = mode.wait_for(|mode| *mode == Mode::Silent) => silent.is_ok(),
        () = forwarded => false,
    };
    if silent {
        // The connection to the client stays open until the proxy is closed or dropped.
        std::future::pending::<()>().await;
    }
}
