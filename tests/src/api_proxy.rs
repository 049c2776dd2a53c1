//! A TCP proxy between the controller and the API server, to interrupt the network between them
//! while the API server keeps running for everything else.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

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
}

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
    let forwarded = async {
        let Ok(mut server) = TcpStream::connect(upstream).await else { return };
        // An error means that one side has closed its connection, which ends the other one too.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
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
