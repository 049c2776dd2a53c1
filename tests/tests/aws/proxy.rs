//! A proxy in front of the emulator. It records the IAM action of each call, and can throttle the
//! first calls, which the emulator does not support.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const THROTTLED: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>\
    <Message>Rate exceeded</Message></Error><RequestId>1</RequestId></ErrorResponse>";

/// A running proxy, stopped on drop.
pub(crate) struct Proxy {
    endpoint: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the endpoint. It throttles the first `throttled` calls.
    pub(crate) async fn start(endpoint: &str, throttled: usize) -> Result<Self> {
        let upstream = endpoint.strip_prefix("http://").context("not an http endpoint")?.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let seen = Arc::default();
        let task = tokio::spawn(serve(listener, upstream, throttled, Arc::clone(&seen)));
        Ok(Self { endpoint, seen, task })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Takes the actions of the calls since the last call of this function, in order.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    upstream: String,
    throttled: usize,
    seen: Arc<Mutex<Vec<String>>>,
) {
    for index in 0.. {
        let Ok((mut client, _)) = listener.accept().await else { return };
        let (upstream, seen) = (upstream.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            // An error means that the client has closed its connection, which no test checks.
            let _ = answer(&mut client, &upstream, index < throttled, &seen).await;
        });
    }
}

/// Serves one request, the only one of its connection.
async fn answer(
    client: &mut TcpStream,
    upstream: &str,
    throttle: bool,
    seen: &Mutex<Vec<String>>,
) -> Result<()> {
    let (head, body) = request(client).await?;
    seen.lock().unwrap().push(action(&head, &body)?);
    if throttle {
        let length = THROTTLED.len();
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        client.write_all((head + THROTTLED).as_bytes()).await?;
        return Ok(());
    }
    let mut server = TcpStream::connect(upstream).await?;
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    server.write_all((head + &body).as_bytes()).await?;
    tokio::io::copy(&mut server, client).await?;
    Ok(())
}

/// Reads a request: its head with the final empty line, and its body.
async fn request(client: &mut TcpStream) -> Result<(String, String)> {
    let (mut text, mut part) = (String::new(), [0; 8_192]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then_some(value.trim())
            });
            if body.len() >= length.unwrap_or("0").parse()? {
                return Ok((format!("{head}\r\n\r\n"), body.to_owned()));
            }
        }
        let read = client.read(&mut part).await?;
        anyhow::ensure!(read > 0, "the client closed the connection");
        text += std::str::from_utf8(&part[..read])?;
    }
}

/// The IAM action of a request. The service is in the scope of the signature, the call in the form
/// data.
fn action(head: &str, body: &str) -> Result<String> {
    let scope = head.split_once("/aws4_request").context("the call is not signed")?.0;
    let service = scope.rsplit('/').next().context("no service")?;
    let call =
        body.split('&').find_map(|field| field.strip_prefix("Action=")).context("no action")?;
    Ok(format!("{service}:{call}"))
}
