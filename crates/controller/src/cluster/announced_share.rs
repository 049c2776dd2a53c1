//! How much announced demand of one namespace counts.
//!
//! Whoever may create CronJobs or suspended Jobs announces pods at no cost. So while several
//! namespaces have batch pods, the announced pods of each fill at most a share of the limits of the
//! policy.

use std::collections::BTreeMap;

use embedder::{Catalog, PodRequest};
use placeholders::LimitShare;

/// The announced demand that counts so far, by namespace.
pub(super) struct AnnouncedShare<'a> {
    /// `None` if all announced demand counts.
    limit: Option<&'a LimitShare>,
    catalog: &'a Catalog,
    counted: BTreeMap<String, Room>,
}

/// What pods fill.
#[derive(Clone, Copy, Default)]
struct Room {
    instances: f64,
    dollars: f64,
}

impl<'a> AnnouncedShare<'a> {
    /// Nothing counts yet. `limit` is that of each namespace, if there is one.
    pub(super) fn new(limit: Option<&'a LimitShare>, catalog: &'a Catalog) -> Self {
        Self { limit, catalog, counted: BTreeMap::new() }
    }

    /// Counts announced pods of a namespace, as many as its share admits, and returns their number.
    pub(super) fn admit(&mut self, namespace: &str, request: &PodRequest) -> u64 {
        let Some(limit) = self.limit else { return request.count };
        let each = self.room_of(request);
        let counted = self.counted.entry(namespace.to_owned()).or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates"
        )]
        let fits = |most: Option<f64>, counted: f64, each: f64| match most {
            Some(most) if each > 0.0 => ((most - counted) / each + 1e-9) as u64,
            _ => u64::MAX,
        };
        let count = request
            .count
            .min(fits(limit.placeholders, counted.instances, each.instances))
            .min(fits(limit.dollars, counted.dollars, each.dollars));
        counted.instances += each.instances * count as f64;
        counted.dollars += each.dollars * count as f64;
        count
    }

    /// Counts the pods of an announced gang if the share of the namespace admits all of them.
    pub(super) fn admits_gang(&mut self, namespace: &str, requests: &[PodRequest]) -> bool {
        let before = self.counted.get(namespace).copied().unwrap_or_default();
        let all = requests.iter().all(|request| self.admit(namespace, request) == request.count);
        if !all {
            self.counted.insert(namespace.to_owned(), before);
        }
        all
    }

    /// What one pod fills of an instance of the smallest bucket that it fits.
    fn room_of(&self, request: &PodRequest) -> Room {
        let fitting = self.catalog.buckets_for(&request.shape).ok();
        let Some(id) = fitting.and_then(|fitting| fitting.first()) else { return Room::default() };
        let bucket = &self.catalog.buckets()[id];
        let instances = 1.0 / bucket.allocatable.holds(request.shape.requests).max(1) as f64;
        Room { instances, dollars: instances * bucket.hourly.dollars() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods of half an instance, which costs two dollars an hour.
    fn pods(count: u64) -> PodRequest {
        testkit::pods(count, testkit::cpus(2_000))
    }

    #[test]
    fn each_namespace_announces_up_to_its_share() {
        let catalog = testkit::catalog([("small", 4_000, 2.0)]);
        let limit = LimitShare { placeholders: Some(4.0), dollars: None };
        let mut share = AnnouncedShare::new(Some(&limit), &catalog);
        assert_eq!(["a", "a", "b"].map(|name| share.admit(name, &pods(6))), [6, 2, 6]);
        // A gang counts as a whole or not at all.
        assert!(!share.admits_gang("b", &[pods(1), pods(2)]));
        assert!(share.admits_gang("b", &[pods(1), pods(1)]));
        assert_eq!(share.admit("b", &pods(1)), 0);
    }

    #[test]
    fn dollars_count_and_no_limit_admits_all() {
        let catalog = testkit::catalog([("small", 4_000, 2.0)]);
        let limit = LimitShare { placeholders: Some(4.0), dollars: Some(3.0) };
        assert_eq!(AnnouncedShare::new(Some(&limit), &catalog).admit("a", &pods(30)), 3);
        for limit in [None, Some(LimitShare::default())] {
            let mut share = AnnouncedShare::new(limit.as_ref(), &catalog);
            assert_eq!(share.admit("a", &pods(u64::MAX)), u64::MAX);
        }
        // Pods that fit no bucket fill nothing.
        let large = testkit::pods(9, testkit::cpus(64_000));
        assert_eq!(AnnouncedShare::new(Some(&limit), &catalog).admit("a", &large), 9);
    }
}
