"""The part of a scenario that says which GPUs there are, what they cost and how their nodes are found."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from planner.domain import Cluster, GpuSpec, InputHash, Inventory, InventoryItem, PlacementSettings
from planner.domain.usable import preemptible_by_type, usable_by_type
from planner.errors import FaultyKeyError, InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.names import canonical, canonical_keys, folded
from planner.files.models.gpu_specs import gpu_spec_file, gpu_spec_files, load_gpu_spec, prices_files, read_labels
from planner.files.sections import Section, nearest_hint

_MOST_GPUS = 1_000_000


def read_inventory(
    document: Section, cluster: Cluster | None = None, settings: PlacementSettings | None = None
) -> tuple[Inventory, tuple[InputHash, ...]]:
    """The inventory in order of name, so that the order of keys changes nothing, and the files it drew on.

    The word `cluster` stands for the idle GPUs of the scenario's cluster that islands may use as `settings` say, of the
    types that have a spec.
    """
    if document.holds_text("inventory"):
        counts = _idle(document, cluster, settings or PlacementSettings())
    else:
        counts = _counts(document.section("inventory"))
    _require_types(document.file, counts, cluster)
    specs = {gpu: load_gpu_spec(gpu) for gpu in counts}
    prices, unused = _prices(document, specs, cluster)
    selectors = _selectors(document, counts)
    items = tuple(
        InventoryItem(
            gpu=replace(specs[gpu], node_selector=selectors.get(gpu, specs[gpu].node_selector)),
            count=count,
            price_usd_per_gpu_hour=prices.get(gpu, 0.0),
            price_known=gpu in prices,
        )
        for gpu, count in counts.items()
    )
    return Inventory(items=items, unused_prices=unused), _inputs(document, counts)


def require_prices(file: str, inventory: Inventory, *, where: str) -> None:
    """InputError where a type has no price; `where` says what counts money."""
    for gpu in inventory.without_price:
        raise InputError(
            f"{file}: prices_usd_per_gpu_hour.{gpu} must be given {where}: there is no price for {gpu}.",
            hint=f"Add `{gpu}: USD` under prices_usd_per_gpu_hour in {file}, or a dated price to "
            "gpu_specs/prices.yaml; objectives that count no money need none.",
        )


def _require_types(file: str, counts: Mapping[str, int], cluster: Cluster | None) -> None:
    """InputError where the inventory has a GPU type that no node of the cluster has."""
    types = () if cluster is None else tuple(cluster.gpus)
    for gpu in counts:
        if cluster is not None and gpu not in types:
            raise FaultyKeyError(
                f"{file}: inventory.{gpu} must be a GPU type of the cluster {cluster.name}; no node has {gpu}.",
                hint=nearest_hint(gpu, types, noun="cluster's types") if types else "Give another cluster.",
                section_path="inventory",
                key=gpu,
            )


def _idle(document: Section, cluster: Cluster | None, settings: PlacementSettings) -> dict[str, int]:
    """Idle GPUs of each type that islands may use; types without any, or without a spec, are left out."""
    if document.text("inventory") != "cluster":
        raise document.fault("inventory", "a mapping of GPU types to counts, or the word cluster")
    if cluster is None:
        raise document.fault(
            "inventory", "a mapping of GPU types to counts where no cluster is given", hint="Add the key cluster."
        )
    usable, left_out = usable_by_type(cluster, settings)
    spec_files = gpu_spec_files()
    counts = {gpu: count for gpu, count in usable.items() if gpu in spec_files}
    if not counts:
        strange = [f"there is no spec of {gpu!r}" for gpu in usable]
        why = "; ".join([*strange, *(part.text for part in left_out)]) or "no GPU is idle"
        raise InputError(
            f"{document.file}: inventory: cluster {cluster.name} must have an idle GPU of a known type that islands "
            f"may use; it has none: {why}.",
            hint=nearest_hint(next(iter(usable)), spec_files, noun="GPU types")
            if usable
            else _freeing(cluster, settings),
        )
    return counts


def _freeing(cluster: Cluster, settings: PlacementSettings) -> str:
    """What helps where nothing is idle: evictions, where pods may go."""
    evictable = preemptible_by_type(cluster, settings)
    if not evictable:
        return "Free some, let islands use them, or give the inventory in numbers."
    counts = ", ".join(f"{gpu}: {count}" for gpu, count in evictable.items())
    return (
        f"Pods below priority {settings.priority} that may be evicted hold GPUs: give the inventory in numbers, "
        f"at most {{{counts}}}, with placement.preempt: true."
    )


def _counts(section: Section) -> dict[str, int]:
    if not len(section):
        raise FaultyKeyError(
            f"{section.file}: {section.path} must hold at least one GPU type; it is empty.",
            hint="Write a line such as `H200: 64` for each type.",
            key=section.path,
        )
    meant = canonical_keys(section, gpu_spec_files(), rule="is not a known GPU type", noun="GPU types")
    for gpu in section:
        if section.holds_number(gpu) and section.number(gpu) == 0:
            raise section.fault(gpu, "a whole number of at least 1", hint=f"Leave {gpu} out.")
    counts = {meant[gpu]: section.integer(gpu, low=1, high=_MOST_GPUS) for gpu in section}
    return dict(sorted(counts.items()))


def _prices(
    document: Section, specs: Mapping[str, GpuSpec], cluster: Cluster | None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """USD per GPU and hour of the types that have a price, and the types not at hand that one was given for: a price
    list may be longer than the inventory. A type whose price is null has none, whatever the shipped list says."""
    section = document.section("prices_usd_per_gpu_hour", optional=True)
    type_names = sorted({*gpu_spec_files(), *(() if cluster is None else cluster.gpus)})
    meant = {gpu: canonical(gpu, type_names) for gpu in section}
    _refuse_slips(section, meant, specs, type_names)
    own_prices = {meant[gpu]: section.number(gpu, low=0, high=1e6) for gpu in section if not section.is_empty(gpu)}
    without = {meant[gpu] for gpu in section if section.is_empty(gpu)}
    listed = {gpu: spec.price.usd_per_hour for gpu, spec in specs.items() if spec.price is not None}
    prices = {gpu: price for gpu, price in (listed | own_prices).items() if gpu in specs and gpu not in without}
    return prices, tuple(gpu for gpu in own_prices if gpu not in specs)


def _refuse_slips(
    section: Section, meant: Mapping[str, str], specs: Mapping[str, GpuSpec], names: Collection[str]
) -> None:
    """InputError where a type has two prices, and where one that nobody knows is written like one of the inventory that
    has none in the list: a price would silently be another. Other strangers are prices for other fleets."""
    without, priced = [gpu for gpu in specs if gpu not in meant.values()], set[str]()
    for gpu, name in meant.items():
        if name in priced:
            raise section.refusal(gpu, f"is {name} once more", hint="Give each type once.")
        priced.add(name)
        if name not in names and difflib.get_close_matches(folded(gpu), list(map(folded, without)), cutoff=0.5):
            hint = nearest_hint(gpu, tuple(names), noun="GPU types")
            raise section.refusal(gpu, f"must be a known GPU type; {gpu} is not", hint=hint)


def _selectors(document: Section, counts: Mapping[str, int]) -> dict[str, tuple[tuple[str, str], ...]]:
    selectors = document.section("node_selectors", optional=True)
    meant = canonical_keys(
        selectors, counts, rule="must be a GPU type of the inventory; {key} is not", noun="GPU types"
    )
    return {meant[gpu]: read_labels(selectors.section(gpu)) for gpu in selectors}


def _inputs(document: Section, counts: Mapping[str, int]) -> tuple[InputHash, ...]:
    prices = document.section("prices_usd_per_gpu_hour", optional=True)
    files: list[Path] = [gpu_spec_file(gpu) for gpu in counts]
    priced = {canonical(gpu, counts) for gpu in prices}
    if any(gpu not in priced for gpu in counts):
        files += prices_files()
    return tuple(input_hash(path) for path in files)
