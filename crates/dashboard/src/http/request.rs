//! The head of a request: reading it within its limits, and parsing it.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;

/// The largest head of a request, in bytes. A browser sends less than 2 KiB, and the token of a
/// service account has less than 2 KiB.
const HEAD_MAX: usize = 16 << 10;
/// The largest first line of a request, in bytes. The longest addresses of the pages have the name
/// of a policy and of a bucket, less than 2 KiB.
const LINE_MAX: usize = 8 << 10;
/// The most header fields of a request. A browser sends about 20.
const FIELDS_MAX: usize = 64;

/// A request: its decoded path, the decoded pairs of its query, and its credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, which begins with a slash.
    pub path: String,
    /// The names and values of the query.
    pub query: Vec<(String, String)>,
    /// The token of the header field `Authorization: Bearer`.
    pub token: Option<Token>,
    /// The value of the header field `Host`.
    pub host: Option<String>,
    /// The address of the client.
    pub source: Option<IpAddr>,
}

impl Request {
    /// The first value of a name of the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether `Host` is this machine. A web page whose name was pointed at this machine by its
    /// name server (DNS rebinding) sends its own name.
    pub(super) fn is_for_this_machine(&self) -> bool {
        let Some(host) = self.host.as_deref() else { return true };
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_port { name } else { host };
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }
}

/// A bearer token. Its debug text does not contain it, so that no log does.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a connection has no head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// The client closed the connection, or it failed, so that no response can be sent.
    Gone,
    /// The response has this status.
    Status(u16),
}

/// Reads until the empty line after the head.
pub(super) fn read_head(stream: &mut dyn Read) -> Result<String, HeadFault> {
    let (mut head, mut part) = (Vec::new(), [0; 1 << 10]);
    loop {
        let count = match stream.read(&mut part) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                return Err(HeadFault::Status(408));
            }
            Err(_) => return Err(HeadFault::Gone),
        };
        if count == 0 {
            return Err(if head.is_empty() { HeadFault::Gone } else { HeadFault::Status(400) });
        }
        // The end may have begun in the part before.
        let searched = head.len().saturating_sub(3);
        head.extend_from_slice(&part[..count]);
        let end = head[searched..].windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| searched + end + 4 <= HEAD_MAX) {
            head.truncate(searched + end + 4);
            return String::from_utf8(head).map_err(|_| HeadFault::Status(400));
        }
        let line = head.iter().take(LINE_MAX).position(|byte| *byte == b'\n');
        if line.is_none() && head.len() > LINE_MAX {
            return Err(HeadFault::Status(414));
        }
        if head.len() > HEAD_MAX {
            return Err(HeadFault::Status(431));
        }
    }
}

/// Returns the request of a head, and whether the response has a body. The error is a status.
pub(super) fn parse(head: &str) -> Result<(Request, bool), u16> {
    let head = head.strip_suffix("\r\n\r\n").ok_or(400_u16)?;
    let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = line.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), None) = (method, target, words.next()) else {
        return Err(400);
    };
    let is_version = matches!(version, Some("HTTP/1.0" | "HTTP/1.1"));
    if !is_version || !target.starts_with('/') || !target.bytes().all(|c| c.is_ascii_graphic()) {
        return Err(400);
    }
    let has_body = match method {
        "GET" => true,
        "HEAD" => false,
        _ if method.is_empty() || !method.bytes().all(is_token) => return Err(400),
        _ => return Err(405),
    };
    let (token, host) = read_fields(fields)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair);
    let query = query.collect::<Option<Vec<_>>>().ok_or(400_u16)?;
    let path = decoded(path).ok_or(400_u16)?;
    Ok((Request { path, query, token, host, source: None }, has_body))
}

/// Checks the header fields, and returns the bearer token and the host among them.
fn read_fields(fields: &str) -> Result<(Option<Token>, Option<String>), u16> {
    let (mut authorization, mut host) = (None, None);
    for (at, field) in fields.split("\r\n").filter(|field| !field.is_empty()).enumerate() {
        if at >= FIELDS_MAX {
            return Err(431);
        }
        let (name, value) = field.split_once(':').ok_or(400_u16)?;
        let is_text = value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control());
        if name.is_empty() || !name.bytes().all(is_token) || !is_text {
            return Err(400);
        }
        let found = match name.to_ascii_lowercase().as_str() {
            "authorization" => &mut authorization,
            "host" => &mut host,
            _ => continue,
        };
        // Of two values, another program may have checked the other one.
        if found.replace(value.trim()).is_some() {
            return Err(400);
        }
    }
    let (scheme, token) = authorization.and_then(|value| value.split_once(' ')).unwrap_or_default();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty();
    Ok((is_bearer.then(|| Token(token.trim().into())), host.map(str::to_owned)))
}

/// Whether a byte may be part of a method or of the name of a header field.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
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
            let query = query.iter().map(pair).collect();
            let host = Some("x".into());
            (Request { path: path.into(), query, host, ..Request::default() }, has_body)
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
        for line in [
            "GET / HTTP/2",
            "GET http://x/ HTTP/1.1",
            "GET / HTTP/1.1 x",
            "GET",
            "",
            "G\u{7f} / HTTP/1.1",
        ] {
            check(line, Err(400));
        }
        for damaged in ["%", "%4", "%+4", "%zz", "%ff", "é", "\u{1b}"] {
            check(&format!("GET /?a={damaged} HTTP/1.1"), Err(400));
        }
    }

    #[track_caller]
    fn check_token(fields: &str, expected: Result<Option<&str>, u16>) {
        let found = parse(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n"));
        let token = |request: Request| request.token.map(|Token(token)| token);
        let expected = expected.map(|token| token.map(str::to_owned));
        assert_eq!(found.map(|(request, _)| token(request)), expected, "{fields}");
    }

    #[test]
    fn the_token_is_that_of_the_only_authorization() {
        check_token("host: x", Ok(None));
        check_token("Authorization: Bearer a.b-c", Ok(Some("a.b-c")));
        check_token("host: x\r\nauthorization:bearer  a \r\nx: y", Ok(Some("a")));
        for other in ["Basic YTpi", "Bearer", "Bearer ", ""] {
            check_token(&format!("Authorization: {other}"), Ok(None));
        }
        check_token("Authorization: Bearer a\r\nAuthorization: Bearer b", Err(400));
    }

    #[test]
    fn header_fields_have_a_name_and_a_limit() {
        for wrong in ["x", ": y", "a b: c", " folded", "x: \u{0}", "x: a\rb"] {
            check_token(wrong, Err(400));
        }
        check_token(&vec!["x: y"; FIELDS_MAX].join("\r\n"), Ok(None));
        check_token(&vec!["x: y"; FIELDS_MAX + 1].join("\r\n"), Err(431));
    }

    #[test]
    fn a_head_is_read_within_its_limits() {
        let check = |mut bytes: &[u8], expected: Result<usize, HeadFault>| {
            let read = read_head(&mut bytes).map(|head| head.len());
            assert_eq!(read, expected, "{}", String::from_utf8_lossy(bytes));
        };
        check(b"GET / HTTP/1.1\r\n\r\n", Ok(18));
        check(b"PUT / HTTP/1.1\r\n\r\n\xff", Ok(18));
        check(b"", Err(HeadFault::Gone));
        check(b"GET / HTTP/1.1\r\n", Err(HeadFault::Status(400)));
        check(b"\xff\r\n\r\n", Err(HeadFault::Status(400)));
        check(&vec![b'x'; LINE_MAX + 1], Err(HeadFault::Status(414)));
        let endless = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(HEAD_MAX / 5));
        check(endless.as_bytes(), Err(HeadFault::Status(431)));
        // The end of the head is found where it is in two parts.
        for length in 1_015..1_030 {
            let head = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(length));
            check(head.as_bytes(), Ok(length + 18));
        }
    }

    #[test]
    fn the_debug_text_of_a_token_does_not_contain_it() {
        let request = Request { token: Some(Token("secret".into())), ..Request::default() };
        assert!(!format!("{request:?}").contains("secret"));
    }

    #[test]
    fn an_encoded_value_is_decoded_again() {
        for text in ["", "a/b", "100 % é+&=", "m5.xlarge/spot"] {
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
        }
    }
}
