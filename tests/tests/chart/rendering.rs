//! What values render to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use tests::helm;
use tests::installed::workload;

/// A CronJob that retrains the model in S3.
const RETRAINING: &str = r#"retraining.enabled=true model="s3://b/own.onnx" history.s3="s3://b/p""#;

/// A Job that runs twenty shards. Its name ends with a part of the hash of its values.
const FLEET: &str = r#"fleet.enabled=true fleet.results="s3://b/fleet" fleet.shards=20"#;

/// A CronJob that retrains the model on a volume.
const ON_VOLUMES: &str = r#"retraining.enabled=true model="/models/own.onnx" history.persistentVolumeClaim="efs" extraVolumes=[{"name":"published","persistentVolumeClaim":{"claimName":"own"}}] extraVolumeMounts=[{"name":"published","mountPath":"/models"}]"#;

/// The path of the pod of a CronJob.
const OF_CRON_JOB: &str = "/spec/jobTemplate/spec/template/spec";

/// The path of the controller's container in its workload.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// The values as `KEY=JSON`, separated by spaces; an object as `KIND NAME`; the JSON pointer of a
/// field, in which `@` stands for the controller's container and `%` for the pod of a CronJob; and
/// the field as JSON. `-` stands for a field, or with an empty pointer for an object, that does not
/// exist. A field that begins with `has` is a list with the element.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str, &str)] = &[
    // Replicas and their history.
    ("", "StatefulSet prophet", "/spec/replicas", "2"),
    ("", "StatefulSet prophet", "/spec/podManagementPolicy", r#""Parallel""#),
    ("", "StatefulSet prophet", "/spec/volumeClaimTemplates/0/spec/accessModes", r#"["ReadWriteOnce"]"#),
    ("", "StatefulSet prophet", "/spec/volumeClaimTemplates/0/spec/storageClassName", "-"),
    ("", "StatefulSet prophet", "/spec/persistentVolumeClaimRetentionPolicy", r#"{"whenDeleted":"Retain","whenScaled":"Retain"}"#),
    ("", "StatefulSet prophet", "/spec/template/spec/volumes", "-"),
    ("", "StatefulSet prophet", "@/args", r#"has "--data=/var/lib/prophet""#),
    ("", "StatefulSet prophet", "@/args", r#"has "--own-history""#),
    ("", "StatefulSet prophet", "@/args", r#"has "--leader-elect""#),
    (r#"history.volume={"size":"9Gi","storageClassName":"gp3"}"#, "StatefulSet prophet", "/spec/volumeClaimTemplates/0/spec/resources/requests/storage", r#""9Gi""#),
    (r#"history.volume={"storageClassName":"gp3"}"#, "StatefulSet prophet", "/spec/volumeClaimTemplates/0/spec/storageClassName", r#""gp3""#),
    (r#"history.s3="s3://b/p""#, "StatefulSet prophet", "", "-"),
    (r#"history.s3="s3://b/p""#, "Deployment prophet", "@/args", r#"has "--data=s3://b/p""#),
    (r#"history.s3="s3://b/p""#, "Deployment prophet", "/spec/strategy/type", r#""RollingUpdate""#),
    (r#"history.s3="s3://b/p""#, "Deployment prophet", "/spec/template/spec/volumes", r#"[{"name":"history","emptyDir":{}}]"#),
    (r#"history.persistentVolumeClaim="efs""#, "Deployment prophet", "/spec/template/spec/volumes", r#"[{"name":"history","persistentVolumeClaim":{"claimName":"efs"}}]"#),
    (r#"history.persistentVolumeClaim="efs""#, "Deployment prophet", "/spec/strategy/type", r#""RollingUpdate""#),
    (r#"history.persistentVolumeClaim="ebs" replicas=1"#, "Deployment prophet", "/spec/strategy/type", r#""Recreate""#),
    ("history.volume.enabled=false", "Deployment prophet", "/spec/template/spec/volumes", r#"[{"name":"history","emptyDir":{}}]"#),
    ("history.retentionDays=90", "StatefulSet prophet", "@/args", r#"has "--retention-days=90""#),
    ("history.recordNames=true", "StatefulSet prophet", "@/args", r#"has "--record-names""#),
    ("history.recordUsage=true", "StatefulSet prophet", "@/args", r#"has "--record-names""#),
    ("history.recordUsage=true", "StatefulSet prophet", "@/args", r#"has "--record-usage""#),
    ("history.recordUsage=true", "ClusterRole prophet-observe", "/rules", r#"has {"apiGroups":["metrics.k8s.io"],"resources":["pods"],"verbs":["list"]}"#),
    // Pods.
    ("", "StatefulSet prophet", "/spec/template/spec/securityContext/runAsNonRoot", "true"),
    ("", "StatefulSet prophet", "/spec/template/spec/securityContext/seccompProfile/type", r#""RuntimeDefault""#),
    ("", "StatefulSet prophet", "@/securityContext", r#"{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"capabilities":{"drop":["ALL"]}}"#),
    ("", "StatefulSet prophet", "/spec/template/spec/priorityClassName", r#""prophet-controller""#),
    ("", "StatefulSet prophet", "/spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/topologyKey", r#""kubernetes.io/hostname""#),
    ("", "StatefulSet prophet", "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels", r#"{"app.kubernetes.io/name":"prophet","app.kubernetes.io/instance":"prophet"}"#),
    ("", "StatefulSet prophet", "@/livenessProbe/httpGet/path", r#""/healthz""#),
    ("", "StatefulSet prophet", "@/readinessProbe/httpGet/path", r#""/readyz""#),
    ("", "StatefulSet prophet", "@/resources", r#"{"requests":{"cpu":"100m","memory":"256Mi"},"limits":{"memory":"1Gi"}}"#),
    ("livenessProbe.failureThreshold=9", "StatefulSet prophet", "@/livenessProbe/failureThreshold", "9"),
    (r#"resources.limits.memory="4Gi""#, "StatefulSet prophet", "@/resources/limits/memory", r#""4Gi""#),
    ("terminationGracePeriodSeconds=90", "StatefulSet prophet", "/spec/template/spec/terminationGracePeriodSeconds", "90"),
    (r#"podAnnotations={"a":"b"}"#, "StatefulSet prophet", "/spec/template/metadata/annotations", r#"{"a":"b"}"#),
    (r#"podLabels={"team":"batch"}"#, "StatefulSet prophet", "/spec/template/metadata/labels/team", r#""batch""#),
    (r#"podLabels={"team":"batch"}"#, "StatefulSet prophet", "/spec/selector/matchLabels/team", "-"),
    (r#"imagePullSecrets=[{"name":"registry"}]"#, "StatefulSet prophet", "/spec/template/spec/imagePullSecrets", r#"[{"name":"registry"}]"#),
    (r#"imagePullSecrets=[{"name":"registry"}]"#, "Job prophet-remove-placeholders", "/spec/template/spec/imagePullSecrets", r#"[{"name":"registry"}]"#),
    (r#"nodeGroupAutoDiscovery="asg:tag=a""#, "Job prophet-remove-placeholders", "@/args", r#"has "--node-group-auto-discovery=asg:tag=a""#),
    (r#"extraEnv=[{"name":"AWS_REGION","value":"eu-central-1"}]"#, "Job prophet-remove-placeholders", "@/env", r#"[{"name":"AWS_REGION","value":"eu-central-1"}]"#),
    (r#"extraArgs=["--onnx-runtime=/lib/onnx.so"]"#, "StatefulSet prophet", "@/args", r#"has "--onnx-runtime=/lib/onnx.so""#),
    (r#"extraEnv=[{"name":"AWS_REGION","value":"eu-central-1"}]"#, "StatefulSet prophet", "@/env", r#"has {"name":"AWS_REGION","value":"eu-central-1"}"#),
    (r#"nodeSelector={"a":"b"}"#, "StatefulSet prophet", "/spec/template/spec/nodeSelector", r#"{"a":"b"}"#),
    (r#"tolerations=[{"key":"a","operator":"Exists"}]"#, "StatefulSet prophet", "/spec/template/spec/tolerations/0/key", r#""a""#),
    (r#"affinity={"nodeAffinity":{}}"#, "StatefulSet prophet", "/spec/template/spec/affinity", r#"{"nodeAffinity":{}}"#),
    ("topologySpreadConstraints=[]", "StatefulSet prophet", "/spec/template/spec/topologySpreadConstraints", "-"),
    (r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"x":"y"}}}]"#, "StatefulSet prophet", "/spec/template/spec/topologySpreadConstraints/0/labelSelector", r#"{"matchLabels":{"x":"y"}}"#),
    // The image.
    ("", "StatefulSet prophet", "@/image", r#""ghcr.io/prophet/prophet:0.1.0""#),
    (r#"image={"repository":"r","tag":"t"}"#, "StatefulSet prophet", "@/image", r#""r:t""#),
    (r#"image={"repository":"r","digest":"sha256:0123456789012345678901234567890123456789012345678901234567890123"}"#, "StatefulSet prophet", "@/image", r#""r@sha256:0123456789012345678901234567890123456789012345678901234567890123""#),
    (r#"global={"imageRegistry":"mirror.example:5000/k8s"}"#, "StatefulSet prophet", "@/image", r#""mirror.example:5000/k8s/prophet/prophet:0.1.0""#),
    (r#"global={"imageRegistry":"mirror.example"} image={"repository":"team/prophet"}"#, "StatefulSet prophet", "@/image", r#""mirror.example/team/prophet:0.1.0""#),
    (r#"global={"imagePullSecrets":["a"]}"#, "StatefulSet prophet", "/spec/template/spec/imagePullSecrets", r#"[{"name":"a"}]"#),
    (r#"global={"imagePullSecrets":[{"name":"a"}]} imagePullSecrets=[{"name":"b"}]"#, "StatefulSet prophet", "/spec/template/spec/imagePullSecrets", r#"[{"name":"a"},{"name":"b"}]"#),
    // Names, labels, annotations and objects of the operator.
    (r#"fullnameOverride="headroom""#, "StatefulSet headroom", "/spec/serviceName", r#""headroom""#),
    (r#"fullnameOverride="headroom""#, "StatefulSet headroom", "/spec/template/spec/serviceAccountName", r#""headroom""#),
    (r#"fullnameOverride="headroom""#, "Job headroom-remove-placeholders", "/spec/template/spec/serviceAccountName", r#""headroom""#),
    (r#"fullnameOverride="headroom""#, "Pod headroom-test", "/spec/containers/0/args/2", r#""http://headroom.prophet:8080/readyz""#),
    (r#"nameOverride="headroom""#, "StatefulSet prophet-headroom", "/spec/selector/matchLabels/app.kubernetes.io~1name", r#""headroom""#),
    (r#"commonLabels={"team":"batch"}"#, "ClusterRole prophet-observe", "/metadata/labels/team", r#""batch""#),
    (r#"commonLabels={"team":"batch"}"#, "StatefulSet prophet", "/spec/template/metadata/labels/team", r#""batch""#),
    (r#"commonLabels={"team":"batch"}"#, "StatefulSet prophet", "/spec/selector/matchLabels/team", "-"),
    (r#"commonLabels={"team":"batch"}"#, "Pod prophet-test", "/metadata/labels/team", r#""batch""#),
    (r#"commonLabels={"team":"batch"} podLabels={"team":"own"}"#, "StatefulSet prophet", "/spec/template/metadata/labels/team", r#""own""#),
    (r#"commonLabels={"release":"platform"} serviceMonitor={"enabled":true,"labels":{"release":"prometheus"}}"#, "ServiceMonitor prophet", "/metadata/labels/release", r#""prometheus""#),
    (r#"commonLabels={"app.kubernetes.io/managed-by":"platform"}"#, "Service prophet", "/metadata/labels/app.kubernetes.io~1managed-by", r#""Helm""#),
    (r#"commonLabels={"team":"a"} policies=[{"name":"batch","spec":{},"labels":{"team":"b"}}]"#, "OverprovisioningPolicy batch", "/metadata/labels/team", r#""b""#),
    ("commonLabels=null commonAnnotations=null imagePullSecrets=null podLabels=null service.annotations=null global=null", "StatefulSet prophet", "/spec/replicas", "2"),
    (r#"commonAnnotations={"a":"b"}"#, "Role prophet-act", "/metadata/annotations", r#"{"a":"b"}"#),
    (r#"commonAnnotations={"a":"b"}"#, "CustomResourceDefinition overprovisioningpolicies.prophet.dev", "/metadata/annotations", r#"{"a":"b","helm.sh/resource-policy":"keep"}"#),
    (r#"commonAnnotations={"a":"b"} service.annotations={"a":"own"}"#, "Service prophet", "/metadata/annotations", r#"{"a":"own"}"#),
    (r#"commonAnnotations={"a":"b"}"#, "StatefulSet prophet", "/spec/template/metadata/annotations", r#"{"a":"b"}"#),
    (r#"extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{.Release.Name}}-own"}}]"#, "ConfigMap prophet-own", "/apiVersion", r#""v1""#),
    // Security contexts, and the network of the pods.
    ("podSecurityContext.runAsUser=null", "StatefulSet prophet", "/spec/template/spec/securityContext/runAsUser", "-"),
    ("podSecurityContext.runAsUser=null", "StatefulSet prophet", "/spec/template/spec/securityContext/runAsNonRoot", "true"),
    ("podSecurityContext.runAsUser=null", "Job prophet-remove-placeholders", "/spec/template/spec/securityContext/runAsUser", "-"),
    ("podSecurityContext.runAsUser=null", "Pod prophet-test", "/spec/securityContext/runAsUser", "-"),
    ("containerSecurityContext.runAsUser=7", "StatefulSet prophet", "@/securityContext/runAsUser", "7"),
    ("", "StatefulSet prophet", "/spec/template/spec/dnsPolicy", "-"),
    (r#"dnsPolicy="Default" hostNetwork=true"#, "StatefulSet prophet", "/spec/template/spec/dnsPolicy", r#""Default""#),
    (r#"dnsPolicy="Default" hostNetwork=true"#, "StatefulSet prophet", "/spec/template/spec/hostNetwork", "true"),
    (r#"hostNetwork=true history.s3="s3://b/p""#, "Deployment prophet", "/spec/strategy/rollingUpdate/maxSurge", "0"),
    (r#"listenAddress="[::]""#, "StatefulSet prophet", "@/args", r#"has "--listen=[::]:8080""#),
    // Roles.
    ("", "ClusterRole prophet-view", "/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-view", r#""true""#),
    ("", "ClusterRole prophet-edit", "/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-view", "-"),
    ("", "ClusterRole prophet-edit", "/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-edit", r#""true""#),
    ("rbac.aggregate=false", "ClusterRole prophet-edit", "", "-"),
    ("rbac.create=false", "ClusterRole prophet-observe", "", "-"),
    ("rbac.create=false", "RoleBinding prophet-elect", "", "-"),
    ("rbac.create=false", "ClusterRole prophet-view", "", "-"),
    // What the controller reads, and the operator's limits.
    (r#"policyNamespaces=["a","prophet"]"#, "StatefulSet prophet", "@/args", r#"has "--namespace=prophet,a""#),
    (r#"policyNamespaces=["a"]"#, "Role prophet-act", "/metadata/namespace", r#""prophet""#),
    ("awsPrices=true", "StatefulSet prophet", "@/args", r#"has "--aws-prices=true""#),
    ("awsPrices=false", "StatefulSet prophet", "@/args", r#"has "--aws-prices=false""#),
    (r#"nodeGroupAutoDiscovery="asg:tag=a,b=c""#, "StatefulSet prophet", "@/args", r#"has "--node-group-auto-discovery=asg:tag=a,b=c""#),
    (r#"catalog={"instanceTypes":[{"name":"m5.large","pricePerHour":1,"cpuMillis":2000}]}"#, "StatefulSet prophet", "@/args", r#"has "--catalog=/etc/prophet/catalog.yaml""#),
    (r#"catalog={"instanceTypes":[{"name":"m5.large","pricePerHour":1,"cpuMillis":2000}]}"#, "StatefulSet prophet", "/spec/template/spec/volumes", r#"[{"name":"catalog","configMap":{"name":"prophet-catalog"}}]"#),
    (r#"catalog={"instanceTypes":[{"name":"a","pricePerHour":1,"memoryBytes":824633720832}]}"#, "ConfigMap prophet-catalog", "/data/catalog.yaml", r#""instanceTypes:\n- memoryBytes: 824633720832\n  name: a\n  pricePerHour: 1\n""#),
    ("", "ConfigMap prophet-catalog", "", "-"),
    (r#"prices=[{"family":"m5","percent":72}]"#, "StatefulSet prophet", "@/args", r#"has "--prices=/etc/prophet/prices.yaml""#),
    (r#"prices=[{"family":"m5","percent":72}]"#, "StatefulSet prophet", "/spec/template/spec/volumes", r#"[{"name":"catalog","configMap":{"name":"prophet-catalog"}}]"#),
    (r#"prices=[{"family":"m5","percent":72}]"#, "ConfigMap prophet-catalog", "/data", r#"{"prices.yaml":"prices:\n- family: m5\n  percent: 72\n"}"#),
    ("", "StatefulSet prophet", "@/args", r#"has "--require-limits""#),
    (r#"ceilings={"placeholders":20}"#, "StatefulSet prophet", "@/args", r#"has "--max-placeholders=20""#),
    (r#"ceilings={"dollarsPerHour":12.5}"#, "StatefulSet prophet", "@/args", r#"has "--max-dollars-per-hour=12.5""#),
    (r#"ceilings={"instanceTypes":["m5.*"]}"#, "StatefulSet prophet", "@/args", r#"has "--allowed-instance-type=m5.*""#),
    (r#"ceilings={"placeholderPriority":-3}"#, "StatefulSet prophet", "@/args", r#"has "--max-placeholder-priority=-3""#),
    (r#"ceilings={"writesPerMinute":60}"#, "StatefulSet prophet", "@/args", r#"has "--max-writes-per-minute=60""#),
    ("expendablePodsPriorityCutoff=-2000000", "StatefulSet prophet", "@/args", r#"has "--expendable-pods-priority-cutoff=-2000000""#),
    (
        r#"nodeGroupAutoDiscovery="asg:tag=a" podAddresses=["prefix-delegation","custom-networking"]"#,
        "StatefulSet prophet",
        "@/args",
        r#"has "--pod-addresses=prefix-delegation,custom-networking""#,
    ),
    (r#"placeholderImage="a.b/pause:1""#, "StatefulSet prophet", "@/args", r#"has "--placeholder-image=a.b/pause:1""#),
    (
        r#"global={"imageRegistry":"a.b"}"#,
        "StatefulSet prophet",
        "@/args",
        r#"has "--placeholder-image=a.b/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a""#,
    ),
    (r#"startupTaints=["a/b"]"#, "StatefulSet prophet", "@/args", r#"has "--startup-taint=a/b""#),
    (r#"preemptingSchedulers=["volcano"]"#, "StatefulSet prophet", "@/args", r#"has "--preempting-scheduler=volcano""#),
    (r#"warmHostPathPrefix="/data""#, "StatefulSet prophet", "@/args", r#"has "--warm-host-path-prefix=/data""#),
    // Models: in the image, in S3, on a volume.
    (r#"model="s3://bucket/network.onnx""#, "StatefulSet prophet", "@/args", r#"has "--model=s3://bucket/network.onnx""#),
    (r#"model="s3://bucket/a/b.onnx""#, "StatefulSet prophet", "@/args", r#"has "--model=s3://bucket/a/b.onnx""#),
    (r#"model="/models/a.onnx" extraVolumes=[{"name":"models","image":{"reference":"r:1"}}] extraVolumeMounts=[{"name":"models","mountPath":"/models","readOnly":true}]"#, "StatefulSet prophet", "@/args", r#"has "--model=/models/a.onnx""#),
    (r#"extraVolumes=[{"name":"models","image":{"reference":"r:1"}}] extraVolumeMounts=[{"name":"models","mountPath":"/models","readOnly":true}]"#, "StatefulSet prophet", "@/volumeMounts", r#"has {"name":"models","mountPath":"/models","readOnly":true}"#),
    (r#"extraVolumes=[{"name":"models","image":{"reference":"r:1"}}]"#, "StatefulSet prophet", "/spec/template/spec/volumes", r#"[{"name":"models","image":{"reference":"r:1"}}]"#),
    // Retraining.
    ("", "Job prophet-fleet-833ae756", "", "-"),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/completionMode", r#""Indexed""#),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/completions", "20"),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/backoffLimitPerIndex", "3"),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/podFailurePolicy/rules/0", r#"{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]}"#),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/template/spec/containers/0/args", r#"["fleet","run","--results=s3://b/fleet"]"#),
    (FLEET, "Job prophet-fleet-833ae756", "/spec/template/spec/automountServiceAccountToken", "false"),
    ("", "CronJob prophet-retraining", "", "-"),
    (RETRAINING, "CronJob prophet-retraining", "/spec/schedule", r#""17 3 * * 0""#),
    (RETRAINING, "CronJob prophet-retraining", "/spec/concurrencyPolicy", r#""Forbid""#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/image", r#""ghcr.io/prophet/prophet-training:0.1.0""#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/command", r#"["/models/retrain"]"#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/args", r#"["s3://b/p","s3://b/own.onnx","/tmp/retraining"]"#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/env", r#"[{"name":"WINDOW","value":"14d"},{"name":"POLICY","value":""}]"#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/resources", r#"{"requests":{"cpu":"1","memory":"2Gi"},"limits":{"memory":"6Gi"}}"#),
    (RETRAINING, "CronJob prophet-retraining", "%/containers/0/securityContext", r#"{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"capabilities":{"drop":["ALL"]}}"#),
    (RETRAINING, "CronJob prophet-retraining", "%/securityContext/runAsNonRoot", "true"),
    (RETRAINING, "CronJob prophet-retraining", "%/securityContext/seccompProfile/type", r#""RuntimeDefault""#),
    (RETRAINING, "CronJob prophet-retraining", "%/automountServiceAccountToken", "false"),
    (RETRAINING, "CronJob prophet-retraining", "%/volumes", r#"[{"name":"work","emptyDir":{}}]"#),
    (r#"retraining={"enabled":true,"schedule":"@daily","window":"21d","policy":"batch.night","trainArgs":["--steps=500"]} model="s3://b/own.onnx" history.s3="s3://b/p""#, "CronJob prophet-retraining", "%/containers/0/args", r#"has "--steps=500""#),
    (r#"retraining={"enabled":true,"window":"21d","policy":"batch.night"} model="s3://b/own.onnx" history.s3="s3://b/p""#, "CronJob prophet-retraining", "%/containers/0/env", r#"[{"name":"WINDOW","value":"21d"},{"name":"POLICY","value":"batch.night"}]"#),
    (r#"retraining={"enabled":true,"schedule":"@daily"} model="s3://b/own.onnx" history.s3="s3://b/p""#, "CronJob prophet-retraining", "/spec/schedule", r#""@daily""#),
    (r#"retraining={"enabled":true,"resources":{"limits":{"nvidia.com/gpu":1}},"nodeSelector":{"gpu":"yes"},"tolerations":[{"key":"gpu","operator":"Exists"}]} model="s3://b/own.onnx" history.s3="s3://b/p""#, "CronJob prophet-retraining", "%/tolerations", r#"[{"key":"gpu","operator":"Exists"}]"#),
    (r#"retraining={"enabled":true,"resources":{"limits":{"nvidia.com/gpu":1}}} model="s3://b/own.onnx" history.s3="s3://b/p""#, "CronJob prophet-retraining", "%/containers/0/resources/limits/nvidia.com~1gpu", "1"),
    (ON_VOLUMES, "CronJob prophet-retraining", "%/containers/0/args", r#"["/var/lib/prophet","/models/own.onnx","/tmp/retraining"]"#),
    (ON_VOLUMES, "CronJob prophet-retraining", "%/containers/0/volumeMounts", r#"[{"name":"work","mountPath":"/tmp"},{"name":"history","mountPath":"/var/lib/prophet","readOnly":true},{"name":"published","mountPath":"/models"}]"#),
    (ON_VOLUMES, "CronJob prophet-retraining", "%/volumes", r#"has {"name":"history","persistentVolumeClaim":{"claimName":"efs"}}"#),
    (ON_VOLUMES, "CronJob prophet-retraining", "%/volumes", r#"has {"name":"published","persistentVolumeClaim":{"claimName":"own"}}"#),
    // Policies.
    (r#"policies=[{"name":"batch","spec":{"mode":"Act"}}]"#, "OverprovisioningPolicy batch", "/spec", r#"{"mode":"Act"}"#),
    (r#"policies=[{"name":"batch","spec":{"mode":"Act"}}]"#, "OverprovisioningPolicy batch", "/metadata/namespace", r#""prophet""#),
    (r#"policies=[{"name":"batch","spec":{}}]"#, "OverprovisioningPolicy batch", "/metadata/annotations/helm.sh~1hook", r#""post-install,post-upgrade,post-rollback""#),
    (r#"policiesByHook=false policies=[{"name":"batch","spec":{}}]"#, "OverprovisioningPolicy batch", "/metadata/annotations", "-"),
    (r#"policyNamespaces=["a"] policies=[{"name":"batch","namespace":"a","spec":{},"labels":{"x":"y"}}]"#, "OverprovisioningPolicy batch", "/metadata/labels/x", r#""y""#),
    // Identity, priority and availability.
    (r#"serviceAccount.annotations={"eks.amazonaws.com/role-arn":"arn"}"#, "ServiceAccount prophet", "/metadata/annotations", r#"{"eks.amazonaws.com/role-arn":"arn"}"#),
    (r#"serviceAccount={"create":false,"name":"other"}"#, "ServiceAccount prophet", "", "-"),
    (r#"serviceAccount={"create":false,"name":"other"}"#, "StatefulSet prophet", "/spec/template/spec/serviceAccountName", r#""other""#),
    ("", "PriorityClass prophet-controller", "/value", "1000000000"),
    ("", "PriorityClass prophet-placeholder-10", "/value", "-10"),
    ("priorityClass.create=false", "PriorityClass prophet-controller", "", "-"),
    ("priorityClass.create=false", "StatefulSet prophet", "/spec/template/spec/priorityClassName", "-"),
    (r#"priorityClassName="system-cluster-critical""#, "PriorityClass prophet-controller", "", "-"),
    (r#"priorityClassName="system-cluster-critical""#, "StatefulSet prophet", "/spec/template/spec/priorityClassName", r#""system-cluster-critical""#),
    ("", "PodDisruptionBudget prophet", "/spec/maxUnavailable", "1"),
    ("podDisruptionBudget.enabled=false", "PodDisruptionBudget prophet", "", "-"),
    // The network.
    ("", "Service prophet", "/spec/ports/0/port", "8080"),
    ("", "NetworkPolicy prophet", "", "-"),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/policyTypes", r#"["Ingress","Egress"]"#),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/egress/0/ports/0/port", "53"),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/egress/1/ports", r#"[{"port":443},{"port":6443}]"#),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/egress/3/to/0/ipBlock/cidr", r#""169.254.170.23/32""#),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/egress/1/to", r#"[{"ipBlock":{"cidr":"0.0.0.0/0"}},{"ipBlock":{"cidr":"::/0"}}]"#),
    (r#"networkPolicy={"enabled":true,"egress":{"apiServer":{"cidrs":["10.0.0.1/32"]},"aws":{"cidrs":[]}}}"#, "NetworkPolicy prophet", "/spec/egress/1/to", r#"[{"ipBlock":{"cidr":"10.0.0.1/32"}}]"#),
    (r#"networkPolicy={"enabled":true,"egress":{"aws":{"cidrs":[]}}}"#, "NetworkPolicy prophet", "/spec/egress/2/ports/0/port", "80"),
    (r#"networkPolicy={"enabled":true,"metricsFrom":[{"podSelector":{}}]}"#, "NetworkPolicy prophet", "/spec/ingress/0/from", r#"[{"podSelector":{}}]"#),
    (r#"networkPolicy={"enabled":true,"metricsFrom":[{"podSelector":{}}]}"#, "NetworkPolicy prophet", "/spec/ingress/1/from/0/podSelector/matchLabels", r#"{"app.kubernetes.io/name":"prophet-test","app.kubernetes.io/instance":"prophet"}"#),
    ("networkPolicy.enabled=true", "NetworkPolicy prophet", "/spec/ingress/1", "-"),
    // TLS and authentication.
    ("", "StatefulSet prophet", "@/livenessProbe/httpGet/scheme", r#""HTTP""#),
    ("", "ClusterRole prophet-review", "", "-"),
    ("", "ClusterRole prophet-read", "", "-"),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "@/args", r#"has "--tls-cert=/etc/prophet-tls/tls.crt""#),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "@/args", r#"has "--tls-key=/etc/prophet-tls/tls.key""#),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "@/volumeMounts", r#"has {"name":"tls","mountPath":"/etc/prophet-tls","readOnly":true}"#),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "/spec/template/spec/volumes", r#"[{"name":"tls","secret":{"secretName":"web"}}]"#),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "@/livenessProbe/httpGet/scheme", r#""HTTPS""#),
    (r#"tls.secretName="web""#, "StatefulSet prophet", "@/readinessProbe/httpGet/scheme", r#""HTTPS""#),
    (r#"tls.secretName="web""#, "Pod prophet-test", "/spec/containers/0/args/2", r#""https://prophet.prophet:8080/readyz""#),
    (r#"tls.secretName="web" serviceMonitor.enabled=true"#, "ServiceMonitor prophet", "/spec/endpoints/0/scheme", r#""https""#),
    (r#"tls.secretName="web" serviceMonitor.enabled=true"#, "ServiceMonitor prophet", "/spec/endpoints/0/tlsConfig", r#"{"ca":{"secret":{"name":"web","key":"ca.crt"}},"serverName":"prophet.prophet.svc"}"#),
    (r#"tls.secretName="web" serviceMonitor.enabled=true"#, "ServiceMonitor prophet", "/spec/endpoints/0/bearerTokenFile", "-"),
    (r#"tls.secretName="web" serviceMonitor={"enabled":true,"tlsConfig":{"insecureSkipVerify":true}}"#, "ServiceMonitor prophet", "/spec/endpoints/0/tlsConfig", r#"{"insecureSkipVerify":true}"#),
    (r#"tls.secretName="web" authentication.enabled=true"#, "StatefulSet prophet", "@/args", r#"has "--authenticate""#),
    (r#"tls.secretName="web" authentication.enabled=true"#, "ClusterRole prophet-review", "/rules/0", r#"{"apiGroups":["authentication.k8s.io"],"resources":["tokenreviews"],"verbs":["create"]}"#),
    (r#"tls.secretName="web" authentication.enabled=true"#, "ClusterRoleBinding prophet-read", "", "-"),
    (r#"tls.secretName="web" authentication={"enabled":true,"readers":[{"kind":"ServiceAccount","name":"p","namespace":"m"},{"kind":"Group","name":"sre"}]}"#, "ClusterRoleBinding prophet-read", "/subjects", r#"[{"kind":"ServiceAccount","name":"p","namespace":"m"},{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"sre"}]"#),
    (r#"tls.secretName="web" authentication.enabled=true serviceMonitor.enabled=true"#, "ServiceMonitor prophet", "/spec/endpoints/0/bearerTokenFile", r#""/var/run/secrets/kubernetes.io/serviceaccount/token""#),
    (r#"tls.secretName="web" authentication.enabled=true podMonitor={"enabled":true,"tokenSecret":{"name":"t","key":"k"}}"#, "PodMonitor prophet", "/spec/podMetricsEndpoints/0/authorization", r#"{"type":"Bearer","credentials":{"key":"k","name":"t"}}"#),
    // `helm test`.
    ("", "Pod prophet-test", "/metadata/annotations/helm.sh~1hook", r#""test""#),
    ("", "Pod prophet-test", "/spec/containers/0/args", r#"["health","--wait=1m","http://prophet.prophet:8080/readyz"]"#),
    ("", "Pod prophet-test", "/spec/automountServiceAccountToken", "false"),
    ("service.port=80", "Pod prophet-test", "/spec/containers/0/args/2", r#""http://prophet.prophet:80/readyz""#),
    (r#"imagePullSecrets=[{"name":"registry"}]"#, "Pod prophet-test", "/spec/imagePullSecrets", r#"[{"name":"registry"}]"#),
    (r#"image={"repository":"r","tag":"t"}"#, "Pod prophet-test", "/spec/containers/0/image", r#""r:t""#),
    (r#"nodeSelector={"a":"b"}"#, "Pod prophet-test", "/spec/nodeSelector", r#"{"a":"b"}"#),
    (r#"tolerations=[{"key":"a","operator":"Exists"}]"#, "Pod prophet-test", "/spec/tolerations/0/key", r#""a""#),
    // Monitoring.
    ("", "ServiceMonitor prophet", "", "-"),
    ("", "PodMonitor prophet", "", "-"),
    ("", "PrometheusRule prophet", "", "-"),
    ("", "ConfigMap prophet-dashboard", "", "-"),
    (r#"serviceMonitor={"enabled":true,"labels":{"release":"p"}}"#, "ServiceMonitor prophet", "/metadata/labels/release", r#""p""#),
    (r#"serviceMonitor={"enabled":true,"relabelings":[{"action":"drop"}],"metricRelabelings":[{"action":"keep"}]}"#, "ServiceMonitor prophet", "/spec/endpoints/0/relabelings", r#"[{"action":"drop"}]"#),
    (r#"serviceMonitor={"enabled":true,"metricRelabelings":[{"action":"keep"}]}"#, "ServiceMonitor prophet", "/spec/endpoints/0/metricRelabelings", r#"[{"action":"keep"}]"#),
    (r#"podMonitor={"enabled":true,"interval":"1m"}"#, "PodMonitor prophet", "/spec/podMetricsEndpoints/0/interval", r#""1m""#),
    ("prometheusRule.enabled=true", "PrometheusRule prophet", "/spec/groups/0/rules/3/expr", r#""count by (cluster, namespace) (prophet_leader) < 2""#),
    ("prometheusRule.enabled=true replicas=1", "PrometheusRule prophet", "/spec/groups/0/rules/3/alert", r#""ProphetPolicyInvalid""#),
    (r#"prometheusRule={"enabled":true,"disabled":["ProphetAbsent"]}"#, "PrometheusRule prophet", "/spec/groups/0/rules/0/alert", r#""ProphetNoLeader""#),
    (r#"prometheusRule={"enabled":true,"alertLabels":{"team":"batch"}}"#, "PrometheusRule prophet", "/spec/groups/0/rules/0/labels", r#"{"severity":"warning","team":"batch"}"#),
    ("grafanaDashboard.enabled=true", "ConfigMap prophet-dashboard", "/metadata/labels/grafana_dashboard", r#""1""#),
    // Definitions and the uninstallation.
    ("", "CustomResourceDefinition overprovisioningpolicies.prophet.dev", "/metadata/annotations/helm.sh~1resource-policy", r#""keep""#),
    ("crds.keep=false", "CustomResourceDefinition overprovisioningpolicies.prophet.dev", "/metadata/annotations", "-"),
    ("crds.enabled=false", "CustomResourceDefinition overprovisioningpolicies.prophet.dev", "", "-"),
    ("priorityClasses.enabled=false", "PriorityClass prophet-placeholder-10", "", "-"),
    ("", "Job prophet-remove-placeholders", "/metadata/annotations/helm.sh~1hook", r#""pre-delete""#),
    ("uninstall.removePlaceholders=false", "Job prophet-remove-placeholders", "", "-"),
];

/// The objects of each rendering in `ROWS`, by its values. Several tests use them.
pub(crate) static RENDERED: LazyLock<BTreeMap<&str, Vec<Value>>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for (values, ..) in ROWS {
        all.entry(*values).or_insert_with(|| render(values));
    }
    all
});

#[test]
fn values_render_to_these_fields() {
    let mut wrong = Vec::new();
    for (values, object, pointer, expected) in ROWS {
        let pointer = pointer.replace('@', CONTAINER).replace('%', OF_CRON_JOB);
        let found = find(&RENDERED[values], object, &pointer);
        if !matches(found, expected) {
            let found = found.map_or("nothing".to_owned(), ToString::to_string);
            wrong.push(format!("{values}: {object}{pointer} is {found}, and not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) fn render(values: &str) -> Vec<Value> {
    let values: Vec<&str> = values.split_whitespace().collect();
    helm::rendered_with_hooks(&values).unwrap_or_else(|error| panic!("{values:?}: {error:#}"))
}

fn find<'a>(objects: &'a [Value], object: &str, pointer: &str) -> Option<&'a Value> {
    let (kind, name) = object.split_once(' ').unwrap();
    let named = |of: &&Value| of["kind"] == kind && of["metadata"]["name"] == name;
    objects.iter().find(named)?.pointer(pointer)
}

fn matches(found: Option<&Value>, expected: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    match (found, expected.strip_prefix("has ")) {
        (None, _) => expected == "-",
        (Some(_), _) if expected == "-" => false,
        (Some(found), None) => *found == json(expected),
        (Some(found), Some(element)) => {
            found.as_array().is_some_and(|list| list.contains(&json(element)))
        }
    }
}

/// Every rendering has exactly one workload, whose labels its selector, the Service, the budget and
/// the monitors select.
#[test]
fn selectors_select_the_pods_of_the_controller_only() {
    for values in ["", r#"history.s3="s3://b/p""#] {
        let values = format!(
            r#"{values} serviceMonitor.enabled=true networkPolicy.enabled=true podLabels={{"a":"b"}}"#
        );
        let objects = render(&values);
        let [template] = objects.iter().filter_map(workload).collect::<Vec<_>>()[..] else {
            panic!("expected one workload");
        };
        let labels = &template["metadata"]["labels"];
        let selectors = [
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector/matchLabels"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ];
        let hook = objects.iter().find(|object| object["kind"] == "Job").unwrap();
        for (kind, pointer) in selectors {
            let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
            let selector = object.pointer(pointer).unwrap().as_object().unwrap();
            let selects =
                |labels: &Value| selector.iter().all(|(key, value)| labels[key] == *value);
            assert!(selects(labels), "{kind}");
            let removal = &hook["spec"]["template"]["metadata"]["labels"];
            // The NetworkPolicy applies to both.
            assert_eq!(selects(removal), kind == "NetworkPolicy", "{kind}");
        }
    }
}

/// The names of the main objects by the name of the release. Each name of an object, and each
/// label, is short enough for the API server.
#[test]
fn the_names_of_objects_contain_the_name_of_the_chart_and_are_short_enough() {
    let longest = "a".repeat(53);
    let cut = "a".repeat(52);
    for (release, name) in [
        ("prophet", "prophet"),
        ("platform", "platform-prophet"),
        ("my-prophet-2", "my-prophet-2"),
        (longest.as_str(), cut.as_str()),
    ] {
        let chart = helm::chart();
        let retraining = RETRAINING.split_whitespace();
        let others = FLEET.split_whitespace();
        let others = others.chain(["networkPolicy.enabled=true", "serviceMonitor.enabled=true"]);
        let all = retraining.chain(others);
        let mut arguments = vec!["template", release, chart.to_str().unwrap()];
        arguments.extend(all.flat_map(|value| ["--set-json", value]));
        let objects = helm::offline(&arguments).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&objects).unwrap();
        let names = |kind: &str| {
            let of_kind = objects.iter().filter(|object| object["kind"] == kind);
            of_kind.map(|object| object["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("Deployment"), [name]);
        let jobs = names("Job");
        assert!(jobs.iter().any(|name| name.ends_with("-remove-placeholders")), "{jobs:?}");
        assert!(jobs.iter().any(|name| name.contains("-fleet-")), "{jobs:?}");
        for object in objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let most = match object["kind"].as_str().unwrap_or_default() {
                // Kubernetes adds a suffix to their names.
                "Deployment" | "CronJob" => 52,
                "Job" | "Pod" | "Service" => 63,
                _ => 253,
            };
            assert!(name.len() <= most, "{name}");
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            assert!(labels.clone().all(|(_, label)| label.as_str().unwrap().len() <= 63), "{name}");
        }
    }
}

/// A parent chart has this one among its dependencies, with a condition.
#[test]
fn the_chart_can_be_a_dependency_with_a_condition() {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path();
    std::fs::create_dir(parent.join("charts")).unwrap();
    std::os::unix::fs::symlink(helm::chart(), parent.join("charts/prophet")).unwrap();
    let chart = "{apiVersion: v2, name: platform, version: 1.0.0, dependencies: [
        {name: prophet, version: '*', condition: prophet.enabled}]}";
    std::fs::write(parent.join("Chart.yaml"), chart).unwrap();
    let kinds = |enabled: &str| {
        let values = ["--set", enabled, "--set", "global.imageRegistry=mirror.example"];
        let arguments = [&["template", "platform", parent.to_str().unwrap()][..], &values].concat();
        helm::offline(&arguments).unwrap().matches("kind: StatefulSet").count()
    };
    assert_eq!((kinds("prophet.enabled=true"), kinds("prophet.enabled=false")), (1, 0));
}

#[test]
fn helm_lint_finds_nothing() {
    let chart = helm::chart();
    helm::offline(&["lint", "--strict", chart.to_str().unwrap()]).unwrap();
}

/// What NOTES.txt prints: values, and a part of the text.
#[test]
fn the_notes_name_what_is_lost_and_what_is_missing() {
    let rows = [
        ("", "on a volume of 5Gi for each replica"),
        ("", "the cluster has no default StorageClass"),
        (r#"history.volume.storageClassName="gp3""#, "for each replica"),
        ("history.volume.enabled=false", "WARNING: It is only in the pods."),
        (r#"history.s3="s3://b/p""#, "It is in s3://b/p"),
        (r#"history.persistentVolumeClaim="efs""#, "ReadWriteMany"),
        (r#"nodeGroupAutoDiscovery="asg:tag=a""#, "docs/permissions-aws.md"),
        ("crds.enabled=false", "prophet crd --without-priority-classes"),
        ("", "spec: {mode: Observe}"),
        (r#"policies=[{"name":"a","spec":{"mode":"Act"}}]"#, "prophet/a: Act"),
    ];
    for (values, part) in rows {
        let chart = helm::chart();
        let mut arguments = vec!["install", "prophet", chart.to_str().unwrap()];
        arguments.extend(["--namespace", helm::NAMESPACE, "--dry-run=client"]);
        arguments.extend(values.split_whitespace().flat_map(|value| ["--set-json", value]));
        let notes = helm::offline(&arguments).unwrap();
        let notes = notes.split("NOTES:").nth(1).unwrap();
        assert!(notes.contains(part), "{values}: {part} is not in:\n{notes}");
    }
}

/// The values that the page on installing shows are valid.
#[test]
fn the_values_of_the_page_on_installing_are_accepted() {
    let page = std::fs::read_to_string(helm::chart().join("../../docs/installing.md")).unwrap();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).collect();
    assert!(blocks.len() > 1, "the page has no values");
    let folder = tempfile::tempdir().unwrap();
    let (chart, file) = (helm::chart(), folder.path().join("values.yaml"));
    for block in blocks {
        std::fs::write(&file, block.split("```").next().unwrap()).unwrap();
        let (chart, file) = (chart.to_str().unwrap(), file.to_str().unwrap());
        helm::offline(&["template", "prophet", chart, "--values", file]).unwrap();
    }
}
