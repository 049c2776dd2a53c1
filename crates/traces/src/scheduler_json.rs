//! Reads jobs of Slurm (`sacct --json`) and of Microsoft's Philly (`cluster_job_log`), and tasks of
//! Ray (`ray list tasks`), each one an element of a JSON document.

use chrono::NaiveDateTime;
use embedder::{AcceleratorKind, Resources, Split};
use serde_json::Value;

use super::job::{Admits, Job, Work};
use super::reader::{AMOUNT_MAX, Notes, Row, SECONDS_MAX, TraceFault, UNITS_MAX, amount, name};

/// Reads a job of Slurm. Newer versions write a number as `{"set": true, "number": 1}`.
pub(super) fn slurm(job: &Value) -> Result<Row, TraceFault> {
    let time = |path| number(job, path, SECONDS_MAX);
    let submit = time("/time/submission")?
        .ok_or_else(|| TraceFault::new("time.submission", "is missing", ""))?;
    let (start, end) = (time("/time/start")?.unwrap_or(0), time("/time/end")?.unwrap_or(0));
    if end == 0 {
        return Ok(if start > 0 { Row::Unfinished } else { Row::NeverRan });
    }
    let elapsed = time("/time/elapsed")?.unwrap_or_else(|| end.saturating_sub(start));
    let lists = ["/tres/allocated", "/tres/requested"].iter();
    let mut lists = lists.filter_map(|path| job.pointer(path)?.as_array());
    let list = lists.find(|all| !all.is_empty()).map_or(&[][..], Vec::as_slice);
    let tres = |kind: &str, of: &str| {
        let is = |one: &&Value| one["type"] == kind && (of.is_empty() || one["name"] == of);
        list.iter().find(is)?["count"].as_u64()
    };
    let required = |path| number(job, path, AMOUNT_MAX);
    let nodes = match tres("node", "") {
        Some(nodes) => Some(nodes),
        None => number(job, "/allocation_nodes", UNITS_MAX)?,
    };
    let nodes = nodes.unwrap_or(1).max(1);
    let cpus = match tres("cpu", "") {
        Some(cpus) => Some(cpus),
        None => required("/required/CPUs")?,
    };
    let mebibytes = match tres("mem", "") {
        Some(all) => all.div_ceil(nodes),
        None => match required("/required/memory_per_node")? {
            Some(each) => each,
            None => required("/required/memory_per_cpu")?
                .map_or(0, |each| each.saturating_mul(cpus.unwrap_or(0).div_ceil(nodes))),
        },
    };
    // Slurm lists the sum beside each kind, or the kinds alone.
    let gpus = tres("gres", "gpu").unwrap_or_else(|| {
        let is_gpu =
            |one: &&Value| one["name"].as_str().is_some_and(|name| name.starts_with("gpu:"));
        let kinds = list.iter().filter(is_gpu);
        kinds.filter_map(|one| one["count"].as_u64()).fold(0, u64::saturating_add)
    });
    let unit = Resources {
        accelerators: gpus.div_ceil(nodes),
        cpu_millis: cpus.unwrap_or(0).saturating_mul(1_000).div_ceil(nodes),
        memory_bytes: mebibytes.saturating_mul(1 << 20),
        ..Resources::default()
    };
    if elapsed == 0 {
        return Ok(Row::NeverRan);
    }
    if unit == Resources::default() || nodes as f64 > UNITS_MAX {
        return Ok(Row::NoSize);
    }
    let user = job.pointer("/user").or(job.pointer("/association/user"));
    let user = name("user", user.and_then(Value::as_str).unwrap_or_default())?;
    let work = work(nodes, unit, None);
    let runtime = i64::try_from(elapsed).unwrap_or(i64::MAX);
    let submit = i64::try_from(submit).unwrap_or(i64::MAX);
    let own = job["job_id"].to_string();
    Ok(Row::Job(Job::new(own, user, submit, runtime, work)))
}

/// Reads a task of Ray. Its times are in milliseconds, or dates in the local zone, which are read
/// as UTC: the command line prints the latter.
pub(super) fn ray(task: &Value, notes: &mut Notes) -> Result<Row, TraceFault> {
    // An actor holds its resources for longer than the task that creates it.
    if task["type"].as_str().is_some_and(|kind| kind != "NORMAL_TASK") {
        return Ok(Row::NotAJob);
    }
    let time = |path: &'static str| -> Result<Option<i64>, TraceFault> {
        if let Some(text) = task.pointer(path).and_then(Value::as_str) {
            let date = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok();
            let seconds = date.map(|date| date.and_utc().timestamp()).filter(|at| *at >= 0);
            let expected = "expected milliseconds, or a time such as 2024-01-31 09:30:00.125";
            return Ok(Some(seconds.ok_or_else(|| TraceFault::new(path, expected, text))?));
        }
        let millis = number(task, path, SECONDS_MAX * 1e3)?.filter(|millis| *millis > 0);
        Ok(millis.and_then(|millis| i64::try_from(millis / 1_000).ok()))
    };
    let (start, end) = (time("/start_time_ms")?, time("/end_time_ms")?);
    let Some(submit) = time("/creation_time_ms")? else {
        let has_ended = ["FINISHED", "FAILED"].iter().any(|state| task["state"] == *state);
        let problem = "is missing: print the tasks with --detail";
        if has_ended {
            return Err(TraceFault::new("creation_time_ms", problem, ""));
        }
        return Ok(Row::NeverRan);
    };
    // A task may fail, or be cancelled, before it starts.
    let Some(start) = start else { return Ok(Row::NeverRan) };
    let Some(end) = end else { return Ok(Row::Unfinished) };
    let runtime = end.saturating_sub(start);
    let required = &task["required_resources"];
    let unit = Resources {
        accelerators: amount(required, "GPU", 1.0)?,
        cpu_millis: amount(required, "CPU", 1_000.0)?,
        memory_bytes: amount(required, "memory", 1.0)?,
        ..Resources::default()
    };
    let gpus = required["GPU"].as_f64().unwrap_or(0.0);
    notes.rounded_up += u64::from(runtime > 0 && gpus.fract() > 0.0);
    let text = |field: &'static str| name(field, task[field].as_str().unwrap_or_default());
    let (own, user) = (text("task_id")?, text("job_id")?);
    let work = work(1, unit, None);
    Ok(Row::of(Job::new(own, user, submit, runtime, work)))
}

/// Reads a job of Philly: its GPUs are those of its last attempt, and it runs as long as all of its
/// attempts.
pub(super) fn philly(job: &Value) -> Result<Row, TraceFault> {
    let time = |of: &Value, field: &'static str| -> Result<Option<i64>, TraceFault> {
        let Some(text) = of[field].as_str().filter(|text| *text != "None") else { return Ok(None) };
        let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").ok();
        let fault = || TraceFault::new(field, "expected a time such as 2017-10-01 12:00:00", text);
        let seconds = time.map(|time| time.and_utc().timestamp()).filter(|at| *at >= 0);
        Ok(Some(seconds.ok_or_else(fault)?))
    };
    let submit = time(job, "submitted_time")?
        .ok_or_else(|| TraceFault::new("submitted_time", "is missing", ""))?;
    let attempts = job["attempts"].as_array().cloned().unwrap_or_default();
    let (mut runtime, mut gpus, mut is_running) = (0_i64, 0, false);
    for attempt in &attempts {
        let (start, end) = (time(attempt, "start_time")?, time(attempt, "end_time")?);
        // An attempt that another one followed has ended, although the log lacks its end.
        is_running = start.is_some() && end.is_none();
        let ran = end.zip(start).map_or(0, |(end, start)| end.saturating_sub(start));
        runtime = runtime.saturating_add(ran.max(0));
        let machines = attempt["detail"].as_array().into_iter().flatten();
        let count: usize = machines.map(|one| one["gpus"].as_array().map_or(0, Vec::len)).sum();
        gpus = if count > 0 { count as u64 } else { gpus };
    }
    if is_running {
        return Ok(Row::Unfinished);
    }
    if runtime <= 0 {
        return Ok(Row::NeverRan);
    }
    if gpus == 0 {
        return Ok(Row::NoSize);
    }
    let text = |field: &'static str| name(field, job[field].as_str().unwrap_or_default());
    let unit = Resources { accelerators: 1, ..Resources::default() };
    Ok(Row::Job(Job::new(
        text("jobid")?,
        text("user")?,
        submit,
        runtime,
        work(gpus, unit, Some(Split::Full)),
    )))
}

fn work(units: u64, unit: Resources, split: Option<Split>) -> Work {
    let accelerator_kind = AcceleratorKind::default();
    Work { units, unit, accelerator_kind, split, admits: Admits::Assumed }
}

/// A whole number of 0 or more, also in the form of newer versions of Slurm. `None` if it is absent
/// or not set.
fn number(job: &Value, path: &'static str, most: f64) -> Result<Option<u64>, TraceFault> {
    let Some(value) = job.pointer(path).filter(|value| !value.is_null()) else { return Ok(None) };
    if value.get("set").is_some_and(|set| set == false) {
        return Ok(None);
    }
    let value = value.get("number").unwrap_or(value);
    // Ray writes times as numbers with a point.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    let of_float = |number: f64| (0.0..=most).contains(&number).then_some(number as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(of_float));
    let number = number.filter(|number| *number as f64 <= most);
    let fault = || {
        let field = path.trim_start_matches('/').replace('/', ".");
        let problem = format!("expected a number of 0 to {most}");
        TraceFault { column: field.into(), ..TraceFault::new("", problem, &value.to_string()) }
    };
    number.map(Some).ok_or_else(fault)
}
