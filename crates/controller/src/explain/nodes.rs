//! What is known of the nodes of groups, in the status of a policy, and back. The status survives a
//! restart of the controller with any kind of history, and without one.

use std::collections::BTreeSet;

use embedder::{Resource, Resources, UNLIMITED};

use crate::catalog::{Known, Offers, Sizes};
use crate::crd::NodesStatus;
use crate::observe::Taint;

/// The most bytes of JSON in a status, far below the size limit of objects, 1.5 MiB. Groups beyond
/// it are left out, and a restart forgets what is known of them.
const BYTES_MAX: usize = 256 << 10;

/// What is known of the nodes of the groups on offer.
pub(super) fn nodes(known: &Sizes, offers: &Offers) -> Vec<NodesStatus> {
    let offered = offers.groups.iter().flatten().flat_map(|offer| &offer.members);
    let offered: BTreeSet<&String> = offered.collect();
    let nonempty = |known: &Known| {
        *known != Known { instance_type: known.instance_type.clone(), ..Known::default() }
    };
    let known = known.iter().filter(|(name, known)| offered.contains(name) && nonempty(known));
    let mut bytes = 0_usize;
    let fits = |status: &NodesStatus| {
        let length = serde_json::to_string(status).map_or(BYTES_MAX, |text| text.len());
        bytes = bytes.saturating_add(length);
        bytes <= BYTES_MAX
    };
    known.map(|(name, known)| of_group(name, known)).take_while(fits).collect()
}

fn of_group(name: &str, known: &Known) -> NodesStatus {
    let Known { instance_type, size, devices, labels, taints, daemons } = known;
    let amounts = size.iter().flat_map(|size| Resource::ALL.into_iter().zip(size.components()));
    let limited = amounts.filter(|(_, amount)| *amount != UNLIMITED);
    NodesStatus {
        group: name.to_owned(),
        instance_type: instance_type.clone(),
        size: limited.map(|(resource, amount)| (resource.label().into(), amount)).collect(),
        devices: devices.iter().map(|(name, amount)| format!("{name}={amount}")).collect(),
        labels: labels.clone(),
        taints: taints.as_ref().map(|taints| taints.iter().map(ToString::to_string).collect()),
        daemon_sets: daemons.iter().cloned().collect(),
    }
}

/// What the status of a policy has of the nodes of groups.
pub fn recalled(nodes: &[NodesStatus]) -> Sizes {
    nodes.iter().map(|nodes| (nodes.group.clone(), known(nodes))).collect()
}

fn known(nodes: &NodesStatus) -> Known {
    let NodesStatus { group: _, instance_type, size, devices, labels, taints, daemon_sets } =
        nodes.clone();
    let amount = |resource: Resource| size.get(resource.label()).copied().unwrap_or(UNLIMITED);
    Known {
        instance_type,
        size: (!size.is_empty()).then(|| Resources::of(Resource::ALL.map(amount))),
        devices: devices.iter().map(|text| device(text)).collect(),
        labels,
        taints: taints.map(|taints| taints.iter().filter_map(|text| taint(text)).collect()),
        daemons: daemon_sets.into_iter().collect(),
    }
}

/// Parses a device with its amount. Versions before 0.2 wrote the name alone.
fn device(text: &str) -> (String, u64) {
    let (name, amount) = text.rsplit_once('=').unwrap_or((text, "1"));
    (name.to_owned(), amount.parse().unwrap_or(1))
}

/// Parses a taint as kubectl prints it.
fn taint(text: &str) -> Option<Taint> {
    let (rest, effect) = text.rsplit_once(':')?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Some(Taint { key: key.into(), value: value.into(), effect: effect.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &Known) {
        let status = of_group("a", known);
        let text = serde_json::to_string(&status).unwrap();
        let read: NodesStatus = serde_json::from_str(&text).unwrap();
        assert_eq!(recalled(&[read]), Sizes::from([("a".to_owned(), known.clone())]));
    }

    #[test]
    fn what_is_known_survives_the_status() {
        let taint = |value: &str| Taint {
            key: "example.com/team".into(),
            value: value.into(),
            effect: "NoSchedule".into(),
        };
        let none = Known { instance_type: "m5.xlarge".into(), ..Known::default() };
        check(&none);
        check(&Known { taints: Some(Vec::new()), ..none.clone() });
        check(&Known {
            size: Some(Resources {
                devices: embedder::Devices::NONE,
                accelerators: 0,
                cpu_millis: 3_920,
                memory_bytes: 16_288_284_672,
                ephemeral_bytes: UNLIMITED,
                pods: 58,
            }),
            devices: [("vpc.amazonaws.com/efa".to_owned(), 4)].into(),
            labels: [("team".to_owned(), String::new())].into(),
            taints: Some(vec![taint(""), taint("blue")]),
            daemons: ["gpu-operator/driver".to_owned()].into(),
            ..none
        });
    }
}
