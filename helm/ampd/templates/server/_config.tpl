{{/* The configuration file of the server: what the chart sets, and server.config. */}}
{{- define "ampd.serverConfig" -}}
{{- $server := .Values.server -}}
{{- $grants := list -}}
{{- if include "ampd.adminSecret" . -}}
{{- $grants = append $grants (printf "cert:%s=admin" .Values.certificates.adminName) -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $grants = append $grants (printf "cert:%s=scraper" .Values.certificates.prometheusName) -}}
{{- end -}}
{{- $flags := dict
  "data-dir" "/var/lib/ampd/data"
  "proxy-socket" "/run/ampd/proxy/ampd.sock"
  "tls-client-ca" "/etc/ampd/tls/ca.crt"
  "drain-grace" (printf "%ds" (int $server.drainGraceSeconds))
  "grant" (concat $grants $server.grants)
  "tenant-limit" $server.tenantLimits
  "caller-limit" $server.callerLimits
-}}
{{- if .Values.metrics.enabled -}}
{{- $flags = merge $flags (dict
  "metrics-listen" "0.0.0.0:7071"
  "metrics-tls-cert" "/etc/ampd/tls/tls.crt"
  "metrics-tls-key" "/etc/ampd/tls/tls.crt.key"
  "metrics-tls-client-ca" "/etc/ampd/tls/ca.crt"
) -}}
{{- end -}}
{{- with $server.oidc -}}
{{- if .issuer -}}
{{- $flags = merge $flags (dict
  "oidc-issuer" .issuer
  "oidc-audience" .audience
  "oidc-keys" .keys
  "oidc-ca" (empty .caConfigMap | ternary "" "/etc/ampd/oidc/ca.crt")
  "oidc-role" .roles
  "oidc-tenant-claim" .tenantClaim
  "oidc-name-claim" .nameClaim
) -}}
{{- end -}}
{{- end -}}
{{- include "ampd.config" (merge $flags $server.config) -}}
{{- end -}}
