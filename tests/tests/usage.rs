//! Wrong usage and failures of the commands that need no cluster: one row is one run of the binary.
//!
//! Exit codes are 0 after success, 1 after a failure and 2 after wrong usage. Each error names the
//! argument or the file, and what to do.

use std::fs;

use tests::{prophet, run};

/// The arguments, separated by spaces; the exit code; and a part of standard error.
///
/// The runs are in a folder with these files: `log.csv`, a job log of 2024-01-01 to 2024-01-03;
/// `pods.csv`, pods that fit; `usage.csv`, usage of the job 1 and of another one; `bad.yaml`, which
/// is no settings file; and an empty folder `folder`.
const ROWS: [(&str, i32, &str); 130] = [
    // Commands.
    ("", 2, "Usage: prophet <COMMAND>"),
    ("simulat", 2, "tip: a similar subcommand exists: 'simulate'"),
    ("trace", 2, "Usage: prophet trace <COMMAND>"),
    ("trace describ", 2, "unrecognized subcommand 'describ'"),
    ("run --own-history --data history", 2, "--leader-elect"),
    ("run --tls-cert tls.crt", 2, "--tls-key <FILE>"),
    ("run --authenticate", 2, "--tls-cert <FILE>"),
    ("run --stuck-after 59s", 2, "'--stuck-after <TIME>': expected 1m to 1h"),
    ("run --stuck-after 61m", 2, "'--stuck-after <TIME>': expected 1m to 1h"),
    ("run --stuck-after soon", 2, "expected a duration such as 90s"),
    ("health ftp://127.0.0.1:1/", 2, "expected http://HOST:PORT/PATH or https://HOST:PORT/PATH"),
    ("health https://127.0.0.1:1/readyz", 1, "https://127.0.0.1:1/readyz: failed to connect: "),
    ("health", 2, "<ADDRESS>"),
    ("health localhost", 2, "expected http://HOST:PORT/PATH or https://HOST:PORT/PATH"),
    ("health http://127.0.0.1:1/readyz", 1, "http://127.0.0.1:1/readyz: failed to connect: "),
    ("health http://127.0.0.1:1/readyz --wait soon", 2, "expected a duration such as 90s"),
    // Options of simulate.
    ("simulate log.csv", 2, "tip: a file needs its option: --trace log.csv"),
    ("embed pods.csv", 2, "tip: a file needs its option: --shapes pods.csv"),
    ("model accept new.onnx", 2, "tip: a file needs its option: --candidate new.onnx"),
    (
        "trace describe --trace log.csv",
        2,
        "tip: the file needs no option: prophet trace describe log.csv",
    ),
    (
        "model check --model new.onnx",
        2,
        "tip: the file needs no option: prophet model check new.onnx",
    ),
    ("simulate --policies constant:-3", 2, "expected constant:N with a whole number N from 0"),
    ("simulate --policies ensembl", 2, "did you mean ensemble?"),
    ("simulate --wait-cost -3", 2, "tip: no negative value is possible here"),
    ("simulate --replays -1", 2, "tip: no negative value is possible here"),
    ("simulate --tick -5m", 2, "tip: no negative value is possible here"),
    ("simulate --expression demnd", 2, "unknown variable \"demnd\": did you mean demand?"),
    (
        "simulate --policies expression",
        2,
        "expression: the policy expression needs one, such as \"forecast + 1\"",
    ),
    ("simulate --policies expression:3", 2, "expected expression without a parameter"),
    ("simulate --tick 60", 2, "'--tick <TIME>': 60 has no unit: give 60s, 60m"),
    ("rightsize --trace log.csv", 2, "--trace <FILE> <--usage <FILE>|--prometheus <ADDRESS>>"),
    (
        "trace describe --trace=log.csv",
        2,
        "tip: the file needs no option: prophet trace describe log.csv",
    ),
    ("simulate --polices reactive", 2, "tip: a similar argument exists: '--policies'"),
    (
        "simulate --policies magic",
        2,
        "'--policies <A,B>': unknown policy \"magic\": expected reactive,",
    ),
    ("simulate --quantile 1.5", 2, "'--quantile <Q>': expected a number between 0 and 1"),
    ("simulate --service-level 0", 2, "expected a number between 0 and 1"),
    ("simulate --wait-cost 0", 2, "'--wait-cost <D>': expected a price above 0"),
    ("simulate --wait-ratio inf", 2, "'--wait-ratio <R>': expected a price above 0"),
    (
        "simulate --wait-cost 1 --quantile 0.9",
        2,
        "'--wait-cost <D>' cannot be used with '--quantile <Q>'",
    ),
    ("simulate --tick soon", 2, "'--tick <TIME>': expected a duration such as 90s, 5m, 2h or 8d"),
    ("simulate --tick 0s", 2, "'--tick <TIME>': must be at least 1s"),
    ("simulate --tick 1s --launch-latency 30d", 2, "launch_latency: 30d is above 1d"),
    ("simulate --launch-latency lognormal:9m:4m", 2, "must not be below the median"),
    (
        "simulate --launch-failure-share 1",
        2,
        "'--launch-failure-share <SHARE>': expected a number from 0",
    ),
    (
        "simulate --interruptions-per-hour 31",
        2,
        "'--interruptions-per-hour <RATE>': expected a rate from 0 to 30 per hour",
    ),
    (
        "simulate --tier production",
        2,
        "'--tier <TIER>': expected NAME=PRIORITY:WEIGHT such as production=200:4",
    ),
    ("simulate --spot-for some", 2, "'--spot-for <JOBS>': expected none, all or a share from 0"),
    (
        "simulate --instance-type m5.large --spot-for all",
        1,
        "spot_for: the catalog has no spot instances; set capacityType: spot",
    ),
    ("simulate --replays 0", 2, "'--replays <N>': 0 is not in 1..=1000"),
    (
        "simulate --jitter 1m",
        2,
        "--jitter shifts the submissions of several replays: also give --replays",
    ),
    ("simulate --jitter 1m --replays 1", 2, "also give --replays"),
    ("simulate --instance-type z9.huge", 2, "possible values: m5.large"),
    (
        "simulate --instance-type m5.large --catalog c.yaml",
        2,
        "cannot be used with '--catalog <FILE>'",
    ),
    ("simulate --scheduler best", 2, "possible values: pack, spread"),
    ("simulate --from yesterday", 2, "'--from <T>': expected a date (2017-11-06)"),
    // Windows.
    (
        "simulate --trace log.csv --from 2030-01-01",
        1,
        "--from 2030-01-01 is after the log's end; the log covers 2024-01-01 01:00 to 2024-01-03",
    ),
    (
        "simulate --trace log.csv --from 100d",
        1,
        "--from 100d (2024-04-10 01:00) is after the log's end; the log covers",
    ),
    (
        "simulate --trace log.csv --until 2020-01-01",
        1,
        "--until 2020-01-01 is not after the log's start; the log covers",
    ),
    (
        "simulate --trace log.csv --from 2d --until 1d",
        1,
        "--until 1d (2024-01-02 01:00) is not after --from 2d (2024-01-03 01:00)",
    ),
    (
        "simulate --trace log.csv --from 1d --until 2030-01-01 --policies reactive",
        0,
        "note: --until 2030-01-01 is after the log's end",
    ),
    (
        "simulate --trace log.csv --policies reactive",
        0,
        "note: no job precedes --from (by default the first job)",
    ),
    (
        "simulate --trace log.csv --from 2020-01-01 --policies reactive",
        0,
        "note: no job precedes --from 2020-01-01",
    ),
    (
        "simulate --trace log.csv --from 1d --until 86460s",
        1,
        "until 2024-01-02 01:01, no job is submitted that fits",
    ),
    (
        "backtest --trace log.csv",
        1,
        "give a later --from, such as --from 14d; the log covers 2024-01-01 01:00",
    ),
    ("backtest --trace log.csv --from 2030-01-01", 1, "--from 2030-01-01 is after the log's end"),
    (
        "backtest --trace log.csv --from 1d --until 86460s",
        1,
        "until 2024-01-02 01:01, no job is submitted that fits",
    ),
    // Files.
    ("simulate --trace none.csv", 1, "failed to read none.csv: No such file"),
    ("simulate --trace folder", 1, "failed to read folder: it is a folder"),
    ("simulate --settings none.yaml", 1, "failed to read none.yaml: No such file"),
    ("simulate --settings bad.yaml", 1, "bad.yaml:1: tik: unknown field: did you mean tick?"),
    ("simulate --catalog folder", 1, "failed to read folder: it is a folder"),
    ("simulate --model none.onnx", 1, "the model none.onnx cannot be run by the embedded engine"),
    ("simulate --onnx-runtime none.so", 1, "failed to start ONNX Runtime (none.so)"),
    ("simulate --out pods.csv", 1, "failed to write into pods.csv: it is a file; name a directory"),
    (
        "simulate --trace log.csv --out none.csv/../log.csv/x",
        1,
        "failed to write into none.csv/../log.csv/x",
    ),
    // Options of backtest.
    ("backtest --forecasters magic", 2, "unknown forecaster \"magic\": expected a forecaster that"),
    ("backtest --forecasters constant:4", 2, "unknown forecaster"),
    ("backtest --seeds 0", 2, "'--seeds <N>': 0 is not in 1..=1000"),
    ("backtest --paper --tick 1m", 2, "'--paper' cannot be used with '--tick <TIME>'"),
    ("backtest --named-model mine.onnx", 2, "expected NAME=FILE"),
    ("backtest --named-model onnx=mine.onnx", 2, "use another name for the model"),
    (
        "backtest --named-model mine=none.onnx",
        1,
        "--named-model mine: the model none.onnx cannot be run",
    ),
    // Options of demo.
    ("demo --speed 0", 2, "'--speed <X>': expected a number from 1 to 1000000000"),
    ("demo --listen nowhere", 2, "'--listen <ADDRESS>'"),
    ("demo --trace none.csv --listen 127.0.0.1:0", 1, "failed to read none.csv: No such file"),
    // embed, trace and model.
    ("embed", 2, "--shapes <FILE>"),
    ("embed --shapes none.csv", 1, "failed to read none.csv: No such file"),
    ("embed --shapes log.csv", 1, "log.csv:1: the header lacks the columns name, count"),
    ("embed --shapes pods.csv --mode whole", 2, "possible values: bins, share"),
    ("catalog advise --series g4", 2, "possible values: m5, c5, r5, g4dn, g5, p3"),
    ("catalog advise --catalog c.yaml", 2, "leave out --catalog and --instance-type"),
    ("catalog advise --trace none.csv", 1, "failed to read none.csv: No such file"),
    ("catalog advise --out pods.csv", 1, "failed to write into pods.csv: it is a file"),
    ("catalog --output table advise", 2, "cannot be used with"),
    ("rightsize --trace log.csv", 2, "--usage <FILE>"),
    (
        "rightsize --usage usage.csv",
        2,
        "give the jobs that the usage belongs to: --trace FILE, or --data",
    ),
    ("rightsize --usage usage.csv --prometheus http://a:1", 2, "cannot be used with"),
    ("rightsize --prometheus localhost:9090", 2, "expected http://HOST:PORT/PATH"),
    ("rightsize --prometheus http://a:1 --lookback 1s", 2, "expected a time of at least 1m"),
    ("rightsize --usage usage.csv --trace log.csv --lookback 3d", 2, "cannot be used with"),
    ("rightsize --data history --lookback 3d", 2, "--prometheus <ADDRESS>"),
    ("rightsize --usage - --trace -", 2, "--usage and --trace cannot both be standard input"),
    ("simulate --trace log.csv --data-policy a.b", 2, "cannot be used with"),
    ("trace describe log.csv --data-policy a.b", 2, "cannot be used with"),
    ("history --data history --output csv --per day", 2, "--per day is for tables"),
    (
        "rightsize --prometheus https://127.0.0.1:1 --trace log.csv",
        1,
        "https://127.0.0.1:1/: failed to connect",
    ),
    (
        "rightsize --prometheus http://127.0.0.1:1 --trace log.csv",
        1,
        "http://127.0.0.1:1/: failed to connect",
    ),
    ("rightsize --usage none.csv --trace log.csv", 1, "failed to read none.csv: No such file"),
    ("rightsize --usage usage.csv --trace none.csv", 1, "failed to read none.csv: No such file"),
    (
        "rightsize --usage usage.csv --trace log.csv --class web",
        2,
        "possible values: batch, service, sensitive-service",
    ),
    (
        "rightsize --usage usage.csv --trace log.csv --oom-tolerance none",
        2,
        "possible values: minimal, low, intermediate",
    ),
    (
        "rightsize --usage - --trace log.csv --sweep",
        2,
        "--sweep reads the usage several times: give a file",
    ),
    (
        "rightsize --usage usage.csv --trace log.csv",
        0,
        "note: 1 containers have no job in the log (the first is of other)",
    ),
    ("trace describe", 2, "<FILE>"),
    ("trace describe log.csv --data history", 2, "cannot be used with '--data <PLACE>'"),
    ("trace describe --data none", 1, "none"),
    ("trace describe none.csv", 1, "failed to read none.csv: No such file"),
    ("trace ticks log.csv --tick 0", 2, "'--tick <TIME>': must be at least 1s"),
    (
        "trace generate --days 3660 --jobs-per-day 10000",
        2,
        "--days times --jobs-per-day is 36600000, above the limit",
    ),
    (
        "trace generate --days 1 --out folder",
        1,
        "failed to write folder: it is a folder: give a file in it",
    ),
    ("trace generate --days 1 --out none/log.csv", 1, "the directory of the file does not exist"),
    ("model check none.onnx", 2, "none.onnx"),
    ("model accept", 2, "--candidate <FILE>"),
    ("model accept --candidate none.onnx --trace log.csv", 1, "failed to read none.onnx"),
    ("model accept --candidate pods.csv", 2, "give --data, the location of a recorded history"),
    ("model accept --candidate pods.csv --trace log.csv", 1, "the candidate cannot be used"),
    (
        "model accept --candidate pods.csv --trace log.csv --current none.onnx",
        1,
        "--current none.onnx: there is no such file",
    ),
    (
        "model accept --candidate pods.csv --trace log.csv --publish folder",
        1,
        "failed to write folder: it is a folder: give a file in it",
    ),
    (
        "model accept --candidate pods.csv --trace log.csv --window 9d",
        2,
        "'--window <TIME>': must be at least 10d",
    ),
    ("model fetch none.onnx --out own.onnx", 3, "none.onnx: there is no model"),
];

#[test]
fn errors_name_the_argument_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = prophet(&arguments).current_dir(&folder).output().expect("prophet starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run("trace generate --days 3 --jobs-per-day 100 --out log.csv").0, Some(0));
    let header = "name,count,accelerators,cpu_millis,memory_bytes,ephemeral_bytes";
    fs::write(path("pods.csv"), format!("{header}\nweb,10,0,1000,1,0\n")).expect("pods.csv");
    fs::write(path("usage.csv"), "time,owner,cpu_millis\n0,1,500\n0,other,500\n").expect("usage");
    fs::write(path("bad.yaml"), "tik: 1m\n").expect("bad.yaml");
    fs::create_dir(path("folder")).expect("folder");
    let mut wrong = Vec::new();
    for (arguments, code, expected) in ROWS {
        let (got, error) = run(arguments);
        if got != Some(code) || !error.contains(expected) {
            wrong.push(format!(
                "prophet {arguments}\n  expected {code}: {expected}\n  got {got:?}: {error}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The default is a ratio, which is not called dollars. A price of waiting is in dollars.
#[test]
fn the_table_names_the_price_of_waiting() {
    let check = |typed: &[&str], expected: &str| {
        let (code, out, error) = run(&[&["simulate", "--policies", "reactive"], typed].concat());
        let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == 0 && text.contains(expected), "{typed:?}: {out}{error}");
    };
    check(
        &[],
        "The prices are a ratio: a pending pod-hour costs 9 idle instance-hours at the mean",
    );
    check(&["--wait-ratio", "3"], "a pending pod-hour costs 3 idle instance-hours at the mean");
    check(
        &["--wait-cost", "3"],
        "A pending pod-hour costs $3.00, and an idle instance-hour its price.",
    );
}

#[test]
fn every_help_has_examples() {
    let commands = [
        "",
        "demo",
        "run",
        "plan",
        "explain",
        "catalog",
        "catalog advise",
        "crd",
        "health",
        "simulate",
        "backtest",
        "embed",
        "rightsize",
        "trace",
        "trace describe",
        "trace ticks",
        "trace generate",
        "model",
        "model check",
        "model accept",
        "model fetch",
        "history",
        "history export",
    ];
    for command in commands {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let (code, out, _) = run(&arguments);
        assert!(code == 0 && out.contains("Example"), "{arguments:?}: {out}");
    }
}
