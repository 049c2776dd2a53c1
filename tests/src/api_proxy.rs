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
    open: watch::Sender<bool>,
    _work: Background,
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
        let (port, (open, opened)) = (Port::free()?, watch::channel(true));
        let number = port.number();
        let work = Background::start("api-proxy", move || serve(number, upstream, opened))?;
        Ok(Self { port, open, _work: work })
    }

    /// The URL of the proxy. The API server's certificate is valid for it, because it names the
    /// host and not the port.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Drops all connections, and refuses new ones until [`ApiProxy::open`].
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn serve(port: u16, upstream: String, mut open: watch::Receiver<bool>) {
    // An error means that the proxy was dropped.
    while open.wait_for(|open| *open).await.is_ok() {
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Connections end when the set is dropped.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        connections.spawn(forward(client, upstream.clone()));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                _ = open.wait_for(|open| !*open) => break,
            }
        }
    }
}

async fn forward(mut client: TcpStream, upstream: String) {
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    // An error means that one side has closed its connection, which ends the other one too.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}
