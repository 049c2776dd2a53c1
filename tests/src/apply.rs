//! Server-side apply of YAML documents, as `kubectl apply --server-side` does.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::wait;

/// The longest wait until a new kind is served. The API server usually needs one or two seconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Applies all documents of a YAML text, in order.
///
/// # Errors
/// A document is not an object, or the API server refuses it.
pub async fn yaml(client: &Client, text: &str) -> Result<()> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).context("failed to parse YAML")?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        object(client, document).await?;
    }
    Ok(())
}

/// Applies one object.
///
/// # Errors
/// The document is not an object, or the API server refuses it.
pub async fn object(client: &Client, document: Value) -> Result<DynamicObject> {
    let object: DynamicObject =
        serde_json::from_value(document).context("failed to parse an object")?;
    let types = object.types.clone().context("an object without apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await.with_context(|| {
        format!("the API server does not serve {} of {}", kind.kind, kind.api_version())
    })?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let name = object.name_any();
    let applied =
        api.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&object)).await;
    let applied = applied.with_context(|| format!("failed to apply {} {name}", kind.kind))?;
    if kind.kind == "CustomResourceDefinition" {
        wait_until_served(client, &applied).await?;
    }
    Ok(applied)
}

/// Waits until each served version of a new kind appears in the discovery of the API server.
async fn wait_until_served(client: &Client, definition: &DynamicObject) -> Result<()> {
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (group, kind) =
        (text(&definition.data, "/spec/group"), text(&definition.data, "/spec/names/kind"));
    let versions = definition.data.pointer("/spec/versions").and_then(Value::as_array);
    for version in versions.into_iter().flatten().filter(|version| version["served"] == true) {
        let kind = GroupVersionKind::gvk(&group, &text(version, "/name"), &kind);
        let what = format!("{} of {} to be served", kind.kind, kind.api_version());
        wait::until(&what, DEADLINE, async || Ok(Some(pinned_kind(client, &kind).await?))).await?;
    }
    Ok(())
}
