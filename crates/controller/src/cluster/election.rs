//! Leader election over a Lease: of several replicas, one writes.
//!
//! The rules are those of Kubernetes' client-go (`leaderelection.go`). The leader renews the Lease
//! every [`RETRY`], and begins no write [`RENEW_DEADLINE`] after it sent its last successful
//! renewal. A write that it began before ends before the Lease does. Another replica takes over a
//! Lease that nobody has renewed for the duration that the Lease has. Each replica measures these
//! times with its own monotonic clock, from the moment at which it sees a renewal, so clocks of
//! different nodes are never compared. A change of the Lease's metadata is no renewal. Every write
//! of the Lease carries the `resourceVersion` that was read, so of two replicas that try at once,
//! one fails.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use base::clock::{self, Stopwatch};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Notify;

use crate::causes::chain;

/// The name of the Lease whose holder is the leader of the replicas.
pub const LEASE_NAME: &str = "prophet";

/// The duration of the Lease of this replica.
const LEASE: Duration = Duration::from_secs(15);

/// How long after its last renewal the leader begins writes.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How long before the end of the Lease the last write ends. Clocks of two nodes run differently by
/// less than this in the length of a Lease.
const MARGIN: Duration = Duration::from_secs(1);

/// The longest duration of another holder's Lease that is respected.
const LEASE_MAX: Duration = Duration::from_mins(10);

/// The pause between two attempts to take or to renew the Lease.
const RETRY: Duration = Duration::from_secs(2);

/// The time limit of one request.
const REQUEST: Duration = Duration::from_secs(5);

/// The most attempts to take the Lease from a holder that renews it.
const SEIZE_TRIES: u32 = 10;

/// Whether this replica may write.
#[derive(Debug)]
pub struct Leadership {
    /// `None` without an election: then this replica always leads.
    term: Option<Mutex<Term>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Term {
    /// When the last successful renewal was sent.
    renewed: Option<Stopwatch>,
}

impl Leadership {
    /// The leadership of the only replica.
    pub fn alone() -> Arc<Self> {
        Arc::new(Self { term: None, changed: Notify::new() })
    }

    /// Whether this replica may write now.
    pub fn leads(&self) -> bool {
        let Some(term) = &self.term else { return true };
        let term = term.lock().unwrap_or_else(PoisonError::into_inner);
        term.renewed.is_some_and(|renewed| renewed.elapsed() < RENEW_DEADLINE)
    }

    /// How long a write that begins now may last, so that it ends before the Lease. Zero if this
    /// replica does not lead.
    pub fn write_limit(&self) -> Duration {
        let Some(term) = &self.term else { return Duration::MAX };
        let term = term.lock().unwrap_or_else(PoisonError::into_inner);
        term.renewed.map_or(Duration::ZERO, |renewed| write_limit(renewed.elapsed()))
    }

    /// Completes when this replica has become the leader since the last call.
    pub async fn won(&self) {
        self.changed.notified().await;
    }

    fn renew(&self, sent: Option<Stopwatch>) {
        let led = self.leads();
        if let Some(term) = &self.term {
            term.lock().unwrap_or_else(PoisonError::into_inner).renewed = sent;
        }
        match (led, self.leads()) {
            (false, true) => {
                tracing::info!("this replica leads");
                self.changed.notify_one();
            }
            (true, false) => tracing::info!("this replica no longer leads"),
            _ => {}
        }
    }
}

/// How long a write may last that begins this time after a renewal was sent.
fn write_limit(since_renewal: Duration) -> Duration {
    if since_renewal < RENEW_DEADLINE {
        LEASE.saturating_sub(MARGIN).saturating_sub(since_renewal)
    } else {
        Duration::ZERO
    }
}

/// What a holder changes when it renews its Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Renewal {
    holder: String,
    time: Option<MicroTime>,
    transitions: Option<i32>,
    /// How long the Lease lasts after a renewal.
    duration: Duration,
}

impl Renewal {
    fn of(spec: &LeaseSpec) -> Self {
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.filter(|seconds| *seconds > 0).map_or(LEASE, Duration::from_secs);
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            time: spec.renew_time.clone(),
            transitions: spec.lease_transitions,
            duration: duration.min(LEASE_MAX),
        }
    }
}

/// The election of one replica.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    leadership: Arc<Leadership>,
    /// The last renewal that was read, and when it was first seen.
    seen: Option<(Renewal, Stopwatch)>,
    /// Whether to take the Lease from a holder that renews it.
    force: bool,
}

impl Election {
    /// Creates the election over the Lease [`LEASE_NAME`] in a namespace. `replica` names this
    /// replica, for people: another process of the same name is another replica.
    pub fn new(client: Client, namespace: &str, replica: &str) -> Self {
        let started = clock::now().timestamp_micros();
        let identity = format!("{replica}_{}_{started}", std::process::id());
        let term = Some(Mutex::default());
        let leadership = Arc::new(Leadership { term, changed: Notify::new() });
        Self {
            leases: Api::namespaced(client, namespace),
            identity,
            leadership,
            seen: None,
            force: false,
        }
    }

    /// Returns the state that has whether this replica may write. The election updates it.
    pub fn leadership(&self) -> Arc<Leadership> {
        Arc::clone(&self.leadership)
    }

    /// Takes and renews the Lease until `stop` completes, and then gives it up, so that another
    /// replica need not wait for its end.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let sent = Stopwatch::now();
            let asked = tokio::time::timeout(REQUEST, self.ask());
            match asked.await.context("no response in time").flatten() {
                Ok(true) => self.leadership.renew(Some(sent)),
                Ok(false) => self.leadership.renew(None),
                // The leader keeps leading until its deadline.
                Err(error) => {
                    let (error, leads) = (format!("{error:#}"), self.leadership.leads());
                    tracing::warn!(error, leads, "failed to take or renew the Lease");
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        let led = self.leadership.leads();
        self.leadership.renew(None);
        if led {
            let given = tokio::time::timeout(REQUEST, self.give_up()).await;
            if let Err(error) = given.context("no response in time").flatten() {
                tracing::warn!(error = format!("{error:#}"), "failed to give up the Lease");
            }
        }
    }

    /// Takes the Lease from any holder, and renews it until this process ends. Returns once the
    /// former holder has stopped writing.
    ///
    /// # Errors
    /// The Lease cannot be written.
    pub async fn seize(mut self) -> anyhow::Result<Arc<Leadership>> {
        self.force = true;
        let mut tries = 0;
        while !tokio::time::timeout(REQUEST, self.ask()).await.context("no response in time")?? {
            // The holder renewed the Lease at the same moment.
            tries += 1;
            anyhow::ensure!(tries < SEIZE_TRIES, "another replica holds the Lease {LEASE_NAME}");
        }
        self.force = false;
        let leadership = self.leadership();
        tokio::spawn(self.run(std::future::pending()));
        // The last write of the former holder ends within its Lease.
        tokio::time::sleep(LEASE).await;
        Ok(leadership)
    }

    /// Takes or renews the Lease. Returns whether this replica holds it.
    async fn ask(&mut self) -> anyhow::Result<bool> {
        let Some(lease) = self.leases.get_opt(LEASE_NAME).await? else {
            // Somebody deleted the Lease, and its holder may still write.
            let recent = |(seen, since): &(Renewal, Stopwatch)| since.elapsed() < seen.duration;
            if !self.leadership.leads() && self.seen.as_ref().is_some_and(recent) {
                return Ok(false);
            }
            let metadata = ObjectMeta { name: Some(LEASE_NAME.into()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(&LeaseSpec::default())) };
            return self.wrote(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let renewal = Renewal::of(&spec);
        let since = match &self.seen {
            Some((seen, since)) if *seen == renewal => *since,
            _ => Stopwatch::now(),
        };
        let held = !renewal.holder.is_empty() && renewal.holder != self.identity;
        let is_over = since.elapsed() >= renewal.duration;
        self.seen = Some((renewal, since));
        if held && !self.force && !is_over {
            return Ok(false);
        }
        let lease = Lease { spec: Some(self.spec(&spec)), ..lease };
        self.wrote(self.leases.replace(LEASE_NAME, &PostParams::default(), &lease).await)
    }

    /// Gives up the Lease, if this replica still holds it.
    async fn give_up(&self) -> anyhow::Result<()> {
        let Some(lease) = self.leases.get_opt(LEASE_NAME).await? else { return Ok(()) };
        let Some(spec) = lease.spec.clone() else { return Ok(()) };
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            let spec = LeaseSpec { holder_identity: Some(String::new()), ..spec };
            let lease = Lease { spec: Some(spec), ..lease };
            self.leases.replace(LEASE_NAME, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    /// The Lease's spec with this replica as its holder.
    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(
            Timestamp::from_microsecond(clock::now().timestamp_micros()).unwrap_or_default(),
        );
        let ours = before.holder_identity.as_ref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: if ours { before.acquire_time.clone() } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(if ours { transitions } else { transitions.saturating_add(1) }),
            ..before.clone()
        }
    }

    /// Whether a write of the Lease succeeded. Another replica may have written it first.
    fn wrote(&mut self, written: kube::Result<Lease>) -> anyhow::Result<bool> {
        match written {
            Ok(lease) => {
                let renewal = Renewal::of(&lease.spec.unwrap_or_default());
                self.seen = Some((renewal, Stopwatch::now()));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(anyhow::anyhow!(chain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_before_the_lease() {
        for seconds in 0..20 {
            let since = Duration::from_secs(seconds);
            let limit = write_limit(since);
            assert!(limit.is_zero() || since + limit < LEASE, "{seconds}: {limit:?}");
            assert_eq!(limit.is_zero(), since >= RENEW_DEADLINE, "{seconds}: {limit:?}");
        }
    }

    #[test]
    fn a_lease_without_a_valid_duration_lasts_as_long_as_ours() {
        let duration = |lease_duration_seconds| {
            let spec = LeaseSpec { lease_duration_seconds, ..LeaseSpec::default() };
            Renewal::of(&spec).duration.as_secs()
        };
        let of = [None, Some(0), Some(-5), Some(60), Some(i32::MAX)];
        assert_eq!(of.map(duration), [15, 15, 15, 60, 600]);
    }
}
