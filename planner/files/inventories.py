"""The part of a scenario that says which GPUs there are, what they cost and how their nodes are found."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planner.domain import GpuSpec, InputHash, Inventory, InventoryItem
from planner.errors import InputError
from planner.files.documents import input_hash
from planner.files.gpu_specs import gpu_spec_file, gpu_spec_files, load_gpu_spec, prices_files
from planner.files.labels import read_labels
from planner.files.sections import Section, nearest_hint

_MOST_GPUS = 1_000_000


def read_inventory(document: Section) -> tuple[Inventory, tuple[InputHash, ...]]:
    """The inventory in order of name, so that the order of keys changes nothing, and the files it drew on."""
    counts = _counts(document.section("inventory"))
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
