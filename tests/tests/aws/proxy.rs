//! A proxy in front of the emulator. It records the IAM action of each call, and can throttle the
//! first calls, which the emulator does not support.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use tests::aws_proxy::{self, Call};
use tokio::net::TcpListener;
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
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (upstream, endpoint) =
            (endpoint.to_owned(), format!("http://{}", listener.local_addr()?));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (calls, recorded) = (AtomicUsize::new(0), Arc::clone(&seen));
        let answer = move |call: Call| {
            recorded.lock().unwrap().push(call.action.clone());
            let throttle = calls.fetch_add(1, Ordering::Relaxed) < throttled;
            async move { if throttle { Ok(throttling()) } else { call.forward().await } }
        };
        let task = tokio::spawn(async move {
            let _ = aws_proxy::serve(listener, &upstream, answer).await;
        });
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

/// The response to a throttled call.
fn throttling() -> Vec<u8> {
    let length = THROTTLED.len();
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (head + THROTTLED).into_bytes()
}
