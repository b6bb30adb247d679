{{/* The template of a pool's pods. Call with a dict: root, name, pool. */}}
{{- define "ampd.workerPod" -}}
{{- $root := .root -}}
{{- $pool := .pool -}}
{{- $labels := dict "root" $root "component" (printf "worker-%s" .name) -}}
{{- $object := printf "%s-worker-%s" (include "ampd.fullname" $root) .name -}}
{{- $metrics := $root.Values.metrics.enabled -}}
{{- $image := gt (int $pool.gpus) 0 | ternary "workerCuda" "workerCpu" -}}
{{- $key := eq $root.Values.workerToken.source "own" | ternary $root.Values.workerToken.key "token" -}}
metadata:
  labels:
    {{- include "ampd.labels" $labels | nindent 4 }}
    ampd/job: ampd-worker
    {{- with $pool.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Another configuration replaces the pods, one after the other. Their jobs save checkpoints and go on elsewhere.
    checksum/config: {{ include "ampd.workerConfig" . | sha256sum }}
    {{- with $pool.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "ampd.serviceAccountName" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # After SIGTERM trainers have exitGraceSeconds for their checkpoints. The worker needs at most 23 s more: it waits 2 s
  # for the trainer that waits for a job, twice 10 s for trainers that it has killed, and 1 s to report its end.
  terminationGracePeriodSeconds: {{ add $pool.exitGraceSeconds 30 }}
  securityContext:
    {{- include "ampd.podSecurityContext" $root | nindent 4 }}
    {{- if not (kindIs "invalid" $pool.dataGroup) }}
    supplementalGroups: [{{ int64 $pool.dataGroup }}]
    {{- end }}
  {{- include "ampd.pullSecrets" $root | nindent 2 }}
  {{- include "ampd.scheduling" $pool | nindent 2 }}
  {{- with $pool.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $pool.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "ampd.image" (dict "root" $root "image" (get $root.Values.images $image)) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args:
        - --config=/etc/ampd/config/worker.yaml
        {{- if eq $pool.kind "DaemonSet" }}
        # The worker of a node keeps its name when its pod is replaced.
        - --name={{ .name }}-$(NODE_NAME)
        {{- end }}
        {{- if and (dig "limits" "cpu" "" $pool.resources) (not (hasKey $pool.config "threads")) }}
        - --threads=$(CPU_LIMIT)
        {{- end }}
      env:
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- if and (dig "limits" "cpu" "" $pool.resources) (not (hasKey $pool.config "threads")) }}
        - name: CPU_LIMIT
          valueFrom: {resourceFieldRef: {containerName: worker, resource: limits.cpu}}
        {{- end }}
        {{- with $pool.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if $metrics }}
      ports:
        - {name: metrics, containerPort: 7072}
      {{- end }}
      # Ready: the server has accepted the worker. There is no liveness probe: a restart of the container would end all
      # its trainers, and a worker that has no server must wait for it.
      readinessProbe:
        exec:
          command:
            - ampd-worker
            - health
            - --config=/etc/ampd/config/worker.yaml
            {{- if $metrics }}
            - --cert=/etc/ampd/metrics/tls.crt
            - --key=/etc/ampd/metrics/tls.key
            {{- end }}
        periodSeconds: 10
        timeoutSeconds: 10
      securityContext: {{- include "ampd.securityContext" $root | nindent 8 }}
      resources:
        {{- $resources := deepCopy $pool.resources }}
        {{- if gt (int $pool.gpus) 0 }}
        {{- $resources = mergeOverwrite $resources (dict "limits" (dict $pool.gpuResource (int $pool.gpus))) }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: state, mountPath: /var/lib/ampd-worker}
        - {name: tmp, mountPath: /tmp}
        - {name: config, mountPath: /etc/ampd/config, readOnly: true}
        - {name: ca, mountPath: /etc/ampd/ca, readOnly: true}
        - {name: token, mountPath: /etc/ampd/token, readOnly: true}
        {{- if $metrics }}
        - {name: metrics, mountPath: /etc/ampd/metrics, readOnly: true}
        {{- end }}
        {{- if ne $root.Values.checkpoints.type "none" }}
        - {name: checkpoints, mountPath: /var/lib/ampd-checkpoints}
        {{- end }}
        {{- range $pool.dataRoots }}
        - name: data-{{ .name }}
          mountPath: /data/{{ .name }}
          readOnly: true
          {{- with .subPath }}
          subPath: {{ . }}
          {{- end }}
        {{- end }}
        {{- with $pool.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: state
      {{- if eq $pool.state.type "emptyDir" }}
      emptyDir: {sizeLimit: {{ $pool.state.size }}}
      {{- else if eq $pool.state.type "hostPath" }}
      hostPath: {path: {{ $pool.state.hostPath }}, type: Directory}
      {{- else }}
      ephemeral:
        volumeClaimTemplate:
          metadata:
            labels: {{- include "ampd.selector" $labels | nindent 14 }}
          spec:
            accessModes: [ReadWriteOnce]
            {{- with $pool.state.storageClassName }}
            storageClassName: {{ . }}
            {{- end }}
            resources:
              requests: {storage: {{ $pool.state.size }}}
      {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: {{ $pool.tmpSize }}}
    - name: config
      configMap: {name: {{ $object }}}
    - name: ca
      secret:
        secretName: {{ include "ampd.serverSecret" $root }}
        defaultMode: 0440
        items: [{key: ca.crt, path: ca.crt}]
    - name: token
      secret:
        secretName: {{ include "ampd.tokenSecret" $root }}
        defaultMode: 0440
        # The pod starts when the Secret has it.
        items: [{key: {{ $key }}, path: token}]
    {{- if $metrics }}
    - name: metrics
      secret:
        secretName: {{ include "ampd.workerMetricsSecret" $root }}
        defaultMode: 0440
    {{- end }}
    {{- if ne $root.Values.checkpoints.type "none" }}
    - name: checkpoints
      persistentVolumeClaim: {claimName: {{ include "ampd.checkpointClaim" $root }}}
    {{- end }}
    {{- range $pool.dataRoots }}
    - name: data-{{ .name }}
      {{- if .claim }}
      persistentVolumeClaim: {claimName: {{ .claim }}, readOnly: true}
      {{- else }}
      hostPath: {path: {{ .hostPath }}, type: Directory}
      {{- end }}
    {{- end }}
    {{- with $pool.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
