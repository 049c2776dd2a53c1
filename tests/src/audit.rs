//! The API server's own log of what it was asked: who did what.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Its name in the control plane's folder.
pub(crate) const LOG: &str = "audit.log";

/// Each answered request once, without bodies.
pub(crate) const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
";

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `admin`, or `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The API group, empty for the core.
    pub group: String,
    /// `pods`, `pods/status`; empty where the path is none of a resource.
    pub resource: String,
    /// Empty where there is none.
    pub namespace: String,
    /// Empty where there is none, or the server was to make one.
    pub name: String,
    /// The HTTP status that was answered.
    pub code: u64,
}

impl Entry {
    /// Whether it was to change something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

pub(crate) fn read(log: &Path) -> Result<Vec<Entry>> {
    let text =
        fs::read_to_string(log).with_context(|| format!("failed to read {}", log.display()))?;
    // A line that is being written has no end yet.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(entry).collect()
}

fn entry(line: &str) -> Result<Entry> {
    let value: Value =
        serde_json::from_str(line).with_context(|| format!("failed to parse {line}"))?;
    let text = |pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (resource, part) = (text("/objectRef/resource"), text("/objectRef/subresource"));
    Ok(Entry {
        user: text("/user/username"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource: if part.is_empty() { resource } else { format!("{resource}/{part}") },
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: value.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
    })
}
