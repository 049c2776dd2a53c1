//! The audit log of the API server: which user made which request.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// The file name of the audit log in the control plane's folder.
pub(crate) const LOG: &str = "audit.log";

/// The audit policy: one entry per completed request, without bodies.
pub(crate) const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
";

/// One request in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The user: `admin`, or `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// The ID of the user's token, which distinguishes processes with the same service account.
    /// Empty if the user has no token.
    pub credential: String,
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or
    /// `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, such as `pods` or `pods/status`; empty if the path is not that of a resource.
    pub resource: String,
    /// The namespace of the object; empty if there is none.
    pub namespace: String,
    /// The name of the object; empty if there is none, or if the server generated it.
    pub name: String,
    /// The HTTP status code of the response.
    pub code: u64,
}

impl Entry {
    /// Whether the verb is one that changes objects.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

pub(crate) fn read(log: &Path) -> Result<Vec<Entry>> {
    let text =
        fs::read_to_string(log).with_context(|| format!("failed to read {}", log.display()))?;
    // The last line may be incomplete, because the API server may be writing it.
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
        credential: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource: if part.is_empty() { resource } else { format!("{resource}/{part}") },
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: value.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
    })
}
