{{/* The Service that metrics are fetched through. */}}
{{- define "hns.metricsService" }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "hns.labels" .root | nindent 4 }}
    control-plane: {{ .plane }}
    hns.metrics: "true"
spec:
  selector:
    {{- include "hns.selector" . | nindent 4 }}
  ports:
  - name: metrics
    port: {{ .root.Values.metrics.port }}
    protocol: TCP
    targetPort: metrics
{{- end }}

{{/* How many pods of one component may be missing on purpose. */}}
{{- define "hns.disruptions" }}
{{- if .component.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "hns.labels" .root | nindent 4 }}
spec:
  maxUnavailable: {{ .component.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready must not keep its node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "hns.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Rules of RBAC for the kinds of propagation.resources, with the verbs given as JSON. */}}
{{- define "hns.kinds" -}}
{{- $verbs := .verbs -}}
{{- $groups := dict -}}
{{- range .root.Values.propagation.resources -}}
{{- $parts := splitn "." 2 . -}}
{{- $group := ternary "*" ($parts._1 | default "") (eq . "*") -}}
{{- $_ := set $groups $group (append (get $groups $group | default list) $parts._0) -}}
{{- end -}}
{{- $mine := "rbac.authorization.k8s.io" -}}
{{- with get $groups $mine -}}
{{- $_ := set $groups $mine (without . "roles" "rolebindings") -}}
{{- end -}}
{{- range $group, $resources := $groups }}
{{- with $resources }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ uniq . | toJson }}
  verbs: {{ $verbs }}
{{- end }}
{{- end }}
{{- end }}

{{/* Annotations of what runs at the end of an uninstallation, in the order of the number given. */}}
{{- define "hns.finalizerCleanup" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
