//! The Events by which cluster-autoscaler reports that it launches no node: `NotTriggerScaleUp` on
//! each pod that no group helps, and `MaxNodesTotalReached` on the ConfigMap of its status
//! (`EventingScaleUpStatusProcessor` and `RunOnce` of 1.36.1).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};

use super::fit::Ask;
use super::observe::Group;

/// Why no group helps a pod: the number of groups by reason, the most frequent reason first.
///
/// `backs_off` is whether a group backs off, and `upcoming` the size that a group has after this
/// scan.
pub(super) fn why(
    ask: &Ask,
    groups: &[Group],
    backs_off: impl Fn(&Group) -> bool,
    upcoming: impl Fn(&Group) -> usize,
) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups {
        let template = &group.template;
        let of_group = if backs_off(group) {
            vec!["in backoff after failed scale-up".to_owned()]
        } else if upcoming(group) >= group.max {
            vec!["max node group size reached".to_owned()]
        } else if !template.admits(&ask.spec) {
            vec!["node(s) didn't match Pod's node affinity/selector".to_owned()]
        } else {
            let have = |name: &String| template.free.get(name).copied().unwrap_or_default();
            let lacks = ask.requests.iter().filter(|(name, amount)| **amount > have(name));
            lacks.map(|(name, _)| format!("Insufficient {name}")).collect()
        };
        for reason in of_group {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    let list: Vec<String> = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    format!("pod didn't trigger scale-up: {}", list.join(", "))
}

/// Writes an Event on an object.
pub(super) async fn write(
    client: &Client,
    (kind, namespace, name): (&str, &str, &str),
    (type_, reason, message): (&str, &str, &str),
) -> Result<()> {
    let now = Timestamp::now();
    let event = Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}.")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: Some(kind.to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        },
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        type_: Some(type_.to_owned()),
        source: Some(EventSource {
            component: Some("cluster-autoscaler".to_owned()),
            ..EventSource::default()
        }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &event)
        .await
        .with_context(|| format!("failed to write an Event on {kind} {namespace}/{name}"))?;
    Ok(())
}
