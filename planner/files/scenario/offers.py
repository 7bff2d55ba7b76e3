"""What is for rent: an offer file, a price list, or every GPU type with a price in gpu_specs/prices.yaml.

gpus:                                        # GPU types for rent
  H100: {usd_per_hour: 2.2, count: 64}       # at most so many
  H20: {usd_per_hour: 0.9}                   # as many as needed
  A100: {}                                   # at the list price
whole_nodes: true                            # rented by the node
"""

from collections.abc import Mapping
from pathlib import Path

from planner.domain import GpuSpec
from planner.domain.frontier import GpuOffer, OfferedGpu
from planner.errors import InputError
from planner.files.disk.documents import read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.models.gpu_specs import load_gpu_spec, load_gpu_specs
from planner.files.sections import Section, nearest_hint, top_level

LISTED = "list prices of gpu_specs/prices.yaml"


def load_offer(path: Path) -> GpuOffer:
    """The offer of a file. InputError where it is none, or a type has no price."""
    return read_all(read_yaml(path), offer_from_section)


def offer_from_document(document: Mapping[str, object], origin: str = "offer") -> GpuOffer:
    """The offer of a mapping of the same keys; `origin` names it."""
    return read_all(top_level(document, origin), offer_from_section)


def offer_from_section(document: Section) -> GpuOffer:
    """The offer that a document holds."""
    document.allow_only("gpus", "whole_nodes", "source")
    rows = document.section("gpus")
    specs = load_gpu_specs()
    if not len(rows):
        raise document.fault("gpus", "a mapping of GPU types", hint="Add a line such as `H200: {usd_per_hour: 3.5}`.")
    offered = [_offered(rows, gpu, specs) for gpu in rows]
    names = [row.gpu for row in offered]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise document.fault("gpus", f"of each type once; {twice[0]} is there twice")
    return GpuOffer(
        gpus=tuple(sorted(offered, key=lambda row: row.gpu)),
        whole_nodes=document.flag("whole_nodes", default=False),
        source=document.text("source") if "source" in document else document.file,
    )


def _offered(rows: Section, gpu: str, specs: Mapping[str, GpuSpec]) -> OfferedGpu:
    spec = _spec(rows, gpu, specs)
    row = rows.section(gpu)
    row.allow_only("usd_per_hour", "count")
    listed = spec.price.usd_per_hour if spec.price else None
    if "usd_per_hour" not in row and listed is None:
        raise row.fault("usd_per_hour", f"given: there is no list price of {gpu}")
    return OfferedGpu(
        gpu=spec.name,
        usd_per_hour=row.number("usd_per_hour", above=0, high=1e6) if "usd_per_hour" in row else listed or 0.0,
        gpus_per_node=spec.gpus_per_host,
        count=row.integer("count", low=1, high=1_000_000) if "count" in row else None,
    )


def _spec(rows: Section, gpu: str, specs: Mapping[str, GpuSpec]) -> GpuSpec:
    try:
        return specs[gpu] if gpu in specs else load_gpu_spec(gpu)
    except InputError:
        hint = nearest_hint(gpu, specs, what="GPU types")
        raise rows.refusal(gpu, "is not a known GPU type", hint=hint) from None


def listed_offer(prices: Mapping[str, float] | None = None, source: str = "") -> GpuOffer:
    """Every GPU type with a list price; `prices` (USD per GPU and hour) stand in for list prices, and add types."""
    specs, changed = load_gpu_specs(), dict(prices or {})
    listed = {gpu: spec.price.usd_per_hour for gpu, spec in specs.items() if spec.price is not None}
    rent = {gpu: usd for gpu, usd in sorted((listed | changed).items()) if usd > 0}
    return GpuOffer(
        gpus=tuple(
            OfferedGpu(gpu=gpu, usd_per_hour=usd, gpus_per_node=specs[gpu].gpus_per_host) for gpu, usd in rent.items()
        ),
        source=f"{source}, else {LISTED}" if changed else LISTED,
    )


def load_price_list(path: Path) -> dict[str, float]:
    """USD per GPU and hour by GPU type: a number each, or a row as in gpu_specs/prices.yaml."""
    return read_all(read_yaml(path), _price_list)


def price_list_from_document(document: Mapping[str, object], origin: str = "prices") -> dict[str, float]:
    """The same of a mapping; `origin` names it. InputError where a price is none, or a type unknown or there twice."""
    return read_all(top_level(document, origin), _price_list)


def _price_list(document: Section) -> dict[str, float]:
    specs, prices = load_gpu_specs(), {}
    for gpu in document:
        name = _spec(document, gpu, specs).name
        if name in prices:
            raise document.refusal(gpu, f"is {name} once more", hint="Give each type once.")
        row = document.section(gpu) if document.holds_section(gpu) else document
        prices[name] = row.number("usd_per_hour" if row is not document else gpu, above=0, high=1e6)
    return prices
