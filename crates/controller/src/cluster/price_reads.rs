//! Reads the prices of AWS in a task of its own, so that no turn waits for them, and keeps them in
//! the place of the history over restarts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::clock;
use history::Place;
use instances::{AwsPrices, CapacityReservation, PriceRules};
use tokio::sync::watch;

use super::election::Leadership;
use crate::causes::chain;
use crate::observe::{ReadPrices, ReadReservations, Shared};

#[cfg(feature = "aws")]
pub use crate::catalog::aws::PriceReader;

/// Nothing: a build without the feature `aws` reads no prices.
#[cfg(not(feature = "aws"))]
#[derive(Clone, Debug)]
pub enum PriceReader {}

#[cfg(not(feature = "aws"))]
impl PriceReader {
    fn none(&self) -> AwsPrices {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "that of the feature aws waits")]
    async fn refresh(
        &self,
        _: &mut AwsPrices,
        _: &BTreeSet<String>,
        _: chrono::DateTime<chrono::Utc>,
    ) -> Vec<String> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "that of the feature aws waits")]
    async fn reservations(
        &self,
        _: &PriceRules,
    ) -> Result<Vec<CapacityReservation>, std::convert::Infallible> {
        match *self {}
    }
}

/// The file with the prices that were read, in the place of the history.
const FILE: &str = "aws-prices.json";

/// The most bytes of the file: 4 MiB. A price has less than 100 bytes, in each of a few zones.
const BYTES_MAX: u64 = 4 << 20;

/// How often prices are read: every 15 minutes, and a minute after new instance types are on offer.
const EVERY: Duration = Duration::from_mins(15);
const PAUSE: Duration = Duration::from_mins(1);

/// Where the prices are kept over restarts.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// The place of the history. `None` if there is none.
    pub(super) place: Option<Place>,
    /// The replica that leads writes the file. `None` if this process writes nothing.
    pub(super) writer: Option<Arc<Leadership>>,
}

/// Reads the prices of the instance types `wanted` whenever they are old, and shows them in the
/// world of `shared`.
pub(super) fn follow_prices(
    reader: PriceReader,
    mut wanted: watch::Receiver<BTreeSet<String>>,
    shared: Arc<Shared>,
    kept: Kept,
) {
    tokio::spawn(async move {
        let restored = kept.restore().await;
        let mut prices = restored.filter(|prices| prices.region == reader.none().region);
        if let Some(prices) = &prices {
            shared.world().aws_prices =
                Some(ReadPrices { prices: Arc::new(prices.clone()), ..ReadPrices::default() });
            shared.ring();
        }
        loop {
            let types = wanted.borrow_and_update().clone();
            if !types.is_empty() {
                let mut next = prices.take().unwrap_or_else(|| reader.none());
                let before = next.clone();
                let failing = reader.refresh(&mut next, &types, clock::now()).await;
                for error in &failing {
                    tracing::warn!(error, "prices not read from AWS");
                }
                if next != before {
                    kept.write(&next).await;
                }
                let read = ReadPrices { prices: Arc::new(next.clone()), failing, is_tried: true };
                shared.world().aws_prices = Some(read);
                shared.ring();
                prices = Some(next);
                tokio::time::sleep(PAUSE).await;
            }
            let changed = tokio::time::timeout(EVERY.saturating_sub(PAUSE), wanted.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    });
}

/// The most capacity reservations that ended and are remembered.
const ENDED_MAX: usize = 100;

/// The reservations that AWS has, and those of before that it no longer has, without instances:
/// reserved capacity that a rule named is not ordered after its end.
fn with_ended(
    mut found: Vec<CapacityReservation>,
    before: &[CapacityReservation],
) -> Vec<CapacityReservation> {
    let ended = before.iter().filter(|of| found.iter().all(|one| one.id != of.id));
    let none = |of: &CapacityReservation| CapacityReservation {
        total: 0,
        available: 0,
        instances: BTreeSet::new(),
        ..of.clone()
    };
    let ended: Vec<_> = ended.map(none).take(ENDED_MAX).collect();
    found.extend(ended);
    found
}

/// How often capacity reservations are read: every minute, as Auto Scaling groups are.
const RESERVATIONS_EVERY: Duration = Duration::from_mins(1);

/// Reads the capacity reservations of AWS that `rules` name, and shows them in the world of
/// `shared`, while something else uses it. After a failure, those that were read last stay.
pub(super) fn follow_reservations(reader: PriceReader, rules: PriceRules, shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut read = ReadReservations::default();
        loop {
            let now = clock::now();
            let found = reader.reservations(&rules).await.map_err(|error| chain(&error));
            let failing = found.as_ref().err().cloned();
            if let Some(error) = failing.as_ref().filter(|_| failing != read.failing) {
                tracing::warn!(error, "capacity reservations not read from AWS");
            }
            let time = if failing.is_some() { read.time } else { now };
            let known = match found {
                Ok(found) => with_ended(found, &read.known).into(),
                Err(_) => Arc::clone(&read.known),
            };
            let is_new = failing != read.failing || known != read.known;
            read = ReadReservations { known, time, failing };
            let Some(shared) = shared.upgrade() else { return };
            let is_first = shared.world().reservations.replace(read.clone()).is_none();
            if is_new || is_first {
                shared.ring();
            }
            drop(shared);
            tokio::time::sleep(RESERVATIONS_EVERY).await;
        }
    });
}

impl Kept {
    /// The prices in the file. Without a valid file there are none: they are read again.
    async fn restore(&self) -> Option<AwsPrices> {
        let read = self.place.as_ref()?.file(FILE, BYTES_MAX).await;
        let parsed = match read {
            Ok(bytes) => serde_json::from_slice(&bytes?).map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        parsed
            .inspect_err(|error| {
                tracing::warn!(error = format!("{error:#}"), "{FILE} not read");
            })
            .ok()
    }

    async fn write(&self, prices: &AwsPrices) {
        let (Some(place), Some(writer)) = (&self.place, &self.writer) else { return };
        if !writer.leads() {
            return;
        }
        let content = serde_json::to_vec(prices).unwrap_or_default();
        if let Err(error) = place.put_file(FILE, content).await {
            tracing::warn!(
                error = format!("{:#}", anyhow::Error::from(error)),
                "{FILE} not written"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use instances::ListedPrice;

    use super::*;

    #[test]
    fn a_reservation_that_ended_has_no_instances() {
        let of = |id: &str, total| CapacityReservation { id: id.into(), total, ..<_>::default() };
        let known = with_ended(vec![of("b", 2)], &[of("a", 1), of("b", 1)]);
        assert_eq!(known, [of("b", 2), of("a", 0)]);
        assert_eq!(with_ended(vec![of("a", 3)], &known), [of("a", 3), of("b", 0)]);
    }

    #[tokio::test]
    async fn prices_survive_a_restart_and_a_broken_file_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(&folder.path().display().to_string()).unwrap();
        let kept = Kept { place: Some(place.clone()), writer: Some(Leadership::alone()) };
        assert_eq!(kept.restore().await, None);
        let mut prices = AwsPrices::of_region("eu-central-1");
        let listed = ListedPrice { micro_dollars: Some(230_000), read: 1 };
        prices.on_demand.insert("m5.xlarge".into(), listed);
        kept.write(&prices).await;
        assert_eq!(kept.restore().await, Some(prices.clone()));
        // A command that only looks writes nothing.
        let reader = Kept { place: Some(place), writer: None };
        reader.write(&AwsPrices::of_region("us-east-1")).await;
        assert_eq!(reader.restore().await, Some(prices));
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(kept.restore().await, None);
    }
}
