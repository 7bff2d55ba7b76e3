"""What is given in a call: amounts by GPU type from whatever they stand in, levels as they are typed."""

from collections.abc import Mapping
from typing import Any

from planner.errors import InputError
from planner.files.scenario.offers import duration_ms, inventory_of


def counts_of(value: Any, key: str) -> object:
    """The mapping of a Series (by type), of a frame with one column of texts and one of numbers, or of a text such as
    `H100=8,H20=16`; all else as it is.

    Numbers become Python's own. Raises InputError for a frame of another shape, and where a type stands twice.
    """
    if isinstance(value, str) and value != "cluster":
        return inventory_of(key, value)
    if isinstance(value, Mapping) or not hasattr(value, "to_dict"):
        return {_plain(gpu): _plain(count) for gpu, count in value.items()} if isinstance(value, Mapping) else value
    pairs = _pairs_of_frame(value, key) if hasattr(value, "columns") else list(value.items())
    names = [gpu for gpu, _ in pairs]
    twice = next((gpu for gpu in names if names.count(gpu) > 1), None)
    if twice is not None:
        raise InputError(f"{key}: must name each GPU type once, got {twice!r} twice.", hint="Add the rows up first.")
    return {_plain(gpu): _plain(count) for gpu, count in pairs}


def _pairs_of_frame(frame: Any, key: str) -> list[tuple[Any, Any]]:
    columns = list(frame.columns)
    if len(columns) == 1:  # types in the index
        return list(frame[columns[0]].items())
    if len(columns) == 2:
        texts = [name for name in columns if frame[name].map(lambda cell: isinstance(cell, str)).all()]
        if len(texts) == 1:
            (numbers,) = (name for name in columns if name != texts[0])
            return list(zip(frame[texts[0]], frame[numbers], strict=True))
    raise InputError(
        f"{key}: must be a frame with a column of GPU types and one of numbers, got columns {columns}.",
        hint="As frame[['gpu', 'count']].",
    )


def _plain(value: Any) -> Any:
    """A number of numpy as Python's, a float that is a whole number as that number; anything else as it is."""
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LEVELS = ("ttft", "tpot")


def with_levels(sections: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The sections of a scenario, `ttft="3s"`, `tpot="60ms"` and `percentile=95` among them put into `slo`.

    Raises InputError for a time without its unit, and where `slo` has the bound, too.
    """
    typed: dict[str, Any] = {
        f"{key}_ms": _time_ms(f"{origin}: {key}", sections[key]) for key in _LEVELS if key in sections
    }
    typed |= {key: sections[key] for key in ("percentile",) if key in sections}
    others = {key: value for key, value in sections.items() if key not in (*_LEVELS, "percentile")}
    if not typed:
        return others
    slo = others.get("slo", {})
    twice = sorted(typed.keys() & slo.keys()) if isinstance(slo, Mapping) else []
    if twice or not isinstance(slo, Mapping):
        fault = f"{twice[0]} is in slo, too" if twice else f"slo must be a mapping, got {type(slo).__name__}"
        raise InputError(f"{origin}: {fault}.", hint="Give the levels in slo, or by ttft, tpot and percentile.")
    return {**others, "slo": {**slo, **typed}}


def _time_ms(key: str, value: object) -> float:
    return duration_ms(key, value if isinstance(value, str) else f"{value}")
