//! Responses, and how they are sent.

use std::io::{self, Write};

/// What a browser may do with each response: load files of this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A source of server-sent events. Each call blocks until there is text to send, and returns `None`
/// at the end of the stream.
pub type Events = Box<dyn FnMut() -> Option<String> + Send>;

/// What the server sends for a request.
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

    /// The response that has only a status.
    pub(super) fn of_status(status: u16) -> Self {
        Self::Text(status, PLAIN, format!("{}\n", reason(status)))
    }
}

/// Sends a text, without its body in response to HEAD.
pub(super) fn write_text(
    stream: &mut dyn Write,
    status: u16,
    kind: &str,
    body: &str,
    has_body: bool,
) -> io::Result<()> {
    let mut text = header(status, kind, Some(body.len()));
    if has_body {
        text += body;
    }
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// The head of a response. A stream of events has no length.
pub(super) fn header(status: u16, kind: &str, length: Option<usize>) -> String {
    let length = length.map_or(String::new(), |length| format!("content-length: {length}\r\n"));
    let reason = reason(status);
    let more = match status {
        401 => "www-authenticate: Bearer realm=\"prophet\"\r\n",
        405 => "allow: GET, HEAD\r\n",
        503 => "retry-after: 1\r\n",
        _ => "",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\n{length}{more}cache-control: no-store\r\ncontent-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    )
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        414 => "URI Too Long",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}
