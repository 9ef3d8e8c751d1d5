{{/* Labels that say where an object comes from. */}}
{{- define "hns.labels" -}}
app.kubernetes.io/name: hns
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The names of the excluded namespaces as literals, sorted as the controller sorts them. */}}
{{- define "hns.excluded" -}}
'{{ append .Values.excludedNamespaces .Release.Namespace | uniq | sortAlpha | join "', '" }}'
{{- end }}

{{/* The image of one component; its values are given as "component". */}}
{{- define "hns.image" -}}
{{ .component.image.repository }}:{{ .component.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Flags that both binaries have. */}}
{{- define "hns.args" -}}
- --namespace={{ .Release.Namespace }}
{{- range .Values.excludedNamespaces }}
- --excluded-namespace={{ . }}
{{- end }}
- --metrics-addr=:8080
- --health-probe-bind-address=:8081
{{- end }}

{{/* What every pod is held to. */}}
{{- define "hns.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "hns.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "hns.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: healthz
  periodSeconds: 10
readinessProbe:
  httpGet:
    path: /readyz
    port: healthz
  periodSeconds: 5
{{- end }}
