"""One model in all pods: the weights that engines load, and what the files say of the plan that they are of."""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.export.checking.command_words import named_models
from planner.export.checking.devices import gpu_limits
from planner.export.checking.engine_rules import RULES
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.tables import routing_tables
from planner.export.engines import ENGINES
from planner.export.found import Fault, FoundPod, Manifest
from planner.export.names import one_line
from planner.export.pods import ENGINE_LABEL, GPU_RESOURCES
from planner.export.quantities import amount
from planner.export.summary import PREFIX

_HUB = "hf://"
_CLAIM = "PersistentVolumeClaim"


def model_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Pods and objects that name other weights than the plan (without one: than the first pod), and rooms too small
    for them."""
    told = [*_told_by_pods(owned), *_told_by_objects(manifests)]
    wanted = next((island.weights for island in expected.serving.values()), None)
    for manifest, field, weights in told:
        wanted = weights if wanted is None else wanted
        if weights != wanted:
            yield manifest.fault(field, f"the model must be {wanted}, as in the plan and all pods", weights or "none")
    yield from _room_faults(manifests, expected)


def _told_by_pods(owned: Sequence[Owned]) -> Iterator[tuple[Manifest, str, str]]:
    for one in owned:
        rules = RULES.get(one.workload.labels.get(ENGINE_LABEL, ""))
        for pod in (pod for copy in one.workload.copies for pod in copy) if rules else ():
            if pod.arguments is not None and rules is not None:
                names = named_models(pod, rules)
                if not names and _names_model(pod):
                    yield one.workload.manifest, pod.arguments_path, ""
                yield from ((one.workload.manifest, pod.arguments_path, name) for name in names)


def _names_model(pod: FoundPod) -> bool:
    """Whether the pod's own words have to name the model: a preset's pods leave it to the object."""
    return "command" in pod.spec["containers"][0]


def _told_by_objects(manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, str, str]]:
    """Where an object names the weights for all its pods: `modelArtifacts.uri` of a chart, `spec.model.uri`."""
    for manifest in manifests:
        for path, holder in (
            ("modelArtifacts.uri", manifest.body.get("modelArtifacts")),
            ("spec.model.uri", _below(manifest.body.get("spec"), "model")),
        ):
            if isinstance(holder, dict) and "uri" in holder:
                yield manifest, path, str(holder["uri"]).removeprefix(_HUB)


def _below(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _room_faults(manifests: Sequence[Manifest], expected: Expectation) -> Iterator[Fault]:
    """Volumes for the weights hold them."""
    if expected.planned is None:
        return
    needed = expected.planned.scenario.model.weights_gb * 1e9
    for manifest in manifests:
        rooms = [("modelArtifacts.size", _below(manifest.body.get("modelArtifacts"), "size"))]
        if manifest.kind == _CLAIM:
            storage = _below(_below(_below(manifest.body.get("spec"), "resources"), "requests"), "storage")
            rooms = [("spec.resources.requests.storage", storage)]
        for path, size in rooms:
            if size is not None and (amount(size) or 0) < needed:
                yield manifest.fault(path, f"must hold the model's {needed / 1e9:.4g} GB of weights", size)


def head_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Annotations and the routing table's head name one plan, one model, one target and one engine: the plan's."""
    rows: list[tuple[Manifest, str, str, str | None]] = []
    for one in owned:
        workload = one.workload
        for key in ("plan", "model", "target"):
            name = f"{PREFIX}{key}"
            rows.append((workload.manifest, f"{workload.annotations_path}.{name}", key, workload.annotations.get(name)))
        rows.append(
            (workload.manifest, f"{workload.labels_path}.{ENGINE_LABEL}", "engine", workload.labels.get(ENGINE_LABEL))
        )
    for table in routing_tables(manifests)[0]:
        head = table.table.get("plan")
        if isinstance(head, dict):
            names = {"plan": "name", "model": "model", "target": "target", "engine": "engine"}
            rows += [(table.manifest, f"{table.field} plan.{name}", key, head.get(name)) for key, name in names.items()]
    yield from _unlike(rows, expected)


def _unlike(rows: Sequence[tuple[Manifest, str, str, str | None]], expected: Expectation) -> Iterator[Fault]:
    scenario = expected.planned.scenario if expected.planned else None
    names = {"plan": one_line(scenario.name), "model": one_line(scenario.model.name)} if scenario else {}
    wanted = {key: (name, "the plan") for key, name in names.items()}
    for manifest, field, key, came in rows:
        right, origin = wanted.setdefault(key, (str(came), manifest.file))
        if came is not None and came != right:
            yield manifest.fault(field, f"must be {right!r} as in {origin}", repr(came))


def image_faults(owned: Sequence[Owned]) -> Iterator[Fault]:
    """An image is its engine's, and one engine's version is the same wherever it runs."""
    seen: dict[str, tuple[str, str]] = {}
    for one in owned:
        engine = one.workload.labels.get(ENGINE_LABEL, "")
        for pod in one.workload.pods:
            if pod.arguments is None:
                continue
            where, image = f"{pod.path}.containers.0.image", str(pod.spec["containers"][0].get("image", ""))
            name, version = _image_parts(image)
            others = [other for other in RULES if other != engine and other in name and engine not in name]
            if others:
                yield one.workload.manifest.fault(where, f"must be an image of {engine}, as the pod starts it", image)
            yield from _vendor_faults(one, where, image, pod)
            if not version:
                continue  # a digest does not tell
            first = seen.setdefault(name, (version, one.workload.manifest.file))
            if version != first[0]:
                told = f"must be version {first[0]} as in {first[1]}: engines of several versions hand over no KV cache"
                yield one.workload.manifest.fault(where, told, version)


def _vendor_faults(one: Owned, where: str, image: str, pod: FoundPod) -> Iterator[Fault]:
    """An image that the planner takes for one vendor's GPUs runs on no other's."""
    engine = ENGINES.get(one.workload.labels.get(ENGINE_LABEL, ""))
    known = {_image_parts(name)[0]: GPU_RESOURCES[vendor] for vendor, name in engine.images.items()} if engine else {}
    wanted = known.get(_image_parts(image)[0])
    found = gpu_limits(pod.spec["containers"][0])
    if wanted is not None and found and wanted not in found:
        yield one.workload.manifest.fault(where, f"must be an image for {', '.join(found)}", image)


def _image_parts(image: str) -> tuple[str, str]:
    """Name with its registry, and the tag, empty where there is none."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag
