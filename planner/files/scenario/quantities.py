"""What is typed on a line or in a call: times with a unit, GPUs with counts or prices."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from planner.errors import InputError
from planner.files.models.gpu_specs import load_gpu_spec
from planner.files.scenario.offers import load_price_list

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


def inventory_of(flag: str, text: str, *, least: int = 1) -> dict[str, int]:
    """GPUs by type, `least` of each."""
    typed = pairs(flag, text, "H100=40,A100=24")
    return _by_type(flag, {gpu: _count(flag, gpu, value, least) for gpu, value in typed.items()})


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


def _count(flag: str, gpu: str, value: str, least: int) -> int:
    count = int(value) if value.isdecimal() and value.isascii() and len(value) <= 9 else -1
    if not least <= count <= _MOST_GPUS:
        raise InputError(
            f"{flag}: {gpu} must be a whole number of {least}..{_MOST_GPUS}, got {value!r}.", hint=f"Write {gpu}=8."
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
