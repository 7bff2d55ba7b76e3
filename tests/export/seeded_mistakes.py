"""Mistakes that people and programs make in manifests, each with the field in which the checks have to find it.

A row: the mistake, the case it is sown in, file, what becomes what (every time, or the first time only), and the fault:
file, object and field as `planner export --check` tells them. `folder`: it is found in the folder alone, too; else only
against the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from contract_plans import placed_plan, single_node_plan, two_range_plan
from dynamo_plans import two_pool_plan
from export_plans import example_plan

from planner.domain import Plan
from planner.export import ExportOptions, render

_RACKS = (("asw", "example.com/rack"), ("aggregation", "example.com/block"))
_ALL = ExportOptions(pin_nodes=True, priority_class="serving", model_volume="weights", topology_labels=_RACKS[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Sound manifests: a plan, a target, an engine and options."""

    plan: Callable[[], Plan]
    target: str
    engine: str = "vllm"
    options: ExportOptions = field(default_factory=ExportOptions)

    def files(self, router: str = "") -> dict[str, str]:
        """The manifests, rendered anew."""
        return render(self.plan(), target=self.target, engine=self.engine, options=self.options, router=router)


CASES = {
    "lws": Case(plan=placed_plan, target="lws", options=_ALL),
    "lws, sglang": Case(plan=example_plan, target="lws", engine="sglang"),
    "kubernetes": Case(plan=single_node_plan, target="kubernetes", options=ExportOptions(priority_class="serving")),
    "disaggregatedset": Case(plan=example_plan, target="disaggregatedset"),
    "disaggregatedset, two sets": Case(plan=two_range_plan, target="disaggregatedset"),
    "dynamo": Case(plan=two_pool_plan, target="dynamo"),
    "llm-d": Case(plan=placed_plan, target="llm-d", options=ExportOptions(pin_nodes=True)),
    "kserve": Case(plan=placed_plan, target="kserve", options=ExportOptions(pin_nodes=True)),
    "kueue": Case(plan=example_plan, target="kueue", options=ExportOptions(topology_labels=_RACKS)),
    "script": Case(plan=example_plan, target="script"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One row of the table; `new` None: the file is removed. `where`: what the fault says before its first colon."""

    name: str
    case: str
    file: str
    old: str
    new: str | None
    where: str
    once: bool
    folder: bool

    def sow(self, files: dict[str, str]) -> dict[str, str]:
        """The manifests with the mistake in them."""
        if self.new is None:
            return {name: text for name, text in files.items() if name != self.file}
        assert self.old in files[self.file], f"{self.old!r} is not in {self.file}"
        damaged = files[self.file].replace(self.old, self.new, 1 if self.once else -1)
        assert damaged != files[self.file]
        return {**files, self.file: damaged}


def _in(case: str, file: str, thing: str, *rows: tuple[str, str, str | None, str]) -> tuple[Mistake, ...]:
    """Mistakes in one object. A name that ends in `*` is made once, one that begins with `plan:` is found against the
    plan alone; a field that begins with `=` names another object or none."""
    return tuple(
        Mistake(
            name=name.removeprefix("plan:").removesuffix("*"),
            case=case,
            file=file,
            old=old,
            new=new,
            where=field[1:] if field.startswith("=") else f"{file}, {thing}, {field}",
            once=name.endswith("*"),
            folder=not name.startswith("plan:"),
        )
        for name, old, new, field in rows
    )


_LEADER = "spec.leaderWorkerTemplate.leaderTemplate.spec"
_MAIN = f"{_LEADER}.containers.0"
_REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PINS = f"{_REQUIRED}.nodeSelectorTerms.0.matchExpressions.0.values"
_POD = "spec.template.spec"
_TABLE = "data[routing.json]"
_GRID = "data[global-router.json] prefill_pool_selection_strategy"
_ROUTES = "routing.yaml"
_FRONT, _POOL = "00-frontend.yaml", "01-prefill-0.yaml"
_GROUP = "resourceGroups.0.flavors"

MISTAKES = (
    *_in(
        "lws",
        "02-h20-0.yaml",
        "LeaderWorkerSet placed-h20-0",
        ("wrong GPU count", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4", "spec.leaderWorkerTemplate.size x limits"),
        ("plan:pod larger than a host", "nvidia.com/gpu: 8", "nvidia.com/gpu: 16", f"{_MAIN}.resources.limits"),
        ("group of another size", "size: 4", "size: 5", "spec.leaderWorkerTemplate.size x limits"),
        ("replicas off by one", "replicas: 1\n", "replicas: 2\n", "spec.replicas"),
        ("wrong type", "size: 4", "size: four", "spec.leaderWorkerTemplate.size"),
        ("wrong enum", "LeaderCreated", "LeaderStarted", "spec.startupPolicy"),
        ("unknown key", "startupPolicy:", "startPolicy:", "spec"),
        ("missing required key*", "    size: 4\n", "", "spec.leaderWorkerTemplate"),
        ("latest image", "vllm-openai:v0.18.0", "vllm-openai:latest", f"{_MAIN}.image"),
        ("bad quantity", "memory: 512Gi", "memory: 512GB", f"{_MAIN}.resources.limits.memory"),
        ("TP x DP mismatch", "--tensor-parallel-size=1", "--tensor-parallel-size=2", f"{_MAIN}.args"),
        ("ranks of a pod", "--data-parallel-size-local=8", "--data-parallel-size-local=4", f"{_MAIN}.args"),
        ("batch flag off", "--max-num-seqs=64", "--max-num-seqs=256", f"{_MAIN}.args"),
        ("context below the prompt", "--max-model-len=6095", "--max-model-len=4000", f"{_MAIN}.args"),
        ("plan:context without an answer", "--max-model-len=6095", "--max-model-len=4096", f"{_MAIN}.args"),
        ("probe of no route", "path: /health", "path: /healthz", f"{_MAIN}.readinessProbe.httpGet.path"),
        ("shared memory of a toy", "sizeLimit: 16Gi", "sizeLimit: 16M", f"{_LEADER}.volumes.0.emptyDir.sizeLimit"),
        ("shared memory on a disk", "medium: Memory", "medium: ''", f"{_MAIN}.volumeMounts"),
        ("flag of no engine*", "--max-num-seqs=64", "--max-num-seqs=64\n          - --no-such-flag", f"{_MAIN}.args"),
        ("value of another type", "utilization=0.9", "utilization=most", f"{_MAIN}.args"),
        ("value that is no choice", "deepep_low_latency", "deepep_lowlatency", f"{_MAIN}.args"),
        ("wrong KV role", "kv_consumer", "kv_producer", f"{_MAIN}.args"),
        ("plan:wrong node label", "NVIDIA-H20\n", "NVIDIA-H200\n", f"{_LEADER}.nodeSelector"),
        ("plan:host outside the placement", "d0.example", "h0.example", f"{_LEADER}.{_PINS}"),
        ("swapped phase label", "planner/phase: decode", "planner/phase: prefill", "metadata.labels.planner/phase"),
        ("wrong engine label", "name: vllm", "name: sglang", f"{_MAIN}.args"),
        ("unknown engine label", "name: vllm", "name: trt", "metadata.labels.app.kubernetes.io/name"),
        ("island twice", "planner/island: h20-0", "planner/island: h200-0", "metadata.labels.planner/island"),
        (
            "too long a name*",
            "name: placed-h20-0\n",
            f"name: {'p' * 46}\n",
            f"=02-h20-0.yaml, LeaderWorkerSet {'p' * 46}",
        ),
        ("island missing", "", None, "=Manifests"),
        (
            "claim missing",
            "claimName: weights",
            "claimName: weight",
            f"{_LEADER}.volumes.1.persistentVolumeClaim.claimName",
        ),
    ),
    *_in(
        "lws",
        "priority-class.yaml",
        "PriorityClass serving",
        ("plan:priority of another value", "value: 5000", "value: 500", "value"),
        ("plan:preemption swapped", "PreemptLowerPriority", "Never", "preemptionPolicy"),
        ("priority for all pods", "globalDefault: false", "globalDefault: true", "globalDefault"),
        (
            "priority class missing",
            "name: serving",
            "name: other",
            f"=01-h200-0.yaml, LeaderWorkerSet placed-h200-0, {_LEADER}.priorityClassName",
        ),
    ),
    *_in(
        "lws",
        _ROUTES,
        "ConfigMap placed-routing",
        (
            "unrouted range*",
            '"prefill", "range_start": 2048',
            '"prefill", "range_start": 2049',
            f"{_TABLE} prefill 2048-6094",
        ),
        ("share above 1*", '"share": 1.0', '"share": 1.5', f"{_TABLE} decode 0-2047"),
        ("overlapping ranges", '"range_end": 2048', '"range_end": 2050', f"{_TABLE} prefill 2048-6094"),
        ("route to nobody*", 'h20-0-leader", "share"', 'h20-7-leader", "share"', f"{_TABLE} decode 0-2047"),
    ),
    *_in(
        "lws, sglang",
        "02-h20-0.yaml",
        "LeaderWorkerSet mixed-fleet-h20-0",
        ("probe of no route of SGLang's", "path: /health", "path: /version", f"{_MAIN}.readinessProbe.httpGet.path"),
        ("flag of the other engine", "--mem-fraction-static", "--gpu-memory-utilization", f"{_MAIN}.args"),
        ("SGLang's GPUs", "--tp-size=32", "--tp-size=16", f"{_MAIN}.args"),
        ("SGLang's batch of a group", "--max-running-requests=2048", "--max-running-requests=64", f"{_MAIN}.args"),
        ("SGLang's phase", "--disaggregation-mode=decode", "--disaggregation-mode=null", f"{_MAIN}.args"),
    ),
    *_in(
        "kubernetes",
        "02-h20-0.yaml",
        "Deployment single-nodes-h20-0",
        (
            "requests below limits*",
            "          limits:\n",
            "          requests: {cpu: 8}\n          limits:\n",
            f"{_POD}.containers.0.resources.requests.cpu",
        ),
        ("pods without the priority class", "      priorityClassName: serving\n", "", f"{_POD}.priorityClassName"),
        (
            "selector of other pods*",
            "      planner/island: h20-0",
            "      planner/island: h20-1",
            "spec.selector.matchLabels.planner/island",
        ),
        (
            "duplicated name*",
            "name: single-nodes-h20-0\n",
            "name: single-nodes-h20-1\n",
            "=03-h20-1.yaml, Deployment single-nodes-h20-1, metadata.name",
        ),
        (
            "dangling Service selector",
            "  selector:\n    app.kubernetes.io/part-of: single-nodes\n    planner/island: h20-0",
            "  selector:\n    app.kubernetes.io/part-of: single-nodes\n    planner/island: h20-5",
            "=02-h20-0.yaml, Service single-nodes-h20-0, spec.selector.planner/island",
        ),
    ),
    *_in(
        "disaggregatedset",
        "disaggregatedset.yaml",
        "DisaggregatedSet mixed-fleet",
        ("role typo", "name: h20-0\n", "name: h20_0\n", "spec.roles.1.name"),
        (
            "role renamed",
            "name: h20-0\n",
            "name: h20-8\n",
            "=services.yaml, Service mixed-fleet-h20-0-leader, spec.selector.disaggregatedset.x-k8s.io/role",
        ),
        ("copies of the whole plan", "slices: 1", "slices: 2", "spec.slices"),
    ),
    *_in(
        "disaggregatedset, two sets",
        "disaggregatedset-2.yaml",
        "DisaggregatedSet two-ranges-2",
        (
            "set left out",
            "",
            None,
            "=services.yaml, Service two-ranges-h200-0-leader, spec.selector.disaggregatedset.x-k8s.io/name",
        ),
        (
            "set of another's name",
            "name: two-ranges-2\n",
            "name: two-ranges-1\n",
            "=disaggregatedset-2.yaml, DisaggregatedSet two-ranges-1, metadata.name",
        ),
        ("copies of a role*", "replicas: 1\n", "replicas: 2\n", "spec.roles.0.spec.replicas"),
        (
            "island of the other set*",
            "planner/island: h200-0",
            "planner/island: h200-4",
            "spec.roles.0.metadata.labels.planner/island",
        ),
    ),
    *_in(
        "disaggregatedset, two sets",
        "services.yaml",
        "Service two-ranges-h200-0-leader",
        (
            "role of the other set*",
            "x-k8s.io/name: two-ranges-2\n",
            "x-k8s.io/name: two-ranges-1\n",
            "spec.selector.disaggregatedset.x-k8s.io/role",
        ),
    ),
    *_in(
        "dynamo",
        _POOL,
        "DynamoGraphDeployment mixed-fleet-p0",
        ("nodeCount 1", "nodeCount: 2", "nodeCount: 1", "spec.components.1.multinode.nodeCount"),
        ("nodeCount off by one", "nodeCount: 2", "nodeCount: 3", "spec.components.1.multinode.nodeCount x limits"),
        (
            "shared memory switched off",
            "sharedMemorySize: 16Gi",
            "sharedMemorySize: '0'",
            "spec.components.1.sharedMemorySize",
        ),
        ("component type typo", "type: prefill", "type: prefil", "spec.components.1.type"),
        (
            "wrong namespace of workers",
            "- default-mixed-fleet-p0\n",
            "- default\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
        (
            "batch flag off in words",
            "- --max-num-seqs\n          - '2'",
            "- --max-num-seqs\n          - '3'",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
    ),
    *_in(
        "dynamo",
        _FRONT,
        "ConfigMap mixed-fleet-ctrl-routes",
        ("pool index out of range", "[[0], [1]]", "[[0], [2]]", f"{_GRID}.prefill_pool_mapping.1"),
        ("mapping too short", "[[0], [1]]", "[[0]]", f"{_GRID}.prefill_pool_mapping"),
        ("pools swapped", "[[0], [1]]", "[[1], [0]]", f"{_GRID}.prefill_pool_mapping.0"),
        ("grid of other cells*", '"isl_max": 4096', '"isl_max": 4000', f"{_GRID}.isl_resolution"),
    ),
    *_in(
        "llm-d",
        "01.values.yaml",
        "release values 01.values.yaml",
        ("tensor x dataLocal", "dataLocal: 2", "dataLocal: 1", "prefill.parallelism"),
        ("secret that is no string", "authSecretName: ''", "authSecretName: null", "modelArtifacts.authSecretName"),
        ("template for Helm*", "name: deepseek-v3", "name: '{{ .Release.Name }}'", "modelArtifacts.name"),
        ("plan:values pinned elsewhere", "d0.example", "d7.example", f"decode.extraConfig.{_PINS}"),
        (
            "groups that do not install*",
            "  enabled: true\n  sampling",
            "  enabled: false\n  sampling",
            "tracing.enabled",
        ),
        ("role switched off", "create: true", "create: false", "prefill.replicas"),
    ),
    *_in(
        "kserve",
        "01.yaml",
        "LLMInferenceService placed-01",
        ("data of a group", "data: 32", "data: 16", "spec.parallelism.data / dataLocal x limits"),
        ("KV role among the flags*", "kv_consumer", "kv_producer", "spec.template.containers.0.env.2.value"),
        ("plan:worker pinned elsewhere*", "- h0.example", "- d0.example", f"spec.prefill.template.{_PINS}"),
    ),
    *_in(
        "kueue",
        "queues.yaml",
        "ClusterQueue mixed-fleet",
        (
            "plan:quota above the fleet",
            "nominalQuota: 43",
            "nominalQuota: 44",
            f"spec.{_GROUP}.0.resources.0.nominalQuota",
        ),
        ("plan:quota below the fleet", "nominalQuota: 32", "nominalQuota: 31", "=Manifests"),
        ("flavor that is none", "name: mixed-fleet-h200", "name: mixed-fleet-h201", f"spec.{_GROUP}.1.name"),
    ),
    *_in(
        "script",
        "01-h200-0.sh",
        "launch script mixed-fleet-h200-0",
        ("copies off by one", "\ncopies=2", "\ncopies=1", "copies"),
        ("batch of the workers*", "--max-num-seqs=2\n", "--max-num-seqs=1\n", "commands.*:leader"),
        ("word that a shell expands", "      serve\n", "      $(reboot)\n", "=01-h200-0.sh"),
        ("script left out", "", None, "=Manifests"),
    ),
)
