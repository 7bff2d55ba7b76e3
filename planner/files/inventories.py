"""The part of a scenario that says which GPUs there are, what they cost and how their nodes are found."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planner.domain import Cluster, GpuSpec, InputHash, Inventory, InventoryItem
from planner.errors import InputError
from planner.files.documents import input_hash
from planner.files.gpu_specs import gpu_spec_file, gpu_spec_files, load_gpu_spec, prices_files
from planner.files.labels import read_labels
from planner.files.sections import Section, nearest_hint

_MOST_GPUS = 1_000_000


def read_inventory(document: Section, cluster: Cluster | None = None) -> tuple[Inventory, tuple[InputHash, ...]]:
    """The inventory in order of name, so that the order of keys changes nothing, and the files it drew on.

    The word `cluster` stands for the idle GPUs of the scenario's cluster.
    """
    counts = _idle(document, cluster) if document.holds_text("inventory") else _counts(document.section("inventory"))
    _require_types(document.file, counts, cluster)
    specs = {gpu: load_gpu_spec(gpu) for gpu in counts}
    prices = _prices(document, specs)
    selectors = _selectors(document, counts)
    items = tuple(
        InventoryItem(
            gpu=replace(specs[gpu], node_selector=selectors.get(gpu, specs[gpu].node_selector)),
            count=count,
            price_usd_per_gpu_hour=prices[gpu],
        )
        for gpu, count in counts.items()
    )
    return Inventory(items=items), _inputs(document, counts)


def _require_types(file: str, counts: Mapping[str, int], cluster: Cluster | None) -> None:
    """InputError where the inventory has a GPU type that no node of the cluster has."""
    types = () if cluster is None else tuple(cluster.gpus)
    for gpu in counts:
        if cluster is not None and gpu not in types:
            raise InputError(
                f"{file}: inventory.{gpu} must be a GPU type of the cluster {cluster.name}; no node has {gpu}.",
                hint=nearest_hint(gpu, types, what="cluster's types") if types else "Give another cluster.",
            )


def _idle(document: Section, cluster: Cluster | None) -> dict[str, int]:
    """Idle GPUs of each type; types without any are left out."""
    if document.text("inventory") != "cluster":
        raise document.fault("inventory", "a mapping of GPU types to counts, or the word cluster")
    if cluster is None:
        raise document.fault(
            "inventory", "a mapping of GPU types to counts where no cluster is given", hint="Add the key cluster."
        )
    counts = {gpu: idle for gpu, idle in sorted(cluster.idle_gpus.items()) if idle}
    if not counts:
        raise document.fault("inventory", f"told in numbers, as no GPU of the cluster {cluster.name} is idle")
    known = gpu_spec_files()
    for gpu in counts:
        if gpu not in known:
            raise InputError(
                f"{document.file}: inventory: every idle GPU of the cluster {cluster.name} must be of a known type; "
                f"there is no spec of {gpu!r}.",
                hint="Give the inventory in numbers, or rename the type. " + nearest_hint(gpu, known, what="GPU types"),
            )
    return counts


def _counts(section: Section) -> dict[str, int]:
    if not len(section):
        raise InputError(
            f"{section.file}: {section.path} must hold at least one GPU type; it is empty.",
            hint="Write a line such as `H200: 64` for each type.",
        )
    known = gpu_spec_files()
    for gpu in section:
        if gpu not in known:
            raise InputError(
                f"{section.file}: {section.key_path(gpu)} is not a known GPU type.",
                hint=nearest_hint(gpu, known, what="GPU types"),
            )
        if section.holds_number(gpu) and section.number(gpu) == 0:
            raise section.fault(gpu, "a whole number of at least 1", hint=f"Leave {gpu} out.")
    return {gpu: section.integer(gpu, low=1, high=_MOST_GPUS) for gpu in sorted(section)}


def _prices(document: Section, specs: Mapping[str, GpuSpec]) -> dict[str, float]:
    given = document.section("prices_usd_per_gpu_hour", optional=True)
    _refuse_strangers(given, specs)
    return {gpu: _price(given, spec) for gpu, spec in specs.items()}


def _price(given: Section, spec: GpuSpec) -> float:
    if spec.name in given:
        return given.number(spec.name, low=0, high=1e6)
    if spec.price is None:
        raise InputError(
            f"{given.file}: {given.key_path(spec.name)} must be given: there is no price for {spec.name}.",
            hint=f"Add `{spec.name}: USD` under prices_usd_per_gpu_hour in {given.file}, "
            "or a dated price to gpu_specs/prices.yaml.",
        )
    return spec.price.usd_per_hour


def _selectors(document: Section, counts: Mapping[str, int]) -> dict[str, tuple[tuple[str, str], ...]]:
    given = document.section("node_selectors", optional=True)
    _refuse_strangers(given, counts)
    return {gpu: read_labels(given.section(gpu)) for gpu in given}


def _refuse_strangers(section: Section, inventory: Mapping[str, object]) -> None:
    for gpu in section:
        if gpu not in inventory:
            raise InputError(
                f"{section.file}: {section.key_path(gpu)} must be a GPU type of the inventory; {gpu} is not.",
                hint=nearest_hint(gpu, tuple(inventory), what="inventory's types"),
            )


def _inputs(document: Section, counts: Mapping[str, int]) -> tuple[InputHash, ...]:
    given = document.section("prices_usd_per_gpu_hour", optional=True)
    files: list[Path] = [gpu_spec_file(gpu) for gpu in counts]
    if any(gpu not in given for gpu in counts):
        files += prices_files()
    return tuple(input_hash(path) for path in files)
