{{/* The values of a pool, as JSON: workerDefaults, with what the pool has instead. Call with a dict: root, pool. */}}
{{- define "ampd.pool" -}}
{{- mergeOverwrite (deepCopy .root.Values.workerDefaults) (deepCopy (default dict .pool)) | toJson -}}
{{- end -}}

{{/* The configuration file of a pool's workers. Call with a dict: root, pool. */}}
{{- define "ampd.workerConfig" -}}
{{- $pool := .pool -}}
{{- $roots := list -}}
{{- range $pool.dataRoots -}}
{{- $tenants := empty .tenants | ternary "" (printf "@%s" (join "," .tenants)) -}}
{{- $roots = append $roots (printf "%s%s=/data/%s" .name $tenants .name) -}}
{{- end -}}
{{- $flags := dict
  "server" (include "ampd.address" .root)
  "ca" "/etc/ampd/ca/ca.crt"
  "token-file" "/etc/ampd/token/token"
  "state-dir" "/var/lib/ampd-worker/state"
  "data-root" $roots
  "data-group" $pool.dataGroup
  "tenant" $pool.tenants
  "stop-trainers-on-exit" true
  "exit-grace" (printf "%ds" (int $pool.exitGraceSeconds))
-}}
{{- if ne .root.Values.checkpoints.type "none" -}}
{{- $flags = merge $flags (dict "checkpoint-root" "/var/lib/ampd-checkpoints/ampd" "checkpoint-root-shared" true) -}}
{{- end -}}
{{- if .root.Values.metrics.enabled -}}
{{- $flags = merge $flags (dict
  "metrics-listen" "0.0.0.0:7072"
  "metrics-tls-cert" "/etc/ampd/metrics/tls.crt"
  "metrics-tls-key" "/etc/ampd/metrics/tls.key"
  "metrics-tls-client-ca" "/etc/ampd/metrics/ca.crt"
) -}}
{{- else -}}
{{- $flags = merge $flags (dict "metrics-listen" "127.0.0.1:7072") -}}
{{- end -}}
{{- include "ampd.config" (merge $flags $pool.config) -}}
{{- end -}}
