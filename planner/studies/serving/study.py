"""Serving policies compared: every policy over the same seeds' requests, a process a run.

A seed's requests are drawn where they are used: they cost less than being sent to another process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from planner.errors import InputError
from planner.processes.workers import Processes
from planner.studies.runner import RunsDone, require_each_once, run_tasks
from planner.studies.serving.arrivals import ArrivalLaw, MinuteCounts, draw_counts, requests_of
from planner.studies.serving.measures import ServingFigures, figures_of
from planner.studies.serving.policies.named import parse_serving_policy
from planner.studies.serving.records import ServingPool, ServingRequest, ServingSettings
from planner.studies.serving.simulation.run import ServingRun, simulate_serving

MOST_DRAWN = 2_000_000
MOST_MINUTES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStudy:
    """What is compared. Requests are given, or drawn by the `minutes` counted, or by the `law` alone."""

    pool: ServingPool
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    law: ArrivalLaw
    settings: ServingSettings = field(default_factory=ServingSettings)
    requests: tuple[ServingRequest, ...] | None = None
    minutes: MinuteCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSeedRun:
    """A policy's run over one seed's requests."""

    policy: str
    seed: int
    run: ServingRun
    figures: ServingFigures


Listen = Callable[[RunsDone[ServingSeedRun]], None]


def run_serving_study(
    study: ServingStudy, *, processes: Processes = 1, listen: Listen = lambda _: None
) -> Iterator[ServingSeedRun]:
    """Every policy's run over every seed, in this order; the same ones in any number of processes.

    InputError: nothing to compare, the same twice, and what cannot be simulated.
    """
    for policy in study.policies:
        parse_serving_policy(policy)
    require_each_once("policies", study.policies)
    require_each_once("seeds", study.seeds)
    _require_law(study.law)
    tasks = [(study, policy, seed) for policy in study.policies for seed in study.seeds]
    yield from run_tasks("serving", run_serving_seed, tasks, processes=processes, listen=listen)


def run_serving_seed(
    study: ServingStudy, policy: str, seed: int, progress: Callable[[float], None] = lambda _: None
) -> ServingSeedRun:
    """One policy over one seed's requests. `progress` hears the share of them that is answered."""
    requests = requests_of_seed(study, seed)
    run = simulate_serving(study.pool, requests, policy, seed=seed, settings=study.settings, progress=progress)
    return ServingSeedRun(policy=policy, seed=seed, run=run, figures=figures_of(run, study.pool))


def requests_of_seed(study: ServingStudy, seed: int) -> tuple[ServingRequest, ...]:
    """The requests that every policy meets."""
    if study.requests is not None:
        return study.requests
    models = study.pool.models
    counts = study.minutes if study.minutes is not None else draw_counts(models, study.law, seed)
    total = sum(map(sum, counts.values()))
    if total > MOST_DRAWN:
        raise InputError(
            f"requests: must be at most {MOST_DRAWN:,} in all, got {total:,}.", hint="Ask for fewer, or fewer minutes."
        )
    return requests_of(models, counts, study.law, seed)


def _require_law(law: ArrivalLaw) -> None:
    total = law.scale * sum(law.totals.values())
    for key, value, low, high in (
        ("scale", law.scale, 0.0, 1e6),
        ("spike_factor", law.spike_factor, 0.0, 1e6),
        ("minutes", law.minutes, 1, MOST_MINUTES),
        ("prompt_tokens", law.prompt_tokens, 1.0, 1e7),
        ("output_tokens", law.output_tokens, 1.0, 1e7),
        ("token_spread", law.token_spread, 0.0, 5.0),
        ("drawn requests", total, 0.0, MOST_DRAWN),
    ):
        if not low <= value <= high:
            raise InputError(
                f"{key}: must be within {low:g} and {high:,.0f}, got {value:g}.", hint="Correct the value."
            )
    if not law.spike_factor and len({minute for minute in law.spike_minutes if minute < law.minutes}) == law.minutes:
        raise InputError("spike_factor: must be above 0 where all minutes are spikes, got 0.", hint="Raise it.")
