{{- define "wakepost.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "wakepost.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wakepost.labels" -}}
{{ include "wakepost.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "wakepost.secret" -}}
{{- required "existingSecret: name the Secret with admin-key, master-key and, on PostgreSQL, database-url" .Values.existingSecret -}}
{{- end }}

{{- define "wakepost.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "wakepost.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "wakepost.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{- /* Where the data is, and what opens it. */ -}}
{{- define "wakepost.storeEnv" -}}
- name: WAKEPOST_MASTER_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "wakepost.secret" . }}
      key: master-key
{{- if eq .Values.database "postgres" }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "wakepost.secret" . }}
      key: database-url
{{- end }}
{{- end }}

{{- /* The pod, the same in both shapes. */ -}}
{{- define "wakepost.pod" -}}
metadata:
  labels:
    {{- include "wakepost.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed wakepost.toml starts new pods.
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "wakepost.name" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ add .Values.preStopSleepSeconds (mul 2 .Values.shutdownGraceSeconds) 25 }}
  securityContext:
    {{- include "wakepost.podSecurity" . | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: wakepost
      image: {{ include "wakepost.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["serve"{{ if .Values.config }}, "--config", "/etc/wakepost/wakepost.toml"{{ end }}]
      securityContext:
        {{- include "wakepost.containerSecurity" . | nindent 8 }}
      env:
        - name: WAKEPOST_LISTEN
          value: "0.0.0.0:8787"
        - name: WAKEPOST_DATA_DIR
          value: /var/lib/wakepost/data
        - name: WAKEPOST_PUBLIC_URL
          value: {{ required "publicUrl: what the outside world calls it" .Values.publicUrl | quote }}
        - name: WAKEPOST_SHUTDOWN_GRACE_S
          value: {{ .Values.shutdownGraceSeconds | quote }}
        - name: WAKEPOST_LOG_FORMAT
          value: json
        - name: WAKEPOST_LOG_LEVEL
          value: {{ .Values.logLevel | quote }}
        {{- with .Values.trustedProxies }}
        - name: WAKEPOST_TRUSTED_PROXIES
          value: {{ join "," . | quote }}
        {{- end }}
        - name: WAKEPOST_ADMIN_KEY
          valueFrom:
            secretKeyRef:
              name: {{ include "wakepost.secret" . }}
              key: admin-key
        {{- include "wakepost.storeEnv" . | nindent 8 }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: 8787
      # Migrations run before it listens: the first start on a grown database may take a while.
      startupProbe:
        httpGet:
          path: /healthz
          port: http
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet:
          path: /healthz
          port: http
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: http
        periodSeconds: 5
        timeoutSeconds: 3
      {{- if .Values.preStopSleepSeconds }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ .Values.preStopSleepSeconds }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: data
          mountPath: /var/lib/wakepost
        - name: tmp
          mountPath: /tmp
        {{- if .Values.config }}
        - name: config
          mountPath: /etc/wakepost
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if eq .Values.database "postgres" }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if .Values.config }}
    - name: config
      configMap:
        name: {{ include "wakepost.name" . }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end }}
