//! Watches of a server that answers as an API server does, with faults.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::super::class::Priority;
use super::*;

const NAME: &str = "priorityclasses";

/// The longest wait for a change of the world, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// The response to a request.
enum Response {
    /// An object or a list.
    Object(Value),
    /// A watch that stays open without events.
    Quiet,
    /// An error with this code.
    Error(u16),
}

/// Starts a server, and returns its URL. `respond` receives the path and query of a request, and
/// the number of watches that were requested before it.
fn serve(respond: impl Fn(&str, usize) -> Response + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (respond, watches) = (Arc::new(respond), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (respond, watches) = (Arc::clone(&respond), Arc::clone(&watches));
            std::thread::spawn(move || answer(stream, &*respond, &watches));
        }
    });
    url
}

/// Answers the only request of a connection.
fn answer(mut stream: TcpStream, respond: &dyn Fn(&str, usize) -> Response, watches: &AtomicUsize) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let before =
        if path.contains("watch=true") { watches.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let (code, body) = match respond(path, before) {
        Response::Object(object) => (200, object),
        Response::Error(code) => (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Tested"}),
        ),
        Response::Quiet => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            // Reading ends when the client closes the connection.
            let _ = stream.read(&mut byte);
            return;
        }
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} Tested\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
}

/// A list of one PriorityClass.
fn list() -> Response {
    Response::Object(json!({
        "kind": "PriorityClassList", "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "low", "resourceVersion": "1"}, "value": -5}],
    }))
}

/// Starts a watch of the PriorityClasses of a server.
fn watch(url: &str, config: watcher::Config) -> Arc<Shared> {
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let shared = Arc::new(Shared::default());
    shared.world().wait_for([NAME.to_owned()]);
    let mut listed = BTreeSet::new();
    let apply = move |world: &mut World, event| {
        let of = |class: PriorityClass| Some(Priority::of(&class));
        apply_to(&mut listed, &mut world.index.admission().priorities, None, of, event);
    };
    tokio::spawn(follow(NAME.to_owned(), Api::all(client), config, Arc::clone(&shared), apply));
    shared
}

/// Waits until `holds` is true of the world.
async fn wait_for(shared: &Shared, what: &str, holds: impl Fn(&World) -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !holds(&shared.world()) {
            shared.changed().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("no {what}: {:?}", shared.world()));
}

#[tokio::test]
async fn a_quiet_watch_works_again_after_an_error() {
    let url = serve(|path, before| match (path.contains("watch=true"), before) {
        (false, _) => list(),
        (true, 0) => Response::Error(500),
        (true, _) => Response::Quiet,
    });
    let shared = watch(&url, watcher::Config::default());
    wait_for(&shared, "first list", World::is_listed).await;
    wait_for(&shared, "error", |world| world.failing.contains_key(NAME)).await;
    wait_for(&shared, "recovery", |world| world.failing.is_empty()).await;
    assert_eq!(shared.world().priority("low").map(|low| low.value), Some(-5));
}

#[tokio::test]
async fn a_server_that_refuses_streaming_lists_is_listed_in_pages() {
    let url = serve(|path, _| match path {
        _ if path.contains("sendInitialEvents=true") => Response::Error(422),
        _ if path.contains("watch=true") => Response::Quiet,
        _ => list(),
    });
    let shared = watch(&url, watcher::Config::default().streaming_lists());
    wait_for(&shared, "first list", World::is_listed).await;
    assert_eq!(shared.world().failing, BTreeMap::new());
    assert_eq!(shared.world().priority("low").map(|low| low.value), Some(-5));
}
