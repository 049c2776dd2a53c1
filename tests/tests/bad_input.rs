//! Bad input: each row is a file that a user may give by mistake, and the whole answer.
//!
//! An answer names the file, the line, the field and what to do. The arguments fail before any
//! simulation.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tests::run;

/// The content of a file.
enum Content {
    Text(&'static str),
    Bytes(&'static [u8]),
    /// A job table: its lines after the header.
    Jobs(&'static str),
    /// A file of pods: its lines after the header.
    Pods(&'static str),
    /// A file of usage: its lines after the header.
    Usage(&'static str),
    Made(fn() -> Vec<u8>),
    /// A folder in place of the file.
    Folder,
}

use Content::{Bytes, Folder, Jobs, Made, Pods, Text, Usage};

/// A name, the content of FILE, the arguments, the exit code and the whole standard error. LOG is a
/// log of one job, `a`.
type Row = (&'static str, Content, &'static [&'static str], i32, &'static str);

const USAGE: &[&str] = &["rightsize", "--usage", "FILE", "--trace", "LOG"];
const LOG: &[&str] = &["trace", "describe", "FILE"];
const REPLAY: &[&str] = &["simulate", "--policies", "reactive", "--trace", "FILE"];
const ADVISE: &[&str] = &["catalog", "advise", "--trace", "FILE"];
const SETTINGS: &[&str] = &["simulate", "--settings", "FILE"];
const CATALOG: &[&str] = &["simulate", "--catalog", "FILE"];
const PODS: &[&str] = &["embed", "--shapes", "FILE"];
const MODEL: &[&str] = &["simulate", "--policies", "ensemble", "--model", "FILE"];
const NAMED_MODEL: &[&str] = &["backtest", "--named-model", "mine=FILE"];
const UNUSED_MODEL: &[&str] = &["simulate", "--policies", "reactive", "--model", "FILE"];
const ODD_TICK: &[&str] = &["simulate", "--policies", "onnx", "--tick", "70s", "--trace", "FILE"];
const ODD_TICK_ENSEMBLE: &[&str] =
    &["simulate", "--policies", "ensemble", "--tick", "70s", "--trace", "FILE"];
const MANY_CONSTANTS: &[&str] =
    &["simulate", "--policies", "constants:1/2", "--instance-type", "m5.large", "--trace", "FILE"];
const CHECK: &[&str] = &["model", "check", "FILE"];

const JOBS_HEADER: &str = "submit,runtime,pods,cpu_millis\n";
const USAGE_HEADER: &str = "time,owner,container,cpu_millis,memory_bytes,class,oom_tolerance\n";
const PODS_HEADER: &str = "name,count,accelerators,cpu_millis,memory_bytes,ephemeral_bytes\n";
const MODEL_FILE: &[u8] = include_bytes!("../../models/pretrained/quantile.onnx");

// One row is one line.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    // Logs: kinds of files.
    ("an empty log", Text(""), LOG, 1, "prophet: FILE: the file is empty"),
    ("a log of blank lines", Text("\n \n"), LOG, 1, "prophet: FILE: the file is empty"),
    ("a header without jobs", Jobs(""), LOG, 1, "prophet: FILE: the log has no job that ran"),
    ("a folder as a log", Folder, LOG, 1, "prophet: failed to read FILE: it is a folder: give a file in it"),
    ("a log in UTF-16", Made(|| utf_16("submit,runtime\n0,60\n")), LOG, 1, "prophet: failed to read FILE: expected text, but this is UTF-16 text: convert it, for example with iconv -f UTF-16 -t UTF-8"),
    ("a log in UTF-16 without a byte order mark", Bytes(b"s\x00u\x00b\x00m\x00i\x00t\x00,\x00"), LOG, 1, "prophet: failed to read FILE: expected text, but this is UTF-16 text: convert it, for example with iconv -f UTF-16 -t UTF-8"),
    ("a Parquet file", Bytes(b"PAR1\x15\x04\x15\x00"), LOG, 1, "prophet: failed to read FILE: expected text, but this is a Parquet file: export it as CSV (docs/trace-format.md has a query for DuckDB)"),
    ("a spreadsheet", Bytes(b"PK\x03\x04\x14\x00"), LOG, 1, "prophet: failed to read FILE: expected text, but this is a zip archive or a spreadsheet: unpack it, or export it as CSV"),
    ("a zstd file", Bytes(b"(\xb5/\xfd\x04"), LOG, 1, "prophet: failed to read FILE: expected text, but this is a zstd file: unpack it first"),
    ("a web page", Text("<!DOCTYPE html>\n<html></html>\n"), LOG, 1, "prophet: failed to read FILE: expected text, but this is a web page: download the file itself"),
    ("a binary file", Bytes(b"\x01\x02\x00\x03\x04\x05\x06\x07"), LOG, 1, "prophet: failed to read FILE: expected text, but this is a binary file: give another file"),
    ("a tar archive in gzip", Made(|| gzip(&tar())), LOG, 1, "prophet: failed to read FILE: expected text, but this is a tar archive: unpack it first"),
    ("a gzip file in gzip", Made(|| gzip(&gzip(b"a"))), LOG, 1, "prophet: failed to read FILE: expected text, but this is a gzip file: unpack it first"),
    ("a gzip file that ends early", Made(|| cut(&job_in_gzip(), 12)), LOG, 1, "prophet: failed to read FILE: the gzip stream ends early after line 1: copy or download the file again"),
    ("a gzip file with a wrong checksum", Made(|| [cut(&job_in_gzip(), 8), vec![0; 8]].concat()), LOG, 1, "prophet: failed to read FILE: the gzip stream is damaged after line 2: copy or download the file again"),
    ("carriage returns alone", Text("submit,runtime\r0,60\r"), LOG, 1, "prophet: FILE:1: the lines end with carriage returns alone: convert them to line feeds, for example with tr '\\r' '\\n'"),
    ("a line of 2 MiB", Made(|| [b"submit,runtime\n", &[b'0'; 2 << 20][..]].concat()), LOG, 1, "prophet: failed to read FILE: line 2 is longer than 1 MiB, so the file is not a job log with a job per line"),
    ("a line of 64 MiB in a small gzip file", Made(|| gzip(&[b"submit,runtime\n", &vec![b'0'; 64 << 20][..]].concat())), LOG, 1, "prophet: failed to read FILE: line 2 is longer than 1 MiB, so the file is not a job log with a job per line"),
    // Logs: formats and headers.
    ("no known format", Text("0,60,1,1000\n"), LOG, 1, "prophet: FILE:1: not a known format; the first line is \"0,60,1,1000\". Known formats are those of docs/logs.md, such as kubectl's JSON, sacct and SWF, and the job table, whose first line has the names of its columns (docs/trace-format.md); map the columns of another file with --columns"),
    ("a JSON object over several lines", Text("{\n \"jobs\": []\n}\n"), LOG, 1, "prophet: FILE: the list is empty: no jobs were found where it was printed"),
    ("a JSON array", Text("[{\"submit\": 1}]\n"), LOG, 1, "prophet: FILE: the JSON has no jobs of a known form: pods (kubectl get pods --all-namespaces --output json), metrics of Prometheus, allocations of OpenCost, workflows of Argo, jobs of Slurm (sacct --json), tasks of Ray, Philly's job log, or Borg 2019 events, one per line; map the columns of a delimited file with --columns (docs/logs.md)"),
    ("a YAML file as a log", Text("instanceTypes:\n- name: a\n"), LOG, 1, "prophet: FILE:1: not a known format; the first line is \"instanceTypes:\". Known formats are those of docs/logs.md, such as kubectl's JSON, sacct and SWF, and the job table, whose first line has the names of its columns (docs/trace-format.md); map the columns of another file with --columns"),
    ("a header with other names", Text("submit,duration,cpu_millis\n1,2,3\n"), LOG, 1, "prophet: FILE:1: the header lacks the column runtime and has the unknown column duration (docs/trace-format.md lists the columns of a job table); map the columns of another file with --columns (docs/logs.md)"),
    ("a header with other names only", Text("submit_time,run_time,cpus\n1,2,3\n"), LOG, 1, "prophet: FILE:1: the header lacks the columns submit, runtime and has the unknown columns submit_time, run_time, cpus (docs/trace-format.md lists the columns of a job table); map the columns of another file with --columns (docs/logs.md)"),
    ("unknown columns", Text("submit,runtime,team,queue\n1,2,a,b\n"), LOG, 1, "prophet: FILE:1: the header has the unknown columns team, queue (docs/trace-format.md lists the columns of a job table); map the columns of another file with --columns (docs/logs.md)"),
    ("a repeated column in any letter case", Text("submit,runtime,Submit\n1,2,3\n"), LOG, 1, "prophet: FILE:1: the header repeats the column submit (docs/trace-format.md lists the columns of a job table); map the columns of another file with --columns (docs/logs.md)"),
    ("semicolons", Text("submit;runtime;pods\n1;2;3\n"), LOG, 1, "prophet: FILE:1: the columns are separated by semicolons: separate them with commas"),
    ("tabs", Text("submit\truntime\n1\t2\n"), LOG, 1, "prophet: FILE:1: the columns are separated by tabs: separate them with commas"),
    ("spaces", Text("submit runtime\n1 2\n"), LOG, 1, "prophet: FILE:1: the columns are separated by spaces: separate them with commas"),
    ("a Philly header without GPUs", Text("timestamp,duration,gpu_time\n1,2,3\n"), LOG, 1, "prophet: FILE:1: the header lacks the column num_gpus of a Philly CSV"),
    ("openb nodes in place of pods", Text("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,a\n"), LOG, 1, "prophet: FILE:1: the header lacks the columns name, num_gpu, gpu_milli, creation_time, deletion_time, scheduled_time of openb pods"),
    // Logs: lines.
    ("too few columns", Jobs("0,60,1\n"), LOG, 1, "prophet: FILE:2: column cpu_millis: the line has too few columns"),
    ("too many columns", Jobs("0,60,1,1000,5\n"), LOG, 1, "prophet: FILE:2: expected 4 columns, got 5"),
    ("a quote that is not closed", Jobs("0,60,\"1,1000\n"), LOG, 1, "prophet: FILE:2: a quote is not closed before the end of the line, got \"\\\"1,1000\""),
    ("text after a closing quote", Jobs("0,60,\"1\"2,1000\n"), LOG, 1, "prophet: FILE:2: text follows a closing quote, got \"\\\"1\\\"2,1000\""),
    ("a time in milliseconds", Jobs("0,60,1,1000\n1502093123000,60,1,1000\n"), LOG, 1, "prophet: FILE:3: column submit: expected seconds, but this looks like milliseconds (divide by 1000), got \"1502093123000\""),
    ("a time in microseconds", Jobs("1502093123000000,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected seconds, but this looks like microseconds (divide by 1000000), got \"1502093123000000\""),
    ("a time in nanoseconds", Jobs("1502093123000000000,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected seconds, but this looks like nanoseconds (divide by 1000000000), got \"1502093123000000000\""),
    ("a year of five digits", Jobs("10000-01-01T00:00:00Z,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected a year of four digits, got \"10000-01-01T00:00:00Z\""),
    ("a year far ahead", Jobs("6000-01-01T00:00:00Z,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected a time before the year 5138, got \"6000-01-01T00:00:00Z\""),
    ("a year long ago", Jobs("1900-01-01T00:00:00Z,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected a time from the year 1970 on, got \"1900-01-01T00:00:00Z\""),
    ("a negative time", Jobs("-5,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected a time of 0 or more, got \"-5\""),
    ("a time that is no number", Jobs("nan,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected seconds, or a time such as 2024-01-31T09:30:00Z, got \"nan\""),
    ("a time above all numbers", Jobs("1e400,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected seconds, or a time such as 2024-01-31T09:30:00Z, got \"1e400\""),
    ("a time in another notation", Jobs("10/01/2017 12:00,60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: expected seconds, or a time such as 2024-01-31T09:30:00Z, got \"10/01/2017 12:00\""),
    ("no time", Jobs(",60,1,1000\n"), LOG, 1, "prophet: FILE:2: column submit: is empty"),
    ("seconds among dates", Jobs("2017-10-01T00:00:00Z,60,1,1000\n1506816060,60,1,1000\n"), LOG, 1, "prophet: FILE:3: column submit: expected a date, because line 2 has one, got \"1506816060\""),
    ("a date among seconds", Jobs("0,60,1,1000\n2017-10-01T00:00:00Z,60,1,1000\n"), LOG, 1, "prophet: FILE:3: column submit: expected seconds, because line 2 has them, got \"2017-10-01T00:00:00Z\""),
    ("a runtime in hours and minutes", Jobs("0,01:00:00,1,1000\n"), LOG, 1, "prophet: FILE:2: column runtime: expected a number of seconds, got \"01:00:00\""),
    ("an infinite runtime", Jobs("0,inf,1,1000\n"), LOG, 1, "prophet: FILE:2: column runtime: expected a number of seconds, got \"inf\""),
    ("no runtime", Jobs("0,,1,1000\n"), LOG, 1, "prophet: FILE:2: column runtime: is empty"),
    ("negative pods", Jobs("0,60,-1,1000\n"), LOG, 1, "prophet: FILE:2: column pods: expected a whole number, 0 or more, got \"-1\""),
    ("half a pod", Jobs("0,60,0.5,1000\n"), LOG, 1, "prophet: FILE:2: column pods: expected a whole number, 0 or more, got \"0.5\""),
    ("too many pods", Jobs("0,60,1e7,1000\n"), LOG, 1, "prophet: FILE:2: column pods: expected at most 1000000, got \"1e7\""),
    ("a quantity", Jobs("0,60,1,4Gi\n"), LOG, 1, "prophet: FILE:2: column cpu_millis: expected a number, got \"4Gi\""),
    ("more CPU than any machine", Jobs("0,60,1,18446744073709551615\n"), LOG, 1, "prophet: FILE:2: column cpu_millis: expected at most 1000000000000000000, got \"18446744073709551615\""),
    ("pods and units", Text("submit,runtime,pods,units\n0,1,1,1\n"), LOG, 1, "prophet: FILE:2: column units: give pods or units, not both, got \"1\""),
    ("an unknown split", Text("submit,runtime,units,split\n0,1,1,half\n"), LOG, 1, "prophet: FILE:2: column split: expected full or even, got \"half\""),
    ("an interruptible job by a number", Text("submit,runtime,pods,cpu_millis,interruptible\n0,60,1,1000,1\n"), LOG, 1, "prophet: FILE:2: column interruptible: expected true or false, got \"1\""),
    ("a priority beyond 32 bits", Text("submit,runtime,units,priority\n0,1,1,9999999999\n"), LOG, 1, "prophet: FILE:2: column priority: expected a whole number from -2147483648 to 2147483647, got \"9999999999\""),
    ("a long name", Made(|| format!("submit,runtime,units,job\n0,1,1,{}\n", "a".repeat(400)).into_bytes()), LOG, 1, "prophet: FILE:2: column job: expected at most 317 bytes, got \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""),
    ("jobs that never ran", Jobs("0,0,1,1000\n5,-1,1,1000\n"), LOG, 1, "prophet: FILE: the log has no job that ran (2 never ran)"),
    ("jobs without a size", Jobs("0,60,1,0\n"), LOG, 1, "prophet: FILE: the log has no job that ran (1 without a size)"),
    ("a word in a workload log", Text("1 10 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n1 x 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n"), LOG, 1, "prophet: FILE:2: column 2 (submit time): expected a number of seconds, got \"x\""),
    ("an unknown time in a workload log", Text("1 10 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n1 -1 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n"), LOG, 1, "prophet: FILE:2: column 2 (submit time): expected a time of 0 or more, got \"-1\""),
    ("a short line in a workload log", Text("1 10 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n2 10 0 100 4\n"), LOG, 1, "prophet: FILE:2: column 8 (requested processors): the line has too few columns"),
    ("a start in milliseconds", Text("; UnixStartTime: 1000000000000\n1 10 0 100 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n"), LOG, 1, "prophet: FILE:1: column UnixStartTime: expected seconds, but this looks like milliseconds (divide by 1000), got \"1000000000000\""),
    ("a Philly date without a time", Text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01,1,1,1,a\n"), LOG, 1, "prophet: FILE:2: column timestamp: expected a time such as 2017-10-01 12:00:00, got \"2017-10-01\""),
    ("a Philly date long ago", Text("timestamp,duration,num_gpus,gpu_time,cluster\n1900-10-01 00:00:00,60,1,1,a\n"), LOG, 1, "prophet: FILE:2: column timestamp: expected a time from 1970 on, got \"1900-10-01 00:00:00\""),
    ("a Philly runtime that is no number", Text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 00:00:00,nan,1,1,a\n"), LOG, 1, "prophet: FILE:2: column duration: expected a number of seconds, got \"nan\""),
    ("more memory than any machine", Text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,1e300,1,1000,0,100,40\n"), LOG, 1, "prophet: FILE:2: column memory_mib: expected at most 953674316406.25, got \"1e300\""),
    ("a negative creation time", Text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,1,1,1000,-5,100,40\n"), LOG, 1, "prophet: FILE:2: column creation_time: expected a time of 0 or more, got \"-5\""),
    ("an incomplete event", Text("{\"time\":\"1\",\"type\":0,\"collection_id\":\"7\",\"instance_index\":\"0\",\"resource_request\":{\"cpus\":0.5}}\n{\"time\": 1,\n"), LOG, 1, "prophet: FILE:2: expected a JSON object (EOF while parsing a value), got \"{\\\"time\\\": 1,\""),
    ("an unknown event", Text("{\"time\":\"1\",\"type\":\"JUMP\",\"collection_id\":\"7\",\"instance_index\":\"0\",\"resource_request\":{\"cpus\":0.5}}\n"), LOG, 1, "prophet: FILE:1: column type: expected an event type, 0 to 10 or its name, got \"\\\"JUMP\\\"\""),
    ("CPUs as a word", Text("{\"time\":\"1\",\"type\":0,\"collection_id\":\"7\",\"instance_index\":\"0\",\"resource_request\":{\"cpus\":\"x\"}}\n"), LOG, 1, "prophet: FILE:1: column resource_request.cpus: expected a share of a machine, a number from 0, got \"\\\"x\\\"\""),
    ("a negative request", Text("{\"time\":\"1\",\"type\":0,\"collection_id\":\"7\",\"instance_index\":\"0\",\"resource_request\":{\"cpus\":-0.5}}\n"), LOG, 1, "prophet: FILE:1: column resource_request.cpus: expected a share of a machine, a number from 0, got \"-0.5\""),
    // Logs that cannot be replayed.
    ("two jobs 16 years apart", Jobs("0,60,1,1000\n504921600,60,1,1000\n"), REPLAY, 1, "note: without --from, the first half of the log, at most 14 days, warms up the forecasts: the evaluated time begins at second 1209600\nprophet: FILE: second 0 to second 504921600 are 8415360 ticks of 1m, more than the limit of 2635200: check the times, or give an earlier --until, a longer --tick or a part of the log. The longest time without a job is from job 1 (second 0) to job 2 (second 504921600)."),
    ("an accelerator that no type has", Text("submit,runtime,accelerators,accelerator_kind\n0,60,1,amd.com/gpu\n5,60,2,amd.com/gpu\n"), REPLAY, 1, "note: without --from, the first half of the log, at most 14 days, warms up the forecasts: the evaluated time begins at second 2\nnote: 2 jobs are left out (the first is job 1): no instance type on offer has amd.com/gpu; give other types with --catalog\nprophet: no job is evaluated: from second 2 until second 6, no job is submitted that fits an instance type; the log covers second 0 to second 5"),
    ("more CPUs than the largest type has", Jobs("0,60,1,200000\n1,60,1,100000\n"), REPLAY, 1, "note: 2 jobs are left out (the first is job 1): a pod requests 200 CPUs, and the largest instance type on offer, m5.24xlarge, has 95.69 CPUs; give other types with --catalog\nprophet: no job is evaluated: from second 0 until second 2, no job is submitted that fits an instance type; the log covers second 0 to second 1"),
    ("more pods than are simulated", Jobs("0,60,1000000,1000\n"), REPLAY, 1, "note: job 1 is left out: more than 100000 pods, which are placed one by one\nprophet: no job is evaluated: from second 0 until second 1, no job is submitted that fits an instance type; the log covers second 0 to second 0"),
    ("more GPUs than the largest type of a series has", Text("submit,runtime,accelerators\n0,60,16\n"), ADVISE, 1, "note: job 1 is left out: a pod requests 16 nvidia.com/gpu, and the largest instance type on offer, g4dn.metal, has 8 nvidia.com/gpu; give other types with --catalog\nprophet: no job is evaluated: from second 0 until second 1, no job is submitted that fits an instance type; the log covers second 0 to second 0"),
    // Settings.
    ("empty settings", Text(""), SETTINGS, 1, "prophet: FILE: the file is empty"),
    ("a list as settings", Text("- 1\n"), SETTINGS, 1, "prophet: FILE:1: expected a mapping of fields"),
    ("a log as settings", Jobs(""), SETTINGS, 1, "prophet: FILE:1: expected a mapping of fields, got \"submit,runtime,pods,cpu_millis\""),
    ("settings in UTF-16", Made(|| utf_16("tick: 1m\n")), SETTINGS, 1, "prophet: failed to read FILE: expected text, but this is UTF-16 text: convert it, for example with iconv -f UTF-16 -t UTF-8"),
    ("settings in Latin-1", Bytes(b"seed: 1\ntick: caf\xe9\n"), SETTINGS, 1, "prophet: failed to read FILE: line 2 is not UTF-8 text: convert the file, for example with iconv"),
    ("settings in gzip", Made(|| gzip(b"tick: 1m")), SETTINGS, 1, "prophet: failed to read FILE: expected text, but this is a gzip file: unpack it first"),
    ("an expression with a mistake", Text("policies: [expression]\nexpression: demnd\n"), SETTINGS, 1, "prophet: FILE:2: expression: unknown variable \"demnd\": did you mean demand?"),
    ("no expression", Text("policies: [expression]\n"), SETTINGS, 1, "prophet: FILE: expression: the policy expression needs one, such as \"forecast + 1\""),
    ("settings of 17 MiB", Made(|| vec![b' '; 17 << 20]), SETTINGS, 1, "prophet: failed to read FILE: the file is larger than 16 MiB"),
    ("a folder as settings", Folder, SETTINGS, 1, "prophet: failed to read FILE: it is a folder: give a file in it"),
    ("a report as settings", Text("{\"policies\": [{\"name\": \"a\"}], \"settings\": {}, \"trace\": {}}"), SETTINGS, 1, "prophet: FILE: expected settings, but this is a report of prophet simulate or prophet backtest: give settings.json of --out, or the field settings of the report"),
    ("a catalog as settings", Text("instanceTypes: []\n"), SETTINGS, 1, "prophet: FILE:1: instanceTypes: unknown field; the fields here are trace, columns, data, dataPolicy, lenient, from, until, catalog, policies, policy, ladder, expression, model, transformer, lstm, ladderFirst, tick, scan, launchLatency, launchFailureShare, warmStart, warmShare, warmMax, announced, spotFor, interruptions, tiers, scheduler, gang, gangHeadroom, scaleDownDelayAfterAdd, scaleDownUnneededTime, replays, jitter, seed"),
    ("an unclosed bracket", Text("policy: [1,\n"), SETTINGS, 1, "prophet: FILE:1: policy: expected a mapping of fields"),
    ("two documents", Text("tick: 1m\n---\ntick: 2m\n"), SETTINGS, 1, "prophet: FILE:3: a second document starts here: give one"),
    ("text after the end", Text("{\"tick\": \"1m\"} x\n"), SETTINGS, 1, "prophet: FILE:1: text follows the end of the document"),
    ("a tab in the indentation", Text("policy:\n\tlimits: {}\n"), SETTINGS, 1, "prophet: FILE:2: tabs disallowed within this context (block indentation)"),
    ("a field twice", Text("tick: 1m\ntick: 2m\n"), SETTINGS, 1, "prophet: FILE:2: tick: the field occurs twice"),
    ("a misspelt field", Text("polices: [reactive]\n"), SETTINGS, 1, "prophet: FILE:1: polices: unknown field: did you mean policies?"),
    ("a field in another spelling", Text("seed: 1\nlaunch_latency: 5m\n"), SETTINGS, 1, "prophet: FILE:2: launch_latency: unknown field: did you mean launchLatency?"),
    ("a negative number of replays", Text("seed: 1\nreplays: -1\n"), SETTINGS, 1, "prophet: FILE:2: replays: expected a whole number, 0 or more, got \"-1\""),
    ("a fraction of a replay", Text("replays: 1.5\n"), SETTINGS, 1, "prophet: FILE:1: replays: expected a whole number, 0 or more, got \"1.5\""),
    ("replays beyond 32 bits", Text("replays: 5000000000\n"), SETTINGS, 1, "prophet: FILE:1: replays: expected at most 4294967295, got \"5000000000\""),
    ("no replay", Text("replays: 0\n"), SETTINGS, 1, "prophet: FILE:1: replays: 0 is not in 1 to 1000"),
    ("null as a time", Text("tick: null\n"), SETTINGS, 1, "prophet: FILE:1: tick: expected a value, got null"),
    ("a word as a time", Text("tick: soon\n"), SETTINGS, 1, "prophet: FILE:1: tick: expected a duration such as 90s, 5m, 2h or 8d, got \"soon\""),
    ("a tick of two days", Text("tick: 2d\n"), SETTINGS, 1, "prophet: FILE:1: tick: 2d is not in 1s to 1d"),
    ("a jitter of 1000 days", Text("jitter: 1000d\n"), SETTINGS, 1, "prophet: FILE:1: jitter: 1000d is not in 0s to 1d"),
    ("launches of two days", Text("launchLatency: 2d\n"), SETTINGS, 1, "prophet: FILE:1: launchLatency: 2d is above 1d"),
    ("a share that is no number", Text("launchFailureShare: .nan\n"), SETTINGS, 1, "prophet: FILE:1: launchFailureShare: NaN is not in [0, 1)"),
    ("a tier of two minima", Text("tiers:\n- {name: a, priorityMin: 1, weight: 1}\n- {name: b, priorityMin: 1, weight: 2}\n"), SETTINGS, 1, "prophet: FILE:3: tiers[1].priorityMin: 1 is the minimum of two tiers"),
    ("a tier of a negative weight", Text("tiers: [{name: a, priorityMin: 1, weight: -1}]\n"), SETTINGS, 1, "prophet: FILE:1: tiers[0].weight: -1 is not in 0 to 1000"),
    ("jobs for spot by a word", Text("spotFor: some\n"), SETTINGS, 1, "prophet: FILE:1: spotFor: expected none, all or a share from 0 to 1, got \"some\""),
    ("a rate of interruptions below 0", Text("interruptions:\n  perHour: -1\n"), SETTINGS, 1, "prophet: FILE:2: interruptions.perHour: -1 is not in 0 to 30"),
    ("a rate of interruptions of a bucket that is no number", Text("interruptions:\n  buckets:\n    a/spot: .nan\n"), SETTINGS, 1, "prophet: FILE:3: interruptions.buckets.a/spot: NaN is not in 0 to 30"),
    ("interruptions without spot instances", Text("interruptions: {perHour: 1}\n"), SETTINGS, 1, "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster\nprophet: FILE: interruptions: the catalog has no spot instances; set capacityType: spot for an instance type"),
    ("interruptions of an unknown bucket", Text("interruptions: {buckets: {b/spot: 1}}\ncatalog: {instanceTypes: [{name: a, pods: 1, pricePerHour: 1, capacityType: spot}]}\n"), SETTINGS, 1, "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster\nprophet: FILE: interruptions.buckets.b/spot: no spot bucket has this name; the names are a/spot"),
    ("jobs for spot without spot instances", Text("spotFor: all\n"), SETTINGS, 1, "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster\nprophet: FILE: spotFor: the catalog has no spot instances; set capacityType: spot for an instance type"),
    ("a word as a truth value", Text("lenient: maybe\n"), SETTINGS, 1, "prophet: FILE:1: lenient: expected true or false, got \"maybe\""),
    ("an unknown scheduler", Text("scheduler: fast\n"), SETTINGS, 1, "prophet: FILE:1: scheduler: expected pack or spread, got \"fast\""),
    ("a text as policies", Text("policies: reactive\n"), SETTINGS, 1, "prophet: FILE:1: policies: expected a list, got \"reactive\""),
    ("no policies", Text("policies: []\n"), SETTINGS, 1, "prophet: FILE:1: policies: name at least one"),
    ("a quantile and a cost", Text("policy:\n  objective:\n    quantile: 0.9\n    waitCost: 1\n"), SETTINGS, 1, "prophet: FILE:4: policy.objective.waitCost: give quantile or waitCost, not both"),
    ("an empty objective", Text("policy: {objective: {}}\n"), SETTINGS, 1, "prophet: FILE:1: policy.objective: expected a field in it"),
    ("a ratio that is no number", Text("policy:\n  objective:\n    waitRatio: .inf\n"), SETTINGS, 1, "prophet: FILE:3: policy.objective.waitRatio: inf is not a number above 0"),
    ("a quantile above 1", Text("policy: {objective: {quantile: 1.5}}\n"), SETTINGS, 1, "prophet: FILE:1: policy.objective.quantile: 1.5 is not between 0 and 1"),
    ("a quantile above all numbers", Text("policy: {objective: {quantile: 1e400}}\n"), SETTINGS, 1, "prophet: FILE:1: policy.objective.quantile: expected a number, got \"1e400\""),
    ("a negative cost", Text("policy: {objective: {waitCost: -1}}\n"), SETTINGS, 1, "prophet: FILE:1: policy.objective.waitCost: -1 is not a price above 0"),
    ("a word as a period", Text("policy:\n  behavior:\n    scaleUp:\n      policies:\n      - {value: 1, periodSeconds: 60}\n      - {value: 1, periodSeconds: x}\n"), SETTINGS, 1, "prophet: FILE:6: policy.behavior.scaleUp.policies[1].periodSeconds: expected a whole number, 0 or more, got \"x\""),
    ("a rate without a period", Text("policy:\n  behavior:\n    scaleUp:\n      policies:\n      - value: 1\n"), SETTINGS, 1, "prophet: FILE:5: policy.behavior.scaleUp.policies[0].periodSeconds: is missing"),
    ("a negative limit", Text("policy: {limits: {placeholders: -1}}\n"), SETTINGS, 1, "prophet: FILE:1: policy.limits.placeholders: expected a whole number, 0 or more, got \"-1\""),
    ("a step of one number", Text("ladder: {coresToReplicas: [[1, 2], [1]]}\n"), SETTINGS, 1, "prophet: FILE:1: ladder.coresToReplicas[1]: expected a list of 2 values, got 1"),
    ("two faults", Text("replays: 0\njitter: 2d\n"), SETTINGS, 1, "prophet: FILE:2: jitter: 2d is not in 0s to 1d; FILE:1: replays: 0 is not in 1 to 1000"),
    ("a fault of the catalog in settings", Text("catalog:\n  instanceTypes:\n  - {name: a, pods: 1, pricePerHour: -1}\n"), SETTINGS, 1, "prophet: FILE:3: catalog.instanceTypes[0].pricePerHour: expected a price of 0 to a billion dollars, got -1"),
    // Catalogs.
    ("an empty catalog", Text(""), CATALOG, 1, "prophet: FILE: the file is empty"),
    ("a catalog without types", Text("instanceTypes: []\n"), CATALOG, 1, "prophet: FILE:1: instanceTypes: a catalog needs at least one instance type"),
    ("names as types", Text("instanceTypes: [m5.large]\n"), CATALOG, 1, "prophet: FILE:1: instanceTypes[0]: expected a mapping of fields, got \"m5.large\""),
    ("a catalog in another spelling", Text("instanceTypes:\n- {name: a, cpu_millis: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].cpu_millis: unknown field: did you mean cpuMillis?"),
    ("a type without a price", Text("instanceTypes:\n- name: a\n  cpuMillis: 1\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].pricePerHour: is missing, and no price of this instance type is known: give dollars per hour"),
    ("a type without resources", Text("instanceTypes:\n- name: a\n  pricePerHour: 1\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].name: give at least one of accelerators, cpu, memory, ephemeralStorage, pods, or the name of an instance type of AWS"),
    ("a type without a name", Text("instanceTypes:\n- {name: \"\", cpuMillis: 1, pricePerHour: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].name: is empty"),
    ("a negative CPU", Text("instanceTypes:\n- name: a\n  cpuMillis: -5\n  pricePerHour: 1\n"), CATALOG, 1, "prophet: FILE:3: instanceTypes[0].cpuMillis: expected a whole number, 0 or more, got \"-5\""),
    ("a fraction of a unit", Text("instanceTypes:\n- {name: a, cpuMillis: 4.5, pricePerHour: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].cpuMillis: expected a whole number, 0 or more, got \"4.5\""),
    ("a quantity as memory", Text("instanceTypes:\n- {name: a, memoryBytes: 4Gi, pricePerHour: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].memoryBytes: expected a whole number, 0 or more, got \"4Gi\""),
    ("an infinite price", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: .inf}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].pricePerHour: expected a price of 0 to a billion dollars, got inf"),
    ("a price with a currency", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: $1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].pricePerHour: expected a number, got \"$1\""),
    ("an unknown capacity type", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: 1, capacityType: cheap}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].capacityType: expected on-demand or spot, got \"cheap\""),
    ("more reserved than there is", Text("instanceTypes:\n- {name: a, cpuMillis: 4, reserved: {cpuMillis: 5}, pricePerHour: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].reserved.cpuMillis: reserves 5 of 4"),
    ("a type twice", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: 1}\n- {name: a, pods: 2, pricePerHour: 1}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes: instance type a is listed twice"),
    ("a minimum above a maximum", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: 1, groups: [{name: g, min: 5, max: 1}]}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes: group g has min 5 above max 1"),
    ("a group without a name", Text("instanceTypes:\n- {name: a, pods: 1, pricePerHour: 1, groups: [{}]}\n"), CATALOG, 1, "prophet: FILE:2: instanceTypes[0].groups[0].name: is missing"),
    // Pods.
    ("no pods", Pods(""), PODS, 1, "prophet: FILE: the file has no pods"),
    ("an empty file of pods", Text(""), PODS, 1, "prophet: FILE: the file is empty"),
    ("pods with semicolons", Text("name;count;accelerators;cpu_millis;memory_bytes;ephemeral_bytes\n"), PODS, 1, "prophet: FILE:1: the columns are separated by semicolons: separate them with commas"),
    ("pods without some columns", Text("name,count,cpu_millis\na,1,1\n"), PODS, 1, "prophet: FILE:1: the header lacks the columns accelerators, memory_bytes, ephemeral_bytes; the columns are name, count, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, accelerator_kind"),
    ("pods with an unknown column", Text("name,count,accelerators,cpu_millis,memory_bytes,ephemeral_bytes,zone\na,1,0,1,1,1,z\n"), PODS, 1, "prophet: FILE:1: the header has the unknown column zone; the columns are name, count, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, accelerator_kind"),
    ("a negative count", Pods("a,-1,0,1,1,1\n"), PODS, 1, "prophet: FILE:2: column count: expected a whole number from 0 to 2^60, got \"-1\""),
    ("a request beyond all machines", Pods("a,1,0,18446744073709551615,1,1\n"), PODS, 1, "prophet: FILE:2: column cpu_millis: expected a whole number from 0 to 2^60, got \"18446744073709551615\""),
    ("a short line of pods", Pods("a,1\n"), PODS, 1, "prophet: FILE:2: expected 6 columns, got 2"),
    // Usage.
    ("empty usage", Text(""), USAGE, 1, "prophet: FILE: the file is empty"),
    ("usage without a row", Usage(""), USAGE, 1, "prophet: FILE: the file has no usage"),
    ("a folder as usage", Folder, USAGE, 1, "prophet: failed to read FILE: it is a folder: give a file in it"),
    ("usage in Parquet", Bytes(b"PAR1\x15\x04\x15\x00"), USAGE, 1, "prophet: failed to read FILE: expected text, but this is a Parquet file: export it as CSV (docs/trace-format.md has a query for DuckDB)"),
    ("a log as usage", Jobs("0,60,1,1000\n"), USAGE, 1, "prophet: FILE:1: the header lacks the columns time, owner and has the unknown columns submit, runtime, pods (docs/rightsizing.md lists the columns of usage)"),
    ("usage of nothing", Text("time,owner\n0,a\n"), USAGE, 1, "prophet: FILE:1: the header needs cpu_millis or memory_bytes or both (docs/rightsizing.md lists the columns of usage)"),
    ("usage with semicolons", Text("time;owner;cpu_millis\n0;a;1\n"), USAGE, 1, "prophet: FILE:1: the columns are separated by semicolons: separate them with commas"),
    ("usage with carriage returns alone", Text("time,owner,cpu_millis\r0,a,1\r"), USAGE, 1, "prophet: FILE:1: the lines end with carriage returns alone: convert them to line feeds, for example with tr '\\r' '\\n'"),
    ("usage with too many columns", Usage("0,a,,1,1,,,9\n"), USAGE, 1, "prophet: FILE:2: expected 7 columns, got 8"),
    ("usage with too few columns", Usage("0,a,,1\n"), USAGE, 1, "prophet: FILE:2: column memory_bytes: the line has too few columns"),
    ("usage at no time", Usage(",a,,1,1,,\n"), USAGE, 1, "prophet: FILE:2: column time: is empty"),
    ("usage of nobody", Usage("0,,,1,1,,\n"), USAGE, 1, "prophet: FILE:2: column owner: is empty"),
    ("usage in milliseconds", Usage("0,a,,1,1,,\n1502093123000,a,,1,1,,\n"), USAGE, 1, "prophet: FILE:3: column time: expected seconds, but this looks like milliseconds (divide by 1000), got \"1502093123000\""),
    ("usage at a date among seconds", Usage("0,a,,1,1,,\n2017-10-01T00:00:00Z,a,,1,1,,\n"), USAGE, 1, "prophet: FILE:3: column time: expected seconds, because line 2 has them, got \"2017-10-01T00:00:00Z\""),
    ("usage that is not sorted", Usage("600,a,,1,1,,\n299,a,,1,1,,\n"), USAGE, 1, "prophet: FILE:3: column time: an earlier row of the same owner and container has a later time: sort the rows by time, got \"299\""),
    ("negative usage", Usage("0,a,,-1,1,,\n"), USAGE, 1, "prophet: FILE:2: column cpu_millis: expected a number from 0, got \"-1\""),
    ("usage of a quantity", Usage("0,a,,1,4Gi,,\n"), USAGE, 1, "prophet: FILE:2: column memory_bytes: expected a number, got \"4Gi\""),
    ("more usage than any machine has", Usage("0,a,,1e9,1,,\n"), USAGE, 1, "prophet: FILE:2: column cpu_millis: expected at most 33980468, got \"1e9\""),
    ("a row without usage", Usage("0,a,,,,,\n"), USAGE, 1, "prophet: FILE:2: has neither cpu_millis nor memory_bytes"),
    ("an unknown class", Usage("0,a,,1,1,web,\n"), USAGE, 1, "prophet: FILE:2: column class: expected batch, service or sensitive-service, got \"web\""),
    ("an unknown tolerance", Usage("0,a,,1,1,,none\n"), USAGE, 1, "prophet: FILE:2: column oom_tolerance: expected minimal, low or intermediate, got \"none\""),
    ("two containers without requests", Usage("0,a,x,1,1,,\n0,a,y,1,1,,\n"), USAGE, 1, "prophet: FILE:3: column container: the pods of this owner have several containers, so give the requests of each: the log has only those of pods, got \"a/y\""),
    ("usage of other jobs", Usage("0,b,,1,1,,\n"), USAGE, 1, "prophet: FILE: no job of the log has usage: an owner is b, and a job a"),
    ("events as usage", Text("{\"time\":1,\"type\":0,\"collection_id\":1,\"instance_index\":0}\n"), USAGE, 1, "prophet: FILE:1: the first line has no field of usage (start_time, average_usage, maximum_usage, sample_rate). JSON is read as Borg 2019 instance_usage, one row per line; convert other usage to a table (docs/rightsizing.md)"),
    ("usage of half an instance", Text("{\"start_time\":0,\"collection_id\":1,\"instance_index\":0.5}\n"), USAGE, 1, "prophet: FILE:1: column instance_index: expected an integer, got \"0.5\""),
    ("usage of a word", Text("{\"start_time\":0,\"collection_id\":1,\"instance_index\":0,\"average_usage\":{\"cpus\":\"x\"}}\n"), USAGE, 1, "prophet: FILE:1: column average_usage.cpus: expected a share of a machine, a number from 0, got \"\\\"x\\\"\""),
    // Models that the user names.
    ("an empty model", Text(""), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: the file is empty"),
    ("a text as a model", Text("hello world\n"), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: not an ONNX file, or an incomplete one (failed to decode Protobuf message: unexpected end group tag)"),
    ("random bytes as a model", Made(|| (0..999_u32).map(|at| (at * at * 31 % 251) as u8).collect()), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: not an ONNX file, or an incomplete one (failed to decode Protobuf message: invalid tag value: 0)"),
    ("half of a model", Made(|| cut(MODEL_FILE, MODEL_FILE.len() / 2)), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: not an ONNX file, or an incomplete one (failed to decode Protobuf message: ModelFile.graph: buffer underflow)"),
    ("a model with other inputs", Made(|| replaced("\n\u{6}target", "\n\u{6}tarxet")), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: inputs.tarxet: not in the contract; inputs.target: missing"),
    ("a model with other shapes", Made(|| replaced("\"horizon\":6", "\"horizon\":7")), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: prophet.spec.golden.quantiles: expected 168 numbers, got 144; outputs.quantiles: expected the shape [batch, buckets, horizon 7, levels 12], got [any, any, 6, 12]"),
    ("a model without a spec", Made(|| replaced("prophet.spec", "prophet.spek")), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: prophet.spec: missing in the metadata (metadata_props)"),
    ("a model of another version", Made(|| replaced("\"version\":1", "\"version\":2")), MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: prophet.spec.version: expected 1, got 2"),
    ("a folder as a model", Folder, MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: it is a folder: give a file in it"),
    ("an empty named model", Text(""), NAMED_MODEL, 1, "prophet: --named-model mine: the model FILE cannot be run by the embedded engine: file: the file is empty"),
    ("an empty model that no policy uses", Text(""), UNUSED_MODEL, 1, "prophet: the model FILE cannot be run by the embedded engine: file: the file is empty"),
    ("a tick that the shipped model does not have", Jobs("0,60,1,1000\n"), ODD_TICK, 1, "prophet: the shipped model has ticks of 300 s, which are no multiple of --tick 70s"),
    ("the same tick for the ensemble, which does not use the model", Jobs("0,60,1,1000\n"), ODD_TICK_ENSEMBLE, 0, "note: no job precedes --from (by default the first job): policies that learn start untrained, and static-max holds no placeholders; the log covers second 0 to second 0"),
    ("more constants than instance types", Jobs("0,60,1,1000\n"), MANY_CONSTANTS, 1, "prophet: policy constants:1/2 has more numbers (2) than instance types (1)"),
    ("a folder as a model to check", Folder, CHECK, 2, "prophet: FILE: it is a folder: give a file in it"),
];

#[test]
fn bad_input_is_answered_with_file_line_field_and_what_to_do() {
    let mut wrong = Vec::new();
    for (name, content, arguments, code, message) in ROWS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("input");
        match content.bytes() {
            Some(bytes) => fs::write(&path, bytes).expect("the file is written"),
            None => fs::create_dir(&path).expect("the folder is created"),
        }
        let path = path.display().to_string();
        let log = folder.path().join("log");
        fs::write(&log, format!("job,{JOBS_HEADER}a,0,60,1,1000\n")).expect("the log is written");
        let log = log.display().to_string();
        let replaced = |argument: &&str| match *argument {
            "LOG" => log.clone(),
            other => other.replace("FILE", &path),
        };
        let typed: Vec<String> = arguments.iter().map(replaced).collect();
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        let (got, _, error) = run(&typed);
        let error = error.replace(&path, "FILE");
        if (got, error.trim_end()) != (*code, *message) {
            wrong.push(format!("{name}: expected {code}\n{message}\ngot {got}\n{error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Content {
    /// The bytes of the file; `None` for a folder.
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Text(text) => Some((*text).into()),
            Bytes(bytes) => Some((*bytes).into()),
            Jobs(lines) => Some(format!("{JOBS_HEADER}{lines}").into()),
            Pods(lines) => Some(format!("{PODS_HEADER}{lines}").into()),
            Usage(lines) => Some(format!("{USAGE_HEADER}{lines}").into()),
            Made(make) => Some(make()),
            Folder => None,
        }
    }
}

/// A job table of one job, in gzip.
fn job_in_gzip() -> Vec<u8> {
    gzip(format!("{JOBS_HEADER}0,60,1,1000\n").as_bytes())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

/// Bytes without their last `count`.
fn cut(bytes: &[u8], count: usize) -> Vec<u8> {
    bytes[..bytes.len() - count].to_vec()
}

/// The start of a tar archive: a name, and the mark at byte 257.
fn tar() -> Vec<u8> {
    let mut bytes = b"jobs.csv".to_vec();
    bytes.resize(257, 0);
    bytes.extend(b"ustar");
    bytes
}

fn utf_16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

/// The shipped model with all `from` replaced by `to`, of the same length, so that the lengths in
/// the protobuf stay valid.
fn replaced(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = MODEL_FILE.to_vec();
    let at: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!at.is_empty(), "{from:?} is not in the model");
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}
