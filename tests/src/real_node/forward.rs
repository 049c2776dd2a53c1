//! TCP connections to an address of the cluster, forwarded to loopback, in place of kube-proxy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use crate::background::Background;

/// The bytes that are read at once.
const PIECE: usize = 64 << 10;

/// The pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Forwards connections until it is dropped.
#[derive(Debug)]
pub struct Forward {
    _work: Background,
}

impl Forward {
    /// Forwards connections to `listen` to `upstream`, with at most so many bytes a second towards
    /// the client in each connection.
    ///
    /// # Errors
    /// Nothing can listen on the address.
    pub fn start(
        listen: SocketAddr,
        upstream: SocketAddr,
        bytes_per_second: Option<u32>,
    ) -> Result<Self> {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let work = async move || match TcpListener::from_std(listener) {
            Ok(listener) => serve(listener, upstream, bytes_per_second).await,
            Err(error) => eprintln!("failed to listen on {listen}: {error}"),
        };
        Ok(Self { _work: Background::start("forward", work)? })
    }
}

async fn serve(listener: TcpListener, upstream: SocketAddr, rate: Option<u32>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(upstream).await else { return };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(copy(from_client, to_server, None), copy(from_server, to_client, rate));
        });
    }
}

/// Copies until either side ends, at most so many bytes a second.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    rate: Option<u32>,
) {
    let mut piece = vec![0; PIECE];
    let mut due = Instant::now();
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
        if let Some(rate) = rate {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            due = due.max(Instant::now() - Duration::from_millis(100))
                + Duration::from_secs(1) * length / rate;
            sleep_until(due).await;
        }
    }
    // The other side may already be closed.
    let _ = to.shutdown().await;
}
