//! The open connections, of which there is a limited number.
//!
//! Nothing distinguishes a probe from a slow client before its request is complete. So a new
//! connection is not refused when all places are taken: it gets the place of the connection that
//! has waited longest for its request. A client that sends its request at once is served, however
//! many others hold connections open.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most connections at a time. Probes, Prometheus and a few browsers need about ten. Each takes
/// a thread and a file descriptor, of which a process often has 1,024.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// The most streams of events at a time, so that open pages leave places for other requests.
pub(super) const STREAMS_MAX: usize = 32;
/// The most connections whose place is taken away and whose thread has not ended yet.
const ENDING_MAX: usize = 256;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Its request is not complete.
    Waiting,
    /// Its response is being sent.
    Answering,
    /// It is a stream of events, which keeps its place.
    Streaming,
    /// Its place was taken away.
    Ending,
}

/// The open connections, oldest first.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_age: BTreeMap<u64, (Phase, Arc<TcpStream>)>,
}

impl Open {
    fn count(&self, counts: impl Fn(Phase) -> bool) -> usize {
        self.by_age.values().filter(|(phase, _)| counts(*phase)).count()
    }

    /// Changes the phase of a connection. Returns false if its place was taken away.
    fn enter(&mut self, id: u64, next: Phase) -> bool {
        let phase = self.by_age.get_mut(&id).map(|(phase, _)| phase);
        let phase = phase.filter(|phase| **phase != Phase::Ending);
        phase.is_some_and(|phase| {
            *phase = next;
            true
        })
    }

    /// Takes the place of the oldest connection that waits for its request, else of the oldest that
    /// has no stream.
    fn take_away(&mut self) {
        let ranked = self.by_age.iter_mut().filter(|(_, (phase, _))| *phase < Phase::Streaming);
        let Some((_, (phase, stream))) = ranked.min_by_key(|(age, (phase, _))| (*phase, **age))
        else {
            return;
        };
        // A connection whose request is not complete can still get a response.
        let end = if *phase == Phase::Waiting { Shutdown::Read } else { Shutdown::Both };
        *phase = Phase::Ending;
        // The client may have closed it.
        let _ = stream.shutdown(end);
    }
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection. `None` while too many connections are ending.
    pub(super) fn admit(self: &Arc<Self>, stream: Arc<TcpStream>) -> Option<Place> {
        let mut open = self.open();
        if open.count(|phase| phase == Phase::Ending) >= ENDING_MAX {
            return None;
        }
        if open.count(|phase| phase != Phase::Ending) >= CONNECTIONS_MAX {
            open.take_away();
        }
        let id = open.next;
        open.next += 1;
        open.by_age.insert(id, (Phase::Waiting, stream));
        Some(Place { id, connections: Arc::clone(self) })
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    connections: Arc<Connections>,
}

impl Place {
    /// Records that the request is complete. Returns false if the place was taken away before.
    pub(super) fn answers(&self) -> bool {
        self.connections.open().enter(self.id, Phase::Answering)
    }

    /// Records that the response is a stream of events. Returns false if there are too many.
    pub(super) fn streams(&self) -> bool {
        let mut open = self.connections.open();
        let streams = open.count(|phase| phase == Phase::Streaming);
        streams < STREAMS_MAX && open.enter(self.id, Phase::Streaming)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().by_age.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    /// The server's side of a connection, and the client's.
    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address"));
        (Arc::new(listener.accept().expect("a connection").0), client.expect("a connection"))
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_oldest_that_waits() {
        let connections = Arc::<Connections>::default();
        let ((server, _client), (third, _other)) = (pair(), pair());
        let of = |at| Arc::clone(if at == 2 { &third } else { &server });
        let open = |at| connections.admit(of(at)).expect("a place");
        let places: Vec<Place> = (0..CONNECTIONS_MAX).map(open).collect();
        assert!(places[0].answers() && places[1].streams());
        let new = open(CONNECTIONS_MAX);
        // The third is the oldest that still waits. Reads of it end.
        assert!(!places[2].answers());
        assert_eq!((&*third).read(&mut [0; 8]).expect("an end"), 0);
        assert!(places[3].answers() && new.answers());
    }

    #[test]
    fn streams_keep_their_places_and_have_a_limit() {
        let connections = Arc::<Connections>::default();
        let (server, _client) = pair();
        let open = |_| connections.admit(Arc::clone(&server)).expect("a place");
        let mut streams: Vec<Place> = (0..STREAMS_MAX).map(open).collect();
        assert!(streams.iter().all(Place::streams));
        let others: Vec<Place> = (STREAMS_MAX..CONNECTIONS_MAX).map(open).collect();
        assert!(!others[0].streams() && others.iter().all(Place::answers));
        // All others are answered, so the oldest of them has to end.
        let _new = open(0);
        assert!(!others[0].answers() && others[1].answers());
        drop(streams.pop());
        assert!(others[1].streams());
    }

    #[test]
    fn connections_that_do_not_end_have_a_limit() {
        let connections = Arc::<Connections>::default();
        let (server, _client) = pair();
        let open = |_| connections.admit(Arc::clone(&server));
        let admitted: Vec<Place> =
            (0..2 * (CONNECTIONS_MAX + ENDING_MAX)).filter_map(open).collect();
        assert_eq!(admitted.len(), CONNECTIONS_MAX + ENDING_MAX);
        assert_eq!(admitted.iter().filter(|place| place.answers()).count(), CONNECTIONS_MAX);
    }
}
