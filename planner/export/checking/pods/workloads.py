"""Workloads against their islands: copies, pods, GPUs, nodes, and what the engine's flags count."""

from collections import Counter
from collections.abc import Iterator, Sequence

from planner.domain import DeployedIsland, GpuSpec
from planner.export.checking.commands.groups import command_faults
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.pods.containers import pod_gpus
from planner.export.checking.pods.ports import pod_port_faults
from planner.export.checking.tables import told_inventory
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.dialects import ENGINES
from planner.export.found import Fault, FoundPod, FoundWorkload, Manifest
from planner.export.objects.names import label_value
from planner.export.objects.pods import ENGINE_LABEL, GPU_LABEL, PHASE_LABEL


def copy_gpus(workload: FoundWorkload) -> int:
    """GPUs of one copy of the model, as the objects ask for them."""
    return sum(pod.count * pod_gpus(pod) for pod in workload.pods)


def workload_faults(owned: Owned, expected: Expectation) -> Iterator[Fault]:
    """What is wrong with a workload as its island's."""
    workload, island = owned.workload, owned.island
    parallel, manifest = island.parallel, owned.workload.manifest
    phase = workload.labels.get(PHASE_LABEL)
    if phase != island.phase:
        yield manifest.fault(
            f"{workload.labels_path}.{PHASE_LABEL}", f"must be {island.phase}, which {island.id} serves", phase
        )
    for pod in workload.pods:
        if pod.arguments is not None:
            yield from _host_faults(manifest, pod, expected.gpus.get(island.gpu))
    if workload.replicas != parallel.replicas:
        yield manifest.fault(
            workload.replicas_path, f"must be the {parallel.replicas} replicas of {island.id}", workload.replicas
        )
    if copy_gpus(workload) != parallel.devices:
        yield manifest.fault(
            f"{workload.size_path} x limits",
            f"must be the {parallel.devices} GPUs of one replica of {island.id}",
            f"{copy_gpus(workload)} from {workload.pods_per_copy} pods",
        )
    yield from _engine_faults(workload, island, expected)


def _host_faults(manifest: Manifest, pod: FoundPod, gpu: GpuSpec | None) -> Iterator[Fault]:
    limits, gpus = f"{pod.path}.containers.0.resources.limits", pod_gpus(pod)
    if gpu is None:
        if gpus < 1:
            yield manifest.fault(limits, "must ask for GPUs", gpus)
        return
    selector = dict(pod.spec.get("nodeSelector", {}))
    if not dict(gpu.node_selector).items() <= selector.items():
        yield manifest.fault(
            f"{pod.path}.nodeSelector", f"must be the labels of {gpu.name} nodes, {dict(gpu.node_selector)}", selector
        )
    if not 1 <= gpus <= gpu.gpus_per_host:
        yield manifest.fault(limits, f"must ask for 1 to {gpu.gpus_per_host} GPUs, what a host of {gpu.name} has", gpus)


def _engine_faults(workload: FoundWorkload, island: DeployedIsland, expected: Expectation) -> Iterator[Fault]:
    """The flags of every pod count the copy's GPUs and pods as the object does, take the longest prompt and its answer,
    and are those of the island's batch and phase."""
    devices = island.parallel.devices
    name = workload.labels.get(ENGINE_LABEL, "")
    engine = ENGINES.get(name)
    if engine is None:
        yield workload.manifest.fault(
            f"{workload.labels_path}.{ENGINE_LABEL}", f"must be one of {', '.join(ENGINES)}", name
        )
        return
    yield from command_faults(workload, engine)
    yield from pod_port_faults(workload, engine)
    for pod in (pod for copy in workload.copies for pod in copy):
        if pod.arguments is None:
            continue
        shape = engine.read_shape(pod.arguments)
        if (shape.gpus, shape.pods) != (devices, workload.pods_per_copy):
            yield workload.manifest.fault(
                pod.arguments_path,
                f"the parallel degrees must count {devices} GPUs in {workload.pods_per_copy} pods",
                f"{shape.gpus} in {shape.pods}",
            )
        yield from _context_faults(workload.manifest, pod, engine.context_flag, island, expected)
        for rule, came in engine.check_flags(pod.arguments, island):
            yield workload.manifest.fault(pod.arguments_path, rule, came)


def _context_faults(
    manifest: Manifest, pod: FoundPod, flag: str, island: DeployedIsland, expected: Expectation
) -> Iterator[Fault]:
    values, longest = read_flags(pod.arguments or ()), island.longest_prompt
    needed = max(longest, min(longest + expected.answer_tokens, expected.most_tokens or longest))
    if read_count(values, flag, 0) < max(1, needed):
        answer = f" and an answer, {needed} in all" if needed > longest else ""
        yield manifest.fault(
            pod.arguments_path,
            f"--{flag} must take the longest prompt of {longest} tokens{answer}",
            values.get(flag, "none"),
        )


def total_faults(owned: Sequence[Owned], manifests: Sequence[Manifest], expected: Expectation) -> Iterator[Fault]:
    """GPUs per type over all workloads, by the type that their label names: the plan's, or at most what there is."""
    deployed: Counter[str] = Counter()
    for item in owned:
        deployed[item.workload.labels.get(GPU_LABEL, "")] += item.workload.replicas * copy_gpus(item.workload)
    if expected.plan is not None:
        planned = {label_value(gpu): count for gpu, count in expected.plan.gpus.items()}
        if deployed != planned:
            yield Fault(
                where="Manifests", expected=f"GPUs per type must be the plan's {planned}", got=str(dict(deployed))
            )
        return
    there = {label_value(gpu): count for gpu, count in told_inventory(manifests).items()}
    for gpu, count in deployed.items():
        if count > there.get(gpu, 0):
            yield Fault(
                where="Manifests",
                expected=f"GPUs of type {gpu} must be at most the {there.get(gpu, 0)} of the inventory",
                got=str(count),
            )
