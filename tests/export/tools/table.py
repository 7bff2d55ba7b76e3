"""The table of targets and outside judges: how many things of every target's exports each judge looked at, and what it
refused.

    python tests/export/tools/table.py             # as Markdown; needs make manifest-tools and make engine-parsers

The plans are those of the contract (split over several nodes, one node each, both phases in one server, beside each
other), one placed on a cluster with every option that the target heeds, one with evictions, and one of several pools.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "data")]

from contract_plans import PLANS, as_run, placed_plan
from dynamo_plans import two_pool_plan
from engine_parsers.lines import Line, lines
from engine_parsers.verdicts import verdicts
from export_plans import DECODE, PREFILL

from planner.domain import Plan, Victim
from planner.errors import ExportError
from planner.export import ENGINES, TARGETS, ExportOptions, find_faults, read_manifests, render
from planner.export.routers.registry import ROUTERS, chosen_router
from tools.judges import JUDGES, Judged

_RACKS = (("asw", "example.com/rack"),)
_OPTIONS = MappingProxyType(
    {
        "name": "Plan-1",
        "pin_nodes": True,
        "priority_class": "serving",
        "model_volume": "weights",
        "topology_labels": _RACKS,
        "queue": "team",
        "pod_resources": (("example.com/nic", 8),),
        "rdma": "rdma/ib",
        "hugepages": "2Mi=4Gi",
        "hf_secret": "hub-token:token",
        "served_names": ("chat", "agents"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The files of a plan for a target, or why there are none."""

    target: str
    engine: str
    plan_name: str
    plan: Plan
    files: Mapping[str, str]
    refusal: str = ""


def evicting_plan() -> Plan:
    """The placed plan, whose islands two pods have to give way to."""
    plan = placed_plan()
    assert plan.placement is not None
    victims = tuple(
        Victim(pod=pod, node=node, island=island.id, priority=5, gpus=4, lost_gpu_hours=None, order=order)
        for order, (pod, node, island) in enumerate(
            (("batch/train-0", "h0", PREFILL), ("default/web.a", "d1", DECODE)), start=1
        )
    )
    return replace(plan, placement=replace(plan.placement, victims=victims))


PLANS_TRIED = MappingProxyType(
    {name: plan for name, plan in PLANS.items() if name != "wide fleet"}
    | {"placed, all options": placed_plan, "evictions": evicting_plan, "two pools": two_pool_plan}
)


_ROUTED = ("single nodes", "two pools", "aggregated")
"""The plans that are exported with every router, not with the target's own alone."""


@cache
def exports_for(target: str) -> tuple[Export, ...]:
    """Every plan for every engine of a target; some with every other router that reaches its servers."""
    engines = TARGETS[target].engines
    own = [(target, engine, name, "") for engine in engines for name in PLANS_TRIED]
    others = [
        (target, engine, name, router)
        for router, row in ROUTERS.items()
        if target in row.targets and router != chosen_router(TARGETS[target], "")
        for engine in row.engines
        for name in _ROUTED
        if engine in engines
    ]
    return tuple(_export(*row) for row in (*own, *others))


def exports() -> Iterator[Export]:
    """Those of all targets."""
    return (export for target in TARGETS for export in exports_for(target))


def export_of(target: str, engine: str, plan_name: str) -> Export:
    """One of them."""
    (export,) = (e for e in exports_for(target) if (e.engine, e.plan_name) == (engine, plan_name))
    return export


def _export(target: str, engine: str, name: str, router: str) -> Export:
    plan = as_run(PLANS_TRIED[name](), engine)
    heeded = {key: value for key, value in _OPTIONS.items() if key not in TARGETS[target].unheeded}
    options = ExportOptions(**heeded) if name == "placed, all options" else None  # type: ignore[arg-type]
    head = {"target": target, "engine": engine, "plan_name": f"{name}{f', {router}' * bool(router)}", "plan": plan}
    try:
        files = render(plan, target=target, engine=engine, options=options, router=router)
        return Export(**head, files=files)  # type: ignore[arg-type]
    except ExportError as error:
        return Export(**head, files={}, refusal=str(error))  # type: ignore[arg-type]


def ours(export: Export) -> Judged:
    """Our own schemas and checks, with the plan."""
    faults = find_faults(export.files, export.plan)
    return Judged(count=len(read_manifests(export.files).sound), refused=tuple(map(str, faults)))


def judged(export: Export, judge: str) -> Judged:
    """What one judge but the parsers says of an export."""
    return ours(export) if judge == "ours" else JUDGES[judge](export.files)


def command_lines(version: str) -> list[tuple[Export, Line]]:
    """Every command line for `version` of all exports."""
    engine = next(name for name in ENGINES if name in version)
    return [
        (export, line)
        for export in exports()
        if export.engine == engine
        for line in lines(export.files, export.plan, engine)
        if line.version == version
    ]


def parsed(version: str) -> dict[str, Judged]:
    """What the parser of `version` says, by target; like lines are put to it once."""
    asked = command_lines(version)
    different = {repr(line.case): line.case for _, line in asked}
    answers = dict(zip(different, verdicts(version, list(different.values())), strict=True))
    table: dict[str, list[tuple[str, str]]] = {}
    for export, line in asked:
        verdict = answers[repr(line.case)]
        words = " ".join(line.case.arguments)
        row = (f"{export.plan_name}, {line.where}: {verdict.error}\n{words}" if not verdict.accepted else "", words)
        table.setdefault(export.target, []).append(row)
    return {
        target: Judged(count=len(rows), refused=tuple(error for error, _ in rows if error))
        for target, rows in table.items()
    }


def together(rows: Iterable[Judged]) -> Judged:
    """Sums over exports."""
    listed = list(rows)
    return Judged(count=sum(row.count for row in listed), refused=tuple(line for row in listed for line in row.refused))


def table(versions: Sequence[str]) -> dict[str, dict[str, Judged]]:
    """Target, judge -> what it looked at; the parsers of `versions` are one judge."""
    names = ("ours", *JUDGES)
    rows = {
        target: {name: together(judged(e, name) for e in exports_for(target) if e.files) for name in names}
        for target in TARGETS
    }
    answers = [parsed(version) for version in versions]
    for target, row in rows.items():
        row["parsers"] = together(answer[target] for answer in answers if target in answer)
    return rows


def as_markdown(rows: Mapping[str, Mapping[str, Judged]]) -> Iterator[str]:
    """The table; a cell is what was looked at, and behind a slash what was refused where that is not nothing."""
    names = list(next(iter(rows.values())))
    yield f"| target | exports (refused plans) | {' | '.join(names)} |"
    yield f"|{' --- |' * (len(names) + 2)}"
    for target, row in rows.items():
        made = exports_for(target)
        cells = [f"{j.count}" + (f" / {len(j.refused)} refused" if j.refused else "") for j in row.values()]
        head = f"{sum(bool(e.files) for e in made)} ({sum(bool(e.refusal) for e in made)})"
        yield f"| {target} | {head} | {' | '.join(cells)} |"


def main() -> int:
    """Prints the table and what was refused."""
    from engine_parsers.installing import DYNAMOS, EXPORTED

    rows = table((*EXPORTED, *DYNAMOS))
    print("\n".join(as_markdown(rows)))  # noqa: T201
    refused = [line for row in rows.values() for cell in row.values() for line in cell.refused]
    print("\n".join(refused), file=sys.stderr)  # noqa: T201
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
