//! What stands in for the API server: it accepts writes, and does what the ReplicaSet controller
//! does with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use placeholders::{BUCKET_ANNOTATION, GROUP_ANNOTATION};
use serde_json::{Value, json};

/// The stored objects, and what was written since the last turn.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The ReplicaSets, by name.
    pub(super) sets: BTreeMap<String, Value>,
    /// The pods of the ReplicaSets, by name.
    pub(super) pods: BTreeMap<String, Value>,
    /// The status of each policy, by its name.
    pub(super) status: BTreeMap<String, Value>,
    /// The writes, one line each.
    pub(super) written: Vec<String>,
    pub(super) refuses: bool,
    version: u64,
    made: u64,
}

/// The API server of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Api(Arc<Mutex<State>>);

impl Api {
    /// The state. A panic of a test leaves it as it is.
    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of this API server.
    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (status, answer) = api.state().answer(&parts.method, parts.uri.path(), &body);
                let answer = Body::from(answer.to_string().into_bytes());
                let mut response = Response::new(answer);
                *response.status_mut() = status;
                anyhow::Ok(response)
            }
        });
        Client::new(service, "team")
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let mut parts = path.rsplit('/');
        let (last, before) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if last == "events" || before == "events" {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            self.written.push(format!(
                "Event {} {}: {}",
                text("type"),
                text("reason"),
                text("note")
            ));
            return (StatusCode::OK, body.clone());
        }
        if last == "status" {
            let status = body.pointer("/0/value").cloned().unwrap_or_default();
            self.status.insert(before.to_owned(), status);
            return (StatusCode::OK, policy(before));
        }
        if self.refuses {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "the namespace is being terminated"});
            return (StatusCode::FORBIDDEN, status);
        }
        let name = last.to_owned();
        let answer = match before {
            "replicasets" => self.write_set(method, &name, body),
            "pods" => {
                let Some(pod) = self.pods.get_mut(&name) else { return gone() };
                let place = place(pod);
                pod["spec"]["schedulingGates"] = body["spec"]["schedulingGates"].clone();
                let lifted = body["metadata"]["annotations"].as_object().cloned();
                for (key, value) in lifted.unwrap_or_default() {
                    pod["metadata"]["annotations"][key] = value;
                }
                self.written.push(format!("lift the gate of a placeholder of {place}"));
                Some(pod.clone())
            }
            _ => None,
        };
        answer.map_or_else(gone, |answer| (StatusCode::OK, answer))
    }

    fn write_set(&mut self, method: &Method, name: &str, body: &Value) -> Option<Value> {
        if *method == Method::DELETE {
            let set = self.sets.remove(name)?;
            self.pods.retain(|_, pod| pod["metadata"]["ownerReferences"][0]["name"] != *name);
            self.written.push(format!("delete the ReplicaSet of {}", place(&set)));
            return Some(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
        }
        let set = self.sets.entry(name.to_owned()).or_insert_with(|| body.clone());
        let before = set["spec"]["replicas"].as_u64().unwrap_or(0);
        let is_new = set["metadata"]["resourceVersion"].is_null();
        if body["spec"]["template"].is_object() {
            *set = body.clone();
        }
        self.version += 1;
        set["metadata"]["resourceVersion"] = json!(self.version.to_string());
        set["spec"]["replicas"] = body["spec"]["replicas"].clone();
        let replicas = set["spec"]["replicas"].as_u64().unwrap_or(0);
        let set = set.clone();
        let place = place(&set);
        let cpu = &set["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"];
        let cpu = cpu.as_str().unwrap_or_default();
        self.written.push(if is_new {
            format!("create the ReplicaSet of {place} with {replicas}, {cpu} each")
        } else {
            format!("scale the ReplicaSet of {place} from {before} to {replicas}")
        });
        Some(set)
    }

    /// Creates and deletes pods until each ReplicaSet has its number. Pending pods go first.
    pub(super) fn control_replica_sets(&mut self) {
        let sets: Vec<(String, Value)> =
            self.sets.iter().map(|(name, set)| (name.clone(), set.clone())).collect();
        for (name, set) in sets {
            let replicas = set["spec"]["replicas"].as_u64().unwrap_or(0);
            let of_set = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"] == *name;
            let mut own: Vec<String> = self
                .pods
                .iter()
                .filter(|(_, pod)| of_set(pod))
                .map(|(name, _)| name.clone())
                .collect();
            own.sort_by_key(|name| self.pods[name]["spec"]["nodeName"].is_string());
            while own.len() as u64 > replicas {
                self.pods.remove(&own.remove(0));
            }
            for _ in own.len() as u64..replicas {
                self.made += 1;
                let pod_name = format!("placeholder-{}", self.made);
                let mut pod = set["spec"]["template"].clone();
                pod["metadata"]["name"] = json!(pod_name);
                pod["metadata"]["namespace"] = json!("team");
                pod["metadata"]["ownerReferences"] =
                    json!([{"kind": "ReplicaSet", "name": name, "controller": true}]);
                self.pods.insert(pod_name, pod);
            }
        }
    }
}

/// The bucket and the group of a ReplicaSet or a placeholder.
fn place(object: &Value) -> String {
    let text = |annotation: &str| object["metadata"]["annotations"][annotation].as_str();
    let (bucket, group) = (text(BUCKET_ANNOTATION), text(GROUP_ANNOTATION));
    format!("{} in {}", bucket.unwrap_or_default(), group.unwrap_or_default())
}

/// A policy, as far as the client reads it.
fn policy(name: &str) -> Value {
    json!({"apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
        "metadata": {"name": name, "namespace": "team"}, "spec": {}})
}

fn gone() -> (StatusCode, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "not found"});
    (StatusCode::NOT_FOUND, status)
}
