"""What a user says of what runs, as texts, and what they make of it."""

import math
from collections.abc import Sequence

from planner import files
from planner.domain import RouterPolicy
from planner.errors import InputError
from planner.export.objects.operating.queries import require_window
from planner.files.scenario.offers import inventory_of, prices_of
from planner.runs.live.advice.finding import Hints
from planner.runs.live.advice.rebuilding import Terms

_LEVELS = ("ttft_ms", "tpot_ms", "percentile")
_POLICIES = tuple(policy.value for policy in (RouterPolicy.RANDOM, RouterPolicy.ROUND_ROBIN, RouterPolicy.LEAST_WORK))
_LARGEST = 1e9


def terms_of(
    *,
    workload: Sequence[str] = (),
    slo: Sequence[str] = (),
    rps: Sequence[str] = (),
    gpu: Sequence[str] = (),
    model: Sequence[str] = (),
    inventory: str | None = None,
    prices: str | None = None,
    router: str = "random",
    headroom: float = 0.2,
    least_servers: int = 2,
    window: str = "1h",
) -> Terms:
    """The options as they are typed. InputError for what is none."""
    if not 0 <= headroom <= 10:
        raise InputError(f"--headroom: must be a share of 0 to 10, got {headroom:g}.", hint="Try 0.2.")
    if router not in _POLICIES:
        raise InputError(f"--router: must be one of {', '.join(_POLICIES)}, got {router!r}.", hint="Try random.")
    require_window(window)
    if least_servers < 1:
        raise InputError(f"--least-servers: must be at least 1, got {least_servers}.", hint="Try 2.")
    workloads = _by_name("--workload", workload, "chat=lengths.yaml", of_all=True)
    for name in workloads.values():  # before anything is judged: a slip of the pen is no gap of a service
        files.load_workload(name)
    return Terms(
        hints=Hints(gpus=_by_name("--gpu", gpu, "chat=H100"), models=_by_name("--model", model, "chat=model.json")),
        workloads=workloads,
        levels=_levels(slo),
        rates={name: _number("--rps", text) for name, text in _by_name("--rps", rps, "chat=5", of_all=True).items()},
        inventory={} if inventory is None else inventory_of("--inventory", inventory),
        prices={} if prices is None else prices_of("--prices", prices),
        policy=router,
        headroom=headroom,
        least_servers=least_servers,
        window=window,
    )


def _by_name(flag: str, texts: Sequence[str], example: str, *, of_all: bool = False) -> dict[str, str]:
    """NAME=VALUE by name; `of_all`: a value alone is that of all, under an empty name."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if of_all and not equals:
            name, value = "", text
        if not value or not (name or of_all):
            raise InputError(f"{flag}: must be a name, '=' and what it has, got {text!r}.", hint=f"Write {example}.")
        if name in values:
            raise InputError(
                f"{flag}: must be given once for {name or 'all'}, got {text!r}, too.", hint="Leave one out."
            )
        values[name] = value
    return values


def _levels(texts: Sequence[str]) -> dict[str, dict[str, float]]:
    levels: dict[str, dict[str, float]] = {}
    for text in texts:
        service, colon, rule = text.rpartition(":")
        key, _, value = rule.partition("=")
        if key not in _LEVELS or (colon and not service):
            raise InputError(f"--slo: must set one of {', '.join(_LEVELS)}, got {text!r}.", hint="Write ttft_ms=2000.")
        levels.setdefault(service, {})[key] = _number("--slo", value)
    return levels


def _number(flag: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < _LARGEST:
        raise InputError(f"{flag}: must be a number above 0, got {text!r}.", hint="Write a plain number.")
    return number
