//! One HTTP request and its response, without a client library.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base::clock::Stopwatch;

use super::unverified;

/// What a response may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct GetLimits {
    /// The time limit of the connection, and of the response.
    pub(in crate::cli) time: Duration,
    /// The most bytes of the response.
    pub(in crate::cli) bytes: usize,
}

/// An HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Address {
    /// Whether the server has TLS.
    pub(in crate::cli) secure: bool,
    /// The name or address of the host, and the port.
    pub(in crate::cli) host: String,
    /// The path and the query, which begin with a slash.
    pub(in crate::cli) path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http://HOST:PORT/PATH or https://HOST:PORT/PATH".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, port) = host.rsplit_once(':').ok_or_else(expected)?;
        // Spaces and line breaks would end the request line.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_http = matches!(scheme, "http" | "https");
        if !is_http || name.is_empty() || port.parse::<u16>().is_err() || !is_plain {
            return Err(expected());
        }
        let secure = scheme == "https";
        Ok(Self { secure, host: host.to_owned(), path: format!("/{path}") })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secure, host, path } = self;
        write!(f, "{}://{host}{path}", if *secure { "https" } else { "http" })
    }
}

/// A connection, with TLS or without.
trait Channel: Read + Write {}

impl<T: Read + Write> Channel for T {}

/// The body of a response with the status 200.
pub(in crate::cli) fn get(address: &Address, limits: GetLimits) -> anyhow::Result<String> {
    let Address { secure, host, path } = address;
    let socket = connect(host, limits.time)?;
    socket.set_write_timeout(Some(limits.time))?;
    socket.set_read_timeout(Some(limits.time))?;
    let mut stream: Box<dyn Channel> = if *secure {
        Box::new(unverified::tls(host, socket.try_clone()?)?)
    } else {
        Box::new(socket.try_clone()?)
    };
    // A response to this version is in one piece, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).context("failed to send the request")?;
    let response =
        response(&mut *stream, &socket, limits).context("failed to read the response")?;
    let (status, body) = parse(&response).context("the response is not of HTTP")?;
    ensure!(status == "200", "status {status}: {}", body.trim());
    Ok(body.to_owned())
}

/// A connection to the first address of the host that accepts one.
fn connect(host: &str, limit: Duration) -> anyhow::Result<TcpStream> {
    let addresses = host.to_socket_addrs().with_context(|| format!("failed to look up {host}"))?;
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(anyhow::Error::new(error).context("failed to connect")),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("{host} has no address")))
}

/// Everything until the server closes the connection.
fn response(
    stream: &mut dyn Read,
    socket: &TcpStream,
    limits: GetLimits,
) -> anyhow::Result<String> {
    let started = Stopwatch::now();
    let mut bytes = Vec::new();
    let mut part = [0; 16_384];
    loop {
        let left = limits.time.saturating_sub(started.elapsed());
        ensure!(!left.is_zero(), "no complete response within {} s", limits.time.as_secs());
        socket.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            count => bytes.extend_from_slice(&part[..count]),
        }
        if bytes.len() > limits.bytes {
            bail!("it has more than {} KiB", limits.bytes >> 10);
        }
    }
}

/// The status and the body of a response.
fn parse(response: &str) -> Option<(&str, &str)> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some((status, body)).filter(|_| !status.is_empty())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(5), bytes: 64 << 10 };

    #[track_caller]
    fn check_address(text: &str, expected: Option<(&str, &str)>) {
        let address = text.parse::<Address>().ok();
        let parts = address.as_ref().map(|one| (one.host.as_str(), one.path.as_str()));
        assert_eq!(parts, expected, "{text}");
        let is_secure = address.is_some_and(|address| address.secure);
        assert_eq!(is_secure, expected.is_some() && text.starts_with("https:"), "{text}");
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        check_address("http://127.0.0.1:8080/readyz", Some(("127.0.0.1:8080", "/readyz")));
        check_address("http://prophet.prophet:80", Some(("prophet.prophet:80", "/")));
        check_address("https://a:1/", Some(("a:1", "/")));
        check_address("http://[::1]:8080/a?b=c/d", Some(("[::1]:8080", "/a?b=c/d")));
        for wrong in [
            "",
            "127.0.0.1:8080",
            "ftp://a:1/",
            "http://a/readyz",
            "http://:8080/",
            "http://a:65536/",
            "http://a:1/b c",
            "http://a:1/\r\nx: y",
        ] {
            check_address(wrong, None);
        }
    }

    /// Requests an address whose server sends `sent` and closes the connection.
    fn requested(sent: &[u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let sent = sent.to_vec();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("a request");
            // The client closes the connection early if the response is too large.
            let _ = stream.write_all(&sent);
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let result = get(&Address { secure: false, host, path: "/readyz".into() }, LIMITS);
        let request = server.join().expect("the server");
        assert!(request.starts_with("GET /readyz HTTP/1.0\r\nhost: 127.0.0.1:"), "{request}");
        result.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn only_a_complete_response_with_the_status_200_is_a_success() {
        let check = |sent: &[u8], expected: Result<&str, &str>| {
            let result = requested(sent);
            let result = result.as_ref().map(String::as_str).map_err(String::as_str);
            match expected {
                Ok(body) => assert_eq!(result, Ok(body)),
                Err(part) => assert!(result.is_err_and(|text| text.contains(part)), "{result:?}"),
            }
        };
        check(b"HTTP/1.1 200 OK\r\na: b\r\n\r\nready", Ok("ready"));
        check(b"HTTP/1.0 200\r\na: b\r\n\r\nready", Ok("ready"));
        check(b"HTTP/1.1 503 Service Unavailable\r\n\r\nno\n", Err("status 503: no"));
        check(b"HTTP/1.1 2000 x\r\n\r\n", Err("status 2000"));
        check(b"HTTP/1.1 200", Err("not of HTTP"));
        check(b"HTTP/1.1 \r\n\r\n", Err("not of HTTP"));
        check(b"SSH-2.0-x\r\n\r\n", Err("not of HTTP"));
        check(b"\xff\xff", Err("not of HTTP"));
        check(b"", Err("not of HTTP"));
        check(&vec![b'x'; 3 * LIMITS.bytes], Err("more than 64 KiB"));
    }
}
