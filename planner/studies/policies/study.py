"""Online policies compared: every policy over the same seeds' arrivals, a process a run.

A seed's arrivals and tie order are drawn where they are used: they cost less than being sent to another process.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from planner.domain import PowerFormula, PowerTable, Semantics, TraceNode, TracePod, allows
from planner.errors import InputError
from planner.placement.fragmentation import target_workload
from planner.placement.power_model import OPENB_POWER
from planner.processes.workers import Processes
from planner.studies.policies.online.arrivals import INFLATION, draw_arrivals, draw_tie_order
from planner.studies.policies.online.policies import PolicyMix
from planner.studies.policies.online.simulation import simulate
from planner.studies.policies.records import OnlineRun
from planner.studies.runner import RunsDone, require_each_once, run_tasks

MOST_INFLATION = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStudy:
    """What is compared: traces, policies, seeds.

    `arrivals` and `tie_order` stand in for what a seed would draw; either belongs to one seed. `decisions`: whether
    runs keep what became of every arrival. `formula` None: the semantics' own.
    """

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    policies: tuple[PolicyMix, ...]
    seeds: tuple[int, ...]
    inflation: float = INFLATION
    semantics: Semantics = Semantics.REFERENCE
    power: PowerTable = OPENB_POWER
    formula: PowerFormula | None = None
    arrivals: tuple[TracePod, ...] | None = None
    tie_order: tuple[str, ...] | None = None
    decisions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """A policy's run over the arrivals of one seed."""

    policy: str
    seed: int
    run: OnlineRun


Listen = Callable[[RunsDone[SeedRun]], None]


def run_study(study: PolicyStudy, *, processes: Processes = 1, listen: Listen = lambda _: None) -> Iterator[SeedRun]:
    """Every policy's run over every seed, policy by policy, seeds in order; the same ones in any number of processes.

    InputError: nothing to compare, the same twice, given orders with several seeds, an inflation out of range, and what
    `simulate` refuses. SolverError where a process died twice over its run.
    """
    _require_comparable(study)
    tasks = [(study, mix, seed) for mix in study.policies for seed in study.seeds]
    yield from run_tasks("policies", run_seed, tasks, processes=processes, listen=listen)


def run_seed(study: PolicyStudy, mix: PolicyMix, seed: int, progress: Callable[[float], None] | None = None) -> SeedRun:
    """One policy over one seed's arrivals. `progress` hears the share of them that has come."""
    arrivals, tie_order = study.arrivals, study.tie_order
    if arrivals is None:
        arrivals = draw_arrivals(study.pods, study.nodes, seed, study.inflation)
    run = simulate(
        study.nodes,
        arrivals,
        mix,
        target_workload(study.pods),
        semantics=study.semantics,
        tie_order=draw_tie_order(study.nodes, seed) if tie_order is None else tie_order,
        seed=seed,
        power=study.power,
        formula=study.formula,
        progress=None if progress is None else lambda count: progress(count / len(arrivals)),
    )
    return SeedRun(policy=mix.name, seed=seed, run=run if study.decisions else replace(run, decisions=()))


def too_large(nodes: Sequence[TraceNode], pods: Sequence[TracePod]) -> tuple[TracePod, ...]:
    """Pods that fit on none of the nodes, even an empty one: each time they come they fail."""
    kinds = {(node.cpu_milli, node.memory_mib, node.gpus, node.gpu_model) for node in nodes}
    answers: dict[tuple[int, int, int, str], bool] = {}

    def fits(pod: TracePod) -> bool:
        request = (pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_spec)
        if request not in answers:
            answers[request] = any(
                pod.cpu_milli <= cpu
                and pod.memory_mib <= memory
                and (not pod.gpus or (pod.gpus <= gpus and allows(pod.gpu_spec, model)))
                for cpu, memory, gpus, model in kinds
            )
        return answers[request]

    return tuple(pod for pod in pods if not fits(pod))


def _require_comparable(study: PolicyStudy) -> None:
    require_each_once("policies", [mix.name for mix in study.policies])
    require_each_once("seeds", study.seeds)
    if len(study.seeds) > 1 and not (study.arrivals is None and study.tie_order is None):
        raise InputError(
            f"seeds: given orders belong to one seed, got {len(study.seeds)} seeds.",
            hint="Give one seed, or let the seeds draw the orders.",
        )
    if not 0 < study.inflation <= MOST_INFLATION:
        raise InputError(
            f"inflate: must be above 0 and at most {MOST_INFLATION:g}, got {study.inflation:g}.", hint="Give 1.3."
        )
