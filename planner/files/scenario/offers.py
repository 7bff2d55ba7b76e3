"""What is for rent, in a file or typed on a line: an offer, a price list, or every GPU type with a price.

gpus:                                        # GPU types for rent
  H100: {usd_per_hour: 2.2, count: 64}       # at most so many
  H20: {usd_per_hour: 0.9}                   # as many as needed
  A100: {}                                   # at the list price
whole_nodes: true                            # rented by the node
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

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
        hint = nearest_hint(gpu, specs, noun="GPU types")
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


_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|min)\s*", re.IGNORECASE)
_UNITS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "min": 60_000.0}
_MOST_GPUS = 1_000_000

Number = TypeVar("Number", int, float)


def duration_ms(flag: str, text: str) -> float:
    """A time as people write it, in ms: 4s, 60ms, 1.5s. InputError for anything else."""
    match = _TIME.fullmatch(text)
    time_ms = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    if not 0 < time_ms < 1e9:
        raise InputError(
            f"{flag}: must be a time above 0 with its unit, such as 4s, 1.5s or 60ms, got {text!r}.",
            hint=f"Write {text}ms or {text}s."
            if text.replace(".", "", 1).isdigit()
            else "Write the number and ms or s.",
        )
    return time_ms


def pairs(flag: str, text: str, example: str) -> dict[str, str]:
    """`H100=40,A100=24` as a mapping. InputError where a part is no pair, or a type is there twice."""
    rows: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        gpu, sign, value = part.partition("=")
        gpu = gpu.strip()
        if not (sign and gpu and value.strip()):
            raise InputError(f"{flag}: must be pairs such as {example}, got {part!r}.", hint="Write TYPE=NUMBER.")
        if gpu in rows:
            raise _twice(flag, gpu)
        rows[gpu] = value.strip()
    if not rows:
        raise InputError(f"{flag}: must be pairs such as {example}, got {text!r}.", hint="Write TYPE=NUMBER.")
    return rows


def inventory_of(flag: str, text: str, *, fewest: int = 1) -> dict[str, int]:
    """GPUs by type, `fewest` of each."""
    typed = pairs(flag, text, "H100=40,A100=24")
    return _by_type(flag, {gpu: _count(flag, gpu, value, fewest) for gpu, value in typed.items()})


def _by_type(flag: str, figures: Mapping[str, Number]) -> dict[str, Number]:
    """By the types' own names. InputError for a type that nobody knows, or two ways to write the same."""
    rows: dict[str, Number] = {}
    for gpu, figure in figures.items():
        name = load_gpu_spec(gpu).name
        if name in rows:
            raise _twice(flag, name)
        rows[name] = figure
    return rows


def _twice(flag: str, gpu: str) -> InputError:
    return InputError(f"{flag}: must name each GPU type once, got {gpu} twice.", hint="Name it once.")


def _count(flag: str, gpu: str, value: str, fewest: int) -> int:
    count = int(value) if value.isdecimal() and value.isascii() and len(value) <= 9 else -1
    if not fewest <= count <= _MOST_GPUS:
        raise InputError(
            f"{flag}: {gpu} must be a whole number of {fewest}..{_MOST_GPUS}, got {value!r}.", hint=f"Write {gpu}=8."
        )
    return count


def prices_of(flag: str, text: str) -> Mapping[str, float]:
    """USD per GPU and hour by type: a file (`H100: 2.2` a line), or pairs as in H100=2.2,A100=1.1."""
    if "=" not in text:
        return load_price_list(Path(text))
    typed = pairs(flag, text, "H100=2.2,A100=1.1")
    return _by_type(flag, {gpu: _price(flag, gpu, value) for gpu, value in typed.items()})


def _price(flag: str, gpu: str, value: str) -> float:
    try:
        price = float(value)
    except ValueError:
        price = -1.0
    if not 0 < price < 1e6:
        raise InputError(
            f"{flag}: {gpu} must be a price in USD per GPU and hour, got {value!r}.", hint=f"Write {gpu}=2.2."
        )
    return price


def positive(flag: str, value: float) -> float:
    """The number. InputError unless it is above 0 and of ordinary size."""
    if not 0 < value < 1e9:
        raise InputError(f"{flag}: must be a number above 0 and below 1e9, got {value:g}.", hint="Write such as 50.")
    return value
