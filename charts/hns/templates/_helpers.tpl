{{/* Labels that say where an object comes from. */}}
{{- define "hns.labels" -}}
app.kubernetes.io/name: hns
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that only the pods of one component have, whose label of HNC's is "plane". Deployments select by that label alone,
as HNC's does: a selector cannot be changed. */}}
{{- define "hns.selector" -}}
app.kubernetes.io/name: hns
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
control-plane: {{ .plane }}
{{- end }}

{{/* The image of one component; its values are given as "component". */}}
{{- define "hns.image" -}}
{{- $image := .component.image -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The names of the excluded namespaces but for the release's own, as JSON: {"names": [...]}. */}}
{{- define "hns.excludedByName" -}}
{{- $names := concat .Values.excludedNamespaces .Values.hncExcludeNamespaces -}}
{{- if .Values.excludeSystemNamespaces -}}
{{- $names = concat (list "kube-system" "kube-public" "kube-node-lease") $names -}}
{{- end -}}
{{- dict "names" (without $names .Release.Namespace | uniq) | toJson -}}
{{- end }}

{{/* Flags that both binaries have. */}}
{{- define "hns.args" -}}
{{- $args := list (printf "--namespace=%s" .Release.Namespace) -}}
{{- with .Values -}}
{{- if .logging.debug }}{{ $args = append $args "--debug-logs" }}{{ end -}}
{{- if ne .logging.format "json" }}{{ $args = append $args (printf "--log-format=%s" .logging.format) }}{{ end -}}
{{- if .apiserverQpsThrottle }}{{ $args = append $args (printf "--apiserver-qps-throttle=%d" (int .apiserverQpsThrottle)) }}{{ end -}}
{{- $args = append $args (printf "--metrics-addr=:%d" (int .metrics.port)) -}}
{{- $args = append $args (printf "--health-probe-bind-address=:%d" (int .healthPort)) -}}
{{- if eq .certificates.mode "internal" }}{{ $args = append $args "--enable-internal-cert-management" }}{{ end -}}
{{- end -}}
{{- toYaml $args }}
{{- end }}

{{/* The document of the shared settings. */}}
{{- define "hns.settings" -}}
{{- with .Values -}}
version: v1
excludedNamespaces: {{ (include "hns.excludedByName" $ | fromJson).names | toJson }}
includedNamespaceRegex: {{ .includedNamespaceRegex | quote }}
managedNamespaceLabels: {{ .managedNamespaceLabels | toJson }}
managedNamespaceAnnotations: {{ .managedNamespaceAnnotations | toJson }}
refuseLabelConflicts: {{ .refuseLabelConflicts }}
refuseWith403: {{ .refuseWith403 }}
externalManagers: {{ .externalManagers | toJson }}
restoreIdentities: {{ .restoreIdentities | toJson }}
ancestryAnnotation: {{ .ancestryAnnotation }}
initialAdmin: {{ pick .initialAdmin "enabled" "clusterRole" | toJson }}
propagation: {{ pick .propagation "nopropagationLabels" "unpropagatedLabels" "unpropagatedAnnotations" "trackingMetadata" "rbacOnConflict" | toJson }}
hierarchicalQuotas: {{ pick .hrq "enabled" "failurePolicy" | toJson }}
{{- if .accurate.enabled }}
accurate: {{ omit .accurate "additionalRBAC" | toJson }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "hns.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "hns.environment" -}}
env:
# The holder of the Lease is named after the pod, so that a restarted container goes on at once.
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
# Free memory is given back after so many milliseconds, instead of a thousand: a fifth less is held after a start.
- name: MIMALLOC_PURGE_DELAY
  value: "0"
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
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

{{/* Labels of the pods of one component, "component", whose label of HNC's is "plane". */}}
{{- define "hns.podLabels" -}}
{{ include "hns.labels" .root }}
app.kubernetes.io/component: {{ .plane }}
control-plane: {{ .plane }}
{{- with .component.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hns.podAnnotations" -}}
{{- $annotations := dict -}}
{{- if .root.Values.metrics.annotations -}}
{{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" (toString .root.Values.metrics.port) -}}
{{- end -}}
{{- $annotations = merge (deepCopy .component.podAnnotations) $annotations -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the pods of one component run, and how important they are. */}}
{{- define "hns.scheduling" -}}
{{- $selector := include "hns.selector" . | fromYaml -}}
{{- with .component -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
- {{- toYaml (set (deepCopy .) "labelSelector" (dict "matchLabels" $selector)) | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}
