//! Requests over plain HTTP on loopback.

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The whole response to a GET request, with its head.
pub(crate) async fn get(port: u16, path: &str) -> Result<String> {
    send(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        .await
}

/// The body of the response to a GET request of HTTP/1.0, which no server sends in chunks.
///
/// # Errors
/// The server does not respond, or not with the status 200.
pub(crate) async fn body(port: u16, path: &str) -> Result<String> {
    let response = send(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response has no head")?;
    ensure!(head.contains(" 200 "), "{response}");
    Ok(body.to_owned())
}

/// The whole response to a PUT request without a body, with its head.
pub(crate) async fn put(port: u16, path: &str) -> Result<String> {
    let lines = "Host: localhost\r\nConnection: close\r\nContent-Length: 0";
    send(port, &format!("PUT {path} HTTP/1.1\r\n{lines}\r\n\r\n")).await
}

/// The whole response to a POST request of JSON, with its head.
pub(crate) async fn post(port: u16, path: &str, authorization: &str, body: &str) -> Result<String> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    send(port, &(head + body)).await
}

async fn send(port: u16, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
