//! Reads pods and Jobs of Kubernetes, as `kubectl get --output json` prints them.
//!
//! A pod that several snapshots or events of a watch have counts once. It arrived when it was
//! created, and ran from the start of its first container to the end of its last one.

use std::collections::BTreeMap;

use base::quantity::{millis, units};
use chrono::DateTime;
use embedder::{AcceleratorKind, Resources};
use serde_json::Value;

use super::job::{Admits, Job, Work};
use super::reader::{AMOUNT_MAX, Row, TraceFault, UNITS_MAX, name};

/// The objects of a log, by their identity.
#[derive(Default)]
pub(super) struct Objects {
    pods: BTreeMap<String, Seen>,
    jobs: BTreeMap<String, Seen>,
    /// Pods that run on each node, or that no scheduler places.
    others: u64,
}

/// A pod or a Job as it was seen last.
struct Seen {
    job: Job,
    start: Option<i64>,
    end: Option<i64>,
}

impl Objects {
    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.pods.len() + self.jobs.len()
    }

    /// Notes an object.
    pub(super) fn note(&mut self, object: &Value) -> Result<(), TraceFault> {
        if object.pointer("/spec/containers").is_some() {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let of = |kind: &str| owners.into_iter().flatten().any(|owner| owner["kind"] == kind);
            if of("DaemonSet") || of("Node") {
                self.others += 1;
                return Ok(());
            }
            add(&mut self.pods, object, pod(object)?);
        } else {
            add(&mut self.jobs, object, batch_job(object)?);
        }
        Ok(())
    }

    /// The jobs. Pods precede the Jobs that created them.
    pub(super) fn into_rows(self) -> Vec<Row> {
        let Self { pods, jobs, others } = self;
        let repeated = if pods.is_empty() { 0 } else { jobs.len() as u64 };
        let seen = if pods.is_empty() { jobs } else { pods };
        let mut rows: Vec<Row> = seen.into_values().map(row).collect();
        rows.extend((0..others.saturating_add(repeated)).map(|_| Row::NotAJob));
        rows
    }
}

/// Adds an object, or what a later snapshot of it shows.
fn add(all: &mut BTreeMap<String, Seen>, object: &Value, new: Seen) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let uid = text("/metadata/uid");
    let key = match uid {
        // Snapshots without identities: a name that is used again is created anew.
        "" => {
            format!("{} {} {}", text("/metadata/namespace"), text("/metadata/name"), new.job.submit)
        }
        uid => uid.to_owned(),
    };
    match all.get_mut(&key) {
        None => _ = all.insert(key, new),
        Some(known) => {
            known.start = known.start.or(new.start);
            known.end = new.end.or(known.end);
        }
    }
}

fn row(Seen { mut job, start, end }: Seen) -> Row {
    let (Some(start), Some(end)) = (start, end) else {
        return if start.is_some() { Row::Unfinished } else { Row::NeverRan };
    };
    job.runtime = end.saturating_sub(start);
    match job.runtime {
        ..=0 => Row::NeverRan,
        _ if job.work.units == 0 || job.work.unit == Resources::default() => Row::NoSize,
        _ => Row::Job(job),
    }
}

fn pod(pod: &Value) -> Result<Seen, TraceFault> {
    let statuses = ["containerStatuses", "initContainerStatuses"].into_iter().flat_map(|field| {
        pod.pointer(&format!("/status/{field}")).and_then(Value::as_array).into_iter().flatten()
    });
    let statuses: Vec<&Value> = statuses.collect();
    let times = |paths: &[&'static str]| -> Result<Vec<i64>, TraceFault> {
        let all = statuses.iter().flat_map(|status| paths.iter().map(move |path| (*status, *path)));
        let found = all.map(|(status, path)| time(status, path));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    };
    let started = times(&[
        "/state/running/startedAt",
        "/state/terminated/startedAt",
        "/lastState/terminated/startedAt",
    ])?;
    let ended = times(&["/state/terminated/finishedAt"])?;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let has_ended = ["Succeeded", "Failed"].contains(&phase);
    let deleted = time(pod, "/metadata/deletionTimestamp")?;
    let of_pod = time(pod, "/status/startTime")?;
    // Of a container that was restarted, the status has the last two runs.
    let is_restarted = statuses.iter().any(|status| status["restartCount"].as_u64() > Some(0));
    // A container that could not start began at 0, in the year 1970.
    let started = started.into_iter().filter(|at| *at > 0).min();
    let start = started.filter(|_| !is_restarted).or(of_pod);
    let mut end = ended.into_iter().max().filter(|_| has_ended || deleted.is_some()).or(deleted);
    if end.is_none() && has_ended {
        // A pod that was evicted has no status of its containers.
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let changes = conditions.into_iter().flatten().map(|one| time(one, "/lastTransitionTime"));
        end = changes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().max();
    }
    let spec = &pod["spec"];
    Ok(Seen { job: job(pod, spec, 1)?, start, end })
}

fn batch_job(object: &Value) -> Result<Seen, TraceFault> {
    let spec = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64);
    let pods = number("/spec/parallelism").unwrap_or(1);
    let pods = number("/spec/completions").map_or(pods, |completions| completions.min(pods));
    if pods as f64 > UNITS_MAX {
        let problem = format!("expected at most {UNITS_MAX}");
        return Err(TraceFault::new("spec.parallelism", problem, &pods.to_string()));
    }
    let finished = object.pointer("/status/conditions").and_then(Value::as_array);
    let finished = finished.into_iter().flatten().find(|condition| {
        condition["status"] == "True"
            && ["Complete", "Failed"].iter().any(|of| condition["type"] == *of)
    });
    let failed = finished.map(|condition| time(condition, "/lastTransitionTime")).transpose()?;
    let end = time(object, "/status/completionTime")?.or(failed.flatten());
    Ok(Seen { job: job(object, spec, pods)?, start: time(object, "/status/startTime")?, end })
}

/// The job of an object with pods of this specification.
fn job(object: &Value, spec: &Value, pods: u64) -> Result<Job, TraceFault> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let submit = time(object, "/metadata/creationTimestamp")?;
    let submit =
        submit.ok_or_else(|| TraceFault::new("metadata.creationTimestamp", "is missing", ""))?;
    let (namespace, own) = (text("/metadata/namespace"), text("/metadata/name"));
    let (unit, accelerator_kind) = requests(spec)?;
    let priority = spec["priority"].as_i64().unwrap_or(0);
    Ok(Job {
        priority: i32::try_from(priority).unwrap_or(0),
        ..Job::new(
            name("metadata.name", own)?,
            name("metadata.namespace", namespace)?,
            submit,
            0,
            Work { units: pods, unit, accelerator_kind, split: None, admits: Admits::Assumed },
        )
    })
}

/// What a pod requests, by the rules of the scheduler: the sum of its containers and sidecars, or
/// an init container with the sidecars that start before it, whichever is larger, and its overhead.
/// The requests of the whole pod precede those of its containers.
fn requests(spec: &Value) -> Result<(Resources, AcceleratorKind), TraceFault> {
    let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let (mut sum, mut most) = (Amounts::default(), Amounts::default());
    let mut sidecars = Amounts::default();
    for container in list("initContainers") {
        let own = Amounts::of(&container["resources"])?;
        if container["restartPolicy"] == "Always" {
            sidecars = sidecars.plus(&own);
            most = most.max(&sidecars);
        } else {
            most = most.max(&sidecars.plus(&own));
        }
    }
    for container in list("containers") {
        sum = sum.plus(&Amounts::of(&container["resources"])?);
    }
    let mut amounts = sum.plus(&sidecars).max(&most);
    let of_pod = Amounts::of(&spec["resources"])?;
    amounts.0.extend(of_pod.0);
    let overhead = Amounts::read(&spec["overhead"])?;
    let amounts = amounts.plus(&overhead).0;
    let get = |resource: &str| amounts.get(resource).copied().unwrap_or(0);
    let accelerators =
        amounts.iter().find(|(resource, amount)| **amount > 0 && is_accelerator(resource));
    let kind =
        accelerators.map_or_else(AcceleratorKind::default, |(kind, _)| AcceleratorKind::new(kind));
    let unit = Resources {
        accelerators: accelerators.map_or(0, |(_, amount)| *amount),
        cpu_millis: get("cpu"),
        memory_bytes: get("memory"),
        ephemeral_bytes: get("ephemeral-storage"),
        ..Resources::default()
    };
    Ok((unit, kind))
}

pub(super) fn is_accelerator(resource: &str) -> bool {
    let vendors = [
        "nvidia.com/",
        "amd.com/",
        "habana.ai/",
        "aws.amazon.com/neuron",
        "google.com/tpu",
        "gpu.intel.com/",
    ];
    vendors.iter().any(|vendor| resource.starts_with(vendor))
}

/// Amounts of resources by name: of CPU in thousandths of a core, of others in whole units.
#[derive(Clone, Default)]
struct Amounts(BTreeMap<String, u64>);

impl Amounts {
    /// The requests among resources; of a resource without one, the limit.
    fn of(resources: &Value) -> Result<Self, TraceFault> {
        let mut amounts = Self::read(&resources["limits"])?;
        amounts.0.extend(Self::read(&resources["requests"])?.0);
        Ok(amounts)
    }

    fn read(quantities: &Value) -> Result<Self, TraceFault> {
        let mut amounts = BTreeMap::new();
        for (resource, quantity) in quantities.as_object().into_iter().flatten() {
            let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
            let amount = if resource == "cpu" { millis(&text) } else { units(&text) };
            let amount = amount
                .filter(|amount| *amount as f64 <= AMOUNT_MAX)
                .ok_or_else(|| TraceFault::new(resource.clone(), "expected a quantity", &text))?;
            amounts.insert(resource.clone(), amount);
        }
        Ok(Self(amounts))
    }

    fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn max(&self, other: &Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let mut amounts = self.0.clone();
        for (resource, amount) in &other.0 {
            let own = amounts.entry(resource.clone()).or_default();
            *own = of(*own, *amount);
        }
        Self(amounts)
    }
}

/// The time of a field in Unix seconds. `None` if the object does not have it.
pub(super) fn time(object: &Value, path: &'static str) -> Result<Option<i64>, TraceFault> {
    let Some(text) = object.pointer(path).and_then(Value::as_str) else { return Ok(None) };
    let at = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp());
    let at = at.filter(|at| *at >= 0);
    let fault = || TraceFault::new(path, "expected a time such as 2024-01-31T09:30:00Z", text);
    Ok(Some(at.ok_or_else(fault)?))
}
