//! The files that users have: one row is one file, with the jobs that it gives, or the error that
//! names the command for a usable file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::Write as _;

use traces::{Job, Mapping, Trace, read};

fn load(text: &str, columns: Option<&str>, lenient: bool) -> Result<Trace, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mapping = columns.map(|columns| columns.parse::<Mapping>().unwrap());
    let path = file.path().display().to_string();
    let read = read(file.path(), mapping.as_ref(), lenient);
    read.map_err(|error| error.to_string().replace(&path, "FILE"))
}

/// The log as text: its format and notes, and a line for each job.
fn shown(trace: &Trace) -> String {
    let mut text = format!("{}; {}", trace.format.label(), trace.notes);
    for Job { name, user, submit, runtime, work, .. } in &trace.jobs {
        let unit = work.unit;
        let _ = write!(
            text,
            "\n{name} of {user:?} at {submit} for {runtime} s: {} x {}m {} MiB",
            work.units,
            unit.cpu_millis,
            unit.memory_bytes >> 20
        );
        if unit.accelerators > 0 {
            let _ = write!(text, " {} {}", unit.accelerators, work.accelerator_kind);
        }
    }
    text
}

#[track_caller]
fn check(text: &str, columns: Option<&str>, expected: &str) {
    let found = load(text, columns, false).map_or_else(|error| error, |trace| shown(&trace));
    assert_eq!(found, expected);
}

const SACCT: &str = "JobID|JobName|Partition|Submit|Start|End|ElapsedRaw|ReqCPUS|ReqMem|ReqTRES|State
11|a|gpu|2024-01-02T01:00:00|2024-01-02T01:00:10|2024-01-02T02:00:10|3600|8|32G|cpu=8,mem=32G,gres/gpu=2|COMPLETED
11.batch|batch||2024-01-02T01:00:10|2024-01-02T01:00:10|2024-01-02T02:00:10|3600|8|||COMPLETED
12|b|gpu|2024-01-02T01:05:00|Unknown|Unknown|0|8|32G|cpu=8,mem=32G,gres/gpu=1|PENDING
13|c|gpu|2024-01-02T01:06:00|2024-01-02T01:06:10|Unknown|60|8|32G|cpu=8,mem=32G|RUNNING
";

#[test]
fn slurm_accounting_has_any_columns_in_any_order() {
    check(
        SACCT,
        None,
        "Slurm sacct; 1 never ran, 1 had not ended, 1 rows that are no job
11 of \"\" at 1704157200 for 3600 s: 1 x 8000m 32768 MiB 2 nvidia.com/gpu",
    );
    // Two nodes, of which each has half; the allocated resources precede the requested ones.
    check(
        "State|Elapsed|End|Start|Submit|User|AllocTRES|ReqTRES|JobID
COMPLETED|1-00:00:30|1704243640|1704157210|1704157200|u|billing=9,cpu=16,gres/gpu:a100=4,mem=64G,node=2|cpu=8,mem=8G|7_3
",
        None,
        "Slurm sacct; nothing left out
7_3 of \"u\" at 1704157200 for 86430 s: 2 x 8000m 32768 MiB 2 nvidia.com/gpu",
    );
    // Older versions: memory for each core or node, without trackable resources.
    check(
        "JobID|Submit|Start|End|ElapsedRaw|NNodes|NCPUS|ReqMem
1|2020-01-02T01:00:00|2020-01-02T01:00:00|2020-01-02T01:01:00|60|2|8|2Gc
2|2020-01-02T01:00:00|2020-01-02T01:00:00|2020-01-02T01:01:00|60|2|8|2Gn
",
        None,
        "Slurm sacct; nothing left out
1 of \"\" at 1577926800 for 60 s: 2 x 4000m 8192 MiB
2 of \"\" at 1577926800 for 60 s: 2 x 4000m 2048 MiB",
    );
    check(
        "JobID|Submit|Start|End|ElapsedRaw|ReqCPUS\n1|soon|1|2|1|1\n",
        None,
        "FILE:2: column Submit: expected seconds, or a time such as 2024-01-31T09:30:00Z, got \"soon\"",
    );
    check(
        "JobID|Submit|State\n1|2|3\n",
        None,
        "FILE:1: runtime is missing, or start and end; the header has no column AllocCPUS, AllocGRES, AllocNodes, AllocTRES, Elapsed, ElapsedRaw, End, NCPUS, NNodes, ReqCPUS, ReqGRES, ReqMem, ReqNodes, ReqTRES, Start, User; its columns are jobid, submit, state",
    );
}

#[test]
fn slurm_json_of_all_versions_is_read() {
    check(
        r#"{"jobs":[
          {"job_id":11,"time":{"submission":1706693400,"start":1706693460,"end":1706697060,"elapsed":3600},
           "required":{"CPUs":8},"tres":{"requested":[{"type":"cpu","count":8}]}},
          {"job_id":12,"user":"u","time":{"submission":1706693400,"start":{"set":true,"number":1706693460},"end":1706697060},
           "tres":{"allocated":[{"type":"cpu","name":"","count":32},{"type":"mem","count":65536},{"type":"node","count":2},{"type":"gres","name":"gpu","count":4}]}},
          {"job_id":13,"time":{"submission":1706693400,"start":0,"end":0},"required":{"CPUs":8}},
          {"job_id":14,"time":{"submission":1706693400,"start":1706693460,"end":0},"required":{"CPUs":8}}
        ],"meta":{}}"#,
        None,
        "Slurm sacct JSON; 1 never ran, 1 had not ended
11 of \"\" at 1706693400 for 3600 s: 1 x 8000m 0 MiB
12 of \"u\" at 1706693400 for 3600 s: 2 x 16000m 32768 MiB 2 nvidia.com/gpu",
    );
}

/// A pod with a container that requests these resources. `status` is that of the pod.
fn pod(name: &str, requests: &str, status: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"batch","uid":"{name}","creationTimestamp":"2024-01-31T09:30:00Z"}},
        "spec":{{"containers":[{{"name":"c","resources":{{"requests":{requests}}}}}]}},"status":{status}}}"#
    )
}

const ENDED: &str = r#"{"phase":"Succeeded","startTime":"2024-01-31T09:32:00Z","containerStatuses":[{"state":{"terminated":{"startedAt":"2024-01-31T09:33:00Z","finishedAt":"2024-01-31T10:33:00Z"}}}]}"#;
const RUNNING: &str = r#"{"phase":"Running","containerStatuses":[{"state":{"running":{"startedAt":"2024-01-31T09:33:00Z"}}}]}"#;

#[test]
fn pods_of_kubectl_run_from_their_first_container_to_the_last_end() {
    let requests = r#"{"cpu":"4","memory":"8Gi","nvidia.com/gpu":"1"}"#;
    let list = |pods: &[String]| {
        format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, pods.join(","))
    };
    let p1 = "p1 of \"batch\" at 1706693400 for 3600 s: 1 x 4000m 8192 MiB 1 nvidia.com/gpu";
    check(
        &list(&[
            pod("p1", requests, ENDED),
            pod("p2", requests, RUNNING),
            pod("p3", requests, r#"{"phase":"Pending"}"#),
        ]),
        None,
        &format!("Kubernetes objects; 1 never ran, 1 had not ended\n{p1}"),
    );
    // Several snapshots, one after the other: a pod counts once, with the end that one of them saw.
    let snapshots =
        list(&[pod("p1", requests, RUNNING)]) + "\n" + &list(&[pod("p1", requests, ENDED)]);
    check(&snapshots, None, &format!("Kubernetes objects; nothing left out\n{p1}"));
    // A watch with its events.
    let events = [("ADDED", RUNNING), ("MODIFIED", ENDED)];
    let events = events.map(|(kind, status)| {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{}}}",
            pod("p1", requests, status).replace('\n', "")
        )
    });
    check(&events.join("\n"), None, &format!("Kubernetes objects; nothing left out\n{p1}"));
    let daemon = pod("d", requests, ENDED)
        .replace("\"uid\":\"d\"", r#""uid":"d","ownerReferences":[{"kind":"DaemonSet"}]"#);
    check(
        &list(&[pod("p1", requests, ENDED), daemon]),
        None,
        &format!("Kubernetes objects; 1 rows that are no job\n{p1}"),
    );
    check(
        &list(&[pod("p1", r#"{"cpu":"many"}"#, ENDED)]),
        None,
        "FILE: element 1: column cpu: expected a quantity, got \"many\"",
    );
    check(
        r#"{"items":[{"spec":{"contain"#,
        None,
        "FILE:1: the JSON ends early: print it again, or read what there is with --lenient",
    );
}

#[test]
fn the_requests_of_a_pod_are_those_of_the_scheduler() {
    let spec = r#"{"overhead":{"cpu":"100m"},
        "initContainers":[
          {"resources":{"requests":{"cpu":"200m"}},"restartPolicy":"Always"},
          {"resources":{"requests":{"cpu":"3","memory":"1Gi"}}}],
        "containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"memory":"2Gi"}}},{"resources":{}}]}"#;
    let with = |spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","creationTimestamp":"2024-01-31T09:30:00Z"}},"spec":{spec},"status":{ENDED}}}"#
        )
    };
    check(
        &with(spec),
        None,
        "Kubernetes objects; nothing left out
p of \"\" at 1706693400 for 3600 s: 1 x 3300m 2048 MiB",
    );
    // The requests of the whole pod.
    let of_pod = spec.replacen('{', r#"{"resources":{"requests":{"cpu":"5"}},"#, 1);
    check(
        &with(&of_pod),
        None,
        "Kubernetes objects; nothing left out
p of \"\" at 1706693400 for 3600 s: 1 x 5100m 2048 MiB",
    );
}

#[test]
fn jobs_of_kubectl_have_their_parallel_pods() {
    let job = |status: &str| {
        format!(
            r#"{{"kind":"Job","metadata":{{"name":"j","namespace":"n","creationTimestamp":"2024-01-31T09:30:00Z"}},
            "spec":{{"parallelism":4,"template":{{"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"2"}}}}}}]}}}}}},"status":{status}}}"#
        )
    };
    let ended = r#"{"startTime":"2024-01-31T09:31:00Z","completionTime":"2024-01-31T09:41:00Z"}"#;
    let failed = r#"{"startTime":"2024-01-31T09:31:00Z","conditions":[{"type":"Failed","status":"True","lastTransitionTime":"2024-01-31T09:36:00Z"}]}"#;
    let row = |seconds: u64| {
        format!(
            "Kubernetes objects; nothing left out\nj of \"n\" at 1706693400 for {seconds} s: 4 x 2000m 0 MiB"
        )
    };
    check(&job(ended), None, &row(600));
    check(&job(failed), None, &row(300));
    // The pods of a Job precede it.
    let both = format!(r#"{{"items":[{},{}]}}"#, job(ended), pod("p", r#"{"cpu":"2"}"#, ENDED));
    check(
        &both,
        None,
        "Kubernetes objects; 1 rows that are no job
p of \"batch\" at 1706693400 for 3600 s: 1 x 2000m 0 MiB",
    );
}

#[test]
fn phillys_job_log_has_the_gpus_of_the_last_attempt() {
    check(
        r#"[
 {"status":"Pass","vc":"a","jobid":"1","attempts":[{"start_time":"2024-01-02 01:00:05","end_time":"2024-01-02 02:00:05","detail":[{"ip":"m1","gpus":["gpu0","gpu1"]}]}],"submitted_time":"2024-01-02 01:00:00","user":"u1"},
 {"status":"Killed","vc":"a","jobid":"2","attempts":[{"start_time":"2024-01-02 01:10:05","end_time":"None","detail":[]}],"submitted_time":"2024-01-02 01:10:00","user":"u2"},
 {"status":"Killed","vc":"a","jobid":"3","attempts":[],"submitted_time":"2024-01-02 01:10:00","user":"u2"}
]"#,
        None,
        "Philly job log; 1 never ran, 1 had not ended
1 of \"u1\" at 1704157200 for 3600 s: 2 x 0m 0 MiB 1 nvidia.com/gpu",
    );
}

#[test]
fn accounting_of_other_schedulers_is_known_by_name() {
    check(
        "q:n1:g:u1:job:1:sge:0:1713406212:1713406812:1713409812:0:0:3000:1.0:0.1:1.0:0:0:0:0:1:0:0:0:0:0:0:0:1:1:NONE:d:pe:8:0:1.0:0.0:0.0:-l h_rt=3600:0.0:NONE:0:0:0\n",
        None,
        "Grid Engine accounting; nothing left out
1 of \"u1\" at 1713406212 for 3000 s: 1 x 8000m 0 MiB",
    );
    check(
        "04/18/2024 02:10:12;Q;7.server;queue=batch
04/18/2024 03:10:12;E;7.server;user=u group=g ctime=1713406212 qtime=1713406212 start=1713406812 end=1713409812 Resource_List.mem=32gb Resource_List.ncpus=8 Resource_List.ngpus=2 resources_used.walltime=00:50:00
",
        None,
        "PBS accounting; 1 rows that are no job
7.server of \"u\" at 1713406212 for 3000 s: 1 x 8000m 32768 MiB 2 nvidia.com/gpu",
    );
    // Torque lists the nodes, by number or by name, with the processors and GPUs of each.
    check(
        "04/18/2024 03:10:12;E;8.server;user=u ctime=1713406212 qtime=1713406212 start=1713406812 end=1713409812 Resource_List.nodes=2:ppn=8:gpus=1 Resource_List.walltime=01:00:00
04/18/2024 03:10:12;E;9.server;user=u ctime=1713406212 start=1713406812 end=1713409812 Resource_List.nodes=node1:ppn=4+1:ppn=2
",
        None,
        "PBS accounting; nothing left out
8.server of \"u\" at 1713406212 for 3000 s: 2 x 8000m 0 MiB 1 nvidia.com/gpu
9.server of \"u\" at 1713406212 for 3000 s: 2 x 3000m 0 MiB",
    );
    check(
        "\"JOB_NEW\" \"10.1\" 1713406212 7 1000 33554434 4 1713406212 0 0 0 \"u\" \"normal\"
\"JOB_FINISH\" \"10.1\" 1713409812 7 1000 33554434 4 1713406212 0 0 1713406812 \"u\" \"normal\" \"select[type == any]\" \"\"
",
        None,
        "LSF accounting; 1 rows that are no job
7 of \"u\" at 1713406212 for 3000 s: 1 x 4000m 0 MiB",
    );
    check(
        "ClusterId\tOwner\tQDate\tJobStartDate\tCompletionDate\tRequestCpus\tRequestMemory\tRequestGpus
7\tu\t1713406212\t1713406812\t1713409812\t4\t2048\tundefined
",
        None,
        "HTCondor history; nothing left out
7 of \"u\" at 1713406212 for 3000 s: 1 x 4000m 2048 MiB",
    );
    check(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u,vc,8,32,2,COMPLETED,2020-05-01 00:00:00,2020-05-01 00:01:00,2020-05-01 01:01:00,3600,60
8,u,vc,0,4,1,COMPLETED,2023-07-01 08:00:00+08:00,2023-07-01 08:00:00+08:00,2023-07-01 08:01:00+08:00,60.0,0
",
        None,
        "Helios and Acme; nothing left out
7 of \"u\" at 1588291200 for 3600 s: 2 x 16000m 0 MiB 4 nvidia.com/gpu
8 of \"u\" at 1688169600 for 60 s: 1 x 4000m 0 MiB",
    );
    check(
        "a,tensorflow,2,Terminated,1000000,1000600,600.0,29.296875,50,MISC
b,worker,1,Running,1000000,,600.0,29.296875,50,MISC
",
        None,
        "Alibaba GPU 2020 tasks; 1 had not ended, 1 shares of an accelerator counted as whole ones
a of \"\" at 1000000 for 600 s: 2 x 6000m 30000 MiB 1 nvidia.com/gpu",
    );
    check(
        "vm1,s1,d1,0,2591700,99.3,3.4,90.5,Delay-insensitive,2,3.5
vm2,s1,d1,300,900,99.3,3.4,90.5,Unknown,>24,>64
",
        None,
        "Azure virtual machines; nothing left out
vm1 of \"s1\" at 0 for 2591700 s: 1 x 2000m 3337 MiB
vm2 of \"s1\" at 300 for 600 s: 1 x 24000m 61035 MiB",
    );
}

/// An answer of Prometheus to the query for a metric of a pod.
fn answer(metric: &str, labels: &str, value: &str) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{"__name__":"{metric}","namespace":"batch","pod":"p1"{labels}}},"values":[[1706693400,"{value}"],[1706693460,"{value}"]]}}]}}}}"#
    )
}

#[test]
fn answers_of_prometheus_have_the_pods_once_all_metrics_are_there() {
    let answers = [
        answer("kube_pod_created", "", "1706693300"),
        answer("kube_pod_start_time", "", "1.706693400e9"),
        answer("kube_pod_completion_time", "", "1706697000"),
        answer(
            "kube_pod_container_resource_requests",
            r#","container":"a","resource":"cpu""#,
            "1.5",
        ),
        answer("kube_pod_container_resource_requests", r#","container":"b","resource":"cpu""#, "2"),
        answer(
            "kube_pod_container_resource_requests",
            r#","container":"a","resource":"nvidia_com_gpu""#,
            "1",
        ),
        // Other metrics, as of a query by a pattern.
        answer("kube_pod_status_phase", r#","phase":"Running""#, "1"),
        answer("kube_pod_info", r#","created_by_kind":"Job""#, "1"),
    ];
    check(
        &answers.join("\n"),
        None,
        "Prometheus query_range; nothing left out
p1 of \"batch\" at 1706693300 for 3600 s: 1 x 3500m 0 MiB 1 nvidia.com/gpu",
    );
    let bad = answers.join("\n").replace("\"1.5\"", "1.5");
    let error = load(&bad, None, false).unwrap_err();
    assert!(error.contains("column values: expected [TIME, \"NUMBER\"]"), "{error}");
}

#[test]
fn allocations_of_opencost_have_pods_over_windows() {
    let window = |number: u32, ends: &str| {
        let pod = |name: &str, kind: &str, end: &str| {
            format!(
                r#""{name}":{{"name":"{name}","properties":{{"cluster":"c","namespace":"batch","pod":"{name}","controllerKind":"{kind}"}},"window":{{"start":"2024-01-0{number}T00:00:00Z","end":"2024-01-0{}T00:00:00Z"}},"start":"2024-01-0{number}T06:00:00Z","end":"{end}","minutes":60,"cpuCoreRequestAverage":2,"ramByteRequestAverage":1073741824,"gpuCount":1}}"#,
                number + 1
            )
        };
        let idle = r#""__idle__":{"name":"__idle__","properties":{"cluster":"c"},"start":"2024-01-01T00:00:00Z","end":"2024-01-02T00:00:00Z","minutes":1440}"#;
        format!(
            "{{{},{},{},{idle}}}",
            pod("a", "job", ends),
            pod("b", "daemonset", ends),
            pod("c", "deployment", "2024-01-03T00:00:00Z")
        )
    };
    check(
        &format!(
            r#"{{"code":200,"data":[{},{}]}}"#,
            window(1, "2024-01-02T00:00:00Z"),
            window(2, "2024-01-02T07:00:00Z")
        ),
        None,
        "OpenCost allocations; 1 had not ended, 4 rows that are no job
a of \"batch\" at 1704088800 for 90000 s: 1 x 2000m 1024 MiB 1 nvidia.com/gpu",
    );
    // By container, after an empty window. The pod that still ran has the last end.
    let container = |pod: &str, name: &str, end: &str| {
        format!(
            r#""c/n/batch/{pod}/{name}":{{"properties":{{"namespace":"batch","pod":"{pod}","container":"{name}"}},"start":"2024-01-01T06:00:00Z","end":"{end}","minutes":60,"cpuCoreRequestAverage":2,"gpuCount":0.25,"window":{{"end":"2024-01-02T00:00:00Z"}}}}"#
        )
    };
    let ends = ["2024-01-01T07:00:00Z", "2024-01-01T15:07:00Z"];
    check(
        &format!(
            r#"{{"data":[{{}},null,{{{},{},{}}}]}}"#,
            container("a", "x", ends[0]),
            container("a", "y", ends[0]),
            container("b", "x", ends[1])
        ),
        None,
        "OpenCost allocations; 1 had not ended, 3 shares of an accelerator counted as whole ones
a of \"batch\" at 1704088800 for 3600 s: 1 x 4000m 0 MiB 2 nvidia.com/gpu",
    );
}

#[test]
fn workflows_of_argo_have_the_requests_that_their_pods_held() {
    check(
        r#"{"kind":"WorkflowList","items":[
{"metadata":{"name":"wf1","namespace":"n"},"status":{"startedAt":"2024-01-31T09:30:00Z","finishedAt":"2024-01-31T09:50:00Z","resourcesDuration":{"cpu":1200,"memory":2400},"nodes":{
 "wf1":{"type":"DAG","startedAt":"2024-01-31T09:30:00Z","finishedAt":"2024-01-31T09:50:00Z"},
 "wf1-1":{"type":"Pod","startedAt":"2024-01-31T09:30:00Z","finishedAt":"2024-01-31T09:40:00Z","resourcesDuration":{"cpu":1200,"memory":6000,"nvidia.com/gpu":600}},
 "wf1-2":{"type":"Pod","startedAt":"2024-01-31T09:40:00Z"}}}},
{"metadata":{"name":"wf2","namespace":"n"},"status":{"startedAt":"2024-01-31T09:30:00Z","finishedAt":"2024-01-31T09:50:00Z","resourcesDuration":{"cpu":1200,"memory":1200}}}]}"#,
        None,
        "Argo workflows; 1 had not ended, 2 with estimated requests
wf1-1 of \"n\" at 1706693400 for 600 s: 1 x 2000m 1000 MiB 1 nvidia.com/gpu
wf2 of \"n\" at 1706693400 for 1200 s: 1 x 1000m 100 MiB",
    );
    // Events of a watch: of a pod, the last one counts.
    let event = |steps: &str, ends: &str| {
        format!(
            r#"{{"type":"MODIFIED","object":{{"kind":"Workflow","metadata":{{"name":"wf","namespace":"n","uid":"1"}},"status":{{"startedAt":"2024-01-31T09:30:00Z"{ends}{steps}}}}}}}"#
        )
    };
    let steps = |ends: &str| {
        format!(
            r#","nodes":{{"wf-1":{{"type":"Pod","startedAt":"2024-01-31T09:30:00Z"{ends},"resourcesDuration":{{"cpu":1200}}}}}}"#
        )
    };
    let ends = r#","finishedAt":"2024-01-31T09:40:00Z""#;
    check(
        &[event("", ""), event(&steps(""), ""), event(&steps(ends), ends)].join("\n"),
        None,
        "Argo workflows; 1 with estimated requests
wf-1 of \"n\" at 1706693400 for 600 s: 1 x 2000m 0 MiB",
    );
}

#[test]
fn tasks_of_ray_have_what_they_require() {
    check(
        r#"[{"task_id":"t1","job_id":"01000000","state":"FINISHED","required_resources":{"CPU":1.5,"GPU":1.0},"creation_time_ms":1706693400000,"start_time_ms":1706693460000,"end_time_ms":1706693520500},
{"task_id":"t2","job_id":"01000000","state":"PENDING_NODE_ASSIGNMENT","required_resources":{"CPU":1.0},"creation_time_ms":1706693400000,"start_time_ms":null,"end_time_ms":null},
{"task_id":"t3","job_id":"01000000","state":"FINISHED","required_resources":{"GPU":0.25},"creation_time_ms":"2024-01-31 09:30:00.125000","start_time_ms":"2024-01-31 09:31:00.000000","end_time_ms":"2024-01-31 09:31:30.000000"}]"#,
        None,
        "Ray tasks; 1 never ran, 1 shares of an accelerator counted as whole ones
t1 of \"01000000\" at 1706693400 for 60 s: 1 x 1500m 0 MiB 1 nvidia.com/gpu
t3 of \"01000000\" at 1706693400 for 30 s: 1 x 0m 0 MiB 1 nvidia.com/gpu",
    );
    // The command line without --detail has no times. One task a line.
    let lines = r#"{"task_id":"t1","state":"FINISHED","required_resources":{"CPU":1.0},"creation_time_ms":null}
{"task_id":"t2","state":"FINISHED","required_resources":{"CPU":1.0},"creation_time_ms":null}"#;
    let error = load(lines, None, false).unwrap_err();
    assert!(
        error.contains("creation_time_ms: is missing: print the tasks with --detail"),
        "{error}"
    );
}

#[test]
fn events_of_google_2011_are_tasks() {
    check(
        "600000000,,3418309,0,,0,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,0
601000000,,3418309,1,,0,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,
602000000,,3418309,0,4155527081,1,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,0
700000000,,3418309,0,4155527081,2,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,0
700000000,,3418309,0,,0,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,0
900000000,,3418309,0,4155527081,4,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,0.125,0.0625,0.0004244,0
",
        None,
        "Google 2011 task events; nothing left out
3418309/0 of \"\" at 600 for 300 s: 1 x 12000m 24576 MiB
3418309/1 of \"\" at 601 for 299 s: 1 x 12000m 24576 MiB",
    );
}

#[test]
fn a_mapping_reads_every_delimited_file() {
    let expected = |name: &str| {
        format!(
            "columns of --columns; nothing left out\n{name} of \"\" at 100 for 5400 s: 1 x 1500m 2048 MiB 1 nvidia.com/gpu"
        )
    };
    let columns = "submit=Queued,runtime=Hours:h,cpu=Cores,memory=Mem:GiB,gpus=GPU";
    check("queued;hours;cores;mem;gpu\n100;1.5;1.5;2;1\n", Some(columns), &expected("2"));
    check("Mem\tGPU\tCores\tHours\tQueued\n2\t1\t1.5\t1.5\t100\n", Some(columns), &expected("2"));
    check("Queued Hours  Cores Mem GPU\n100 1.5  1.5 2 1\n", Some(columns), &expected("2"));
    // Positions, of a file without a header.
    let positions = "job=1,submit=2,runtime=3:h,cpu=4,memory=5:GiB,gpus=6";
    check("a|100|1.5|1.5|2|1\n", Some(positions), &expected("a"));
    // Amounts of the job, and of each of its pods.
    let pods = "submit=s,runtime=r,pods=p,cpu=c,memory=m:MiB/pod";
    check(
        "s,r,p,c,m\n0,60,4,10,512\n",
        Some(pods),
        "columns of --columns; nothing left out\n2 of \"\" at 0 for 60 s: 4 x 2500m 512 MiB",
    );
    check(
        "a,b\n1,2\n",
        Some(columns),
        "FILE:1: submit is missing, the time at which a job arrived; the header has no column Cores, GPU, Hours, Mem, Queued; its columns are a, b",
    );
    check(
        "Queued,Hours,Cores,GPU\n",
        Some(columns),
        "FILE:1: the header has no column Mem; its columns are queued, hours, cores, gpu",
    );
}

#[test]
fn what_lacks_the_jobs_is_answered_with_the_command_that_has_them() {
    let table = [
        (r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, "the list is empty"),
        (
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"batch","pod":"p1","resource":"cpu"},"values":[[1706693400,"4"]]}]}}"#,
            "the answers of Prometheus have kube_pod_container_resource_requests, and a job needs kube_pod_created, kube_pod_start_time, kube_pod_completion_time: put their answers into one file, or read them with prophet trace fetch --prometheus URL",
        ),
        (
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"batch","pod":"p1"},"values":[[1706693400,"4"]]}]}}"#,
            "the answers of Prometheus have no metric of a pod under its name",
        ),
        (
            r#"{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}"#,
            "Prometheus answered with an error: exceeded maximum resolution",
        ),
        (
            r#"{"kind":"WorkflowTemplateList","items":[{"metadata":{"name":"wf1"},"spec":{"templates":[]}}]}"#,
            "a template of Argo has no run",
        ),
        (
            r#"[{"submission_id":"raysubmit_1","entrypoint":"python train.py","start_time":1}]"#,
            "a job of Ray does not list what its tasks request: print them with ray list tasks",
        ),
        (
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n",
            "squeue lists the jobs of this moment: print those that ended with sacct",
        ),
        (
            "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode\n",
            "the columns of sacct are cut to a width: print them with sacct --parsable2",
        ),
        ("NAME   READY   STATUS      RESTARTS   AGE\n", "kubectl printed a table for people"),
        ("{\"a\": 1}", "the JSON has no jobs of a known form"),
        ("[1, 2]", "the JSON has no jobs of a known form"),
        ("{\"items\": []}", "the list is empty: no jobs were found where it was printed"),
        ("JobID|JobName|State|ExitCode\n", "the columns of sacct lack the submission"),
    ];
    for (text, expected) in table {
        let error = load(text, None, false).unwrap_err();
        assert!(error.starts_with("FILE") && error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_row_with_other_columns_than_the_header_is_an_error() {
    let columns = "submit=s,runtime=r,cpu=c";
    for row in ["0,60", "0,60,4,99"] {
        let error = load(&format!("s,r,c\n{row}\n"), Some(columns), false).unwrap_err();
        assert_eq!(error, format!("FILE:2: expected 3 columns, got {}", row.split(',').count()));
    }
    check("0,60\n", Some("submit=1,runtime=2,cpu=3"), "FILE:1: expected 3 columns, got 2");
    check(
        "s,r,c\n0,60,4\n",
        Some("submit=s,runtime=r,cpu=c,skip=State:CANCELLED*"),
        "FILE:1: the header has no column State; its columns are s, r, c",
    );
    // A time of 0 is the begin of the log, unless times are those of a clock.
    check(
        "s,st,e,c\n0,0,600,4\n",
        Some("submit=s,start=st,end=e,cpu=c"),
        "columns of --columns; nothing left out\n2 of \"\" at 0 for 600 s: 1 x 4000m 0 MiB",
    );
}

#[test]
fn rows_that_say_less_than_they_seem_to() {
    // A job that runs, without the column of its end; GPUs of several kinds; memory without a unit.
    check(
        "JobID|Submit|ElapsedRaw|AllocTRES|State
1|2024-01-02T01:00:00|60|cpu=8,mem=4096,gres/gpu:a100=2,gres/gpu:h100=2|COMPLETED
2|2024-01-02T01:00:00|60|cpu=8,mem=32G|RUNNING
",
        None,
        "Slurm sacct; 1 had not ended
1 of \"\" at 1704157200 for 60 s: 1 x 8000m 4096 MiB 4 nvidia.com/gpu",
    );
    // Jobs one per line, with typed GPUs.
    check(
        r#"{"job_id":1,"time":{"submission":1706693400,"start":1706693460,"end":1706697060},"tres":{"allocated":[{"type":"cpu","count":8},{"type":"gres","name":"gpu:a100","count":4}]}}
{"job_id":2,"time":{"submission":1706693400,"start":1706693460,"end":1706697060},"required":{"CPUs":8}}"#,
        None,
        "Slurm sacct JSON; nothing left out
1 of \"\" at 1706693400 for 3600 s: 1 x 8000m 0 MiB 4 nvidia.com/gpu
2 of \"\" at 1706693400 for 3600 s: 1 x 8000m 0 MiB",
    );
    // A pod that was restarted, and one that was evicted.
    let restarted = r#"{"phase":"Succeeded","startTime":"2024-01-31T09:32:00Z","containerStatuses":[{"restartCount":3,"state":{"terminated":{"startedAt":"2024-01-31T10:30:00Z","finishedAt":"2024-01-31T10:32:00Z"}}}]}"#;
    let evicted = r#"{"phase":"Failed","startTime":"2024-01-31T09:32:00Z","conditions":[{"type":"Ready","lastTransitionTime":"2024-01-31T09:42:00Z"}]}"#;
    let requests = r#"{"cpu":"1"}"#;
    let list = format!(
        r#"{{"items":[{},{}]}}"#,
        pod("a", requests, restarted),
        pod("b", requests, evicted)
    );
    check(
        &list,
        None,
        "Kubernetes objects; nothing left out
a of \"batch\" at 1706693400 for 3600 s: 1 x 1000m 0 MiB
b of \"batch\" at 1706693400 for 600 s: 1 x 1000m 0 MiB",
    );
    // A compact list without a line break is no log with a line per job.
    let pods: Vec<String> =
        (0..5_000).map(|at| pod(&format!("p{at}"), requests, ENDED).replace('\n', "")).collect();
    let list = format!(r#"{{"items":[{}]}}"#, pods.join(","));
    assert!(list.len() > 1 << 20);
    assert_eq!(load(&list, None, false).unwrap().jobs.len(), 5_000);
    // The events of a watch that was stopped.
    let cut = format!("{}\n{{\"type\":\"MODIFIED\",\"obj", pod("p", requests, ENDED));
    assert_eq!(load(&cut, None, true).unwrap().jobs.len(), 1);
    // Grid Engine begins with comments, and repeats a parallel job for each of its tasks.
    let task = |task: &str| {
        format!(
            "q:n1:g:u1:job:1:sge:0:1713406212:1713406812:1713409812:0:0:3000:1.0:0.1:1.0:0:0:0:0:1:0:0:0:0:0:0:0:1:1:NONE:d:pe:8:0:1.0:0.0:0.0:-l h_rt=3600:0.0:{task}:0:0:0\n"
        )
    };
    check(
        &format!("# Version: 8.1.9\n#\n# DO NOT MODIFY\n{}{}", task("NONE"), task("1.n2")),
        None,
        "Grid Engine accounting; 1 rows that are no job
1 of \"u1\" at 1713406212 for 3000 s: 1 x 8000m 0 MiB",
    );
    // PBS counts the CPUs of all nodes.
    check(
        "04/18/2024 03:10:12;E;7.server;user=u ctime=1713406212 start=1713406812 end=1713409812 Resource_List.ncpus=64 Resource_List.nodect=2\n",
        None,
        "PBS accounting; nothing left out
7.server of \"u\" at 1713406212 for 3000 s: 2 x 32000m 0 MiB",
    );
    // A share of a GPU.
    check(
        "s,r,g\n0,60,50\n",
        Some("submit=s,runtime=r,gpus=g:percent"),
        "columns of --columns; 1 shares of an accelerator counted as whole ones
2 of \"\" at 0 for 60 s: 1 x 0m 0 MiB 1 nvidia.com/gpu",
    );
}

#[test]
fn parts_of_a_log_that_were_put_together_repeat_the_header() {
    let part = "submit,runtime,cpu_millis\n0,60,1000\n";
    assert_eq!(load(&part.repeat(3), None, false).unwrap().jobs.len(), 3);
}

/// A faulty element is left out, if that is wished, and the first one is named.
#[test]
fn bad_elements_are_skipped_and_counted() {
    let list = format!(
        r#"{{"items":[{},{}]}}"#,
        pod("p1", r#"{"cpu":"x"}"#, ENDED),
        pod("p2", r#"{"cpu":"1"}"#, ENDED)
    );
    let trace = load(&list, None, true).unwrap();
    assert_eq!(
        trace.notes.to_string(),
        "1 bad lines (the first: element 1: column cpu: expected a quantity, got \"x\")"
    );
}

/// Overlapping exports, older columns, and names with quotes, which sacct does not double.
#[test]
fn slurm_exports_may_overlap_and_have_older_columns() {
    let header = "JobIDRaw|JobName|Submit|Start|End|ElapsedRaw|AllocCPUS|AllocGRES|ReqMem\n";
    let row = |job: u32, name: &str, gres: &str, hour: u32| {
        format!(
            "{job}|{name}|2024-01-02T0{hour}:00:00|2024-01-02T0{hour}:00:10|2024-01-02T0{hour}:30:10|1800|8|{gres}|?\n"
        )
    };
    let first = [row(1, "\"train", "gpu:4", 1), row(1, "\"train", "gpu:4", 2)].concat();
    let second = [row(1, "\"train", "gpu:4", 2), row(2, "b", "gpu:v100:2(S:0-1)", 3)].concat();
    check(
        &[header, &first, header, &second].concat(),
        None,
        "Slurm sacct; 1 rows that are no job
1 of \"\" at 1704157200 for 1800 s: 1 x 8000m 0 MiB 4 nvidia.com/gpu
1 of \"\" at 1704160800 for 1800 s: 1 x 8000m 0 MiB 4 nvidia.com/gpu
2 of \"\" at 1704164400 for 1800 s: 1 x 8000m 0 MiB 2 nvidia.com/gpu",
    );
    let job = r#"{"jobs": [{"job_id": 1, "time": {"submission": 1000, "start": 1010, "end": 1110, "elapsed": 100}, "required": {"CPUs": 4}}]}"#;
    check(
        &[job, job].concat(),
        None,
        "Slurm sacct JSON; 1 rows that are no job
1 of \"\" at 1000 for 100 s: 1 x 4000m 0 MiB",
    );
}

/// Torque writes its default of one processor beside the nodes that a job asks for.
#[test]
fn the_largest_number_of_processors_of_pbs_counts() {
    check(
        "04/18/2024 03:10:12;E;8.server;user=u ctime=1713406212 start=1713406812 end=1713409812 Resource_List.ncpus=1 Resource_List.nodect=2 Resource_List.nodes=2:sb:ppn=8\n",
        None,
        "PBS accounting; nothing left out
8.server of \"u\" at 1713406212 for 3000 s: 2 x 8000m 0 MiB",
    );
}

/// Kubernetes writes the year 1970 as the start of a container that could not start.
#[test]
fn a_container_that_could_not_start_has_not_run_since_1970() {
    let ended = |reason: &str, started: &str| {
        format!(
            r#"{{"kind": "Pod", "apiVersion": "v1", "metadata": {{"name": "a", "creationTimestamp": "2024-01-31T09:30:00Z"}},
            "spec": {{"containers": [{{"resources": {{"requests": {{"cpu": "4"}}}}}}]}},
            "status": {{"phase": "Failed", "startTime": "2024-01-31T09:32:00Z", "containerStatuses": [{{"state": {{"terminated":
            {{"reason": "{reason}", "startedAt": "{started}", "finishedAt": "2024-01-31T09:40:00Z"}}}}}}]}}}}"#
        )
    };
    let ran = |seconds: u32| {
        format!(
            "Kubernetes objects; nothing left out\na of \"\" at 1706693400 for {seconds} s: 1 x 4000m 0 MiB"
        )
    };
    check(&ended("StartError", "1970-01-01T00:00:00Z"), None, &ran(480));
    check(&ended("Error", "2024-01-31T09:33:00Z"), None, &ran(420));
    // Other objects may come first.
    let service = r#"{"kind": "Service", "apiVersion": "v1", "metadata": {}, "spec": {}}"#;
    let listed = format!("{service}{}", ended("Error", "2024-01-31T09:33:00Z"));
    check(&listed, None, &ran(420).replace("nothing left out", "1 rows that are no job"));
    let alone = load(service, None, false).unwrap_err();
    assert!(alone.contains("the objects are neither pods nor Jobs"), "{alone}");
}

#[test]
fn tasks_of_ray_may_fail_before_they_start() {
    let task = |times: &str| {
        format!(
            r#"{{"task_id": "t", "job_id": "j", "type": "NORMAL_TASK", "state": "FAILED", "required_resources": {{"CPU": 1}}, {times}}}"#
        )
    };
    let failed = r#""creation_time_ms": 1706693400000.0, "start_time_ms": null, "end_time_ms": 1706693460000.0"#;
    let ran = r#""creation_time_ms": 1706693400000.0, "start_time_ms": 1706693460000.0, "end_time_ms": 1706697060000.0"#;
    check(
        &format!("[{}, {}]", task(failed), task(ran)),
        None,
        "Ray tasks; 1 never ran
t of \"j\" at 1706693400 for 3600 s: 1 x 1000m 0 MiB",
    );
}

/// A Prometheus that keeps its own labels, a pod with slices of GPUs, and one that could not start.
#[test]
fn metrics_of_pods_may_have_exported_labels_and_other_accelerators() {
    let series = |metric: &str, value: u64, more: &str| {
        format!(
            r#"{{"metric": {{"__name__": "{metric}", "namespace": "monitoring", "pod": "ksm", "exported_namespace": "ml",
            "exported_pod": "a", {more} "uid": "u"}}, "value": [1706700000, "{value}"]}}"#
        )
    };
    let request = |container: &str, resource: &str, value| {
        let more = format!(r#""exported_container": "{container}", "resource": "{resource}","#);
        series("kube_pod_container_resource_requests", value, &more)
    };
    let all = [
        series("kube_pod_created", 1_706_693_400, ""),
        series("kube_pod_container_state_started", 0, ""),
        series("kube_pod_start_time", 1_706_693_460, ""),
        series("kube_pod_completion_time", 1_706_697_060, ""),
        request("one", "cpu", 2),
        request("two", "cpu", 2),
        request("two", "nvidia_com_mig_1g_5gb", 2),
    ];
    check(
        &format!(
            r#"{{"status": "success", "data": {{"resultType": "vector", "result": [{}]}}}}"#,
            all.join(",")
        ),
        None,
        "Prometheus query_range; nothing left out
a of \"ml\" at 1706693400 for 3600 s: 1 x 4000m 0 MiB 2 nvidia.com/mig-1g-5gb",
    );
}

#[test]
fn what_is_left_out_of_a_file_is_an_error_that_says_what_to_print() {
    let argo =
        r#"{"kind": "Workflow", "metadata": {"name": "a"}, "status": {"compressedNodes": "H4s"}}"#;
    let error = load(argo, None, false).unwrap_err();
    assert!(error.contains("status.compressedNodes: the workflow is too large"), "{error}");
    let cost = r#"{"data": [{"ml": {"properties": {"namespace": "ml"}, "minutes": 5, "start": "2024-01-31T09:00:00Z", "end": "2024-01-31T10:00:00Z"}}]}"#;
    let error = load(cost, None, false).unwrap_err();
    assert!(error.contains("ask for aggregate=pod"), "{error}");
}

#[test]
fn amounts_and_times_have_more_forms() {
    check(
        "s,b,e,c\n2024/01/31 09:30:00,1/31/2024 9:31,1/31/2024 9:32:00 AM,500m\n2024/01/31 09:30:00,-1,-1,1\n",
        Some("submit=s,start=b,end=e,cpu=c"),
        "columns of --columns; 1 never ran
2 of \"\" at 1706693400 for 60 s: 1 x 500m 0 MiB",
    );
}
