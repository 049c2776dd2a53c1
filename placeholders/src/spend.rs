//! The spend cap, allotted greedily by marginal value.

use embedder::{BucketId, MicroDollars};

/// One additional placeholder of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) bucket: BucketId,
    /// The probability that the placeholder is needed.
    pub(crate) chance: f64,
    pub(crate) hourly: MicroDollars,
}

/// Selects offers whose total price stays under the cap, and returns the number selected per
/// bucket.
///
/// Offers are taken in descending order of their value per dollar. Within a bucket, the
/// probabilities must not increase.
pub(crate) fn spend(mut offers: Vec<Candidate>, cap: MicroDollars, buckets: usize) -> Vec<u64> {
    offers.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then_with(|| a.bucket.cmp(&b.bucket)));
    let mut taken = vec![0; buckets];
    let mut left = cap.0;
    for Candidate { bucket, hourly, .. } in offers {
        if let Some(rest) = left.checked_sub(hourly.0) {
            left = rest;
            taken[bucket] += 1;
        }
    }
    taken
}

/// Returns the probability that the placeholder is needed, per micro-dollar. An offer that costs
/// nothing has infinite worth.
pub(crate) fn worth(offer: &Candidate) -> f64 {
    if offer.hourly.0 == 0 { f64::INFINITY } else { offer.chance / offer.hourly.0 as f64 }
}
