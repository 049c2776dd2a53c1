{{- define "prophet.labels" -}}
app.kubernetes.io/name: prophet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "prophet.selector" -}}
app.kubernetes.io/name: prophet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "prophet.serviceAccount" -}}
{{- default .Release.Name .Values.serviceAccount.name -}}
{{- end }}

{{- define "prophet.namespaces" -}}
{{- prepend .Values.policyNamespaces .Release.Namespace | uniq | toJson -}}
{{- end }}

{{- define "prophet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end -}}
{{- end }}
