//! The spend cap, given out greedily by marginal value.

use embedder::{BucketId, MicroDollars};

/// One more placeholder of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) bucket: BucketId,
    /// The chance that it is needed.
    pub(crate) chance: f64,
    pub(crate) hourly: MicroDollars,
}

/// Takes offers, those worth most per dollar first, while their dollars fit under the cap; returns how many of each
/// bucket. Within a bucket chances must not rise.
pub(crate) fn spend(mut offers: Vec<Offer>, cap: MicroDollars, buckets: usize) -> Vec<u64> {
    offers.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then_with(|| a.bucket.cmp(&b.bucket)));
    let mut taken = vec![0; buckets];
    let mut left = cap.0;
    for Offer { bucket, hourly, .. } in offers {
        if let Some(rest) = left.checked_sub(hourly.0) {
            left = rest;
            taken[bucket] += 1;
        }
    }
    taken
}

/// Waiting avoided per dollar. What costs nothing is worth everything.
pub(crate) fn worth(offer: &Offer) -> f64 {
    if offer.hourly.0 == 0 { f64::INFINITY } else { offer.chance / offer.hourly.0 as f64 }
}
