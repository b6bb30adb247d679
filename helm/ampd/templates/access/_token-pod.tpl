{{/* The pod that makes the workers' token. */}}
{{- define "ampd.workerTokenPod" -}}
{{- $name := include "ampd.tokenSecret" . -}}
metadata:
  labels: {{- include "ampd.selector" (dict "root" . "component" "worker-token") | nindent 4 }}
  annotations:
    checksum/script: {{ .Files.Get "files/worker-token" | sha256sum }}
spec:
  serviceAccountName: {{ $name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: OnFailure
  securityContext: {{- include "ampd.podSecurityContext" . | nindent 4 }}
  {{- include "ampd.pullSecrets" . | nindent 2 }}
  initContainers:
    - name: token
      image: {{ include "ampd.image" (dict "root" . "image" .Values.images.client) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [/bin/sh, /etc/ampd/script/worker-token, {{ include "ampd.fullname" . }}-workers]
      env:
        - {name: AMPD_ADDRESS, value: {{ include "ampd.address" . | quote }}}
        - {name: AMPD_CA, value: /etc/ampd/admin/ca.crt}
        - {name: AMPD_CERT, value: /etc/ampd/admin/tls.crt}
        - {name: AMPD_KEY, value: /etc/ampd/admin/tls.key}
      securityContext: {{- include "ampd.securityContext" . | nindent 8 }}
      resources: &small {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
      volumeMounts:
        - {name: work, mountPath: /run/ampd-token}
        - {name: script, mountPath: /etc/ampd/script, readOnly: true}
        - {name: admin, mountPath: /etc/ampd/admin, readOnly: true}
        - {name: token, mountPath: /etc/ampd/token, readOnly: true}
  containers:
    - name: keep
      image: {{ include "ampd.image" (dict "root" . "image" .Values.images.kubectl) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [kubectl, patch, secret, {{ $name }}, --type=merge, --patch-file=/run/ampd-token/patch.json]
      env:
        - {name: HOME, value: /run/ampd-token}
      securityContext: {{- include "ampd.securityContext" . | nindent 8 }}
      resources: *small
      volumeMounts:
        - {name: work, mountPath: /run/ampd-token}
        # Only this container may call the API of Kubernetes.
        - {name: api, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  volumes:
    - name: work
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    - name: script
      configMap: {name: {{ $name }}}
    - name: admin
      secret: {secretName: {{ include "ampd.adminSecret" . }}, defaultMode: 0440}
    - name: token
      secret: {secretName: {{ $name }}, defaultMode: 0440}
    - name: api
      projected:
        defaultMode: 0440
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3600}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}
