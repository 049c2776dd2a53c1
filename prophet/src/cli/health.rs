//! `prophet health`: whether a controller is ready. The image has no other program that could send
//! a request, so `helm test` runs this command.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::{output, unverified};
use crate::clock::Stopwatch;
use crate::span::Span;

const EXAMPLES: &str = "\
Examples:
  prophet health http://127.0.0.1:8080/readyz
  prophet health https://prophet.prophet:8080/readyz --wait 1m

The command fails unless the response has the status 200. A controller serves /readyz, which fails until
all objects of the cluster were read, and /healthz, which fails after too long a time without progress.
Over HTTPS, the certificate is not verified, as by the probes of the kubelet.";

/// The time limit of a connection, and of the response.
const LIMIT: Duration = Duration::from_secs(5);
/// The most bytes that are read of a response. Those of both paths have less than 1 KiB.
const RESPONSE_MAX: usize = 64 << 10;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The address, http://HOST:PORT/PATH or https://HOST:PORT/PATH
    address: Address,
    /// How long to repeat the request until it succeeds, such as 1m
    #[arg(long, value_name = "TIME", default_value = "0s")]
    wait: Span,
}

/// An HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// Whether the server has TLS.
    secure: bool,
    /// The name or address of the host, and the port.
    host: String,
    path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected an address such as http://127.0.0.1:8080/readyz".to_owned();
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

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Args { address, wait } = args;
    let wait = Duration::from_secs(wait.as_seconds().unsigned_abs());
    let started = Stopwatch::now();
    loop {
        match body(address) {
            Ok(text) => return output::print(&format!("{}\n", text.trim_end())),
            Err(_) if started.elapsed() + PAUSE < wait => std::thread::sleep(PAUSE),
            Err(error) => return Err(error.context(address.to_string())),
        }
    }
}

/// A connection, with TLS or without.
trait Channel: Read + Write {}

impl<T: Read + Write> Channel for T {}

/// The body of a response with the status 200.
fn body(address: &Address) -> anyhow::Result<String> {
    let Address { secure, host, path } = address;
    let socket = connect(host)?;
    socket.set_write_timeout(Some(LIMIT))?;
    socket.set_read_timeout(Some(LIMIT))?;
    let mut stream: Box<dyn Channel> = if *secure {
        Box::new(unverified::tls(host, socket.try_clone()?)?)
    } else {
        Box::new(socket.try_clone()?)
    };
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).context("failed to send the request")?;
    let response = response(&mut *stream, &socket).context("failed to read the response")?;
    let (status, body) = parse(&response).context("the response is not of HTTP")?;
    ensure!(status == "200", "status {status}: {}", body.trim());
    Ok(body.to_owned())
}

/// A connection to the first address of the host that accepts one.
fn connect(host: &str) -> anyhow::Result<TcpStream> {
    let addresses = host.to_socket_addrs().with_context(|| format!("failed to look up {host}"))?;
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(anyhow::Error::new(error).context("failed to connect")),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("{host} has no address")))
}

/// Everything until the server closes the connection.
fn response(stream: &mut dyn Read, socket: &TcpStream) -> anyhow::Result<String> {
    let started = Stopwatch::now();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = LIMIT.saturating_sub(started.elapsed());
        ensure!(!left.is_zero(), "no complete response within {} s", LIMIT.as_secs());
        socket.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            count => bytes.extend_from_slice(&part[..count]),
        }
        if bytes.len() > RESPONSE_MAX {
            bail!("it has more than {} KiB", RESPONSE_MAX >> 10);
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
        let result = body(&Address { secure: false, host, path: "/readyz".into() });
        let request = server.join().expect("the server");
        assert!(request.starts_with("GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
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
        check(&vec![b'x'; 3 * RESPONSE_MAX], Err("more than 64 KiB"));
    }
}
