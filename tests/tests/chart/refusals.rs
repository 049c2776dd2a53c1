//! Values that the chart refuses.

use tests::helm;

/// The value as `KEY=JSON`, and parts of the message: its path, and why it is refused. Several
/// values are separated by spaces.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str)] = &[
    ("replica=2", "", "additional properties 'replica' not allowed"),
    ("replicas=0", "/replicas", "minimum"),
    (r#"replicas="2""#, "/replicas", "want integer"),
    (r#"image={"repository":""}"#, "/image/repository", "minLength"),
    (r#"image={"registry":"a"}"#, "/image", "additional properties 'registry' not allowed"),
    (r#"image.digest="sha256:12""#, "/image/digest", "does not match pattern"),
    (r#"image.pullPolicy="Sometimes""#, "/image/pullPolicy", "must be one of"),
    (r#"imagePullSecrets=["registry"]"#, "/imagePullSecrets/0", "want object"),
    (r#"policyNamespaces=["Batch"]"#, "/policyNamespaces/0", "does not match pattern"),
    (r#"policyNamespaces=["a","a"]"#, "/policyNamespaces", "equal"),
    (r#"nodeGroupAutoDiscovery="tag=a""#, "/nodeGroupAutoDiscovery", "does not match pattern"),
    (r#"catalog={"instanceTypes":[]}"#, "/catalog/instanceTypes", "minItems"),
    (r#"catalog={"types":[]}"#, "/catalog", "additional properties 'types' not allowed"),
    (r#"catalog={"instanceTypes":[{"pricePerHour":1}]}"#, "/catalog/instanceTypes/0", "missing property 'name'"),
    (r#"prices=[{"family":"m5"}]"#, "/prices/0", "'oneOf' failed"),
    (r#"prices=[{"family":"m5","percent":72,"pricePerHour":1}]"#, "/prices/0", "'oneOf' failed"),
    (r#"prices=[{"percent":-1}]"#, "/prices/0/percent", "minimum"),
    (r#"podAddresses=["prefixes"]"#, "/podAddresses/0", "value must be one of"),
    (r#"prices=[{"reservation":{"id":"r-1"}}]"#, "/prices/0", "does not match pattern"),
    (
        r#"prices=[{"reservation":{"id":"cr-1"},"zone":"a"}]"#,
        "/prices/0/zone",
        "false schema",
    ),
    (
        r#"prices=[{"reservation":{"id":"cr-1"},"capacityType":"reserved"}]"#,
        "/prices/0/capacityType",
        "false schema",
    ),
    (r#"prices=[{"capacityType":"reserved","percent":9}]"#, "/prices/0", "/prices/0"),
    (r#"startupTaints="a""#, "/startupTaints", "want array"),
    (r#"launchLatency="3min""#, "/launchLatency", "does not match pattern"),
    ("launchLatency=180", "/launchLatency", "want string"),
    ("expendablePodsPriorityCutoff=-5", "/expendablePodsPriorityCutoff", "maximum"),
    (r#"ceilings.placeholders="many""#, "/ceilings/placeholders", "want null or integer"),
    ("ceilings.placeholders=-1", "/ceilings/placeholders", "minimum"),
    ("ceilings.dollarsPerHour=-1", "/ceilings/dollarsPerHour", "minimum"),
    ("ceilings.writesPerMinute=9", "/ceilings/writesPerMinute", "minimum"),
    ("ceilings.nodes=1", "/ceilings", "additional properties 'nodes' not allowed"),
    (r#"warmHostPathPrefix="data""#, "/warmHostPathPrefix", "does not match pattern"),
    (r#"policies=[{"name":"a"}]"#, "/policies/0", "missing property 'spec'"),
    (r#"policies=[{"name":"A","spec":{}}]"#, "/policies/0/name", "does not match pattern"),
    (r#"policies=[{"name":"a","namespace":"b","spec":{}}]"#, "", "the namespace b of the policy a is not in policyNamespaces"),
    (r#"history.s3="bucket""#, "/history/s3", "does not match pattern"),
    (r#"history.s3="s3://a" history.persistentVolumeClaim="b""#, "", "history.s3 and history.persistentVolumeClaim are both set"),
    (r#"history.volume.size="much""#, "/history/volume/size", "does not match pattern"),
    (r#"history.recordUsage="yes""#, "/history/recordUsage", "want boolean"),
    ("history.retentionDays=7", "/history/retentionDays", "minimum"),
    (r#"model="s3://bucket""#, "/model", "does not match pattern"),
    (r#"model="s3://bucket/""#, "/model", "does not match pattern"),
    (r#"model="s3://bucket/a/""#, "/model", "does not match pattern"),
    (r#"model="network.onnx""#, "/model", "does not match pattern"),
    (r#"retraining.enabled="yes""#, "/retraining/enabled", "want boolean"),
    ("retraining.cron=1", "/retraining", "additional properties 'cron' not allowed"),
    (r#"retraining.schedule="weekly""#, "/retraining/schedule", "does not match pattern"),
    (r#"retraining.image={"repository":""}"#, "/retraining/image/repository", "minLength"),
    (r#"retraining.policy="batch""#, "/retraining/policy", "does not match pattern"),
    (r#"retraining.window="9d""#, "/retraining/window", "does not match pattern"),
    (r#"retraining.window="2w""#, "/retraining/window", "does not match pattern"),
    (r#"retraining.trainArgs=["steps"]"#, "/retraining/trainArgs/0", "does not match pattern"),
    (r#"retraining.resources={"cpu":1}"#, "/retraining/resources", "additional properties 'cpu' not allowed"),
    (r#"retraining.enabled=true model="s3://b/own.onnx""#, "", "retraining.enabled needs history.s3 or history.persistentVolumeClaim"),
    (r#"retraining.enabled=true history.s3="s3://b/p""#, "", "retraining.enabled needs model"),
    (r#"fleet.results="results""#, "/fleet/results", "does not match pattern"),
    ("fleet.shards=0", "/fleet/shards", "minimum"),
    ("fleet.enabled=true", "", "fleet.enabled needs fleet.results"),
    (r#"crds="yes""#, "/crds", "want object"),
    (r#"crds.keep="no""#, "/crds/keep", "want boolean"),
    ("priorityClass.value=2000000000", "/priorityClass/value", "maximum"),
    ("serviceAccount.create=false", "", "serviceAccount.name is empty"),
    (r#"serviceAccount.annotations={"a":1}"#, "/serviceAccount/annotations/a", "want string"),
    (r#"log.format="yaml""#, "/log/format", "must be one of"),
    (r#"resources={"memory":"1Gi"}"#, "/resources", "additional properties 'memory' not allowed"),
    (r#"resources.limits.memory="1GB""#, "/resources/limits/memory", "does not match pattern"),
    (r#"livenessProbe={"periodSeconds":0}"#, "/livenessProbe/periodSeconds", "minimum"),
    (r#"podLabels={"app.kubernetes.io/name":"a"}"#, "/podLabels/app.kubernetes.io~1name", "false schema"),
    (r#"podAnnotations={"a":true}"#, "/podAnnotations/a", "want string"),
    (r#"extraArgs=["onnx"]"#, "/extraArgs/0", "does not match pattern"),
    (r#"extraEnv=[{"value":"a"}]"#, "/extraEnv/0", "missing property 'name'"),
    (r#"env=[{"name":"a"}]"#, "", "additional properties 'env' not allowed"),
    (r#"extraVolumes=[{"name":"history","emptyDir":{}}]"#, "/extraVolumes/0/name", "not"),
    (r#"extraVolumeMounts=[{"name":"a","mountPath":"models"}]"#, "/extraVolumeMounts/0/mountPath", "does not match pattern"),
    (r#"extraVolumeMounts=[{"name":"a","mountPath":"/a"}]"#, "", "extraVolumeMounts is set, but extraVolumes is empty"),
    (r#"tolerations=[{"effect":"Never"}]"#, "/tolerations/0/effect", "must be one of"),
    (r#"affinity={"zone":"a"}"#, "/affinity", "additional properties 'zone' not allowed"),
    (r#"topologySpreadConstraints=[{"topologyKey":"a"}]"#, "/topologySpreadConstraints/0", "missing properties"),
    (r#"podDisruptionBudget.maxUnavailable="one""#, "/podDisruptionBudget/maxUnavailable", "does not match pattern"),
    ("service.port=0", "/service/port", "minimum"),
    (r#"networkPolicy.egress.apiServer.cidrs=["10.0.0.1"]"#, "/networkPolicy/egress/apiServer/cidrs/0", "does not match pattern"),
    ("networkPolicy.egress.apiServer.cidrs=[]", "/networkPolicy/egress/apiServer/cidrs", "minItems"),
    ("networkPolicy.egress.internet=true", "/networkPolicy/egress", "additional properties 'internet' not allowed"),
    ("serviceMonitor.enabled=true podMonitor.enabled=true", "", "serviceMonitor and podMonitor are both enabled"),
    (r#"tls.secretName="Web""#, "/tls/secretName", "does not match pattern"),
    ("authentication.enabled=true", "", "authentication.enabled requires tls.secretName"),
    (r#"tls.secretName="web" authentication.enabled=true podMonitor.enabled=true"#, "", "podMonitor.tokenSecret is empty"),
    (r#"authentication.readers=[{"kind":"ServiceAccount","name":"a"}]"#, "/authentication/readers/0", "missing property 'namespace'"),
    (r#"authentication.readers=[{"kind":"Pod","name":"a"}]"#, "/authentication/readers/0/kind", "must be one of"),
    (r#"extraVolumes=[{"name":"tls","emptyDir":{}}]"#, "/extraVolumes/0/name", "not"),
    (r#"serviceMonitor.tokenSecret={"name":"a"}"#, "/serviceMonitor/tokenSecret", "key"),
    (r#"serviceMonitor.interval="30""#, "/serviceMonitor/interval", "does not match pattern"),
    (r#"prometheusRule.disabled=["absent"]"#, "/prometheusRule/disabled/0", "does not match pattern"),
    (r#"grafanaDashboard.labels=["a"]"#, "/grafanaDashboard/labels", "want object"),
    (r#"podAddresses=["custom-networking"]"#, "", "podAddresses needs nodeGroupAutoDiscovery"),
    (r#"awsPrices=true catalog={"instanceTypes":[{"name":"a","pricePerHour":1}]}"#, "", "catalog and awsPrices are both set"),
    (r#"nodeGroupAutoDiscovery="asg:tag=a" catalog={"instanceTypes":[{"name":"a","pricePerHour":1}]}"#, "", "catalog and nodeGroupAutoDiscovery are both set"),
];

#[test]
fn bad_values_are_refused_with_their_path_and_the_reason() {
    let mut wrong = Vec::new();
    for (values, path, reason) in ROWS {
        let split: Vec<&str> = values.split_whitespace().collect();
        match helm::rendered(&split) {
            Ok(_) => wrong.push(format!("{values}: not refused")),
            Err(error) => {
                let message = format!("{error:#}");
                if !message.contains(path) || !message.contains(reason) {
                    wrong.push(format!("{values}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
