//! Builds the template of each group's placeholders from the buckets on offer and the policy.

use embedder::{MicroDollars, Resources, UNLIMITED};
use placeholders::{Owner, Template, Warm};

use super::shrinking::Shrinking;
use crate::catalog::Offers;
use crate::crd::{PlaceholdersSpec, WarmData, WarmImage};
use crate::observe::Taint;

/// CPU that a placeholder leaves free on its node, in thousandths of a core.
///
/// Sizes are rounded on the way, and a pod that exceeds its node by one byte makes an autoscaler
/// launch another node.
const MARGIN_CPU_MILLIS: u64 = 10;

/// Memory that a placeholder leaves free on its node, in bytes, for the same reason.
const MARGIN_MEMORY_BYTES: u64 = 16 << 20;

/// The lowest and the highest priority of placeholders. The cheapest bucket has the lowest
/// priority, because the scheduler preempts the lowest priority first.
pub const PRIORITIES: (i32, i32) = (-10, -1);

/// Builds the templates of the placeholders, by bucket and then by group.
pub(super) fn templates(
    owner: &Owner,
    offers: &Offers,
    spec: &PlaceholdersSpec,
    shrinking: &Shrinking,
) -> Vec<Vec<Template>> {
    let ranks = ranks(&offers.ranking);
    let buckets = offers.catalog.buckets().iter().zip(&offers.groups).zip(ranks);
    let of_bucket =
        |((bucket, groups), rank): ((&embedder::Bucket, &Vec<crate::catalog::Offer>), i32)| {
            let class = spec.priority_class_name.clone().unwrap_or_else(|| priority_class(rank));
            let one = |(group, offer): (&embedder::Group, &crate::catalog::Offer)| {
                let room = requests(bucket.allocatable, offer);
                let kind = bucket.accelerator_kind.as_str();
                let devices = &offer.requested_devices;
                let (requests, devices) = shrinking.shrunk(&group.name, room, devices, kind);
                let taint =
                    |taint: &Taint| (taint.key.clone(), taint.value.clone(), taint.effect.clone());
                Template {
                    owner: owner.clone(),
                    bucket: bucket.name.clone(),
                    group: group.name.clone(),
                    requests,
                    accelerator_kind: kind.to_owned(),
                    devices,
                    pins: offer.pins.clone(),
                    instance_types: offer.instance_types.clone(),
                    taints: offer.taints.iter().map(taint).collect(),
                    priority_class: class.clone(),
                    image: spec.image.clone(),
                    warm: warm(spec),
                    shrunk: shrinking.written(&group.name),
                }
            };
            bucket.groups.iter().zip(groups).map(one).collect()
        };
    buckets.map(of_bucket).collect()
}

/// The name of the PriorityClass that the chart creates for a priority.
pub fn priority_class(priority: i32) -> String {
    format!("prophet-placeholder{priority}")
}

/// The priority of each bucket. Buckets rank by price. If there are more buckets than priorities,
/// neighbours share one.
fn ranks(prices: &[MicroDollars]) -> Vec<i32> {
    let mut by_price: Vec<usize> = (0..prices.len()).collect();
    by_price.sort_by_key(|&id| (prices[id], id));
    let (lowest, highest) = PRIORITIES;
    let steps = i64::from(highest - lowest) + 1;
    let count = i64::try_from(prices.len()).unwrap_or(i64::MAX).max(steps);
    let mut ranks = vec![lowest; prices.len()];
    for (rank, id) in by_price.into_iter().enumerate() {
        let step = i64::try_from(rank).unwrap_or(0) * steps / count;
        ranks[id] = lowest + i32::try_from(step).unwrap_or(0);
    }
    ranks
}

/// The requests of a placeholder on nodes of this size.
fn requests(size: Resources, offer: &crate::catalog::Offer) -> Resources {
    let has = with_margin(size);
    // Without local disk among its requests, a placeholder still leaves no CPU for other pods.
    if offer.disk_known { has } else { Resources { ephemeral_bytes: 0, ..has } }
}

fn with_margin(has: Resources) -> Resources {
    let less =
        |have: u64, margin: u64| if have == UNLIMITED { have } else { have.saturating_sub(margin) };
    Resources {
        cpu_millis: less(has.cpu_millis, MARGIN_CPU_MILLIS),
        memory_bytes: less(has.memory_bytes, MARGIN_MEMORY_BYTES),
        ..has
    }
}

fn warm(spec: &PlaceholdersSpec) -> Vec<Warm> {
    let images = spec.warm_images.iter().map(|WarmImage { image, command, volume }| {
        if *volume {
            Warm::Volume { image: image.clone() }
        } else {
            let command = command.clone().unwrap_or_else(|| vec!["true".into()]);
            Warm::Image { image: image.clone(), command }
        }
    });
    let data = spec.warm_data.iter().map(|WarmData { name, image, command, host_path, marker }| {
        Warm::Data {
            name: name.clone(),
            image: image.clone(),
            command: command.clone(),
            host_path: host_path.clone(),
            marker: marker.clone(),
        }
    });
    images.chain(data).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Comparison, NodeGroup, Pricing, Sizes, offers};
    use crate::observe::Index;

    #[track_caller]
    fn check(dollars: &[u64], expected: &[i32]) {
        let prices: Vec<MicroDollars> =
            dollars.iter().map(|dollars| MicroDollars(dollars * 1_000_000)).collect();
        assert_eq!(ranks(&prices), expected);
    }

    #[test]
    fn the_cheapest_bucket_has_the_lowest_priority() {
        check(&[3], &[-10]);
        check(&[3, 1, 2], &[-8, -10, -9]);
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[-10, -9, -8, -7, -6, -5, -4, -3, -2, -1]);
        // More buckets than priorities: neighbours share one.
        let many: Vec<u64> = (1..=20).collect();
        let shared: Vec<i32> = (0..20).map(|at| at / 2 - 10).collect();
        check(&many, &shared);
    }

    /// Checks the local disk that a placeholder requests, in GiB, of a group with these tags: while
    /// the group has a node with 100 GiB, and once the node is gone.
    #[track_caller]
    fn check_disk(tags: &[(&str, &str)], with_node: u64, at_zero: u64) {
        let labels = [("node.kubernetes.io/instance-type".to_owned(), "m5.xlarge".to_owned())];
        let capacity = Resources {
            cpu_millis: 4_000,
            memory_bytes: 16 << 30,
            ephemeral_bytes: UNLIMITED,
            ..Resources::default()
        };
        let group = NodeGroup {
            labels: labels.into(),
            resources: tags.iter().map(|&(name, text)| (name.into(), text.into())).collect(),
            ..NodeGroup::of_type("a", "m5.xlarge", capacity)
        };
        let allocatable = serde_json::json!({
            "cpu": "3900m", "memory": "14Gi", "pods": "58", "ephemeral-storage": "100Gi",
        });
        let node = testkit::ready_node("n", &serde_json::json!(group.labels), &allocatable);
        let mut index = Index::default();
        index.apply_node(&serde_json::from_value(node.clone()).unwrap());
        let mut sizes = Sizes::new();
        let mut check = |index: &Index, expected: u64| {
            let groups = std::slice::from_ref(&group);
            let comparison = Comparison::by_taints("place");
            let offers =
                offers(groups, index.nodes(), &[], (&comparison, &Pricing::of_table()), &mut sizes)
                    .unwrap();
            let owner = Owner { namespace: String::new(), name: String::new(), uid: String::new() };
            let shrinking = Shrinking::default();
            let made = templates(&owner, &offers, &PlaceholdersSpec::default(), &shrinking);
            assert_eq!(made[0][0].requests.ephemeral_bytes, expected << 30);
        };
        check(&index, with_node);
        index.delete_node(&serde_json::from_value(node).unwrap());
        check(&index, at_zero);
    }

    #[test]
    fn a_placeholder_requests_local_disk_only_if_the_group_has_a_tag_for_it() {
        // The requests must not depend on the nodes, because a new template replaces placeholders.
        check_disk(&[], 0, 0);
        check_disk(&[("ephemeral-storage", "90Gi")], 90, 90);
    }
}
