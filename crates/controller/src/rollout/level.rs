//! The service level of some pods, and the confidence interval of a difference.
//!
//! Pods come in bursts, so they are not independent. Parts of the time nearly are. The service
//! level is the ratio of two sums over parts, and its variance is that of a ratio estimator
//! (Cochran, Sampling Techniques, 3rd edition, section 6.4).

use std::collections::BTreeMap;

use demand::record::Tick;

/// The pods that started, by part of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts(BTreeMap<i64, PodsInPart>);

#[derive(Clone, Copy, Debug, Default)]
struct PodsInPart {
    /// Pods that waited no longer than one scan of the autoscaler.
    in_time: u64,
    all: u64,
}

impl Starts {
    /// Adds the pods of a tick to a part.
    pub(super) fn add(&mut self, part: i64, tick: &Tick) {
        for bucket in &tick.buckets {
            let (hidden, waited) = (bucket.pods_hidden, bucket.pods_waited);
            let all = hidden.saturating_add(waited);
            if all > 0 {
                let pods = self.0.entry(part).or_default();
                pods.in_time = pods.in_time.saturating_add(hidden);
                pods.all = pods.all.saturating_add(all);
            }
        }
    }

    /// The number of pods.
    pub(super) fn pods(&self) -> u64 {
        self.0.values().fold(0, |sum, part| sum.saturating_add(part.all))
    }

    /// The fraction of pods that waited no longer than one scan. `None` without pods.
    pub(super) fn level(&self) -> Option<f64> {
        let in_time = self.0.values().fold(0_u64, |sum, part| sum.saturating_add(part.in_time));
        (self.pods() > 0).then(|| in_time as f64 / self.pods() as f64)
    }

    /// The 95 % confidence interval of the difference to the service level of the reference, by
    /// Student's distribution. `None` if pods started in fewer than two parts of either.
    pub(super) fn difference(&self, reference: &Self) -> Option<(f64, f64)> {
        let parts = self.0.len().min(reference.0.len());
        let difference = self.level()? - reference.level()?;
        let deviation = (self.variance()? + reference.variance()?).sqrt();
        let within = student(parts - 1) * deviation;
        Some((difference - within, difference + within))
    }

    /// The variance of the service level. `None` for fewer than two parts with pods.
    fn variance(&self) -> Option<f64> {
        let (level, pods, parts) = (self.level()?, self.pods() as f64, self.0.len() as f64);
        let deviation = |part: &PodsInPart| (part.in_time as f64 - level * part.all as f64).powi(2);
        let sum: f64 = self.0.values().map(deviation).sum();
        (parts > 1.0).then(|| sum / (pods * pods) * parts / (parts - 1.0))
    }
}

/// The quantile 0.975 of Student's distribution for so many degrees of freedom.
fn student(degrees: usize) -> f64 {
    const QUANTILES: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131,
    ];
    // For more degrees, the quantile of the last entry is a little too large.
    QUANTILES[degrees.clamp(1, QUANTILES.len()) - 1]
}

#[cfg(test)]
mod tests {
    use demand::forecast::sample;
    use demand::record::BucketTick;

    use super::*;

    /// Pods in time and later, one part after the other.
    fn starts(parts: &[(u64, u64)]) -> Starts {
        let mut starts = Starts::default();
        for (part, &(pods_hidden, pods_waited)) in (0..).zip(parts) {
            let bucket = BucketTick { pods_hidden, pods_waited, ..BucketTick::default() };
            starts.add(part, &sample::tick(0, vec![bucket]));
        }
        starts
    }

    /// With parts of equally many pods, the variance is that of the mean of the parts' levels.
    #[test]
    fn an_interval_follows_from_the_variance_between_parts() {
        let ours = starts(&[(6, 4), (8, 2), (10, 0)]);
        let reference = starts(&[(5, 5), (5, 5), (5, 5)]);
        // Levels of 0.6, 0.8 and 1.0 have the variance 0.04.
        let within = 4.303 * (0.04_f64 / 3.0).sqrt();
        let (low, high) = ours.difference(&reference).unwrap();
        assert!((low - (0.3 - within)).abs() < 1e-9 && (high - (0.3 + within)).abs() < 1e-9);
    }

    #[test]
    fn too_few_parts_give_no_interval() {
        let two = starts(&[(1, 1), (1, 1)]);
        assert_eq!(two.difference(&starts(&[(1, 1)])), None);
        assert_eq!(two.difference(&starts(&[(1, 1), (0, 0)])), None);
        assert_eq!(two.difference(&Starts::default()), None);
        assert_eq!(two.difference(&two), Some((0.0, 0.0)));
        assert_eq!((two.pods(), two.level(), Starts::default().level()), (4, Some(0.5), None));
    }
}
