{{/* Values of HNC's and of Accurate's chart that this one has under other names, and values that contradict each other. */}}
{{- define "hns.refusals" -}}
{{- range tuple
  (tuple "" "image" "the charts of HNC and of Accurate" "there are two images here; set controller.image and webhook.image")
  (tuple "" "manager" "the chart of HNC" "what HNC's manager did is done by two Deployments here; set controller.resources, controller.nodeSelector, controller.affinity and controller.tolerations, and the same of webhook")
  (tuple "" "installCRDs" "the chart of Accurate" "set crds.enabled")
  (tuple "controller" "config" "the chart of Accurate" "set accurate.config, which has the same keys")
  (tuple "controller" "additionalRBAC" "the chart of Accurate" "set accurate.additionalRBAC")
  (tuple "webhook" "allowCascadingDeletion" "the chart of Accurate" "set accurate.allowCascadingDeletion")
-}}
{{- $section := index . 0 -}}
{{- $path := ternary (index . 1) (printf "%s.%s" $section (index . 1)) (empty $section) -}}
{{- $values := ternary $.Values (index $.Values $section) (empty $section) -}}
{{- if hasKey $values (index . 1) }}{{ fail (printf "the value %s belongs to %s: %s" $path (index . 2) (index . 3)) }}{{ end -}}
{{- end -}}
{{- if hasKey (.Values.ha | default dict) "manager" }}{{ fail "the value ha.manager belongs to the chart of HNC: every installation is highly available here; set webhook.replicas, webhook.resources, webhook.nodeSelector, webhook.affinity and webhook.tolerations" }}{{ end -}}
{{- with .Values.certificates -}}
{{- if and (eq .mode "provided") (not .caBundle) }}{{ fail "certificates.mode is provided, so certificates.caBundle is required: the base64 of the PEM text of the authority that signed the webhook's certificate" }}{{ end -}}
{{- if and (ne .mode "provided") .caBundle }}{{ fail (printf "certificates.caBundle is only for certificates.mode=provided; with %s, %s writes it into the registrations" .mode (ternary "the controller" "cert-manager" (eq .mode "internal"))) }}{{ end -}}
{{- if and .caBundle (not (contains "-----BEGIN CERTIFICATE-----" (b64dec .caBundle))) }}{{ fail "certificates.caBundle has no certificate: it must be the base64 of the PEM text of the authority that signed the webhook's certificate" }}{{ end -}}
{{- if and (eq .mode "internal") (ne .secretName "hnc-webhook-server-cert") }}{{ fail "certificates.mode is internal, where the Secret is hnc-webhook-server-cert; leave certificates.secretName as it is" }}{{ end -}}
{{- end -}}
{{- range $name := tuple "controller" "webhook" -}}
{{- if not (index $.Values $name "image" "repository") }}{{ fail (printf "%s.image.repository is not set: there is no public image of hns; build the images, push them to your registry, and set controller.image.repository and webhook.image.repository" $name) }}{{ end -}}
{{- end -}}
{{- with .Values.controller.leaderElection -}}
{{- $lease := include "hns.milliseconds" .leaseDuration | int -}}
{{- $deadline := include "hns.milliseconds" .renewDeadline | int -}}
{{- $period := include "hns.milliseconds" .retryPeriod | int -}}
{{- if or (le $lease $deadline) (le $deadline $period) (gt $lease 3600000) }}{{ fail (printf "controller.leaderElection: leaseDuration (%s) must be at most 60m and longer than renewDeadline (%s), and renewDeadline longer than retryPeriod (%s)" .leaseDuration .renewDeadline .retryPeriod) }}{{ end -}}
{{- end -}}
{{- with .Values.webhook -}}
{{- $delay := include "hns.milliseconds" .shutdownDelay | int -}}
{{- $timeout := include "hns.milliseconds" .shutdownTimeout | int -}}
{{- if le $timeout $delay }}{{ fail (printf "webhook.shutdownTimeout (%s) must be longer than webhook.shutdownDelay (%s): it includes the delay" .shutdownTimeout .shutdownDelay) }}{{ end -}}
{{- if le (mul 1000 .terminationGracePeriodSeconds | int) $timeout }}{{ fail (printf "webhook.terminationGracePeriodSeconds (%v) must be longer than webhook.shutdownTimeout (%s): the kubelet would kill the webhook before it has answered" .terminationGracePeriodSeconds .shutdownTimeout) }}{{ end -}}
{{- end -}}
{{- $ports := dict -}}
{{- range tuple (tuple "webhook.port" .Values.webhook.port) (tuple "metrics.port" .Values.metrics.port) (tuple "healthPort" .Values.healthPort) -}}
{{- $name := index . 0 -}}
{{- $port := index . 1 | int | toString -}}
{{- with get $ports $port }}{{ fail (printf "%s and %s are both %s: each server of a pod needs a port of its own" . $name $port) }}{{ end -}}
{{- $_ := set $ports $port $name -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}{{ fail "metrics.serviceMonitor and metrics.podMonitor are alternatives: with both everything is counted twice" }}{{ end -}}
{{- with .Values.webhook.clientCertificates -}}
{{- if and .configMap (not .allowedNames) }}{{ fail "webhook.clientCertificates.configMap needs webhook.clientCertificates.allowedNames: without names, everyone with a certificate of that authority could send reviews" }}{{ end -}}
{{- if and .allowedNames (not .configMap) }}{{ fail "webhook.clientCertificates.allowedNames needs webhook.clientCertificates.configMap: the authority that signs these certificates" }}{{ end -}}
{{- end -}}
{{- if and .Values.webhook.hostNetwork .Values.networkPolicy.apiServerCIDRs }}{{ fail "networkPolicy.apiServerCIDRs has no effect with webhook.hostNetwork: no NetworkPolicy applies to pods in the network of their node; use webhook.clientCertificates" }}{{ end -}}
{{- if and .Values.rbac.escalate .Values.rbac.bindableClusterRoles }}{{ fail "rbac.bindableClusterRoles is for rbac.escalate=false: with rbac.escalate the controller may bind every role" }}{{ end -}}
{{- with .Values.initialAdmin -}}
{{- if and .enabled (not $.Values.rbac.escalate) (not (has .clusterRole $.Values.rbac.bindableClusterRoles)) }}{{ fail (printf "initialAdmin.enabled needs the right to bind the ClusterRole %s: without rbac.escalate, add it to rbac.bindableClusterRoles" .clusterRole) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* A duration in milliseconds. */}}
{{- define "hns.milliseconds" -}}
{{- $start := toDate "2006" "2000" -}}
{{- (($start | mustDateModify .).Sub $start).Milliseconds -}}
{{- end }}
