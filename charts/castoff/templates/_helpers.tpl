{{- define "castoff.selector" -}}
app.kubernetes.io/name: castoff
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "castoff.labels" -}}
{{ include "castoff.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* An image reference; takes (list <image values> <default tag>). */}}
{{- define "castoff.image" -}}
{{- $image := index . 0 -}}
{{ $image.repository }}:{{ $image.tag | default (index . 1) }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "castoff.subject" -}}
- kind: ServiceAccount
  name: castoff
  namespace: {{ .Release.Namespace }}
{{- end }}
