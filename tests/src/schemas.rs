//! The types of the built-in kinds of Kubernetes, one schema for each minor version, in the format
//! of structured-merge-diff. The API server checks manifests against the same types, but only
//! against those of its own version.
//!
//! The schemas have neither required fields nor the values of enumerations, and no kinds of custom
//! resources.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::built;

/// The types of one minor version of Kubernetes.
#[derive(Debug)]
pub struct Schema {
    /// The version, such as `1.31`.
    pub version: String,
    types: BTreeMap<String, Value>,
}

impl Schema {
    /// The schemas of all versions that `tests/control-plane/schemas` pins, the oldest first.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or a schema cannot be parsed.
    pub fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(built::control_plane("schemas")?)? {
            let path = entry?.path();
            let version = path.file_stem().and_then(|name| name.to_str());
            let version = version.context("the name of a schema is no version")?.to_owned();
            let text = fs::read_to_string(&path)?;
            let types = parse(&text).with_context(|| format!("{} is no schema", path.display()))?;
            all.push(Self { version, types });
        }
        // All versions begin with `1.` and have two digits more.
        all.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(all)
    }

    /// Returns the fields of a manifest that are unknown or have the wrong type, with their paths.
    /// `null` is accepted everywhere, because the API server leaves it out.
    ///
    /// # Errors
    /// The version has no such kind.
    pub fn faults(&self, object: &Value) -> Result<Vec<String>> {
        let name = type_name(object).context("the object has no apiVersion and kind")?;
        let atom = self.types.get(&name);
        let atom = atom.with_context(|| format!("{} has no {name}", self.version))?;
        let mut faults = Vec::new();
        self.check(atom, object, object["kind"].as_str().unwrap_or_default(), &mut faults);
        Ok(faults)
    }

    fn check(&self, of: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
        // A type may be named in place of being written out.
        let atom = of["namedType"].as_str().and_then(|name| self.types.get(name)).unwrap_or(of);
        match value {
            Value::Null => {}
            Value::Object(fields) if atom["map"].is_object() => {
                for (name, value) in fields {
                    let path = format!("{path}.{name}");
                    match member(&atom["map"], name) {
                        Some(of) => self.check(of, value, &path, faults),
                        None => faults.push(format!("{path} is unknown")),
                    }
                }
            }
            Value::Array(elements) if atom["list"].is_object() => {
                for (at, value) in elements.iter().enumerate() {
                    self.check(
                        &atom["list"]["elementType"],
                        value,
                        &format!("{path}[{at}]"),
                        faults,
                    );
                }
            }
            Value::Bool(_) if is_scalar(atom, "boolean") => {}
            Value::Number(_) if is_scalar(atom, "numeric") => {}
            Value::String(_) if is_scalar(atom, "string") => {}
            _ => faults.push(format!("{path} has the wrong type: {value}")),
        }
    }
}

/// The types of a schema by their names.
fn parse(text: &str) -> Result<BTreeMap<String, Value>> {
    let schema: Value = serde_saphyr::from_str(text)?;
    let types = schema["types"].as_array().context("there are no types")?;
    let named = types.iter().filter_map(|of| Some((of["name"].as_str()?.to_owned(), of.clone())));
    let named: BTreeMap<String, Value> = named.collect();
    ensure!(named.len() == types.len(), "types have no names, or equal ones");
    Ok(named)
}

/// The name of the type of an object: `io.k8s.api.rbac.v1.Role` of a Role in
/// `rbac.authorization.k8s.io/v1`.
fn type_name(object: &Value) -> Option<String> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let (group, version) = version.split_once('/').unwrap_or(("core", version));
    Some(format!("io.k8s.api.{}.{version}.{kind}", group.split('.').next()?))
}

/// The type of a field of a struct, or of the values of a map.
fn member<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let mut fields = map["fields"].as_array().into_iter().flatten();
    let field = fields.find(|field| field["name"] == name);
    field.map(|field| &field["type"]).or_else(|| map.get("elementType"))
}

fn is_scalar(atom: &Value, kind: &str) -> bool {
    atom["scalar"] == kind || atom["scalar"] == "untyped"
}
