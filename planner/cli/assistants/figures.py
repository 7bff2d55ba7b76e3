"""What the numbers of an answer are: the unit of each, its band, and what of the provenance it rests on.

A number is named by its way through the answer, `[]` for the items of a list: `latency[].late_ms`. Units stand in the
keys themselves, as everywhere in the planner; the tables below have the others.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

OF_OBJECTIVE, FOR_PROGRAMS = "of the objective", "number for programs"
_ENDS = (
    (r"usd_per_million_tokens", "USD per 10^6 tokens"),
    (r"usd_per_gpu_hour", "USD per GPU and hour"),
    (r"usd_per_hour", "USD/hour"),
    (r"tokens_per_s(_p05)?", "tokens/s"),
    (r"dual_rps", "requests/s per GPU"),
    (r"rps", "requests/s"),
    (r"ms", "ms"),
    (r"gb_s", "GB/s"),
    (r"s|seconds", "s"),
    (r"gb", "GB"),
    (r"bytes|bytes_per_token", "bytes"),
    (r"watts", "W"),
)
"""How a key ends, and the unit of what it holds or of what lies below it."""
_WORDS: tuple[tuple[str, str], ...] = (
    ("value bound own_bound other_value other_bound", OF_OBJECTIVE),
    ("percentile", "%"),
    (
        "from_tokens to_tokens start end range_start range_end tokens tokens_per_step step_tokens max_context window",
        "tokens",
    ),
    (
        "gap odds sure margin headroom worth_share share needed part utilisation within_levels survive_share "
        "simplicity better_than_first best_probability kv_share most_kv_share hit_share misrouted refused",
        "share",
    ),
    ("gpus idle_gpus gpus_per_node gpus_lost inventory fleet", "GPUs"),
    ("batch batch_size requests requests_to_tell arrived finished late waiting answering unfinished", "requests"),
    ("preempted", "requests"),
    ("nodes lost_nodes", "nodes"),
    ("degrees", "sequences"),
    ("hidden_size head_dim value_dim ffn_size shared_size tower_width latent weight_block", "elements"),
    ("parameters active_parameters tower_parameters", "parameters"),
    ("pools kinds servers tp dp pp replicas prefill_buckets decode_buckets count heads kv_heads", "count"),
    ("routed active shared node_limit zero vocab_size kept_states mtp_layers tower_patches", "count"),
    ("residual_streams layers moe_layers seeds", "count"),
    ("status model_spec", FOR_PROGRAMS),
)
_UNITS = {word: unit for words, unit in _WORDS for word in words.split()}
_ASKED = re.compile(r"^(amount$|scenario\.)|(^|\.)(bound_ms|needed|percentile|survive_share|lost_nodes)$")
_SETTLED = re.compile(r"(^|\.)(sure|margin)$")
_PRICE = re.compile(r"usd_per_hour$|usd_per_gpu_hour$")
_FACT = re.compile(r"gpus_per_node$|watts$")
_PLANNED = re.compile(r"^(rate_rps|promise_rps|capacity_rps)$")

_BANDS: tuple[tuple[str, str, str], ...] = (
    ("capacity_rps", "low_rps", "high_rps"),
    ("throughput_rps", "low_rps", "high_rps"),
    ("rate_rps", "band.low_rps", "band.high_rps"),
    ("late_ms", "low_ms", "high_ms"),
)
_BAND = "P10 and P90, by measurements that were left out of the fit"
_INTERVAL, _SHARE_INTERVAL = "95 % interval over the seeds, [low, high]", "99 % interval by its requests, [low, high]"


def numbers(value: Any, way: str = "") -> Iterator[tuple[str, float]]:
    """Every number with its way through the answer."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from numbers(below, f"{way}.{key}" if way else str(key))
    elif isinstance(value, list):
        for below in value:
            yield from numbers(below, f"{way}[]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield way, value


def figures_of(answer: Any, tool: str) -> dict[str, dict[str, Any]]:
    """Way -> unit, what it rests on, and the ways to the ends of its band, where it has one."""
    ways = {way: None for way, _ in numbers(answer)}
    return {way: {"unit": _unit(way, answer), "rests_on": _basis(way, tool), **_band(way, ways)} for way in ways}


def headline_of(answer: Mapping[str, Any], figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The numbers that stand by themselves, in no list, with their values and both ends of their bands; of an answer
    that is a list, those of its items."""
    lists = [(key, items) for key, items in answer.items() if isinstance(items, list)]
    return list(_alone(answer, "", "", figures)) or [
        row
        for key, items in lists[:1]
        for place, item in enumerate(items)
        for row in _alone(item, f"{key}[]", f"{key}[{place}]", figures)
    ]


def _alone(value: Any, above: str, shown: str, figures: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those of what lies at the way `above`, which is `shown` otherwise."""
    values: dict[str, list[float]] = {}
    for way, number in numbers(value, above):
        values.setdefault(way, []).append(number)
    bands = {way: figures[way]["band"] for way in values if "band" in figures[way]}
    ends = {band[end] for band in bands.values() for end in ("low", "high")}
    for way, (number, *_) in values.items():
        below = way.removeprefix(above)
        if "[]" in below or way in ends or below.startswith("scenario.") or figures[way]["unit"] == FOR_PROGRAMS:
            continue
        row = {"figure": shown + below, "value": number, "unit": figures[way]["unit"]}
        if way in bands:  # an interval is a list of both ends, a band two numbers
            row |= {"low": values[bands[way]["low"]][0], "high": values[bands[way]["high"]][-1]}
        yield row | {"rests_on": figures[way]["rests_on"]}


def _unit(way: str, answer: Any) -> str | None:
    """None: nobody says it."""
    if way == "amount":
        return {"cheapest": "requests/s", "buy": "USD/hour"}.get(str(answer.get("question")))
    for key in reversed([part.replace("[]", "").removesuffix("_ci") for part in way.split(".")]):
        unit = _UNITS.get(key) or next((unit for end, unit in _ENDS if re.search(rf"(^|_)({end})$", key)), "")
        if unit == OF_OBJECTIVE:
            return " or ".join(sorted({*_objectives(answer)})) or None
        if unit:
            return unit
    return None


def _objectives(value: Any) -> Iterator[str]:
    """The units that an answer says that its objectives have."""
    if isinstance(value, Mapping):
        yield from (text for key in ("objective", "unit") if isinstance(text := value.get(key), str))
        for below in value.values():
            yield from _objectives(below)
    elif isinstance(value, list):
        for below in value:
            yield from _objectives(below)


def _basis(way: str, tool: str) -> list[str]:
    """Names of parts of the provenance; those of a run stand in each of `runs`."""
    if tool == "model_show":
        return ["model"]
    if _ASKED.search(way) or (tool == "max" and way.startswith("gpus.")):
        return ["question"] if tool in ("cheapest", "buy", "max") else ["inputs"]
    if _PRICE.search(way):
        return ["prices", "question" if tool == "max" else "solver"]
    fact = ["planner"] if _SETTLED.search(way) else ["inputs"] if _FACT.search(way) else []
    drawn = ["replay"] if tool == "replay" and not _PLANNED.search(way) else []
    return fact or [*drawn, *["prices"] * ("usd" in way), "inputs", "estimates", "calibration", "solver"]


def _band(way: str, ways: Collection[str]) -> dict[str, Any]:
    for key, low, high in _BANDS:
        before = way.removesuffix(key)
        if before != way and before[-1:] in ("", ".") and before + low in ways and before + high in ways:
            return {"band": {"low": before + low, "high": before + high, "means": _BAND}}
    above, _, last = way.rpartition(".")
    for interval in (f"{way}_ci[]", f"{above}_ci.{last}[]"):
        if interval in ways:
            means = _SHARE_INTERVAL if interval.endswith(".share_ci[]") else _INTERVAL
            return {"band": {"low": interval, "high": interval, "means": means}}
    return {}
