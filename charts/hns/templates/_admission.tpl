{{/*
What the texts of registrations and policies depend on. The files in files/ are generated from the code, with templates where
a value comes in; each template below gives what the code of the controller gives for the same value, to the letter. If it did
not, the controller would correct what Helm has written.
*/}}

{{/* A text as a literal of CEL. */}}
{{- define "hns.literal" -}}
'{{ . | replace "\\" "\\\\" | replace "'" "\\'" }}'
{{- end }}

{{/* A list of texts. */}}
{{- define "hns.literals" -}}
{{- $literals := list -}}
{{- range . }}{{ $literals = append $literals (include "hns.literal" .) }}{{ end -}}
[{{ join ", " $literals }}]
{{- end }}

{{/* The names of all excluded namespaces, sorted. */}}
{{- define "hns.excluded" -}}
{{- include "hns.literals" (append (include "hns.excludedByName" . | fromJson).names .Release.Namespace | uniq | sortAlpha) -}}
{{- end }}

{{/* What the whole name of a managed namespace matches. */}}
{{- define "hns.includedPattern" -}}
{{- include "hns.literal" (printf "^(?:%s)$" .Values.includedNamespaceRegex) -}}
{{- end }}

{{/* Whether the request is made by one of the given users and groups. */}}
{{- define "hns.requestedBy" -}}
{{- if . -}}
{{- $list := include "hns.literals" (sortAlpha .) -}}
(request.userInfo.username in {{ $list }} || request.userInfo.?groups.orValue([]).exists(g, g in {{ $list }}))
{{- else -}}
false
{{- end -}}
{{- end }}

{{/* Whether exported objects are being brought back. */}}
{{- define "hns.restoring" -}}
{{- if .Values.restoreIdentities -}}
(request.operation == 'CREATE' && {{ include "hns.requestedBy" .Values.restoreIdentities }})
{{- else -}}
false
{{- end -}}
{{- end }}

{{/* Whether "manager", an expression, is one whose namespaces the requesting user may keep. */}}
{{- define "hns.keptBy" -}}
{{- $alternatives := list -}}
{{- $manager := .manager -}}
{{- range $value, $identities := .managers -}}
{{- $alternatives = append $alternatives (printf "(%s == %s && %s)" $manager (include "hns.literal" $value) (include "hns.requestedBy" $identities)) -}}
{{- end -}}
{{- if $alternatives }}({{ join " || " $alternatives }}){{ else }}false{{ end -}}
{{- end }}

{{/* Further reasons why "object", an expression, does not propagate. */}}
{{- define "hns.withheld" -}}
{{- $object := .object -}}
{{- range sortAlpha .labels -}}
{{- $pair := splitn "=" 2 . -}}
{{ printf " ||\n%s.metadata.?labels[?%s] == optional.of(%s)" $object (include "hns.literal" $pair._0) (include "hns.literal" $pair._1) }}
{{- end -}}
{{- end }}

{{/* A value of a generated file with every template in its texts carried out, as JSON: {"it": ...}. */}}
{{- define "hns.resolved" -}}
{{- $root := .root -}}
{{- $value := .value -}}
{{- if kindIs "map" $value -}}
{{- range $key, $item := $value }}{{ $_ := set $value $key (include "hns.resolved" (dict "root" $root "value" $item) | fromJson).it }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- $items := list -}}
{{- range $value }}{{ $items = append $items (include "hns.resolved" (dict "root" $root "value" .) | fromJson).it }}{{ end -}}
{{- $value = $items -}}
{{- else if and (kindIs "string" $value) (contains "{{" (toString $value)) -}}
{{- $value = tpl $value $root -}}
{{- end -}}
{{- toJson (dict "it" $value) -}}
{{- end }}
