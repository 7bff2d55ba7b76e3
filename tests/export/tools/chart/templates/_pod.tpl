{{- define "fullname" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 55 | trimSuffix "-" }}
{{- end }}

{{- define "rendered" -}}
{{ tpl (toYaml .value) .root }}
{{- end }}

{{- define "labels" -}}
{{ toYaml .root.Values.modelArtifacts.labels }}
llm-d.ai/role: {{ .role }}
{{- end }}

{{- define "sidecar" -}}
- name: routing-proxy
  image: {{ required "routing.proxy.image must be specified" .root.Values.routing.proxy.image }}
  args:
    - --port={{ .root.Values.routing.servicePort }}
    - --vllm-port={{ .root.Values.routing.proxy.targetPort }}
    - --connector={{ .root.Values.routing.proxy.connector }}
    - --secure-proxy={{ .root.Values.routing.proxy.secure }}
  {{- if or .root.Values.multinode .root.Values.tracing.enabled }}
  env:
    {{- if .root.Values.tracing.enabled }}
    - name: OTEL_EXPORTER_OTLP_ENDPOINT
      value: {{ .root.Values.tracing.otlpEndpoint | quote }}
    - name: OTEL_TRACES_SAMPLER
      value: {{ .root.Values.tracing.sampling.sampler | quote }}
    - name: OTEL_TRACES_SAMPLER_ARG
      value: {{ .root.Values.tracing.sampling.samplerArg | quote }}
    {{- end }}
  {{- end }}
  ports:
    - containerPort: {{ .root.Values.routing.servicePort }}
  resources: {}
  restartPolicy: Always
  securityContext:
    allowPrivilegeEscalation: false
    runAsNonRoot: true
{{- end }}

{{- define "container" -}}
{{- if ne (default "custom" .container.modelCommand) "custom" }}{{ fail "only custom commands are known here" }}{{ end -}}
{{- $resource := index .root.Values.accelerator.resources (.pd.accelerator | default dict).type | default (index .root.Values.accelerator.resources .root.Values.accelerator.type) -}}
{{- $gpus := mul (int .pd.parallelism.dataLocal) (int .pd.parallelism.tensor) | toString -}}
- name: {{ .container.name | default "vllm" }}
  image: {{ required "image of container is required" .container.image }}
  {{- with .container.extraConfig }}
  {{- include "rendered" (dict "value" . "root" $.root) | nindent 2 }}
  {{- end }}
  command:
    {{- required "a custom modelCommand needs a command" .container.command | toYaml | nindent 4 }}
  {{- with .container.args }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  env:
    {{- with .container.env }}
    {{- include "rendered" (dict "value" . "root" $.root) | nindent 4 }}
    {{- end }}
    - name: DP_SIZE
      value: {{ .pd.parallelism.data | quote }}
    - name: TP_SIZE
      value: {{ .pd.parallelism.tensor | quote }}
    - name: DP_SIZE_LOCAL
      value: {{ .pd.parallelism.dataLocal | quote }}
    {{- with .root.Values.modelArtifacts.authSecretName }}
    - name: HF_TOKEN
      valueFrom:
        secretKeyRef:
          name: {{ . }}
          key: HF_TOKEN
    {{- end }}
  {{- with .container.ports }}
  ports:
    {{- include "rendered" (dict "value" . "root" $.root) | nindent 4 }}
  {{- end }}
  {{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" "lifecycle" }}
  {{- with index $.container $probe }}
  {{ $probe }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  resources:
    limits:
      {{- merge (deepCopy .container.resources.limits) (dict $resource $gpus) | toYaml | nindent 6 }}
    requests:
      {{- merge (deepCopy (.container.resources.requests | default dict)) (dict $resource $gpus) | toYaml | nindent 6 }}
  volumeMounts:
    {{- with .container.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if .container.mountModelVolume }}
    - name: model-storage
      mountPath: {{ .root.Values.modelArtifacts.mountPath }}
    {{- end }}
{{- end }}

{{- define "pod" -}}
{{- if and (eq .role "decode") .root.Values.routing.proxy.enabled }}
initContainers:
  {{- include "sidecar" . | nindent 2 }}
{{- end }}
{{- with .pd.extraConfig }}
{{ include "rendered" (dict "value" . "root" $.root) }}
{{- end }}
{{- with .pd.acceleratorTypes }}
{{- if .labelKey }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - key: {{ .labelKey }}
              operator: In
              values:
                {{- toYaml .labelValues | nindent 16 }}
{{- end }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "priorityClassName" "terminationGracePeriodSeconds" }}
{{- with index $.pd $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
containers:
  {{- range .pd.containers }}
  {{- include "container" (dict "root" $.root "pd" $.pd "container" .) | nindent 2 }}
  {{- end }}
volumes:
  {{- with .pd.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if (index .pd.containers 0).mountModelVolume }}
  - name: model-storage
    emptyDir:
      sizeLimit: {{ .root.Values.modelArtifacts.size }}
  {{- end }}
{{- end }}
