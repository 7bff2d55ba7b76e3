"""What keeps pods from their nodes, their class or each other."""

from plan_edits import PODS, PlanMistake, both, pattern, text

_PLACED = ("lws", "llm-d", "kserve")
_AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-A100]}]}]}}}"
)

SCHEDULING = (
    PlanMistake(
        name="no limit of CPUs",
        cases=_PLACED,
        edit=pattern(" +cpu: 48\n", ""),
        told="limits.cpu: must be there",
    ),
    PlanMistake(
        name="half CPUs",
        cases=_PLACED,
        edit=text("cpu: 48\n", "cpu: 47500m\n"),
        told="limits.cpu: must be whole CPUs",
    ),
    PlanMistake(
        name="no CPUs", cases=PODS, edit=pattern("cpu: (48|64|32)\n", "cpu: 0\n"), told="limits.cpu: must be above 0"
    ),
    PlanMistake(
        name="memory a thousandth",
        cases=PODS,
        edit=pattern("memory: (512|256)Gi", "memory: 64Mi"),
        told="limits.memory: must be at least",
    ),
    PlanMistake(
        name="memory below /dev/shm",
        cases=PODS,
        edit=pattern("memory: (512|256)Gi", "memory: 8Gi"),
        told="16Gi",
    ),
    PlanMistake(
        name="another policy of the kubelet",
        cases=_PLACED,
        edit=pattern('(topology-manager-policy"?: "?)restricted', r"\g<1>none"),
        told="planner/topology-manager-policy: must be restricted as in the plan's placement",
        folder=False,
    ),
    PlanMistake(
        name="shared memory elsewhere",
        cases=("lws", "kubernetes", "disaggregatedset", "llm-d", "lws, sglang"),
        edit=text("mountPath: /dev/shm", "mountPath: /dev/shmm"),
        told="must mount the volume of memory at /dev/shm",
    ),
    PlanMistake(
        name="mount of no volume",
        cases=("lws", "kubernetes", "disaggregatedset", "llm-d", "lws, sglang"),
        edit=pattern(r"- name: shared-memory(\n +mountPath)", r"- name: sharedmem\g<1>"),
        told="volumeMounts.0.name: must be a volume of the pod",
    ),
    PlanMistake(
        name="affinity that lets no node in",
        cases=("kubernetes", "disaggregatedset", "lws, sglang"),
        edit=pattern("( +)tolerations:\n", rf"\g<1>{_AFFINITY}\n\g<0>"),
        told="must let in the nodes of nodeSelector",
    ),
    PlanMistake(
        name="a scheduler that nobody knows",
        cases=("lws", "kubernetes", "disaggregatedset", "lws, sglang"),
        edit=pattern("( +)tolerations:\n", r"\g<1>schedulerName: nope\n\g<0>"),
        told="schedulerName: must be left out or one of",
    ),
    PlanMistake(
        name="pods of another island",
        cases=("lws", "disaggregatedset"),
        edit=pattern("(template:|Template:)(.*?)planner/gpu: H200", r"\g<1>\g<2>planner/gpu: H20"),
        told="label planner/gpu: must be",
    ),
    PlanMistake(
        name="workload in another namespace",
        cases=("lws", "kubernetes", "lws, sglang"),
        edit=pattern("(metadata:\n)(  name: [a-z0-9-]+\n  labels:)", r"\g<1>  namespace: elsewhere\n\g<2>"),
        told="metadata.namespace: must be",
    ),
    PlanMistake(
        name="Service in another namespace",
        cases=("lws", "kubernetes", "disaggregatedset", "kserve", "lws, sglang"),
        edit=pattern(
            "(kind: Service\nmetadata:\n)(  name: [a-z0-9-]+\n  labels:)", r"\g<1>  namespace: elsewhere\n\g<2>"
        ),
        told="metadata.namespace: must be",
    ),
    PlanMistake(
        name="leader first in a group of several pods",
        cases=("lws", "disaggregatedset", "lws, sglang"),
        edit=text("startupPolicy: LeaderCreated", "startupPolicy: LeaderReady"),
        told="startupPolicy: must be LeaderCreated",
    ),
    PlanMistake(
        name="a pod of a group restarts alone",
        cases=("lws", "disaggregatedset", "lws, sglang"),
        edit=text("restartPolicy: RecreateGroupOnPodRestart", "restartPolicy: None"),
        told="restartPolicy: must be RecreateGroupOnPodRestart",
    ),
    PlanMistake(
        name="a group of several pods on one host",
        cases=("lws",),
        edit=text("exclusive-topology: example.com/rack", "exclusive-topology: kubernetes.io/hostname"),
        told="exclusive-topology: must be the label of a switch",
    ),
    PlanMistake(
        name="all pods lost their class",
        cases=("lws", "kubernetes"),
        edit=pattern(" +priorityClassName: serving\n", "", every=True),
        told="PriorityClass serving, metadata.name: must be the priorityClassName of the pods",
    ),
    PlanMistake(
        name="class and pods' class left out",
        cases=("placed",),
        edit=both(
            pattern(" +priorityClassName: prod\n", "", every=True),
            lambda files: {name: body for name, body in files.items() if name != "priority-class.yaml"},
        ),
        told="priorityClassName: must name a priority class, as the placement's prod",
        folder=False,
    ),
    PlanMistake(
        name="a rollout beside a full fleet",
        cases=("kubernetes",),
        edit=text("maxSurge: 0", "maxSurge: 1"),
        told="spec.strategy.rollingUpdate.maxSurge: must be 0",
    ),
    PlanMistake(
        name="a rollout by default",
        cases=("kubernetes",),
        edit=pattern("  strategy:\n.*?  template:", "  template:"),
        told="spec.strategy.rollingUpdate.maxSurge: must be 0",
    ),
    PlanMistake(
        name="types that the nodes are not",
        cases=("llm-d plain",),
        edit=pattern("labelValues:\n    - NVIDIA-H200", "labelValues:\n    - NVIDIA-A100"),
        told="acceleratorTypes: must let in the nodes of nodeSelector",
    ),
    PlanMistake(
        name="vendor that the GPUs are not of",
        cases=("llm-d",),
        edit=text("  accelerator:\n    type: nvidia", "  accelerator:\n    type: amd"),
        told="prefill.accelerator.type: must be nvidia",
    ),
    PlanMistake(
        name="CPUs for nobody",
        cases=("kueue",),
        edit=pattern(r"(name: cpu\n +nominalQuota: )\d+", r"\g<1>1"),
        told="must be at least 1 CPU for each of",
    ),
    PlanMistake(
        name="memory for nobody",
        cases=("kueue",),
        edit=pattern(r"(name: memory\n +nominalQuota: )\d+Gi", r"\g<1>512Mi"),
        told="must be at least 1Gi for each of",
    ),
    PlanMistake(
        name="worker of the other mode",
        cases=("dynamo",),
        edit=pattern("(--disaggregation-mode\n +- )prefill", r"\g<1>decode"),
        told="--disaggregation-mode must be prefill",
    ),
)
