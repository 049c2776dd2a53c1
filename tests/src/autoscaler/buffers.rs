//! `CapacityBuffers`: the autoscaler keeps room free for virtual pods, which are not in the API
//! server.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::PodTemplate;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::fit::{Ask, requests};
use crate::quantity::thousandths;

/// The only supported provisioning strategy, and the default.
const STRATEGY: &str = "buffer.x-k8s.io/active-capacity";

/// The virtual pods of all buffers that refer to a template. Writes the resolved spec of each
/// buffer into its status.
pub(super) async fn virtual_pods(client: &Client) -> Result<Vec<Ask>> {
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    let resource = ApiResource::from_gvk(&kind);
    let buffers: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let found = match buffers.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        found => found.context("failed to list CapacityBuffers")?,
    };
    let mut virtual_pods = Vec::new();
    for buffer in found {
        let spec = &buffer.data["spec"];
        let strategy = spec["provisioningStrategy"].as_str().unwrap_or(STRATEGY);
        let Some(name) = spec["podTemplateRef"]["name"].as_str() else { continue };
        if strategy != STRATEGY {
            continue;
        }
        let namespace = buffer.namespace().unwrap_or_default();
        let templates: Api<PodTemplate> = Api::namespaced(client.clone(), &namespace);
        let status = match templates.get_opt(name).await? {
            None => status(&buffer, "False", "TemplateNotFound", json!({})),
            Some(template) => {
                let pods = pods(&buffer, &template)?;
                let resolved = json!({
                    "replicas": pods.len(),
                    "podTemplateRef": {"name": name},
                    "podTemplateGeneration": template.metadata.generation.unwrap_or_default(),
                    "provisioningStrategy": strategy,
                });
                virtual_pods.extend(pods);
                status(&buffer, "True", "AttributesSet", resolved)
            }
        };
        write(client, &resource, &buffer, status).await?;
    }
    Ok(virtual_pods)
}

/// The virtual pods of a buffer: `replicas` of them, but no more than fit within `limits`.
fn pods(buffer: &DynamicObject, template: &PodTemplate) -> Result<Vec<Ask>> {
    let spec = template.template.as_ref().and_then(|template| template.spec.clone());
    let spec = spec.context("the PodTemplate has no spec")?;
    let wanted = &buffer.data["spec"];
    let requests = requests(&spec)?;
    let limits: BTreeMap<String, Quantity> =
        serde_json::from_value(wanted["limits"].clone()).unwrap_or_default();
    let mut most = wanted["replicas"].as_u64();
    for (name, limit) in &limits {
        let request = requests.get(name).copied().unwrap_or_default();
        if request > 0 {
            let fit = u64::try_from(thousandths(&limit.0)? / request)?;
            most = Some(most.map_or(fit, |most| most.min(fit)));
        }
    }
    let name = format!("{}/{}", buffer.namespace().unwrap_or_default(), buffer.name_any());
    // The lowest priority places virtual pods after all real pods.
    (0..most.unwrap_or_default())
        .map(|n| Ask::new(format!("{name}-{n}"), i32::MIN, spec.clone()))
        .collect()
}

fn status(buffer: &DynamicObject, ready: &str, reason: &str, mut resolved: Value) -> Value {
    // The transition time stays the same while the status of the condition does not change.
    let conditions = buffer.data["status"]["conditions"].as_array();
    let old = conditions.into_iter().flatten().find(|old| old["type"] == "ReadyForProvisioning");
    let since =
        old.filter(|old| old["status"] == ready).map(|old| old["lastTransitionTime"].clone());
    resolved["conditions"] = json!([{
        "type": "ReadyForProvisioning",
        "status": ready,
        "reason": reason,
        "message": "",
        "lastTransitionTime": since.unwrap_or_else(|| json!(Timestamp::now().strftime("%FT%TZ").to_string())),
    }]);
    resolved
}

async fn write(
    client: &Client,
    resource: &ApiResource,
    buffer: &DynamicObject,
    status: Value,
) -> Result<()> {
    if buffer.data["status"] == status {
        return Ok(());
    }
    let namespace = buffer.namespace().unwrap_or_default();
    let buffers: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
    let status = json!({"status": status});
    let name = buffer.name_any();
    buffers.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}
