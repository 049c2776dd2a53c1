{{/* The name of the application in labels. */}}
{{- define "prophet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 43 | trimSuffix "-" -}}
{{- end }}

{{/* The name of the main objects: that of the release, with that of the chart unless it contains it.
A StatefulSet adds 11 characters to it in a label, which has 63 at most. */}}
{{- define "prophet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "prophet.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "prophet.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The same with a suffix, given the chart, the suffix and the most characters. A name that is cut has
a part of its hash, because two long names can begin alike. */}}
{{- define "prophet.named" -}}
{{- $name := include "prophet.fullname" (index . 0) -}}
{{- $suffix := index . 1 -}}
{{- $most := sub (index . 2) (len $suffix) | int -}}
{{- if gt (len $name) $most -}}
{{- $name = printf "%s-%s" (trunc (sub $most 6 | int) $name | trimSuffix "-") (sha256sum $name | trunc 5) -}}
{{- end -}}
{{- $name }}{{ $suffix -}}
{{- end }}

{{/* The annotations of an object, given the chart and those of its own. */}}
{{- define "prophet.annotations" -}}
{{- $common := default dict (index . 0).Values.commonAnnotations -}}
{{- with merge (deepCopy (default dict (index . 1))) $common -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* The labels of an object, given the chart and those of its own, which go before commonLabels. */}}
{{- define "prophet.labelsWith" -}}
{{- $chart := index . 0 -}}
{{- $labels := dict "app.kubernetes.io/name" (include "prophet.name" $chart) -}}
{{- $_ := set $labels "app.kubernetes.io/instance" $chart.Release.Name -}}
{{- $_ := set $labels "app.kubernetes.io/version" $chart.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $chart.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $chart.Chart.Name $chart.Chart.Version) -}}
{{- merge $labels (default dict (index . 1)) (default dict $chart.Values.commonLabels) | toYaml -}}
{{- end }}

{{- define "prophet.labels" -}}
{{- include "prophet.labelsWith" (list . dict) -}}
{{- end }}

{{- define "prophet.selector" -}}
app.kubernetes.io/name: {{ include "prophet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "prophet.serviceAccount" -}}
{{- default (include "prophet.fullname" .) .Values.serviceAccount.name -}}
{{- end }}

{{- define "prophet.namespaces" -}}
{{- prepend .Values.policyNamespaces .Release.Namespace | uniq | toJson -}}
{{- end }}

{{/* The reference of an image, given the chart and the image. global.imageRegistry replaces the
registry, which is the first part of the repository if it has a dot or a port. */}}
{{- define "prophet.imageReference" -}}
{{- $chart := index . 0 -}}
{{- with index . 1 -}}
{{- $repository := .repository -}}
{{- with (default dict $chart.Values.global).imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^[^/]*[.:][^/]*/" $repository "") -}}
{{- end -}}
{{ $repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $chart.Chart.AppVersion .tag }}{{ end }}
{{- end -}}
{{- end }}

{{- define "prophet.image" -}}
{{- include "prophet.imageReference" (list . .Values.image) -}}
{{- end }}

{{/* The image of placeholders. Without a value and a registry of one's own, the controller has the
default of the custom resource. */}}
{{- define "prophet.placeholderImage" -}}
{{- if .Values.placeholderImage -}}
{{- .Values.placeholderImage -}}
{{- else -}}
{{- with (default dict .Values.global).imageRegistry -}}
{{- $policy := index ($.Files.Get "files/crd.json" | fromJson).items 0 -}}
{{- $spec := (index $policy.spec.versions 0).schema.openAPIV3Schema.properties.spec -}}
{{- $image := $spec.properties.placeholders.properties.image.default -}}
{{ . }}/{{ regexReplaceAll "^[^/]*/" $image "" }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "prophet.trainingImage" -}}
{{- include "prophet.imageReference" (list . .Values.retraining.image) -}}
{{- end }}

{{/* The pull secrets of all images, as a YAML list. A parent chart may give their names alone. */}}
{{- define "prophet.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (default list (default dict .Values.global).imagePullSecrets) (default list .Values.imagePullSecrets) -}}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- $secrets | uniq | toYaml -}}
{{- end }}

{{- define "prophet.priorityClassName" -}}
{{- if .Values.priorityClassName -}}
{{ .Values.priorityClassName }}
{{- else if .Values.priorityClass.create -}}
{{ include "prophet.fullname" . }}-controller
{{- end -}}
{{- end }}

{{/* Where the history is: s3, claim, volumes (one for each replica) or memory. */}}
{{- define "prophet.history" -}}
{{- if .Values.history.s3 -}}
s3
{{- else if .Values.history.persistentVolumeClaim -}}
claim
{{- else if .Values.history.volume.enabled -}}
volumes
{{- else -}}
memory
{{- end -}}
{{- end }}

{{/* The scheme of the controller's server. */}}
{{- define "prophet.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secretName)) -}}
{{- end }}

{{/* How an endpoint of a monitor is scraped, given the chart and the values of the monitor. */}}
{{- define "prophet.endpoint" -}}
{{- $chart := index . 0 -}}
{{- $monitor := index . 1 -}}
port: http
path: /metrics
scheme: {{ include "prophet.scheme" $chart }}
interval: {{ $monitor.interval }}
scrapeTimeout: {{ $monitor.scrapeTimeout }}
{{- if $chart.Values.tls.secretName }}
tlsConfig:
  {{- if $monitor.tlsConfig }}
  {{- toYaml $monitor.tlsConfig | nindent 2 }}
  {{- else }}
  ca: {secret: {name: {{ $chart.Values.tls.secretName }}, key: ca.crt}}
  serverName: {{ include "prophet.fullname" $chart }}.{{ $chart.Release.Namespace }}.svc
  {{- end }}
{{- end }}
{{- if $chart.Values.authentication.enabled }}
{{- if $monitor.tokenSecret }}
authorization: {type: Bearer, credentials: {{ toJson $monitor.tokenSecret }}}
{{- else }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
{{- with $monitor.relabelings }}
relabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fails if values contradict each other. The schema checks each value by itself. */}}
{{- define "prophet.check" -}}
{{- with .Values -}}
{{- if and .history.s3 .history.persistentVolumeClaim -}}
{{- fail "history.s3 and history.persistentVolumeClaim are both set: the history has one place" -}}
{{- end -}}
{{- if and .catalog .nodeGroupAutoDiscovery -}}
{{- fail "catalog and nodeGroupAutoDiscovery are both set: groups of nodes have one source" -}}
{{- end -}}
{{- if and .catalog (ne .awsPrices nil) -}}
{{- fail "catalog and awsPrices are both set: a catalog has its own prices" -}}
{{- end -}}
{{- if and .podAddresses (not .nodeGroupAutoDiscovery) -}}
{{- fail "podAddresses needs nodeGroupAutoDiscovery: NodeClaims show the pods of Karpenter's nodes" -}}
{{- end -}}
{{- if and .serviceMonitor.enabled .podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor are both enabled: each metric would be scraped twice" -}}
{{- end -}}
{{- if and .authentication.enabled (not .tls.secretName) -}}
{{- fail "authentication.enabled requires tls.secretName: without TLS, others could read the tokens" -}}
{{- end -}}
{{- if and .authentication.enabled .podMonitor.enabled (not .podMonitor.tokenSecret) -}}
{{- fail "podMonitor.tokenSecret is empty: with authentication, a PodMonitor needs a token" -}}
{{- end -}}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) -}}
{{- fail "serviceAccount.name is empty: without serviceAccount.create, name an existing ServiceAccount" -}}
{{- end -}}
{{- if and .retraining.enabled (not .history.s3) (not .history.persistentVolumeClaim) -}}
{{- fail "retraining.enabled needs history.s3 or history.persistentVolumeClaim: the volumes of the replicas cannot be read by another pod" -}}
{{- end -}}
{{- if and .retraining.enabled (not .model) -}}
{{- fail "retraining.enabled needs model: where retrained models are published, and where the controller loads them from" -}}
{{- end -}}
{{- if and .extraVolumeMounts (not .extraVolumes) -}}
{{- fail "extraVolumeMounts is set, but extraVolumes is empty" -}}
{{- end -}}
{{- end -}}
{{- $namespaces := include "prophet.namespaces" . | fromJsonArray -}}
{{- range .Values.policies -}}
{{- if and .namespace (not (has .namespace $namespaces)) -}}
{{- fail (printf "policies: the namespace %s of the policy %s is not in policyNamespaces" .namespace .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
