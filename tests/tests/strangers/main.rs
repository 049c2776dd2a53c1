//! The controller's server under bad requests, slow clients and many connections. No cluster is
//! needed, because the server does not depend on one. `protection.rs` tests TLS and tokens.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod protection;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tempfile::TempDir;
use tests::ports::Port;
use tests::process::Process;
use tests::prophet;

/// The longest wait for a response, longer than all limits of the server.
const DEADLINE: Duration = Duration::from_mins(1);

/// A controller whose API server does not answer.
struct Controller {
    process: Process,
    port: Port,
    folder: TempDir,
    _unused: Port,
}

impl Controller {
    async fn start() -> Self {
        Self::start_with(tempfile::tempdir().unwrap(), &[]).await
    }

    /// Starts the controller with these additional arguments and a folder for its files.
    async fn start_with(folder: TempDir, arguments: &[&str]) -> Self {
        let (port, unused) = (Port::free().unwrap(), Port::free().unwrap());
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{unused}'}}}}], users: [{{name: a, user: {{}}}}]}}"
        );
        fs::write(&kubeconfig, text).unwrap();
        let mut command = prophet(&["run", "--listen", &format!("127.0.0.1:{port}")]);
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        let mut process = Process::start("prophet", &command, folder.path()).unwrap();
        process.wait_for_port(&port, DEADLINE).await.unwrap();
        Self { process, port, folder, _unused: unused }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port.number())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// The response to some bytes.
    fn response(&self, sent: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(sent).unwrap();
        received(&mut stream)
    }

    fn get(&self, path: &str) -> String {
        String::from_utf8(self.get_bytes(path)).unwrap()
    }

    fn get_bytes(&self, path: &str) -> Vec<u8> {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[track_caller]
    fn is_well(&self) {
        let (health, metrics) = (self.get("/healthz"), self.get("/metrics"));
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    }

    /// A number of the process's status, such as its `Threads`.
    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }
}

/// Everything until the server closes the connection.
fn received(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn bad_requests_get_clear_statuses() {
    let controller = Controller::start().await;
    let check = |sent: &[u8], status: &str| {
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(60)]).into_owned();
        let response = controller.response(sent);
        assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{shown}: {response}");
        assert!(!response.contains("root:"), "{shown}: {response}");
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();

    check(&get("/"), "200 OK");
    check(b"HEAD /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", "200 OK");
    // Of a binary protocol, of TLS, and of an older HTTP.
    check(&[b"\x00\xff\xfe\x01 x\r\n\r\n".as_slice(), &[7; 500]].concat(), "400 Bad Request");
    check(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", "400 Bad Request");
    check(b"GET /\r\n\r\n", "400 Bad Request");
    check(b"GET /healthz SMTP/1.1\r\n\r\n", "400 Bad Request");
    check(b"GET /healthz HTTP/1.1\r\nno field\r\n\r\n", "400 Bad Request");
    check(b"GET /healthz HTTP/1.1\r\na: b\x00\r\n\r\n", "400 Bad Request");
    check(&get("/?policy=%zz"), "400 Bad Request");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"] {
        let request = format!("{method} / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc");
        check(request.as_bytes(), "405 Method Not Allowed");
    }
    for path in [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/style.css/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/metrics/",
        "/healthz%00",
    ] {
        check(&get(path), "404 Not Found");
    }
    check(&get(&"/x".repeat(1 << 19)), "414 URI Too Long");
    check(&vec![b'x'; 1 << 20], "414 URI Too Long");
    let fields = |count: usize, size: usize| {
        let field = format!("a: {}\r\n", "b".repeat(size));
        format!("GET / HTTP/1.1\r\n{}\r\n", field.repeat(count)).into_bytes()
    };
    check(&fields(1, 8 << 10), "200 OK");
    check(&fields(1, 1 << 20), "431 Request Header Fields Too Large");
    check(&fields(65, 1), "431 Request Header Fields Too Large");
    check(&fields(200_000, 1), "431 Request Header Fields Too Large");
    controller.is_well();
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test measures a time limit")]
async fn a_client_that_sends_a_byte_a_second_is_timed_out() {
    let controller = Controller::start().await;
    let (mut slow, mut silent) = (controller.connect(), controller.connect());
    let started = std::time::Instant::now();
    let mut sender = slow.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        for byte in b"GET /healthz HTTP/1.1\r\nhost: slow\r\n".iter().cycle() {
            if sender.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    controller.is_well();
    let timeout = "HTTP/1.1 408 Request Timeout\r\n";
    assert!(received(&mut slow).starts_with(timeout));
    assert!(received(&mut silent).starts_with(timeout));
    let took = started.elapsed();
    assert!((9..30).contains(&took.as_secs()), "{took:?}");
    sending.join().unwrap();
}

#[tokio::test]
async fn a_thousand_connections_keep_out_neither_probes_nor_scrapes() {
    let controller = Controller::start().await;
    controller.is_well();
    let before = controller.status("VmRSS");
    let open = |_| {
        let mut stream = controller.connect();
        // The server may have taken the place away already.
        let _ = stream.write_all(b"GET / HT");
        stream
    };
    let mut held: Vec<TcpStream> = (0..1_000).map(open).collect();
    controller.is_well();
    let (threads, files) = (controller.status("Threads"), controller.open_files());
    let grown = controller.status("VmRSS").saturating_sub(before);
    println!("{threads} threads, {files} open files, {grown} KiB more with 1,000 connections");
    assert!(threads < 400 && files < 400 && grown < 64 << 10, "{threads} {files} {grown}");
    // The oldest got a response, and the newest still has its place.
    assert!(received(&mut held[0]).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    held[999].write_all(b"TP/1.1\r\n\r\n").unwrap();
    assert!(received(&mut held[999]).starts_with("HTTP/1.1 200 OK\r\n"));
    drop(held);
    controller.is_well();
}

#[tokio::test]
async fn streams_that_are_not_read_keep_out_neither_probes_nor_scrapes() {
    let controller = Controller::start().await;
    let open = |_| {
        let mut stream = controller.connect();
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    let streams: Vec<(String, TcpStream)> = (0..300).map(open).collect();
    let count = |wanted: &str| streams.iter().filter(|(status, _)| status == wanted).count();
    assert_eq!((count("HTTP/1.1 200"), count("HTTP/1.1 503")), (32, 268));
    controller.is_well();
}
