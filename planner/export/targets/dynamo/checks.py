"""What only Dynamo's operator would refuse, or what would start and not serve: names, types, versions, and the words by
which routers and workers of a graph find each other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from planner.domain import DeployedPlan, Phase
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.groups import program_arguments
from planner.export.found import Fault, Manifest
from planner.export.objects.pods import ENGINE_LABEL, PHASE_LABEL
from planner.export.options import image_is_pinned
from planner.export.targets.dynamo.components import (
    COMPONENT_TYPES,
    KIND,
    NAME_BUDGET,
    container_gpus,
    dynamo_namespace,
    name_length,
    tells_version,
)
from planner.export.targets.dynamo.engines import (
    DYNAMO_ENGINES,
    MP_ANNOTATION,
    RUNTIME_VERSION,
    SUFFIX_VARIABLE,
    joined,
)

_CALLERS = frozenset({"dynamo.frontend", "dynamo.global_router"})
LOCAL_ROUTER_MODULE = "dynamo.router"
_FRONTENDS, _ROUTERS = ("dynamo.frontend",), (LOCAL_ROUTER_MODULE, "dynamo.global_router")
_TYPE_OF = {phase.value: kind for phase, kind in COMPONENT_TYPES.items()}
_WITH_WORKERS = frozenset({LOCAL_ROUTER_MODULE, "dynamo.frontend"})


def graph_faults(manifests: Sequence[Manifest], _plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with graphs, the GlobalRouter's configuration left out."""
    graphs = [manifest for manifest in manifests if manifest.kind == KIND]
    workers = worker_namespaces(graphs)
    models = {_model_of(worker) for members in workers.values() for worker in members}
    routed = {namespace_of(graph) for graph in graphs for _, c in components(graph) if module_of(c) in _WITH_WORKERS}
    for manifest in graphs:
        yield from _name_faults(manifest)
        for path, component in components(manifest):
            yield from _component_faults(manifest, path, component)
            if phase_of(component):
                yield from _worker_faults(manifest, path, component, routed)
            else:
                kinds = _FRONTENDS if component.get("type") == "frontend" else _ROUTERS
                where = f"{path}.podTemplate.spec.containers.0.command"
                yield from _program_faults(manifest, where, component, kinds)
                yield from _caller_faults(manifest, path, component, models)
                yield from _router_faults(manifest, path, component, workers.get(namespace_of(manifest), []))


def components(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Field and content of each component of a graph."""
    for index, component in enumerate(manifest.body["spec"]["components"]):
        yield f"spec.components.{index}", component


def namespace_of(manifest: Manifest) -> str:
    """Dynamo's namespace of a graph."""
    return dynamo_namespace(str(manifest.body["metadata"].get("namespace", "default")), manifest.name)


def module_of(component: Mapping[str, Any]) -> str:
    """The Python module that a component runs."""
    command = component["podTemplate"]["spec"]["containers"][0].get("command", ())
    return str(command[-1]) if command else ""


def word_after(component: Mapping[str, Any], flag: str) -> str:
    """The argument behind `flag`, empty where there is none."""
    arguments = [str(word) for word in component["podTemplate"]["spec"]["containers"][0].get("args", ())]
    return dict(pairwise(arguments)).get(flag, "")


def phase_of(component: Mapping[str, Any]) -> str:
    """The phase from a worker's label, empty for other components."""
    return str(component["podTemplate"]["metadata"]["labels"].get(PHASE_LABEL, ""))


def worker_namespaces(manifests: Sequence[Manifest]) -> dict[str, list[Mapping[str, Any]]]:
    """Dynamo namespace -> the workers that register there, from all graphs."""
    workers: dict[str, list[Mapping[str, Any]]] = {}
    for manifest in manifests:
        for _, component in components(manifest) if manifest.kind == KIND else ():
            if phase_of(component):
                workers.setdefault(word_after(component, "--namespace"), []).append(component)
    return workers


def _name_faults(manifest: Manifest) -> Iterator[Fault]:
    counts = Counter(component["name"].lower() for _, component in components(manifest))
    for path, component in components(manifest):
        name, nodes = component["name"], component.get("multinode", {}).get("nodeCount", 1)
        if counts[name.lower()] > 1:
            yield manifest.fault(f"{path}.name", "must be unique in the graph, whatever its case", name)
        length = name_length(manifest.name, name, nodes)
        if length > NAME_BUDGET:
            expected = f"must count at most {NAME_BUDGET} characters with the graph's name and its pods' roles"
            yield manifest.fault(f"{path}.name", expected, f"{length}")


def _component_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    phase = phase_of(component)
    if phase and component.get("type") != (kind := _TYPE_OF.get(phase, phase)):
        yield manifest.fault(f"{path}.type", f"must be {kind}, as its island serves {phase}", component.get("type"))
    image = str(component["podTemplate"]["spec"]["containers"][0]["image"])
    if not phase and not image_is_pinned(image):  # those of workers are looked at with their pods
        where = f"{path}.podTemplate.spec.containers.0.image"
        yield manifest.fault(where, "must name a fixed version", image)
    if not tells_version(image) and "runtimeVersionOverride" not in component:
        expected = f"must tell Dynamo's version, as {RUNTIME_VERSION}, where the image's tag does not"
        yield manifest.fault(f"{path}.runtimeVersionOverride", expected, f"none for {image}")


def _worker_faults(manifest: Manifest, path: str, component: Mapping[str, Any], routed: set[str]) -> Iterator[Fault]:
    """A worker starts its engine, where a router looks for it, and leaves its nodes to the operator."""
    main = f"{path}.podTemplate.spec.containers.0"
    label = component["podTemplate"]["metadata"]["labels"].get(ENGINE_LABEL, "")
    engines = [DYNAMO_ENGINES[label]] if label in DYNAMO_ENGINES else list(DYNAMO_ENGINES.values())
    yield from _program_faults(manifest, f"{main}.command", component, [engine.module for engine in engines])
    framework = manifest.body["spec"]["backendFramework"]
    if label in DYNAMO_ENGINES and framework != label:
        yield manifest.fault("spec.backendFramework", f"must be {label}, which {component['name']} runs", framework)
    yield from _executor_faults(manifest, path, component)
    written = set(read_flags(joined(_words(component, "args"))))
    if repeated := written & frozenset().union(*(engine.operators for engine in engines)):
        expected = "must leave to the operator what it adds to the nodes of a copy"
        yield manifest.fault(f"{main}.args", expected, ", ".join(f"--{name}" for name in sorted(repeated)))
    namespace = word_after(component, "--namespace")
    if namespace not in routed:
        yield manifest.fault(f"{main}.args", f"--namespace must be one of {', '.join(sorted(routed))}", repr(namespace))
    variables = component["podTemplate"]["spec"]["containers"][0].get("env", ())
    if {"name": SUFFIX_VARIABLE, "value": ""} not in variables:
        expected = f"must hold {SUFFIX_VARIABLE} with an empty value, or its router may not find the worker"
        yield manifest.fault(f"{main}.env", expected, [variable["name"] for variable in variables])


def _executor_faults(manifest: Manifest, path: str, component: Mapping[str, Any]) -> Iterator[Fault]:
    """Where a rank spans pods by an executor, the annotation has the operator join them without Ray."""
    metadata = component["podTemplate"]["metadata"]
    engine = DYNAMO_ENGINES.get(metadata["labels"].get(ENGINE_LABEL, ""))
    nodes = component.get("multinode", {}).get("nodeCount", 1)
    values = read_flags(joined(_words(component, "args")))
    rank = read_count(values, "tensor-parallel-size", 1) * read_count(values, "pipeline-parallel-size", 1)
    came = metadata.get("annotations", {}).get(MP_ANNOTATION, "none")
    spans = engine is not None and engine.spans_pods and nodes > 1 and rank > container_gpus(component)
    if spans and came != "mp":
        where = f"{path}.podTemplate.metadata.annotations.{MP_ANNOTATION}"
        yield manifest.fault(where, "must be mp where a rank spans pods", came)


def _program_faults(
    manifest: Manifest, where: str, component: Mapping[str, Any], modules: Sequence[str]
) -> Iterator[Fault]:
    """The component runs one of Dynamo's `modules`, by Python and with nothing beside it; a worker's are engines."""
    words = _words(component, "command")
    if program_arguments(words, [("python3", "-m", module) for module in modules]) != ():
        rule = f"must start {'an engine, ' if phase_of(component) else ''}python3 -m {' or '.join(modules)}"
        yield manifest.fault(where, rule, " ".join(words) or "none")


def _words(component: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(map(str, component["podTemplate"]["spec"]["containers"][0].get(key, ())))


def _model_of(worker: Mapping[str, Any]) -> str:
    """The name under which a worker registers its model."""
    return word_after(worker, "--served-model-name") or word_after(worker, "--model")


def _caller_faults(manifest: Manifest, path: str, component: Mapping[str, Any], models: set[str]) -> Iterator[Fault]:
    """A frontend and the GlobalRouter are of their own graph, and call the model as the workers do."""
    if module_of(component) not in _CALLERS:
        return
    where = f"{path}.podTemplate.spec.containers.0.args"
    for flag, right in (("--namespace", {namespace_of(manifest)}), ("--model-name", models)):
        if {word_after(component, flag)} != right:
            expected = f"{flag} must be {', '.join(sorted(right))}, its graph's or workers' own"
            yield manifest.fault(where, expected, repr(word_after(component, flag)))


def _router_faults(
    manifest: Manifest, path: str, component: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]
) -> Iterator[Fault]:
    """A local router has workers of one phase, in its own namespace."""
    where = f"{path}.podTemplate.spec.containers.0.args"
    if module_of(component) != LOCAL_ROUTER_MODULE:
        return
    phases = {phase_of(worker) for worker in workers}
    if len(phases) != 1:
        got = " and ".join(sorted(phases)) or "none"
        yield manifest.fault(path, "a local router must have workers of one phase", got)
        return
    names = next(iter(DYNAMO_ENGINES.values())).components  # the same for both engines
    expected = f"{namespace_of(manifest)}.{names[Phase(phases.pop())]}.generate"
    if word_after(component, "--endpoint") != expected:
        yield manifest.fault(where, f"--endpoint must be {expected}, its workers'", word_after(component, "--endpoint"))
