//! `prophet announce`: writes PlannedDemands for the pods of a manifest.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail, ensure};
use base::clock;
use base::span::Span;
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use controller::crd::{PlannedDemand, PlannedDemandSpec};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::args::{KubeArgs, block_on};
use crate::cli::{input, output};

const EXAMPLES: &str = "\
Examples:
  prophet announce -f job.yaml --in 5m                      the pods of a Job that you will submit in five minutes
  prophet announce -f job.yaml --in 5m && sleep 300 && kubectl create -f job.yaml
  prophet announce -f job.yaml --at 2026-12-03T09:00:00+01:00 --for 2h
                                                            room for the pods from nine to eleven
  prophet announce -f pod.yaml --pods 40 --schedule '0 9 * * THU' --time-zone Europe/Berlin --holidays germany.ics
  prophet announce -f job.yaml --in 10m --dry-run           prints the PlannedDemand and writes nothing

The command writes a PlannedDemand of the manifest's Jobs, JobSets, CronJobs and Pods. Prophet then holds nodes for the
pods from one launch before they come, until they came, or for ten minutes after the time. Announce at least as early as
a node takes to launch: five minutes are as good as an hour. How many of the pods that you announce come decides for
how many of the next ones nodes are held.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("time").required(true))]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    kube: KubeArgs,
    /// The manifest of what you will submit, as YAML or JSON; `-` is standard input
    #[arg(long = "filename", short, value_name = "FILE", value_parser = input::file())]
    file: PathBuf,
    /// The namespace [default: that of the manifest, else that of the kubeconfig context]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// In how much time the pods come, such as 5m
    #[arg(long = "in", value_name = "TIME", group = "time")]
    after: Option<Span>,
    /// When the pods come, in RFC 3339, such as 2026-12-03T09:00:00+01:00
    #[arg(long, value_name = "TIME", group = "time")]
    at: Option<DateTime<Utc>>,
    /// When the pods come again and again, as the schedule of a CronJob
    #[arg(long, value_name = "CRON", group = "time")]
    schedule: Option<String>,
    /// The time zone of --schedule, --except and --holidays [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    time_zone: Option<String>,
    /// A day without pods, such as 2026-12-25; repeat it for each day
    #[arg(long, value_name = "DAY", requires = "schedule")]
    except: Vec<NaiveDate>,
    /// A calendar (ICS) whose days are days without pods
    #[arg(long, value_name = "FILE", requires = "schedule")]
    holidays: Option<PathBuf>,
    /// How long nodes for the pods are held, beside those of pods that run [default: until all pods
    /// came once]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// How long after the time nodes are held for pods that did not come [default: 10m]
    #[arg(long, value_name = "TIME")]
    tolerance: Option<Span>,
    /// The number of pods [default: as many as the manifest runs at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pods: Option<u32>,
    /// The name of the PlannedDemand [default: that of the manifest's object]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Who announces, within the namespace: kept and broken announcements count for each author
    /// [default: the namespace]
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// The pods start together, so their nodes are in one placement group
    #[arg(long)]
    gang: bool,
    /// Hold nodes for all pods, however many of the earlier ones came, if the policy allows it
    #[arg(long)]
    certain: bool,
    /// Print the PlannedDemand, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// How long after its end a PlannedDemand for one time is deleted, in seconds: a day.
const TTL_SECONDS: u32 = 86_400;

/// The most days without pods.
const EXCEPT_MAX: usize = 400;

/// Pods of one template.
#[derive(Debug, PartialEq)]
struct Pods {
    name: String,
    namespace: Option<String>,
    /// The number of pods.
    count: u64,
    template: Value,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = input::text(&args.file)?;
    let file = args.file.display().to_string();
    let found = pods_of(&text, &file)?;
    ensure!(
        args.name.is_none() || found.len() == 1,
        "{file} has {} templates of pods: leave --name out, so that each has the name of its object",
        found.len()
    );
    let now = clock::now();
    let planned: Vec<PlannedDemand> =
        found.into_iter().map(|pods| planned(args, pods, now)).collect::<Result<_, _>>()?;
    if args.dry_run {
        for planned in &planned {
            output::print(&format!("---\n{}", base::input::to_yaml(&manifest(planned)?)?))?;
        }
        return Ok(());
    }
    block_on(async {
        let client = args.kube.connect().await?;
        for planned in &planned {
            let (name, of_manifest) = (planned.name_any(), planned.namespace());
            let namespace = of_manifest.unwrap_or_else(|| client.default_namespace().to_owned());
            let api: Api<PlannedDemand> = Api::namespaced(client.clone(), &namespace);
            let apply = PatchParams::apply("prophet-announce").force();
            let written = api.patch(&name, &apply, &Patch::Apply(manifest(planned)?)).await;
            written.with_context(|| {
                format!(
                    "failed to write the PlannedDemand {namespace}/{name}: is Prophet installed, \
                     and may you create PlannedDemands there?"
                )
            })?;
            let PlannedDemandSpec { pods, at, schedule, .. } = &planned.spec;
            let time = at.as_ref().or(schedule.as_ref()).map_or("", String::as_str);
            output::print(&format!("planneddemand/{name} in {namespace}: {pods} pods, {time}\n"))?;
        }
        Ok(())
    })
}

/// The object without what only the API server sets.
fn manifest(planned: &PlannedDemand) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(planned)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    Ok(value)
}

/// The PlannedDemand of pods.
fn planned(args: &Args, pods: Pods, now: DateTime<Utc>) -> anyhow::Result<PlannedDemand> {
    let after = args.after.map(|span| now + TimeDelta::seconds(span.as_seconds()));
    let at = after.or(args.at).map(|at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string());
    ensure!(
        args.at.is_none_or(|at| at > now),
        "--at {}: the time is in the past; give a later one",
        at.as_deref().unwrap_or_default()
    );
    let mut except: BTreeSet<NaiveDate> = args.except.iter().copied().collect();
    if let Some(file) = &args.holidays {
        let text = input::text(file)?;
        except.extend(holidays(&text).with_context(|| file.display().to_string())?);
    }
    let today = now.date_naive() - Days::new(1);
    except.retain(|day| *day >= today);
    ensure!(except.len() <= EXCEPT_MAX, "more than {EXCEPT_MAX} days without pods are ahead");
    let count = args.pods.map_or(pods.count, u64::from);
    let spec = PlannedDemandSpec {
        pods: u32::try_from(count).ok().filter(|count| *count <= 100_000).with_context(|| {
            format!("{count} pods are more than 100,000: split them into several announcements")
        })?,
        template: pods.template,
        gang: args.gang,
        ttl_seconds_after_end: at.is_some().then_some(TTL_SECONDS),
        at,
        schedule: args.schedule.clone(),
        time_zone: args.time_zone.clone(),
        except: except.iter().map(NaiveDate::to_string).collect(),
        duration: args.duration.map(|span| span.to_string()),
        tolerance: args.tolerance.map(|span| span.to_string()),
        certain: args.certain,
    };
    let name = args.name.clone().unwrap_or(pods.name);
    let mut planned = PlannedDemand::new(&name, spec);
    planned.metadata.namespace = args.namespace.clone().or(pods.namespace);
    if let Some(author) = &args.author {
        planned.labels_mut().insert("prophet.dev/author".into(), author.clone());
    }
    Ok(planned)
}

/// The pods of the objects of a manifest.
fn pods_of(text: &str, file: &str) -> anyhow::Result<Vec<Pods>> {
    let mut found = Vec::new();
    // Empty lines in place of the documents before keep the numbers of lines in errors.
    let mut before = String::new();
    for document in documents(text) {
        let filled = format!("{before}{document}");
        before.extend(document.lines().map(|_| '\n'));
        if document.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#')) {
            continue;
        }
        let object: Value = base::input::parse(&filled, file)?;
        let items = object["items"].as_array().filter(|_| object["kind"] == "List");
        for object in items.unwrap_or(&vec![object.clone()]) {
            found.extend(pods_of_object(object).with_context(|| file.to_owned())?);
        }
    }
    ensure!(!found.is_empty(), "{file} has no object: give the manifest of a Job");
    Ok(found)
}

/// The documents of a text, each with the line that ends it.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let is_end = line.trim_end() == "---";
        let document = documents.last_mut().filter(|_| !is_end);
        match document {
            Some(document) => document.push_str(line),
            None => documents.push(String::new()),
        }
        if let Some(document) = documents.last_mut() {
            document.push('\n');
        }
    }
    documents
}

fn pods_of_object(object: &Value) -> anyhow::Result<Vec<Pods>> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().map(str::to_owned);
    let generated = || text("generateName").map(|name| name.trim_end_matches('-').to_owned());
    let name = text("name").or_else(generated);
    let name = name.ok_or_else(|| anyhow!("{kind} without metadata.name"))?;
    let namespace = text("namespace");
    let of = |name: String, count: u64, template: &Value| Pods {
        name,
        namespace: namespace.clone(),
        count,
        template: template_of(template),
    };
    let all = match kind {
        "Pod" => vec![of(name, 1, object)],
        "Job" => vec![of(name, at_once(&object["spec"]), &object["spec"]["template"])],
        "CronJob" => {
            let job = &object["spec"]["jobTemplate"]["spec"];
            vec![of(name, at_once(job), &job["template"])]
        }
        "JobSet" => {
            let jobs = object["spec"]["replicatedJobs"].as_array();
            let jobs = jobs.into_iter().flatten().map(|job| {
                let spec = &job["template"]["spec"];
                let replicas = job["replicas"].as_u64().unwrap_or(1);
                let name = format!("{name}-{}", job["name"].as_str().unwrap_or_default());
                of(name, at_once(spec).saturating_mul(replicas), &spec["template"])
            });
            jobs.collect()
        }
        kind => bail!(
            "the kind {kind:?} is not read: expected a Job, JobSet, CronJob or Pod; give one of the \
             pods as kind Pod, and their number by --pods"
        ),
    };
    if let Some(pods) = all.iter().find(|pods| !pods.template["spec"]["containers"].is_array()) {
        bail!("{kind} {}: the template of its pods has no spec.containers", pods.name);
    }
    Ok(all)
}

/// The pods that a Job runs at once.
fn at_once(spec: &Value) -> u64 {
    let parallelism = spec["parallelism"].as_u64().unwrap_or(1);
    spec["completions"].as_u64().map_or(parallelism, |most| most.min(parallelism))
}

/// The part of a pod or a template that decides where its pods run.
fn template_of(template: &Value) -> Value {
    let labels = &template["metadata"]["labels"];
    let spec = template["spec"].clone();
    if labels.is_object() {
        json!({"metadata": {"labels": labels}, "spec": spec})
    } else {
        json!({"spec": spec})
    }
}

/// The days of the events of a calendar (RFC 5545).
///
/// # Errors
/// An event repeats, or has no day.
fn holidays(text: &str) -> anyhow::Result<BTreeSet<NaiveDate>> {
    let mut days = BTreeSet::new();
    let (mut start, mut end, mut is_event) = (None, None, false);
    for (at, line) in text.lines().enumerate() {
        let (name, value) = line.trim_end().split_once(':').unwrap_or((line.trim_end(), ""));
        let name = name.split(';').next().unwrap_or_default();
        let day = || {
            let day = value.get(..8).and_then(|day| NaiveDate::parse_from_str(day, "%Y%m%d").ok());
            day.with_context(|| format!("line {}: {name} {value:?} is no day", at + 1))
        };
        match (name, value) {
            ("BEGIN", "VEVENT") => (start, end, is_event) = (None, None, true),
            ("DTSTART", _) if is_event => start = Some(day()?),
            ("DTEND", _) if is_event => end = Some(day()?),
            ("RRULE" | "RDATE", _) if is_event => bail!(
                "line {}: events that repeat are not read; give a calendar with the days of each year",
                at + 1
            ),
            ("END", "VEVENT") => {
                let first = start.with_context(|| format!("line {}: no DTSTART", at + 1))?;
                let last = end.map_or(first, |end: NaiveDate| end - Days::new(1)).max(first);
                days.extend(first.iter_days().take_while(|day| *day <= last).take(EXCEPT_MAX + 1));
                is_event = false;
            }
            _ => {}
        }
    }
    ensure!(!days.is_empty(), "there is no event: expected a calendar (ICS)");
    Ok(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, u64)]) {
        let found = pods_of(text, "job.yaml").unwrap();
        let found: Vec<(&str, u64)> =
            found.iter().map(|pods| (pods.name.as_str(), pods.count)).collect();
        assert_eq!(found, expected);
    }

    const SPEC: &str = "{containers: [{name: c, resources: {requests: {cpu: 4}}}]}";

    #[test]
    fn the_pods_that_run_at_once_are_announced() {
        check(&format!("{{kind: Pod, metadata: {{name: a}}, spec: {SPEC}}}"), &[("a", 1)]);
        let job = |name: &str, more: &str| {
            format!(
                "{{kind: Job, metadata: {{{name}}}, spec: {{{more}, template: {{spec: {SPEC}}}}}}}\n"
            )
        };
        check(&job("name: a", "parallelism: 8, completions: 3"), &[("a", 3)]);
        check(&job("generateName: train-", "parallelism: 8"), &[("train", 8)]);
        let two = format!(
            "# two jobs\n---\n{}---\n{}",
            job("name: a", "parallelism: 1"),
            job("name: b", "parallelism: 2")
        );
        check(&two, &[("a", 1), ("b", 2)]);
        let replicated = format!(
            "{{name: w, replicas: 3, template: {{spec: {{parallelism: 2, template: {{spec: {SPEC}}}}}}}}}"
        );
        let set = format!(
            "{{kind: JobSet, metadata: {{name: s}}, spec: {{replicatedJobs: [{replicated}]}}}}"
        );
        check(&set, &[("s-w", 6)]);
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = format!("{:#}", pods_of(text, "job.yaml").unwrap_err());
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_manifest_without_pods_is_refused() {
        check_error("", "job.yaml has no object");
        check_error(
            "{kind: Deployment, metadata: {name: a}}",
            "the kind \"Deployment\" is not read",
        );
        check_error(
            "{kind: Job, metadata: {name: a}, spec: {}}",
            "Job a: the template of its pods has no spec.containers",
        );
        check_error("{kind: Job, metadata: {}}", "Job without metadata.name");
        check_error("a: 1\n---\nb: [", "job.yaml");
    }

    #[test]
    fn the_days_of_a_calendar_are_read() {
        let event = |from: &str, more: &str| {
            format!(
                "BEGIN:VEVENT\r\nSUMMARY:x\r\nDTSTART;VALUE=DATE:{from}\r\n{more}END:VEVENT\r\n"
            )
        };
        let calendar = format!(
            "BEGIN:VCALENDAR\r\n{}{}END:VCALENDAR\r\n",
            event("20261225", "DTEND;VALUE=DATE:20261227\r\n"),
            event("20270101", "")
        );
        let days: Vec<String> =
            holidays(&calendar).unwrap().iter().map(NaiveDate::to_string).collect();
        assert_eq!(days, ["2026-12-25", "2026-12-26", "2027-01-01"]);
        let problem = |text: &str| format!("{:#}", holidays(text).unwrap_err());
        assert!(problem("").contains("there is no event"));
        assert!(problem(&event("tomorrow", "")).contains("line 3: DTSTART \"tomorrow\" is no day"));
        assert!(problem(&event("20261225", "RRULE:FREQ=YEARLY\r\n")).contains("line 4"));
        // A damaged event cannot grow the list without bound.
        let long = event("00010101", "DTEND;VALUE=DATE:99990101\r\n");
        assert_eq!(holidays(&long).unwrap().len(), EXCEPT_MAX + 1);
    }
}
