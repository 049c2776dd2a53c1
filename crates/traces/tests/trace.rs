//! Readers of job logs: the jobs that each reads, and its errors for bad lines.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use embedder::{Resources, Split};
use flate2::write::GzEncoder;
use traces::{Format, Job, Recipe, Trace, generate, read, read_usage, write_table};

fn load(text: &str, lenient: bool) -> Result<Trace, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().display().to_string();
    read(file.path(), None, lenient).map_err(|error| error.to_string().replace(&path, "FILE"))
}

/// (name, submit, runtime, units, accelerators, cpu, memory, priority) of each job.
type Row<'a> = (&'a str, i64, i64, u64, u64, u64, u64, i32);

#[track_caller]
fn check(text: &str, format: Format, expected: &[Row<'_>]) -> Trace {
    let trace = load(text, false).unwrap();
    assert_eq!(trace.format, format);
    let rows: Vec<Row<'_>> = trace
        .jobs
        .iter()
        .map(|job| {
            let Resources { accelerators, cpu_millis, memory_bytes, .. } = job.work.unit;
            let (name, units) = (job.name.as_ref(), job.work.units);
            (
                name,
                job.submit,
                job.runtime,
                units,
                accelerators,
                cpu_millis,
                memory_bytes,
                job.priority,
            )
        })
        .collect();
    assert_eq!(rows, expected);
    trace.clone()
}

const PHILLY: &str = "timestamp,duration,num_gpus,gpu_time,cluster
2017-10-01 00:01:00,90.4,20,1808.0,a
2017-10-01 00:00:00,60.0,1,60.0,b
2017-10-01 00:02:00,0.0,4,0.0,b
";

#[test]
fn philly_jobs_are_sorted_by_submission_and_zero_durations_never_ran() {
    let base = 1_506_816_000;
    let jobs = [("2", base, 60, 1, 1, 0, 0, 0), ("1", base + 60, 90, 20, 1, 0, 0, 0)];
    let trace = check(PHILLY, Format::Philly, &jobs);
    assert_eq!((trace.notes.never_ran, trace.jobs[0].work.split), (1, Some(Split::Full)));
    let users: Vec<&str> = trace.jobs.iter().map(|job| job.user.as_ref()).collect();
    assert_eq!(users, ["b", "a"]);
}

const SWF: &str = "; Version: 2.2
; UnixStartTime: 1000
;
  1 10 500 100 4 50.5 -1 8 600 2048 1 1 1 1 1 1 -1 -1
  2 20  -1  -1 4   -1 -1 8 600 2048 5 1 1 1 1 1 -1 -1
  3 30   5  60 2   -1 -1 -1 -1   -1 0 1 1 1 1 1 -1 -1
  4 40   5  60 2   -1 -1 -1 -1   -1 3 1 1 1 1 1 -1 -1
  5 50   5  60 -1  -1 -1 -1 -1   -1 1 1 1 1 1 1 -1 -1
";

#[test]
fn the_standard_workload_format_is_read_without_its_wait_times() {
    let jobs = [("1", 1_010, 100, 8, 0, 1_000, 2 << 20, 0), ("3", 1_030, 60, 2, 0, 1_000, 0, 0)];
    let trace = check(SWF, Format::Swf, &jobs);
    let notes = &trace.notes;
    assert_eq!((notes.never_ran, notes.not_jobs, notes.no_size), (1, 1, 1));
}

const OPENB: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,40
p1,6000,12288,1,460,,LS,Running,5,65,5
p2,6000,12288,0,0,,LS,Pending,9,70,
";

#[test]
fn a_share_of_a_gpu_counts_as_a_whole_one() {
    let jobs =
        [("p0", 0, 60, 1, 1, 12_000, 16_384 << 20, 0), ("p1", 5, 60, 1, 1, 6_000, 12_288 << 20, 0)];
    let trace = check(OPENB, Format::Openb, &jobs);
    assert_eq!((trace.notes.rounded_up, trace.notes.never_ran), (1, 1));
    assert!(trace.notes.to_string().contains("1 shares of an accelerator counted as whole ones"));
}

const TASKS_2017: &str = "task_create_time, task_end_time, job_id, task_id,number_of_instances, status, number_of_cpus_requested_per_instance_in_the_task,normalized_memory_requested_per_instance_in_the_task
6459,6524,3,4,15740,Terminated,50,0.0078125
6036,6046,4,7,393,Waiting,,
-60,110,6168,37200,103,Terminated,100,0.0078125
-60,-55,6168,37197,1,Terminated,50,0.0078125
7000,7010,5,1,2,Terminated,,
7000,7010,5,2,2,Terminated,100,
";

#[test]
fn tasks_of_alibaba_are_read_with_or_without_a_header() {
    let memory = 3 << 30;
    let jobs = [
        ("6168/37200", 0, 110, 103, 0, 1_000, memory, 0),
        ("3/4", 6_459, 65, 15_740, 0, 500, memory, 0),
        ("5/2", 7_000, 10, 2, 0, 1_000, 0, 0),
    ];
    let trace = check(TASKS_2017, Format::AlibabaTasks, &jobs);
    assert_eq!((trace.notes.never_ran, trace.notes.no_size), (2, 1));
    assert_eq!(trace.jobs[1].user.as_ref(), "3");
    let (_, rows) = TASKS_2017.split_once('\n').unwrap();
    check(rows, Format::AlibabaTasks, &jobs);
    let rows =
        "M1,5.0,j_1,1,Terminated,87076,87086,50.0,0.5\nR2_1,1,j_1,1,Running,87086,0,50.0,0.5\n";
    let jobs = [("j_1/M1", 87_076, 10, 5, 0, 500, 2_061_584_303, 0)];
    check(rows, Format::AlibabaTasks, &jobs);
}

const BORG: &str = r#"{"time":"0","type":0,"collection_id":"7","collection_type":0,"priority":200,"scheduler":null}
{"time":"1000000","type":"SUBMIT","collection_id":"7","instance_index":"0","priority":"200","resource_request":{"cpus":0.5,"memory":0.25}}
{"time":"2000000","type":"ENABLE","collection_id":"7","instance_index":"0","priority":"200"}
{"time":3000000,"type":3,"collection_id":7,"instance_index":0,"priority":200}
{"time":4000000,"type":4,"collection_id":7,"instance_index":0,"priority":200}
{"time":5000000,"type":0,"collection_id":7,"instance_index":0,"priority":200,"resource_request":{"cpus":0.9,"memory":0.9}}
{"time":5000000,"type":0,"collection_id":8,"instance_index":1,"alloc_collection_id":"9","priority":0,"resource_request":{"cpus":0.1,"memory":0.1}}
{"time":6000000,"type":0,"collection_id":9,"instance_index":0,"alloc_collection_id":"0","priority":0,"resource_request":{"cpus":0.1,"memory":0.1}}
{"time":5000000,"type":2,"collection_id":7,"instance_index":0,"priority":200}
{"time":62000000,"type":6,"collection_id":7,"instance_index":0,"priority":200}
{"time":9223372036854775807,"type":6,"collection_id":9,"instance_index":0,"priority":0}
"#;

#[test]
fn borg_demand_runs_from_enable_to_finish_and_an_evicted_task_is_not_new() {
    let gib = 1_u64 << 30;
    let jobs = [
        ("7/0", 2, 60, 1, 0, 48_000, 96 * gib, 200),
        ("9/0", 6, 56, 1, 0, 9_600, 41_231_686_042, 0),
    ];
    let trace = check(BORG, Format::Borg, &jobs);
    assert_eq!(trace.notes.not_jobs, 2);
}

const TABLE: &str = "submit,runtime,units,accelerators,priority,job
60,100,20,1,3,big
30,50,2,,,cpus
";

#[test]
fn prophets_own_table_is_read_with_units_or_pods() {
    check(
        TABLE,
        Format::Table,
        &[("cpus", 30, 50, 2, 0, 1_000, 0, 0), ("big", 60, 100, 20, 1, 0, 0, 3)],
    );
    let quoted = "\u{feff}Submit, \"runtime\",Units,job\r\n1970-01-01T00:00:30Z,50,2,\"a, \"\"b\"\"\"\r\n1970-01-01 00:00:40,5,2,\r\n";
    check(
        quoted,
        Format::Table,
        &[("a, \"b\"", 30, 50, 2, 0, 1_000, 0, 0), ("2", 40, 5, 2, 0, 1_000, 0, 0)],
    );
    let pods = "submit,runtime,pods,cpu_millis,split\n0,1,3,500,\n";
    let trace = check(pods, Format::Table, &[("1", 0, 1, 3, 0, 500, 0, 0)]);
    assert_eq!(trace.jobs[0].work.split, None);
}

#[track_caller]
fn check_bad(text: &str, expected: &str) {
    let error = load(text, false).unwrap_err();
    assert!(error.contains(expected), "{expected:?} is not in {error:?}");
}

#[test]
fn a_bad_line_names_file_line_column_and_value() {
    check_bad(
        &PHILLY.replace("60.0,1,", "sixty,1,"),
        "FILE:3: column duration: expected a number of seconds, got \"sixty\"",
    );
    check_bad(
        &PHILLY.replace("2017-10-01 00:00:00", "yesterday"),
        "FILE:3: column timestamp: expected a time",
    );
    check_bad(
        &PHILLY.replace(",20,1808.0,a", ""),
        "FILE:2: column num_gpus: the line has too few columns",
    );
    check_bad(
        &PHILLY.replace("90.4,20", "90.4,2e9"),
        "column num_gpus: expected at most 1000000, got \"2e9\"",
    );
    check_bad(
        &PHILLY.replace("90.4", "nan"),
        "column duration: expected a number of seconds, got \"nan\"",
    );
    check_bad(
        &SWF.replace("100 4", "x 4"),
        "FILE:4: column 4 (run time): expected a number of seconds, got \"x\"",
    );
    check_bad(
        &SWF.replace("UnixStartTime: 1000", "UnixStartTime: never"),
        "FILE:2: column UnixStartTime",
    );
    check_bad(
        &OPENB.replace("12000", "-"),
        "FILE:2: column cpu_milli: expected a number, got \"-\"",
    );
    check_bad(
        &TASKS_2017.replace(",50,0.0078125", ",50,2"),
        "FILE:2: column plan_mem: expected at most 1, got \"2\"",
    );
    check_bad(
        &TASKS_2017.replace("15740", "many"),
        "FILE:2: column instance_num: expected a number, got \"many\"",
    );
    check_bad(
        &BORG.replace("\"type\":3", "\"type\":33"),
        "FILE:4: column type: expected an event type",
    );
    check_bad(&BORG.replace("\"cpus\":0.5", "\"cpus\":-1"), "column resource_request.cpus");
    check_bad(&TABLE.replace("60,100", ",100"), "FILE:2: column submit: is empty");
    check_bad(
        "submit,runtime,pods,units,cpu_millis\n0,1,1,1,1\n",
        "column units: give pods or units, not both",
    );
    check_bad(
        "submit,runtime,units,split\n0,1,1,odd\n",
        "column split: expected full or even, got \"odd\"",
    );
}

#[test]
fn a_file_that_is_no_log_is_refused() {
    check_bad("hello world\n", "not a known format");
    check_bad("1,2,3\n", "not a known format");
    check_bad("submit,runtime,units\n0,0,1\n", "no job that ran (1 never ran)");
    check_bad(
        "submit,runtime,colour\n0,1,red\n",
        "FILE:1: the header has the unknown column colour",
    );
    check_bad("submit,runtime,runtime\n0,1,1\n", "the header repeats the column runtime");
    check_bad(
        "submit,runtime,accelerators\n0,1,-4\n",
        "column accelerators: expected a whole number, 0 or more",
    );
    check_bad(
        "submit,runtime,accelerators\n0,1,0.5\n",
        "column accelerators: expected a whole number, 0 or more",
    );
    check_bad(
        "submit,runtime,units,priority\n0,1,1,1.5\n",
        "column priority: expected a whole number",
    );
    check_bad("submit,runtime\n0,1,7\n", "FILE:2: expected 2 columns, got 3");
}

#[test]
fn a_lenient_reader_counts_bad_lines() {
    let trace = load(&PHILLY.replace("60.0,1,", "sixty,1,"), true).unwrap();
    assert_eq!((trace.jobs.len(), trace.notes.bad_lines), (1, 1));
    assert!(trace.notes.first_bad.unwrap().contains("column duration"));
}

#[test]
fn gzip_is_recognised_without_a_file_extension() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(SWF.as_bytes()).unwrap();
    let bytes = encoder.finish().unwrap();
    file.write_all(&bytes).unwrap();
    assert_eq!(read(file.path(), None, false).unwrap().jobs.len(), 2);
    // A truncated file is an error that names the file.
    let cut = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(cut.path(), &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(cut.path(), None, false).unwrap_err().to_string().contains("failed to read"));
}

#[test]
fn an_overlong_line_is_an_error_and_does_not_fill_memory() {
    let text = format!("submit,runtime,units\n{}", "9".repeat(3 << 20));
    let error = load(&text, true).unwrap_err();
    assert!(error.contains("failed to read"), "{error}");
}

#[test]
fn a_synthetic_log_is_unchanged_after_writing_and_reading_it() {
    let jobs = generate(&Recipe { days: 2, ..Recipe::default() });
    assert!(jobs.len() > 100);
    let mut text = Vec::new();
    write_table(&jobs, &mut text).unwrap();
    assert_eq!(load(std::str::from_utf8(&text).unwrap(), false).unwrap().jobs, jobs);
    let named = Job { name: "a, \"b\"".into(), ..jobs[0].clone() };
    let mut text = Vec::new();
    write_table(std::slice::from_ref(&named), &mut text).unwrap();
    assert_eq!(load(std::str::from_utf8(&text).unwrap(), false).unwrap().jobs, [named]);
}

/// Checks which jobs of a log each job waits for.
#[track_caller]
fn check_after(text: &str, expected: &[(&str, &[&str])]) {
    let jobs = load(text, false).unwrap().jobs;
    let found = jobs.iter().map(|job| (job.name.to_string(), job.after.join(" ")));
    let expected = expected.iter().map(|(name, after)| ((*name).to_owned(), after.join(" ")));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn jobs_that_wait_for_others_are_read_where_the_log_has_them() {
    check_after(
        "  1 0 0 60 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1
           2 9 0 60 1 -1 -1 1 -1 -1 1 1 1 1 1 1 1 30
           3 9 0 60 1 -1 -1 1 -1 -1 1 1 1 1 1 1 0 30\n",
        &[("1", &[]), ("2", &["1"]), ("3", &[])],
    );
    check_after(
        "M1,5.0,j_1,1,Terminated,10,20,50.0,0.5
M2,5.0,j_1,1,Terminated,10,20,50.0,0.5
R3_1_2,1,j_1,1,Terminated,20,60,50.0,0.5
J4_3_9,1,j_1,1,Terminated,60,80,50.0,0.5
R2_1,1,j_2,1,Terminated,90,99,50.0,0.5
task_abc,1,j_2,1,Terminated,95,99,50.0,0.5\n",
        &[
            ("j_1/M1", &[]),
            ("j_1/M2", &[]),
            ("j_1/R3_1_2", &["j_1/M1", "j_1/M2"]),
            ("j_1/J4_3_9", &["j_1/R3_1_2"]),
            ("j_2/R2_1", &[]),
            ("j_2/task_abc", &[]),
        ],
    );
    check_after(
        "job,submit,runtime,cpu_millis,after\na,0,60,1000,\nb,60,60,1000,a\nc,60,60,1000,\"a; b;\"\n",
        &[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])],
    );
}

#[test]
fn a_synthetic_log_has_workflows_whose_jobs_wait_for_others() {
    let recipe = Recipe { days: 2, workflow_share: 0.5, ..Recipe::default() };
    let jobs = generate(&recipe);
    let mut text = Vec::new();
    write_table(&jobs, &mut text).unwrap();
    assert_eq!(load(std::str::from_utf8(&text).unwrap(), false).unwrap().jobs, jobs);
    let waiting: Vec<&Job> = jobs.iter().filter(|job| !job.after.is_empty()).collect();
    assert!(waiting.len() > 50 && waiting.len() < jobs.len() / 2);
    for job in waiting {
        let before = jobs.iter().find(|before| before.name == job.after[0]).unwrap();
        assert_eq!((before.submit + before.runtime, &before.user), (job.submit, &job.user));
    }
}

#[test]
fn a_recipe_is_deterministic_for_a_seed_and_follows_its_seasons() {
    let recipe = Recipe { days: 28, ..Recipe::default() };
    let jobs = generate(&recipe);
    assert_eq!(jobs, generate(&recipe));
    assert_ne!(jobs, generate(&Recipe { seed: 2, ..recipe }));
    let per_day = jobs.len() as f64 / 28.0 / recipe.jobs_per_day;
    assert!((0.6..1.5).contains(&per_day), "{per_day} of the requested jobs per day");
    let by_day = |weekend: bool| {
        jobs.iter()
            .filter(|job| ((job.submit - 1_704_067_200) / 86_400 % 7 >= 5) == weekend)
            .count() as f64
    };
    assert!(by_day(false) / 5.0 > 1.5 * by_day(true) / 2.0, "weekdays are busier");
}

/// A row of usage: its time, the owner, the pod and the container as one text, CPU and memory.
type UsedRow = (i64, String, Vec<(u64, f64)>, Option<u64>);

/// The rows of a file of usage.
fn usage(text: &str) -> Result<Vec<UsedRow>, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut rows = Vec::new();
    let mut take = |row: usage::UsageRow| {
        rows.push((row.time, format!("{} {}", row.key, row.pod), row.cpu, row.memory_bytes));
        Ok(())
    };
    read_usage(file.path(), false, &mut take).map_err(|error| error.to_string())?;
    Ok(rows)
}

#[test]
fn a_usage_table_has_columns_in_any_order_and_blank_fields() {
    let rows = usage(
        "Memory_Bytes,owner,cpu_millis,TIME,pod,container\n1000,\"a,b\",,2024-01-01T00:00:10Z,p,\n\n,c,499.2,2024-01-01 00:05:00,,d\n",
    );
    let base = 1_704_067_200;
    let expected = vec![
        (base + 10, "a,b p".to_owned(), vec![], Some(1_000)),
        (base + 300, "c/d ".to_owned(), vec![(500, 1.0)], None),
    ];
    assert_eq!(rows, Ok(expected));
}
