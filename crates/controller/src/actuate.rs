//! Actuate: the only code that writes ReplicaSets, gates and CapacityBuffers.
//!
//! Every write to an existing ReplicaSet, Pod or CapacityBuffer carries the `resourceVersion` that
//! its decision read, so a stale write fails. The code touches only objects with Prophet's labels
//! and owner: their names come from [`Template::name`], or from objects that were found by these
//! labels.

use std::sync::Arc;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, Preconditions,
};
use kube::{Client, Error, ResourceExt as _};
use placeholders::{Change, LIFTED_AT, LIFTED_FOR, Template};
use serde_json::{Value, json};

/// The field manager of every write.
const MANAGER: &str = "prophet";

/// The label of the objects that Prophet creates.
const OURS: &str = "app.kubernetes.io/managed-by=prophet";

/// A failed write. The other writes continue, and the next turn retries.
#[derive(Debug, thiserror::Error)]
#[error("failed to {act} {name}")]
pub struct ActuateError {
    act: &'static str,
    name: String,
    #[source]
    source: Box<Error>,
}

impl ActuateError {
    /// Whether the object was changed or deleted since it was read. This is no fault, because the
    /// next turn decides anew.
    pub fn is_stale(&self) -> bool {
        matches!(&*self.source, Error::Api(status) if status.code == 409 || status.code == 404)
    }
}

/// Writes the changes of the policies of one namespace.
#[derive(Clone)]
pub struct Actuator {
    client: Client,
    namespace: String,
    may_write: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Actuator {
    /// Creates an actuator for the policies of a namespace. It calls `may_write` before each write,
    /// and leaves the write out if the result is false.
    pub fn new(
        client: Client,
        namespace: &str,
        may_write: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        Self { client, namespace: namespace.into(), may_write }
    }

    /// Applies one change.
    ///
    /// `now` (RFC 3339) and `why` are written as annotations onto pods whose gate is removed.
    ///
    /// # Errors
    /// The API server rejects the write or cannot be reached.
    pub async fn change(&self, change: &Change, now: &str, why: &str) -> Result<(), ActuateError> {
        match change {
            Change::Apply { set, body } => self.apply("apps", "v1", "ReplicaSet", set, body).await,
            Change::Scale { set, resource_version, replicas } => {
                let body = json!({"metadata": {"resourceVersion": resource_version}, "spec": {"replicas": replicas}});
                self.merge("apps", "ReplicaSet", set, &body).await
            }
            Change::Lift { pod, resource_version, gates } => {
                let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
                let body = json!({
                    "metadata": {
                        "resourceVersion": resource_version,
                        "annotations": {LIFTED_AT: now, LIFTED_FOR: why},
                    },
                    "spec": {"schedulingGates": gates},
                });
                self.merge("", "Pod", pod, &body).await
            }
            Change::Delete { set, resource_version } => {
                self.delete("apps", "v1", "ReplicaSet", set, Some(resource_version)).await
            }
        }
    }

    /// Creates or updates a group's CapacityBuffer with `replicas` nodes.
    ///
    /// `resource_version` is `None` if the group has no CapacityBuffer yet.
    ///
    /// # Errors
    /// The API server rejects the write or cannot be reached.
    pub async fn buffer(
        &self,
        template: &Template,
        replicas: u64,
        resource_version: Option<&str>,
    ) -> Result<(), ActuateError> {
        let name = template.name();
        if resource_version.is_none() {
            self.apply("", "v1", "PodTemplate", &name, &template.pod_template()).await?;
        }
        let body = template.capacity_buffer(replicas, resource_version);
        self.apply("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", &name, &body).await
    }

    /// Deletes a CapacityBuffer of Prophet with its PodTemplate.
    ///
    /// # Errors
    /// The API server rejects the write or cannot be reached.
    pub async fn delete_buffer(
        &self,
        name: &str,
        resource_version: &str,
    ) -> Result<(), ActuateError> {
        self.delete(
            "autoscaling.x-k8s.io",
            "v1beta1",
            "CapacityBuffer",
            name,
            Some(resource_version),
        )
        .await?;
        self.delete("", "v1", "PodTemplate", name, None).await
    }

    /// Deletes the placeholders of all policies of the namespace. Returns the number of deleted
    /// ReplicaSets and CapacityBuffers. Kubernetes deletes their pods. An object that cannot be
    /// deleted does not keep the others.
    ///
    /// # Errors
    /// The API server rejects a request or cannot be reached. This is the first such error.
    pub async fn remove_all(&self) -> Result<usize, ActuateError> {
        let ours = ListParams::default().labels(OURS);
        let (mut removed, mut first) = (0, None);
        for (group, version, kind) in
            [("apps", "v1", "ReplicaSet"), ("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer")]
        {
            let listed = match self.api(group, version, kind).list(&ours).await {
                // The cluster does not serve the kind.
                Err(Error::Api(status)) if status.code == 404 => continue,
                Err(source) => {
                    first.get_or_insert(failed("list", kind, OURS, source));
                    continue;
                }
                Ok(listed) => listed,
            };
            for object in listed.items {
                let name = object.name_any();
                let mut deleted = self.delete(group, version, kind, &name, None).await;
                if kind == "CapacityBuffer" {
                    deleted = deleted.and(self.delete("", "v1", "PodTemplate", &name, None).await);
                }
                match deleted {
                    Ok(()) => removed += 1,
                    Err(error) => _ = first.get_or_insert(error),
                }
            }
        }
        first.map_or(Ok(removed), Err)
    }

    async fn apply(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        name: &str,
        body: &Value,
    ) -> Result<(), ActuateError> {
        if !(self.may_write)() {
            return Ok(());
        }
        let parameters = PatchParams::apply(MANAGER).force();
        let done =
            self.api(group, version, kind).patch(name, &parameters, &Patch::Apply(body)).await;
        done.map(drop).map_err(|source| failed("apply", kind, name, source))
    }

    async fn merge(
        &self,
        group: &str,
        kind: &str,
        name: &str,
        body: &Value,
    ) -> Result<(), ActuateError> {
        if !(self.may_write)() {
            return Ok(());
        }
        let parameters =
            PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let done = self.api(group, "v1", kind).patch(name, &parameters, &Patch::Merge(body)).await;
        done.map(drop).map_err(|source| failed("change", kind, name, source))
    }

    async fn delete(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        name: &str,
        resource_version: Option<&str>,
    ) -> Result<(), ActuateError> {
        if !(self.may_write)() {
            return Ok(());
        }
        let preconditions = resource_version
            .map(|version| Preconditions { resource_version: Some(version.into()), uid: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
        match self.api(group, version, kind).delete(name, &parameters).await {
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop).map_err(|source| failed("delete", kind, name, source)),
        }
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }
}

fn failed(act: &'static str, kind: &str, name: &str, source: Error) -> ActuateError {
    ActuateError { act, name: format!("{kind} {name}"), source: Box::new(source) }
}
