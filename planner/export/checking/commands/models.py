"""One model in all pods: the weights that engines load, and what the files say of the plan that they are of."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.export.checking.commands.agreement import Agreement, agreement
from planner.export.checking.commands.command_words import named_models
from planner.export.checking.commands.devices import gpu_limits
from planner.export.checking.commands.engine_rules import RULES
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.tables import routing_tables
from planner.export.engines.dialects import ENGINES
from planner.export.found import Fault, FoundPod, Manifest
from planner.export.objects.names import one_line
from planner.export.objects.pods import ENGINE_LABEL, GPU_RESOURCES
from planner.export.objects.quantities import amount
from planner.export.summary import PREFIX
from planner.files import catalog

_HUB = "hf://"
_ROCM_BUILD = re.compile(r"-rocm[0-9]+-mi[0-9]+x$")
_CLAIM = "PersistentVolumeClaim"


def model_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Pods and objects that name other weights than the plan (without one: than most files), and rooms too small
    for them."""
    claims = [*_told_by_pods(owned), *_told_by_objects(manifests)]
    planned = next((island.weights for island in expected.serving.values()), None)
    wanted = planned or (agreement([(m.file, weights) for m, _, weights in claims]).value if claims else "")
    for manifest, field, weights in claims:
        if weights != wanted:
            yield manifest.fault(field, f"the model must be {wanted}, as in the plan and all pods", weights or "none")
    yield from _room_faults(manifests, expected)


def _told_by_pods(owned: Sequence[Owned]) -> Iterator[tuple[Manifest, str, str]]:
    for item in owned:
        rules = RULES.get(item.workload.labels.get(ENGINE_LABEL, ""))
        for pod in (pod for copy in item.workload.copies for pod in copy) if rules else ():
            if pod.arguments is not None and rules is not None:
                names = named_models(pod, rules)
                if not names and _names_model(pod):
                    yield item.workload.manifest, pod.arguments_path, ""
                yield from ((item.workload.manifest, pod.arguments_path, name) for name in names)


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
    for item in owned:
        workload = item.workload
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
    wanted = {key: Agreement(value=name, file="the plan") for key, name in names.items()}
    for key in {key: None for _, _, key, came in rows if key not in wanted and came is not None}:
        wanted[key] = agreement([(row[0].file, row[3]) for row in rows if row[2] == key and row[3] is not None])
    for manifest, field, key, came in rows:
        if came is not None and came != wanted[key].value:
            yield manifest.fault(field, f"must be {wanted[key].value!r} as in {wanted[key].file}", repr(came))


def image_faults(owned: Sequence[Owned]) -> Iterator[Fault]:
    """An image is its engine's, and one engine's version is the same wherever it runs."""
    rows = [_FoundImage.of(item, pod) for item in owned for pod in item.workload.pods if pod.arguments is not None]
    for row in rows:
        others = [other for other in RULES if other != row.engine and other in row.name and row.engine not in row.name]
        if others:
            yield row.fault(f"must be an image of {row.engine}, as the pod starts it", row.image)
        yield from _vendor_faults(row)
    for name in dict.fromkeys(row.name for row in rows if row.version):  # a digest names no version
        alike = [row for row in rows if row.name == name and row.version]
        default = next((version for row in alike for version in row.defaults()), None)
        right = agreement([(row.manifest.file, row.version) for row in alike], default)
        rule = f"must be version {right.value} as in {right.file}: engines of several versions hand over no KV cache"
        yield from (row.fault(rule, row.version) for row in alike if row.version != right.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundImage:
    """The image of a pod's engine: name with its registry, and the tag, empty where there is none."""

    manifest: Manifest
    pod: FoundPod
    engine: str
    image: str
    name: str
    version: str

    @classmethod
    def of(cls, owned: Owned, pod: FoundPod) -> "_FoundImage":
        image = str(pod.spec["containers"][0].get("image", ""))
        name, version = _image_parts(image)
        engine = owned.workload.labels.get(ENGINE_LABEL, "")
        return cls(manifest=owned.workload.manifest, pod=pod, engine=engine, image=image, name=name, version=version)

    def fault(self, rule: str, came: str) -> Fault:
        return self.manifest.fault(f"{self.pod.path}.containers.0.image", rule, came)

    def defaults(self) -> Iterator[str]:
        """The version that the planner writes of this image, if it does."""
        return (version for _, name, version in _standard_images(self.engine) if name == self.name)


def _vendor_faults(row: _FoundImage) -> Iterator[Fault]:
    """An image that the planner takes for one vendor's GPUs runs on no other's."""
    named = {GPU_RESOURCES[vendor] for vendor, name, _ in _standard_images(row.engine) if name == row.name}
    wanted = next(iter(named)) if len(named) == 1 else None  # one name for all vendors: the tag tells them apart
    resources = gpu_limits(row.pod.spec["containers"][0])
    if wanted is not None and resources and wanted not in resources:
        yield row.fault(f"must be an image for {', '.join(resources)}", row.image)


def _standard_images(engine: str) -> list[tuple[str, str, str]]:
    """Vendor, name and version of the images that the planner takes for an engine."""
    images = catalog.engine(engine).images if engine in ENGINES else ()
    return [(key, *_image_parts(image)) for key, image in images if key in GPU_RESOURCES]


def _image_parts(image: str) -> tuple[str, str]:
    """Name with its registry, and the tag, empty where there is none; builds of a version for AMD are that version."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", _ROCM_BUILD.sub("", tag)
