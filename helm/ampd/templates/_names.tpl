{{/* Names, labels and images. */}}

{{- define "ampd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of the names of all objects: at most 40 characters, so that what follows it fits too. */}}
{{- define "ampd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "ampd.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "ampd.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component. Call with a dict: root, component. */}}
{{- define "ampd.selector" -}}
app.kubernetes.io/name: {{ include "ampd.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The labels of an object. Call with a dict: root, component. */}}
{{- define "ampd.labels" -}}
{{ include "ampd.selector" . }}
app.kubernetes.io/part-of: ampd
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ampd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ampd.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The reference of an image. Call with a dict: root, and one of .Values.images. */}}
{{- define "ampd.image" -}}
{{- $image := .image -}}
{{- $registry := default .root.Values.image.registry $image.registry -}}
{{- $path := $image.repository -}}
{{- if $registry }}{{ $path = printf "%s/%s" (trimSuffix "/" $registry) $path }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $path $image.digest -}}
{{- else -}}
{{- $tag := coalesce $image.tag .root.Values.image.tag .root.Chart.AppVersion -}}
{{- if eq $tag "source" -}}
{{- fail (print "image.tag: this is the chart's source, which knows no version of ampd. Set image.tag, "
      "or install the package that scripts/chart makes") -}}
{{- end -}}
{{- printf "%s:%s" $path $tag -}}
{{- end -}}
{{- end -}}

{{- define "ampd.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The names by which clients reach the server, as a JSON object with the list "names" and the list "addresses". */}}
{{- define "ampd.hosts" -}}
{{- $service := include "ampd.fullname" . -}}
{{- $full := printf "%s.%s" $service .Release.Namespace -}}
{{- $names := list $service $full (printf "%s.svc" $full) (printf "%s.svc.%s" $full .Values.clusterDomain) -}}
{{- $names = append $names "localhost" -}}
{{- $addresses := list -}}
{{- $given := .Values.certificates.hosts -}}
{{- if .Values.ingress.enabled }}{{ $given = concat $given .Values.ingress.hosts }}{{ end -}}
{{- if .Values.gateway.enabled }}{{ $given = concat $given .Values.gateway.hosts }}{{ end -}}
{{- range $given -}}
{{- if or (regexMatch "^[0-9.]+$" .) (contains ":" .) -}}
{{- $addresses = append $addresses . -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- dict "names" (uniq $names) "addresses" (uniq $addresses) | toJson -}}
{{- end -}}

{{/* The address of the server for workers and for the pods of the chart. */}}
{{- define "ampd.address" -}}
{{ include "ampd.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.server.service.port }}
{{- end -}}

{{/* The name of a Secret with a certificate. Call with a dict: root, own (a key of certificates.own), suffix. */}}
{{- define "ampd.certificateSecret" -}}
{{- if eq .root.Values.certificates.source "own" -}}
{{- get .root.Values.certificates.own .own -}}
{{- else -}}
{{- printf "%s-%s" (include "ampd.fullname" .root) .suffix -}}
{{- end -}}
{{- end -}}

{{- define "ampd.serverSecret" -}}
{{- include "ampd.certificateSecret" (dict "root" . "own" "server" "suffix" "server-tls") -}}
{{- end -}}

{{- define "ampd.prometheusSecret" -}}
{{- include "ampd.certificateSecret" (dict "root" . "own" "prometheus" "suffix" "prometheus-tls") -}}
{{- end -}}

{{- define "ampd.workerMetricsSecret" -}}
{{- include "ampd.certificateSecret" (dict "root" . "own" "workerMetrics" "suffix" "worker-metrics-tls") -}}
{{- end -}}

{{/* Empty: there is no certificate of an admin. */}}
{{- define "ampd.adminSecret" -}}
{{- if .Values.certificates.adminName -}}
{{- include "ampd.certificateSecret" (dict "root" . "own" "admin" "suffix" "admin-tls") -}}
{{- end -}}
{{- end -}}

{{- define "ampd.tokenSecret" -}}
{{- if eq .Values.workerToken.source "own" -}}
{{- .Values.workerToken.secretName -}}
{{- else -}}
{{- printf "%s-worker-token" (include "ampd.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "ampd.checkpointClaim" -}}
{{- if eq .Values.checkpoints.type "existingClaim" -}}
{{- .Values.checkpoints.existingClaim -}}
{{- else -}}
{{- printf "%s-checkpoints" (include "ampd.fullname" .) -}}
{{- end -}}
{{- end -}}
