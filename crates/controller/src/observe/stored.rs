//! Policies as they are stored, whatever version of their definition admitted them.
//!
//! A list fails as a whole if one of its objects cannot be deserialized, and with it the watch of
//! all policies. So a policy whose fields cannot be represented is read without them, and its spec
//! has the problems.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::crd::{Mode, OverprovisioningPolicy, OverprovisioningPolicySpec};

/// A policy that may have fields that cannot be represented.
#[derive(Clone, Debug)]
pub struct StoredPolicy(pub OverprovisioningPolicy);

#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

impl<'de> Deserialize<'de> for StoredPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { metadata, spec, status } = Parts::deserialize(deserializer)?;
        // A status that cannot be read is written anew.
        let status = serde_json::from_value(status).ok();
        Ok(Self(OverprovisioningPolicy { metadata, spec: read(&spec), status }))
    }
}

/// Reads a spec. If that fails, the result has the problem of each field, and nothing but the mode.
fn read(spec: &Value) -> OverprovisioningPolicySpec {
    let parsed = |spec: Value| serde_json::from_value::<OverprovisioningPolicySpec>(spec);
    let error = match parsed(spec.clone()) {
        Ok(spec) => return spec,
        Err(error) => error,
    };
    let fields = spec.as_object().into_iter().flatten();
    let alone = |(field, value): (&String, &Value)| {
        let error = parsed(json!({field: value})).err()?;
        Some(format!("spec.{field}: {error}"))
    };
    let mut unreadable: Vec<String> = fields.filter_map(alone).collect();
    if unreadable.is_empty() {
        unreadable.push(format!("spec: {error}"));
    }
    // A mode that cannot be read changes nothing, as `Act` does with a spec that is invalid.
    let mode = match &spec["mode"] {
        Value::Null if spec.is_object() => Mode::default(),
        mode => serde_json::from_value(mode.clone()).unwrap_or(Mode::Act),
    };
    OverprovisioningPolicySpec { mode, unreadable, ..OverprovisioningPolicySpec::default() }
}

impl Resource for StoredPolicy {
    type DynamicType = ();
    type Scope = <OverprovisioningPolicy as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        OverprovisioningPolicy::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        OverprovisioningPolicy::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        OverprovisioningPolicy::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        OverprovisioningPolicy::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Allowed;

    fn stored(spec: &Value, status: &Value) -> OverprovisioningPolicy {
        let metadata = json!({"name": "batch", "namespace": "team"});
        let object = json!({
            "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
            "metadata": metadata, "spec": spec, "status": status,
        });
        let StoredPolicy(policy) = serde_json::from_value(object).expect("a policy");
        assert_eq!(policy.metadata.name.as_deref(), Some("batch"));
        policy
    }

    #[test]
    fn a_spec_that_can_be_read_is_read_whole() {
        let spec = json!({"mode": "Act", "limits": {"placeholders": 3}});
        let policy = stored(&spec, &json!({"demand": 7}));
        assert_eq!((policy.spec.limits.placeholders, policy.spec.unreadable), (Some(3), vec![]));
        assert_eq!(policy.status.map(|status| status.demand), Some(7));
    }

    #[test]
    fn each_field_that_cannot_be_read_is_a_fault() {
        let check = |spec: &Value, fields: &[&str]| {
            let policy = stored(spec, &json!({"demand": "many"}));
            assert_eq!(policy.status, None);
            let faults = policy.spec.settings(&Allowed::default()).expect_err("faults");
            let names: Vec<&str> =
                faults.iter().filter_map(|fault| Some(fault.split_once(": ")?.0)).collect();
            assert_eq!(names, fields, "{faults:?}");
            policy.spec.mode
        };
        let absurd = json!({
            "mode": "Act", "limits": {"placeholders": -5}, "behavior": {"scaleUp": {"tolerance": {}}},
            "forecast": {"method": "ladder", "ladder": {"nodesToReplicas": [[0, 1e300]]}},
        });
        let fields = ["spec.behavior", "spec.forecast", "spec.limits"];
        assert_eq!(check(&absurd, &fields), Mode::Act);
        // The mode is read alone, because `Observe` removes the placeholders of an invalid policy.
        // A mode that cannot be read leaves them.
        let invalid = |mode: &Value| json!({"mode": mode, "limits": {"placeholders": -5}});
        assert_eq!(check(&invalid(&json!("Observe")), &["spec.limits"]), Mode::Observe);
        assert_eq!(check(&invalid(&json!(null)), &["spec.limits", "spec.mode"]), Mode::Observe);
        assert_eq!(
            check(&json!({"limits": {"placeholders": -5}}), &["spec.limits"]),
            Mode::Observe
        );
        assert_eq!(check(&json!({"mode": "Perhaps", "tick": "1m"}), &["spec.mode"]), Mode::Act);
        assert_eq!(check(&json!("text"), &["spec"]), Mode::Act);
        assert_eq!(check(&json!(null), &["spec"]), Mode::Act);
    }
}
