{{/* Refuses values that fit values.schema.json but not each other. The StatefulSet calls it. */}}
{{- define "ampd.checks" -}}
{{- include "ampd.certificateChecks" . -}}
{{- include "ampd.serverChecks" . -}}
{{- include "ampd.networkChecks" . -}}
{{- range $name, $own := .Values.pools -}}
  {{- $pool := include "ampd.pool" (dict "root" $ "pool" $own) | fromJson -}}
  {{- include "ampd.poolChecks" (dict "root" $ "name" $name "pool" $pool) -}}
{{- end -}}
{{- end -}}

{{- define "ampd.certificateChecks" -}}
{{- $metrics := .Values.metrics -}}
{{- $is_own := eq .Values.certificates.source "own" -}}
{{- if $is_own -}}
  {{- $own := .Values.certificates.own -}}
  {{- if not $own.server -}}
    {{- fail (print "certificates.own.server: name the Secret with the server's certificate, "
          "or choose another certificates.source") -}}
  {{- end -}}
  {{- if and $metrics.enabled (not $own.workerMetrics) -}}
    {{- fail (print "certificates.own.workerMetrics: name the Secret with the certificate for the workers' metrics, "
          "or set metrics.enabled to false") -}}
  {{- end -}}
  {{- if and (or $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled) (not $own.prometheus) -}}
    {{- fail (print "certificates.own.prometheus: name the Secret with Prometheus's certificate, "
          "which metrics.serviceMonitor and metrics.podMonitor use") -}}
  {{- end -}}
{{- end -}}
{{- if eq .Values.workerToken.source "own" -}}
  {{- if not .Values.workerToken.secretName -}}
    {{- fail (print "workerToken.secretName: name the Secret with the workers' token, "
          "or choose the workerToken.source generated") -}}
  {{- end -}}
{{- else if and .Values.pools (not (include "ampd.adminSecret" .)) -}}
  {{- fail (printf (print "workerToken.source: a generated token needs an admin's certificate. Set %s, "
        "or give a token with the source own")
        (ternary "certificates.own.admin" "certificates.adminName" $is_own)) -}}
{{- end -}}
{{- end -}}

{{- define "ampd.serverChecks" -}}
{{- with .Values.server.oidc -}}
  {{- if .issuer -}}
    {{- if not .audience -}}
      {{- fail (print "server.oidc.audience: the server needs its name at the identity provider of "
            "server.oidc.issuer") -}}
    {{- end -}}
    {{- if not .roles -}}
      {{- fail "server.oidc.roles: without a role, nobody of the identity provider may do anything" -}}
    {{- end -}}
  {{- else if or .audience .roles .keys .caConfigMap .tenantClaim .nameClaim -}}
    {{- fail (print "server.oidc.issuer: the other values of server.oidc need the URL of the identity provider") -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.server.service.nodePort (eq .Values.server.service.type "ClusterIP") -}}
  {{- fail "server.service.nodePort: a Service of the type ClusterIP has no port on nodes" -}}
{{- end -}}
{{- if and (eq .Values.checkpoints.type "existingClaim") (not .Values.checkpoints.existingClaim) -}}
  {{- fail "checkpoints.existingClaim: name the PersistentVolumeClaim, or choose another checkpoints.type" -}}
{{- end -}}
{{- end -}}

{{- define "ampd.networkChecks" -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
  {{- if and (get $.Values.metrics $name).enabled (not $.Values.metrics.enabled) -}}
    {{- fail (printf "metrics.%s.enabled: Prometheus reaches nothing until metrics.enabled is true" $name) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
  {{- fail "ingress.hosts: name at least one host, by which the Ingress chooses what to pass through" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
  {{- fail "gateway.parentRefs: name at least one Gateway" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.hosts) -}}
  {{- fail "gateway.hosts: name at least one host, by which the Gateway chooses what to pass through" -}}
{{- end -}}
{{- end -}}

{{/* Call with a dict: root, name, pool. */}}
{{- define "ampd.poolChecks" -}}
{{- $pool := .pool -}}
{{- $path := printf "pools.%s" .name -}}
{{- $may := .root.Values.podSecurity.allowHostPath -}}
{{- $breaks := print "breaks the Pod Security Standard; set podSecurity.allowHostPath to true if the namespace "
      "permits it" -}}
{{- if eq $pool.state.type "hostPath" -}}
  {{- if not $may }}{{ fail (printf "%s.state.type: hostPath %s" $path $breaks) }}{{ end -}}
  {{- if not $pool.state.hostPath }}{{ fail (printf "%s.state.hostPath: name the folder of the node" $path) }}{{ end -}}
  {{- if ne $pool.kind "DaemonSet" -}}
    {{- fail (printf (print "%s.state.type: two workers of a Deployment on one node would share the folder; "
          "choose the kind DaemonSet") $path) -}}
  {{- end -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $root := $pool.dataRoots -}}
  {{- if hasKey $seen $root.name -}}
    {{- fail (printf "%s.dataRoots: the name %s is there twice" $path $root.name) -}}
  {{- end -}}
  {{- $_ := set $seen $root.name true -}}
  {{- if eq (empty $root.claim) (empty $root.hostPath) -}}
    {{- fail (printf "%s.dataRoots: %s needs either claim, a PersistentVolumeClaim, or hostPath" $path $root.name) -}}
  {{- end -}}
  {{- if and $root.hostPath (not $may) -}}
    {{- fail (printf "%s.dataRoots: the hostPath of %s %s" $path $root.name $breaks) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
