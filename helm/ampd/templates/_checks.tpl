{{/* Refuses values that fit values.schema.json but not each other. Every template with pods calls it. */}}
{{- define "ampd.checks" -}}
{{- $values := .Values -}}
{{- $source := $values.certificates.source -}}
{{- if eq $source "own" -}}
  {{- if not $values.certificates.own.server }}{{ fail "certificates.own.server: name the Secret with the server's certificate, or choose another certificates.source" }}{{ end -}}
  {{- if and $values.metrics.enabled (not $values.certificates.own.workerMetrics) }}{{ fail "certificates.own.workerMetrics: name the Secret with the certificate for the workers' metrics, or set metrics.enabled to false" }}{{ end -}}
  {{- if and (or $values.metrics.serviceMonitor.enabled $values.metrics.podMonitor.enabled) (not $values.certificates.own.prometheus) }}{{ fail "certificates.own.prometheus: name the Secret with Prometheus's certificate, which metrics.serviceMonitor and metrics.podMonitor use" }}{{ end -}}
{{- end -}}
{{- if eq $values.workerToken.source "own" -}}
  {{- if not $values.workerToken.secretName }}{{ fail "workerToken.secretName: name the Secret with the workers' token, or choose the workerToken.source generated" }}{{ end -}}
{{- else -}}
  {{- if and $values.pools (not (include "ampd.adminSecret" .)) }}{{ fail (printf "workerToken.source: a generated token needs an admin's certificate. Set %s, or give a token with the source own" (eq $source "own" | ternary "certificates.own.admin" "certificates.adminName")) }}{{ end -}}
{{- end -}}
{{- if and (eq $values.checkpoints.type "existingClaim") (not $values.checkpoints.existingClaim) }}{{ fail "checkpoints.existingClaim: name the PersistentVolumeClaim, or choose another checkpoints.type" }}{{ end -}}
{{- with $values.server.oidc -}}
  {{- if .issuer -}}
    {{- if not .audience }}{{ fail "server.oidc.audience: the server needs its name at the identity provider of server.oidc.issuer" }}{{ end -}}
    {{- if not .roles }}{{ fail "server.oidc.roles: without a role, nobody of the identity provider may do anything" }}{{ end -}}
  {{- else if or .audience .roles .keys .caConfigMap .tenantClaim .nameClaim }}{{ fail "server.oidc.issuer: the other values of server.oidc need the URL of the identity provider" }}{{ end -}}
{{- end -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
  {{- if and (get $values.metrics $name).enabled (not $values.metrics.enabled) }}{{ fail (printf "metrics.%s.enabled: Prometheus reaches nothing until metrics.enabled is true" $name) }}{{ end -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) }}{{ fail "ingress.hosts: name at least one host, by which the Ingress chooses what to pass through" }}{{ end -}}
{{- if $values.gateway.enabled -}}
  {{- if not $values.gateway.parentRefs }}{{ fail "gateway.parentRefs: name at least one Gateway" }}{{ end -}}
  {{- if not $values.gateway.hosts }}{{ fail "gateway.hosts: name at least one host, by which the Gateway chooses what to pass through" }}{{ end -}}
{{- end -}}
{{- if and $values.server.service.nodePort (eq $values.server.service.type "ClusterIP") }}{{ fail "server.service.nodePort: a Service of the type ClusterIP has no port on nodes" }}{{ end -}}
{{- range $name, $own := $values.pools -}}
  {{- include "ampd.poolChecks" (dict "root" $ "name" $name "pool" (include "ampd.pool" (dict "root" $ "pool" $own) | fromJson)) -}}
{{- end -}}
{{- end -}}

{{/* Call with a dict: root, name, pool. */}}
{{- define "ampd.poolChecks" -}}
{{- $pool := .pool -}}
{{- $path := printf "pools.%s" .name -}}
{{- $may := .root.Values.podSecurity.allowHostPath -}}
{{- if eq $pool.state.type "hostPath" -}}
  {{- if not $may }}{{ fail (printf "%s.state.type: hostPath breaks the Pod Security Standard; set podSecurity.allowHostPath to true if the namespace permits it" $path) }}{{ end -}}
  {{- if not $pool.state.hostPath }}{{ fail (printf "%s.state.hostPath: name the folder of the node" $path) }}{{ end -}}
  {{- if ne $pool.kind "DaemonSet" }}{{ fail (printf "%s.state.type: two workers of a Deployment on one node would share the folder; choose the kind DaemonSet" $path) }}{{ end -}}
{{- end -}}
{{- $roots := dict -}}
{{- range $root := $pool.dataRoots -}}
  {{- if hasKey $roots $root.name }}{{ fail (printf "%s.dataRoots: the name %s is there twice" $path $root.name) }}{{ end -}}
  {{- $_ := set $roots $root.name true -}}
  {{- if eq (empty $root.claim) (empty $root.hostPath) }}{{ fail (printf "%s.dataRoots: %s needs either claim, a PersistentVolumeClaim, or hostPath" $path $root.name) }}{{ end -}}
  {{- if and $root.hostPath (not $may) }}{{ fail (printf "%s.dataRoots: the hostPath of %s breaks the Pod Security Standard; set podSecurity.allowHostPath to true if the namespace permits it" $path $root.name) }}{{ end -}}
{{- end -}}
{{- end -}}
