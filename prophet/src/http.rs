//! A small HTTP server for pages that only read: health, metrics, the dashboard.
//!
//! Each connection has a thread and one request. All of its resources are bounded: the connections,
//! the size of a request's head, the time for it, and the time for each write. It never executes
//! anything that a request contains, and answers GET and HEAD only. It has no TLS.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::Stopwatch;

/// The most connections at a time. Probes, Prometheus and a few browsers need about ten. The limit
/// is much higher, so that a hundred slow clients do not keep out the probes.
const CONNECTIONS_MAX: usize = 1_000;
/// The stack of a connection's thread, in bytes. Only the part that is used takes memory.
const STACK: usize = 512 << 10;
/// The most streams of events at a time, so that open pages leave room for probes.
const STREAMS_MAX: usize = 32;
/// The largest head of a request, in bytes. A browser sends less than 2 KiB.
const HEAD_MAX: usize = 8 << 10;
/// The time limit for receiving the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time limit for each write.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// The pause after the operating system refused a connection, such as for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What a browser may do with each response: load files of this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A request: its decoded path, and the decoded pairs of its query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, which begins with a slash.
    pub path: String,
    /// The names and values of the query.
    pub query: Vec<(String, String)>,
}

impl Request {
    /// The first value of a name of the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A source of server-sent events. Each call blocks until there is text to send, and returns `None`
/// at the end of the stream.
pub type Events = Box<dyn FnMut() -> Option<String> + Send>;

/// A response.
pub enum Response {
    /// A text with its status and its content type.
    Text(u16, &'static str, String),
    /// A stream of server-sent events.
    Events(Events),
}

/// The content type of plain text.
pub const PLAIN: &str = "text/plain; charset=utf-8";

impl Response {
    /// The response for a path without a page.
    pub fn not_found() -> Self {
        Self::Text(404, PLAIN, "not found\n".into())
    }
}

/// Serves requests on threads of their own, for as long as the process lives.
///
/// # Errors
/// The thread that accepts connections cannot be started.
pub fn serve(
    listener: TcpListener,
    respond: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let respond = Arc::new(respond);
    let (connections, streams) = (Arc::default(), Arc::default());
    let accept = move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            // Beyond the limit, the connection is closed without a response.
            let Some(place) = Place::take(&connections, CONNECTIONS_MAX) else { continue };
            let (respond, streams) = (Arc::clone(&respond), Arc::clone(&streams));
            let answer = move || {
                let _place = place;
                // The peer has gone: there is nobody to report to.
                let _ = answer(stream, &*respond, &streams);
            };
            let thread = std::thread::Builder::new().name("connection".into()).stack_size(STACK);
            let _ = thread.spawn(answer);
        }
    };
    std::thread::Builder::new().name("http".into()).spawn(accept).map(drop)
}

/// One of a limited number of places, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(
    mut stream: TcpStream,
    respond: &dyn Fn(&Request) -> Response,
    streams: &Arc<AtomicUsize>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIME))?;
    let head = read_head(&mut stream)?;
    let (request, has_body) = match parse(&head) {
        Ok(parsed) => parsed,
        Err(status) => return write_text(&mut stream, status, PLAIN, reason(status), true),
    };
    match respond(&request) {
        Response::Text(status, kind, body) => {
            write_text(&mut stream, status, kind, &body, has_body)
        }
        Response::Events(_) if !has_body => {
            write_text(&mut stream, 200, "text/event-stream", "", false)
        }
        Response::Events(mut next) => {
            let Some(_place) = Place::take(streams, STREAMS_MAX) else {
                return write_text(&mut stream, 503, PLAIN, "too many open pages\n", true);
            };
            stream.write_all(header(200, "text/event-stream", None).as_bytes())?;
            while let Some(text) = next() {
                stream.write_all(text.as_bytes())?;
            }
            Ok(())
        }
    }
}

/// Reads until the empty line after the head.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let since = Stopwatch::now();
    let (mut head, mut part) = (Vec::new(), [0; 1 << 10]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = HEAD_TIME.checked_sub(since.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let count = stream.read(&mut part)?;
        head.extend_from_slice(&part[..count]);
        if count == 0 || head.len() > HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns the request of a head, and whether the response has a body. The error is a status.
fn parse(head: &str) -> Result<(Request, bool), u16> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), None) = (method, target, words.next()) else {
        return Err(400);
    };
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) || !target.starts_with('/') {
        return Err(400);
    }
    let has_body = match method {
        "GET" => true,
        "HEAD" => false,
        _ => return Err(405),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair);
    let query = query.collect::<Option<Vec<_>>>().ok_or(400_u16)?;
    Ok((Request { path: decoded(path).ok_or(400_u16)?, query }, has_body))
}

/// Decodes `%2F` and the like. Returns `None` for a damaged code, and for bytes that are no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).filter(|code| code.bytes().all(|c| c.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// Encodes a value of a query.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let byte = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(byte).collect()
}

fn write_text(
    stream: &mut TcpStream,
    status: u16,
    kind: &str,
    body: &str,
    has_body: bool,
) -> io::Result<()> {
    let mut text = header(status, kind, Some(body.len()));
    if has_body {
        text += body;
    }
    stream.write_all(text.as_bytes())
}

fn header(status: u16, kind: &str, length: Option<usize>) -> String {
    let length = length.map_or(String::new(), |length| format!("content-length: {length}\r\n"));
    let reason = reason(status);
    let allow = if status == 405 { "allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\n{length}{allow}cache-control: no-store\r\ncontent-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    )
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path, the query, and whether the response has a body.
    type Parsed<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);

    #[track_caller]
    fn check(line: &str, expected: Result<Parsed<'_>, u16>) {
        let found = parse(&format!("{line}\r\nhost: x\r\n\r\n"));
        let expected = expected.map(|(path, query, has_body)| {
            let pair = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
            (Request { path: path.into(), query: query.iter().map(pair).collect() }, has_body)
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn a_request_is_parsed_or_refused() {
        check("GET / HTTP/1.1", Ok(("/", &[], true)));
        check("HEAD /metrics HTTP/1.0", Ok(("/metrics", &[], false)));
        check(
            "GET /?policy=a%2Fb&range=day&x HTTP/1.1",
            Ok(("/", &[("policy", "a/b"), ("range", "day"), ("x", "")], true)),
        );
        check("GET /?a=b+c&&d=%C3%A9 HTTP/1.1", Ok(("/", &[("a", "b c"), ("d", "é")], true)));
        check("POST / HTTP/1.1", Err(405));
        check("GET / HTTP/2", Err(400));
        check("GET http://x/ HTTP/1.1", Err(400));
        check("GET / HTTP/1.1 x", Err(400));
        check("GET", Err(400));
        for damaged in ["%", "%4", "%+4", "%zz", "%ff"] {
            check(&format!("GET /?a={damaged} HTTP/1.1"), Err(400));
        }
    }

    #[test]
    fn an_encoded_value_is_decoded_again() {
        for text in ["", "a/b", "100 % é+&=", "m5.xlarge/spot"] {
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
        }
    }

    fn served() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let respond = |request: &Request| match request.path.as_str() {
            "/events" => {
                let mut left = 3;
                Response::Events(Box::new(move || {
                    left -= 1;
                    (left >= 0).then(|| format!("data: {left}\n\n"))
                }))
            }
            "/" => Response::Text(200, PLAIN, "hello".into()),
            _ => Response::not_found(),
        };
        serve(listener, respond).expect("a thread");
        address
    }

    fn response(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a write");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        text
    }

    #[test]
    fn responses_have_their_status_and_the_policy_for_browsers() {
        let address = served();
        let check = |line: &str, status: &str, end: &str| {
            let text = response(address, &format!("{line}\r\n\r\n"));
            assert!(text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{line}: {text}");
            assert!(text.ends_with(end), "{line}: {text}");
            assert!(text.contains("content-security-policy: default-src 'none'"), "{text}");
        };
        check("GET / HTTP/1.1", "200 OK", "\r\n\r\nhello");
        check("HEAD / HTTP/1.1", "200 OK", "\r\n\r\n");
        check("GET /none HTTP/1.1", "404 Not Found", "not found\n");
        check("PUT / HTTP/1.1", "405 Method Not Allowed", "Method Not Allowed");
        check("GET /events HTTP/1.1", "200 OK", "\r\n\r\ndata: 2\n\ndata: 1\n\ndata: 0\n\n");
    }

    #[test]
    fn slow_clients_do_not_keep_out_others() {
        let address = served();
        let slow = |_| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(b"GET / HT").expect("a write");
            stream
        };
        let held: Vec<TcpStream> = (0..200).map(slow).collect();
        assert!(response(address, "GET / HTTP/1.1\r\n\r\n").ends_with("hello"));
        drop(held);
    }

    #[test]
    fn a_head_that_is_too_large_gets_no_response() {
        let mut stream = TcpStream::connect(served()).expect("a connection");
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(format!("GET /{} HTTP/1.1", "x".repeat(2 * HEAD_MAX)).as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert_eq!(text, "");
    }

    #[test]
    fn connections_beyond_the_limit_are_closed_until_a_place_is_free() {
        let taken = Arc::default();
        let places: Vec<Place> = (0..3).filter_map(|_| Place::take(&taken, 3)).collect();
        assert!(places.len() == 3 && Place::take(&taken, 3).is_none());
        drop(places);
        assert!(Place::take(&taken, 3).is_some());
    }
}
