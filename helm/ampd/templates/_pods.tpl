{{/* What all pods have in common. */}}

{{/* The security context of a pod, for the Pod Security Standard `restricted`. Volumes get their group while they are
     empty and never again: a later change would open the files of the server and the workers to the group, and they
     would refuse them. */}}
{{- define "ampd.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.podSecurity }}
{{- if not (kindIs "invalid" .runAsUser) }}
runAsUser: {{ int64 .runAsUser }}
{{- end }}
{{- if not (kindIs "invalid" .runAsGroup) }}
runAsGroup: {{ int64 .runAsGroup }}
{{- end }}
{{- if not (kindIs "invalid" .fsGroup) }}
fsGroup: {{ int64 .fsGroup }}
{{- end }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "ampd.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}

{{/* Where a pod runs. Call with .Values.server or the values of a pool. */}}
{{- define "ampd.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Flags as the file that --config reads. Call with a dict of the flags without leading dashes; empty ones are left out. */}}
{{- define "ampd.config" -}}
{{- range $key, $value := . }}
{{- if kindIs "slice" $value }}
{{- if $value }}
{{ $key }}:
{{- range $value }}
  - {{ . | quote }}
{{- end }}
{{- end }}
{{- else if kindIs "bool" $value }}
{{ $key }}: {{ $value }}
{{- else if kindIs "string" $value }}
{{- if $value }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- else if not (kindIs "invalid" $value) }}
{{ $key }}: {{ int64 $value }}
{{- end }}
{{- end }}
{{- end -}}
