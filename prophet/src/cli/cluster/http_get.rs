//! HTTP requests and their responses, of bounded time and size.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};
use tokio::runtime::Runtime;

use crate::cli::runtime;

/// What a response may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct GetLimits {
    /// The time limit of the connection, and of the response.
    pub(in crate::cli) time: Duration,
    /// The most bytes of the response.
    pub(in crate::cli) bytes: usize,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cli) enum Access {
    /// Directly, and without verification of its certificate, as by the probes of the kubelet.
    /// Nothing secret may be sent.
    Probe,
    /// Through the proxies of the environment. The certificates of the system, or those of
    /// `SSL_CERT_FILE`, must verify that of the server.
    Verified {
        /// The bearer token.
        token: Option<String>,
    },
}

/// An HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Address(Url);

impl Address {
    /// The address of a path below this one, with these parameters.
    pub(in crate::cli) fn query(&self, path: &str, parameters: &[(&str, &str)]) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
        url.query_pairs_mut().clear().extend_pairs(parameters);
        Self(url)
    }

    /// Whether what is sent to the server can be read on the way: without TLS, and beyond this
    /// machine.
    fn is_plain(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let loopback = host.parse::<IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
        self.0.scheme() == "http" && !loopback
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url: Option<Url> = text.parse().ok();
        url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .map(Self)
            .ok_or_else(|| "expected http://HOST:PORT/PATH or https://HOST:PORT/PATH".into())
    }
}

/// The address without its password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        if url.password().is_some() {
            // Every address with a host can have a password.
            let _ = url.set_password(Some("***"));
        }
        url.fmt(f)
    }
}

/// What the probes of the kubelet do: no proxy, no redirect, no verification.
fn probe(builder: ClientBuilder) -> ClientBuilder {
    builder.no_proxy().redirect(Policy::none()).tls_danger_accept_invalid_certs(true)
}

/// A client for several requests.
pub(in crate::cli) struct HttpClient {
    client: Client,
    token: Option<String>,
    limits: GetLimits,
    runtime: Runtime,
}

impl HttpClient {
    /// Creates a client.
    ///
    /// # Errors
    /// The certificates of the system cannot be read.
    pub(in crate::cli) fn new(access: Access, limits: GetLimits) -> anyhow::Result<Self> {
        let builder = Client::builder().timeout(limits.time).connect_timeout(limits.time);
        let (builder, token) = match access {
            Access::Probe => (probe(builder), None),
            Access::Verified { token } => (builder, token),
        };
        let runtime = runtime::of_this_thread()?;
        Ok(Self { client: builder.build()?, token, limits, runtime })
    }

    /// The body of a response with the status 200.
    ///
    /// # Errors
    /// The server does not respond with it within the limits.
    pub(in crate::cli) fn get(&self, address: &Address) -> anyhow::Result<String> {
        self.runtime.block_on(self.response(address)).map_err(|error| self.explained(error))
    }

    async fn response(&self, address: &Address) -> anyhow::Result<String> {
        let mut request = self.client.get(address.0.clone());
        if let Some(token) = &self.token {
            ensure!(
                !address.is_plain(),
                "the bearer token is not sent, because anyone on the way could read it: use https://"
            );
            request = request.bearer_auth(token);
        }
        let mut response = request.send().await?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await? {
            body.extend_from_slice(&part);
            if body.len() > self.limits.bytes {
                bail!("the response has more than {} KiB", self.limits.bytes >> 10);
            }
        }
        let (status, body) = (response.status(), String::from_utf8_lossy(&body).into_owned());
        ensure!(status == 200, "status {}: {}", status.as_u16(), body.trim());
        Ok(body)
    }

    /// The error in words of this module. The one of the library repeats the address.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(failed) = error.downcast_ref::<reqwest::Error>() else { return error };
        let what = if failed.is_timeout() {
            format!("no complete response within {} s", self.limits.time.as_secs())
        } else if failed.is_connect() {
            "failed to connect".into()
        } else if failed.is_redirect() {
            "the server redirects too often".into()
        } else if failed.is_body() || failed.is_decode() {
            "failed to read the response".into()
        } else {
            "the response is not of HTTP".into()
        };
        let causes =
            std::iter::successors(std::error::Error::source(failed), |error| error.source());
        anyhow::anyhow!(
            causes.last().map_or_else(|| what.clone(), |cause| format!("{what}: {cause}"))
        )
    }
}

/// Reads a bearer token. A line break at its end does not belong to it.
pub(in crate::cli) fn token(path: &Path) -> anyhow::Result<String> {
    let failed = || format!("failed to read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(failed)?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    anyhow::ensure!(is_token, "{}: expected one bearer token", path.display());
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(5), bytes: 64 << 10 };

    #[track_caller]
    fn check_address(text: &str, expected: Option<&str>) {
        let address = text.parse::<Address>().ok().map(|address| address.to_string());
        assert_eq!(address.as_deref(), expected, "{text}");
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        check_address("http://127.0.0.1:8080/readyz", Some("http://127.0.0.1:8080/readyz"));
        check_address("http://prophet.prophet:81", Some("http://prophet.prophet:81/"));
        check_address("https://prometheus.example/a", Some("https://prometheus.example/a"));
        check_address("http://[::1]:8080/a?b=c/d", Some("http://[::1]:8080/a?b=c/d"));
        for wrong in
            ["", "127.0.0.1:8080", "localhost", "ftp://a:1/", "http://:8080/", "http://a:65536/"]
        {
            check_address(wrong, None);
        }
        let server: Address = "https://a/b/?c=d".parse().expect("an address");
        let asked = server.query("api/v1/query_range", &[("query", "a{b=\"c\"}"), ("start", "1")]);
        assert_eq!(
            asked.to_string(),
            "https://a/b/api/v1/query_range?query=a%7Bb%3D%22c%22%7D&start=1"
        );
    }

    #[test]
    fn a_password_is_not_shown_and_a_token_is_not_sent_in_plain_text() {
        check_address("https://me:secret@a/b", Some("https://me:***@a/b"));
        let is_plain = |text: &str| text.parse::<Address>().map(|address| address.is_plain());
        for (text, expected) in [
            ("http://prometheus.monitoring:9090", true),
            ("http://10.0.0.1", true),
            ("https://prometheus.example", false),
            ("http://127.0.0.1:9090", false),
            ("http://[::1]:9090", false),
            ("http://localhost:9090", false),
        ] {
            assert_eq!(is_plain(text), Ok(expected), "{text}");
        }
        let access = Access::Verified { token: Some("secret".into()) };
        let client = HttpClient::new(access, LIMITS).expect("a client");
        let error = client.get(&"http://prometheus.invalid/".parse().expect("an address"));
        assert!(error.is_err_and(|error| error.to_string().contains("use https://")));
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
        let access = Access::Verified { token: Some("secret".into()) };
        let client = HttpClient::new(access, LIMITS).expect("a client");
        let result = client.get(&format!("http://{host}/readyz").parse().expect("an address"));
        let request = server.join().expect("the server");
        assert!(request.starts_with("GET /readyz HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
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
        check(b"HTTP/1.0 200 OK\r\na: b\r\n\r\nready", Ok("ready"));
        check(
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nrea",
            Err("failed to read the response"),
        );
        check(b"HTTP/1.1 503 Service Unavailable\r\n\r\nno\n", Err("status 503: no"));
        check(b"HTTP/1.1 2000 x\r\n\r\n", Err("not of HTTP"));
        check(b"HTTP/1.1 200", Err("not of HTTP"));
        check(b"HTTP/1.1 \r\n\r\n", Err("not of HTTP"));
        check(b"SSH-2.0-x\r\n\r\n", Err("not of HTTP"));
        check(b"\xff\xff", Err("not of HTTP"));
        check(b"", Err("not of HTTP"));
        let large = [b"HTTP/1.0 200 OK\r\n\r\n".as_slice(), &vec![b'x'; 3 * LIMITS.bytes]].concat();
        check(&large, Err("more than 64 KiB"));
    }
}
