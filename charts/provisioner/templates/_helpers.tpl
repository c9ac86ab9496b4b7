{{/* One name for every namespaced object: upstream's, when the release is called karpenter. */}}
{{- define "engine.name" -}}
{{ .Release.Name | trunc 59 | trimSuffix "-" }}
{{- end }}

{{/* What a Deployment's selector holds can never change; these two are upstream's. */}}
{{- define "engine.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "engine.labels" -}}
{{ include "engine.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "engine.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "engine.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "engine.image" -}}
{{- with .Values.controller.image -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{- define "engine.subject" -}}
- kind: ServiceAccount
  name: {{ include "engine.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The engine's settings as environment; a setting that is empty is left to the engine's own default. */}}
{{- define "engine.settings" -}}
{{- $names := dict
  "AMI_REFRESH_INTERVAL" "amiRefreshInterval"
  "BATCH_IDLE_DURATION" "batchIdleDuration"
  "BATCH_MAX_DURATION" "batchMaxDuration"
  "CLUSTER_CA_BUNDLE" "clusterCABundle"
  "CLUSTER_ENDPOINT" "clusterEndpoint"
  "CLUSTER_NAME" "clusterName"
  "DISABLE_DRY_RUN" "disableDryRun"
  "EKS_CONTROL_PLANE" "eksControlPlane"
  "ENABLE_ZONAL_SHIFT" "enableZonalShift"
  "INTERRUPTION_QUEUE" "interruptionQueue"
  "ISOLATED_VPC" "isolatedVPC"
  "MIN_VALUES_POLICY" "minValuesPolicy"
  "PREFERENCE_POLICY" "preferencePolicy"
  "RESERVED_ENIS" "reservedENIs"
  "SUBNET_REFRESH_INTERVAL" "subnetRefreshInterval"
  "VM_MEMORY_OVERHEAD_PERCENT" "vmMemoryOverheadPercent" }}
{{- range $env, $setting := $names }}
{{- $value := get $.Values.settings $setting | toString }}
{{- if $value }}
- name: {{ $env }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
- name: FEATURE_GATES
  value: {{ include "engine.featureGates" . | quote }}
{{- end }}

{{- define "engine.featureGates" -}}
{{- $gates := list }}
{{- range $name, $on := .Values.settings.featureGates }}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) }}
{{- end }}
{{- join "," $gates }}
{{- end }}
