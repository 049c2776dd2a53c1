//! The CustomResourceDefinitions, as Kubernetes' API conventions ask for.
//!
//! The schema that is derived from the Rust types differs from them in two points. Numbers have
//! formats of Rust, of which the API server warns at each `kubectl apply`. Objects and lists have
//! defaults, which the API server would copy into each stored policy; a default that changes in a
//! later version would not reach these policies.

use kube::CustomResourceExt as _;
use serde_json::Value;

use super::{OverprovisioningPolicy, PlannedDemand};

/// The definition of the OverprovisioningPolicy.
///
/// # Errors
/// Never in practice: the derived definition is JSON.
pub fn definition() -> serde_json::Result<Value> {
    Ok(conforming(serde_json::to_value(OverprovisioningPolicy::crd())?))
}

/// The definitions of all custom resources.
///
/// # Errors
/// Never in practice: the derived definitions are JSON.
pub fn definitions() -> serde_json::Result<[Value; 2]> {
    let planned = serde_json::to_value(PlannedDemand::crd())?;
    Ok([definition()?, conforming(planned)])
}

fn conforming(mut definition: Value) -> Value {
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        conform(&mut version["schema"]["openAPIV3Schema"]);
    }
    definition
}

/// Changes a schema and those within it.
fn conform(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if fields.get("default").is_some_and(|default| default.is_object() || default.is_array()) {
        fields.remove("default");
    }
    if fields.get("format").and_then(Value::as_str).is_some_and(|of| of.starts_with("uint")) {
        let most = fields.get("maximum").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
        let format = if most <= f64::from(i32::MAX) { "int32" } else { "int64" };
        fields.insert("format".into(), format.into());
    }
    for inner in ["items", "additionalProperties"] {
        fields.get_mut(inner).into_iter().for_each(conform);
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, property)| conform(property));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_are_those_of_kubernetes_and_only_scalars_have_defaults() {
        let mut schema = json!({"type": "object", "default": {"a": 1}, "properties": {
            "a": {"type": "integer", "format": "uint64", "minimum": 0, "default": 1},
            "b": {"type": "integer", "format": "uint8", "maximum": 100},
            "c": {"type": "number", "format": "double", "default": 0.0},
            "default": {"type": "array", "default": [], "items": {"type": "integer", "format": "uint32"}},
            "d": {"type": "object", "additionalProperties": {"type": "integer", "format": "uint64"}},
        }});
        conform(&mut schema);
        let expected = json!({"type": "object", "properties": {
            "a": {"type": "integer", "format": "int64", "minimum": 0, "default": 1},
            "b": {"type": "integer", "format": "int32", "maximum": 100},
            "c": {"type": "number", "format": "double", "default": 0.0},
            "default": {"type": "array", "items": {"type": "integer", "format": "int64"}},
            "d": {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}},
        }});
        assert_eq!(schema, expected);
    }
}
