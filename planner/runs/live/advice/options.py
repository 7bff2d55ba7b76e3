"""What a user says of what runs, as texts, and what they make of it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from planner import files
from planner.domain import RouterPolicy
from planner.errors import InputError
from planner.export.objects.operating.queries import require_window
from planner.files.scenario.offers import inventory_of, prices_of
from planner.runs.live.advice.advising import room_of
from planner.runs.live.advice.finding import FoundEngines, Hints
from planner.runs.live.advice.rebuilding import Terms

_LEVELS = ("ttft_ms", "tpot_ms", "percentile")
_POLICIES = tuple(policy.value for policy in (RouterPolicy.RANDOM, RouterPolicy.ROUND_ROBIN, RouterPolicy.LEAST_WORK))
_LARGEST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The options, read. `hints`: on deployments; `inventory`: all GPUs at hand (empty: what runs, and free nodes)."""

    hints: Hints
    workloads: Mapping[str, object] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    inventory: Mapping[str, int] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    router: str = "random"
    headroom: float = 0.2
    least_servers: int = 2
    window: str = "1h"

    @classmethod
    def of(
        cls,
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
    ) -> "Typed":
        """The options as they are typed. InputError for what is none."""
        if not 0 <= headroom <= 10:
            raise InputError(f"--headroom: must be a share of 0 to 10, got {headroom:g}.", hint="Try 0.2.")
        if router not in _POLICIES:
            raise InputError(f"--router: must be one of {', '.join(_POLICIES)}, got {router!r}.", hint="Try random.")
        require_window(window)
        if least_servers < 1:
            raise InputError(f"--least-servers: must be at least 1, got {least_servers}.", hint="Try 2.")
        for workload_name in _workloads(workload).values():
            files.load_workload(
                str(workload_name)
            )  # before anything is judged: a slip of the pen is no gap of a service
        return cls(
            hints=Hints(gpus=_pairs("--gpu", gpu, "chat=H100"), models=_pairs("--model", model, "chat=model.json")),
            workloads=_workloads(workload),
            levels=_levels(slo),
            rates=_rates(rps),
            inventory={} if inventory is None else inventory_of("--inventory", inventory),
            prices={} if prices is None else prices_of("--prices", prices),
            router=router,
            headroom=headroom,
            least_servers=least_servers,
            window=window,
        )

    def terms(self, engines: FoundEngines) -> Terms:
        """For the engines that run. InputError where fewer GPUs are at hand than run."""
        return Terms(
            workloads=self.workloads,
            levels=self.levels,
            rates=self.rates,
            prices=self.prices,
            free=room_of(engines, self.inventory),
            policy=self.router,
            headroom=self.headroom,
            least_servers=self.least_servers,
        )


def _pairs(flag: str, texts: Iterable[str], example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{flag}: must be a name, '=' and what it has, got {text!r}.", hint=f"Write {example}.")
        if name in pairs:
            raise InputError(f"{flag}: {name} must be given once, is given twice.", hint="Leave one of them out.")
        pairs[name] = value
    return pairs


def _workloads(texts: Iterable[str]) -> dict[str, object]:
    """By service; under an empty name that of all."""
    workloads: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = "", text
        if not value or name in workloads:
            raise InputError(
                f"--workload: must be given once for each service, got {text!r}.", hint="Write chat=lengths.yaml."
            )
        workloads[name] = value
    return workloads


def _levels(texts: Iterable[str]) -> dict[str, dict[str, float]]:
    levels: dict[str, dict[str, float]] = {}
    for text in texts:
        service, colon, rule = text.rpartition(":")
        key, _, value = rule.partition("=")
        if key not in _LEVELS or (colon and not service):
            raise InputError(f"--slo: must set one of {', '.join(_LEVELS)}, got {text!r}.", hint="Write ttft_ms=2000.")
        levels.setdefault(service, {})[key] = _number("--slo", text, value)
    return levels


def _rates(texts: Iterable[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        rates[name if equals else ""] = _number("--rps", text, value if equals else name)
    return rates


def _number(flag: str, text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < _LARGEST:
        raise InputError(f"{flag}: must be a number above 0, got {text!r}.", hint="Write a plain number.")
    return number
