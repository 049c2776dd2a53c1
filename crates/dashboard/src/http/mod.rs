//! A small HTTP server for pages that only read: health, metrics, the dashboard.
//!
//! ```text
//! request.rs      the head of a request
//! response.rs     responses
//! connections.rs  the open connections, of which there is a limited number
//! socket.rs       a connection with a time limit
//! ```
//!
//! Each connection has a thread and one request. All of its resources are bounded: the connections,
//! the size of a request's head and its header fields, the time for it, and the time for the
//! response. It never executes anything that a request contains, and answers GET and HEAD only.

mod connections;
mod request;
mod response;
mod socket;

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use self::connections::{Connections, Place};
use self::request::{HeadFault, parse, read_head};

pub use self::request::{Request, Token, encoded};
pub use self::response::{Events, PLAIN, Response};
use self::response::{header, write_text};
pub use self::socket::{Channel, Socket};

/// The stack of a connection's thread, in bytes. Only the part that is used takes memory.
const STACK: usize = 512 << 10;
/// The time limit for receiving the head of a request, and for the handshake of TLS.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time limit for sending a response, and for sending each event of a stream.
const RESPONSE_TIME: Duration = Duration::from_secs(10);
/// The pause after the operating system refused a connection, such as for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes what responses are sent through of a connection.
pub type Transport = Box<dyn Fn(Socket) -> io::Result<Box<dyn Channel>> + Send + Sync>;

/// HTTP without TLS.
pub fn plain() -> Transport {
    Box::new(|socket| Ok(Box::new(socket)))
}

/// Serves requests on threads of their own, for as long as the process lives. On a loopback
/// address, requests for another host than this machine are refused.
///
/// # Errors
/// The thread that accepts connections cannot be started.
pub fn serve(
    listener: TcpListener,
    transport: Transport,
    respond: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let transport = Arc::new(transport);
    let connections = Arc::<Connections>::default();
    let is_local = listener.local_addr()?.ip().is_loopback();
    let respond = Arc::new(move |request: &Request| {
        if is_local && !request.is_for_this_machine() {
            return Response::of_status(421);
        }
        respond(request)
    });
    let accept = move || {
        loop {
            let Ok((stream, source)) = listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let stream = Arc::new(stream);
            // Without a place, the connection is closed without a response.
            let Some(place) = connections.admit(Arc::clone(&stream)) else { continue };
            let (respond, transport) = (Arc::clone(&respond), Arc::clone(&transport));
            let answer = move || {
                // The peer has gone: there is nobody to report to.
                let Ok(mut channel) = transport(Socket::new(stream, HEAD_TIME)) else { return };
                let _ = answer(&mut *channel, (&*respond, source.ip()), &place);
                channel.finish();
                channel.socket().end();
            };
            let thread = std::thread::Builder::new().name("connection".into()).stack_size(STACK);
            let _ = thread.spawn(answer);
        }
    };
    std::thread::Builder::new().name("http".into()).spawn(accept).map(drop)
}

fn answer(
    channel: &mut dyn Channel,
    (respond, source): (&dyn Fn(&Request) -> Response, IpAddr),
    place: &Place,
) -> io::Result<()> {
    let head = read_head(channel);
    let (response, has_body) = match head {
        // The place was taken away, which also ends the read.
        _ if !place.answers() => (Response::of_status(503), true),
        Err(HeadFault::Gone) => return Ok(()),
        Err(HeadFault::Status(status)) => (Response::of_status(status), true),
        Ok(head) => match parse(&head) {
            Ok((request, has_body)) => {
                (respond(&Request { source: Some(source), ..request }), has_body)
            }
            Err(status) => (Response::of_status(status), true),
        },
    };
    channel.socket().allow(RESPONSE_TIME);
    match response {
        Response::Text(status, kind, body) => write_text(channel, status, kind, &body, has_body),
        Response::Events(_) if !has_body => {
            write_text(channel, 200, "text/event-stream", "", false)
        }
        Response::Events(_) if !place.streams() => {
            write_text(channel, 503, PLAIN, "too many open pages\n", true)
        }
        Response::Events(mut next) => {
            channel.write_all(header(200, "text/event-stream", None).as_bytes())?;
            while let Some(text) = next() {
                channel.socket().allow(RESPONSE_TIME);
                channel.write_all(text.as_bytes())?;
                channel.flush()?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    fn served() -> SocketAddr {
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
        serve(listener, plain(), respond).expect("a thread");
        address
    }

    fn response(address: SocketAddr, request: &str) -> String {
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
        for host in ["localhost:8080", "LOCALHOST", "127.0.0.1:80", "[::1]:80", "[::1]"] {
            check(&format!("GET / HTTP/1.1\r\nHost: {host}"), "200 OK", "hello");
        }
        for host in ["attacker.example", "attacker.example:8080", "10.0.0.1", "", "localhost.x"] {
            let line = format!("GET / HTTP/1.1\r\nhost: {host}");
            check(&line, "421 Misdirected Request", "Misdirected Request\n");
        }
        check("PUT / HTTP/1.1", "405 Method Not Allowed", "Method Not Allowed\n");
        check("GET /events HTTP/1.1", "200 OK", "\r\n\r\ndata: 2\n\ndata: 1\n\ndata: 0\n\n");
    }
}
