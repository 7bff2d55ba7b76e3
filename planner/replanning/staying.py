"""What of a new plan is there already: the names of islands whose servers run on, and the nodes of those that stay."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from planner.domain import BucketPool, PlacedPart, Plan, Scenario
from planner.domain.changes import ChangeKind, ChangeSettings
from planner.evaluation.buckets.judging import stem_of
from planner.replanning.changes import changes_to


def named_after(before: Plan, pools: Sequence[BucketPool], scenario: Scenario) -> tuple[BucketPool, ...]:
    """The pools with the ids of their islands: of the old island that most of their servers run on from, where no
    other has more of it; else GPU type, GPUs of a server, phase, and a number that neither plan has."""
    numbered = [replace(pool, island=str(n)) for n, pool in enumerate(pools)]
    change = changes_to(before, numbered, scenario, ChangeSettings())
    names: dict[int, str] = {}
    stay = Counter[tuple[str, int]]()
    for row in change.changes:
        if row.kind.runs_on and row.before is not None and row.after is not None:
            stay[row.before.island, int(row.after.island)] += row.count
    # The most servers in common first; of equal ones by name, so that the same change has the same names.
    for (island, number), _ in sorted(stay.items(), key=lambda item: (-item[1], item[0])):
        if number not in names and island not in names.values():
            names[number] = island
    used_names = {pool.island for pool in before.outlook.pools} | set(names.values())
    for number, pool in enumerate(pools):
        if number not in names:
            names[number] = _free(stem_of(pool), used_names)
            used_names.add(names[number])
    return tuple(replace(pool, island=names[number]) for number, pool in enumerate(pools))


def _free(stem: str, used_names: set[str]) -> str:
    number = 1
    while f"{stem}-{number}" in used_names:
        number += 1
    return f"{stem}-{number}"


ON_THE_SAME_GPUS = (ChangeKind.KEEP, ChangeKind.REROUTE, ChangeKind.RESTART, ChangeKind.TURN)


def staying_parts(before: Plan, pools: Sequence[BucketPool], scenario: Scenario) -> tuple[PlacedPart, ...]:
    """The parts of servers that the change leaves on their GPUs, by the new plan's islands, copies numbered from 0.

    Of servers alike those of the lowest numbers stay. None where a plan lies on no nodes, or its pods would ask their
    nodes for other cores or memory than those that run.
    """
    if before.placement is None or scenario.cluster is None or _asks(before.scenario) != _asks(scenario):
        return ()
    copies: dict[str, dict[int, list[PlacedPart]]] = defaultdict(dict)
    for part in before.placement.parts:
        copies[part.island].setdefault(part.replica, []).append(part)
    free = {island: sorted(by_number.items()) for island, by_number in copies.items()}
    numbers: dict[str, int] = defaultdict(int)
    parts = []
    change = changes_to(before, pools, scenario, scenario.changes.times)
    # Those that serve on choose first, so that none of them has to move for one that starts anew.
    for row in sorted(change.changes, key=lambda row: ON_THE_SAME_GPUS.index(row.kind) if _stays(row.kind) else -1):
        if not _stays(row.kind) or row.before is None or row.after is None:
            continue
        replicas = free.get(row.before.island, [])
        for _, replica in replicas[: row.count]:
            number, numbers[row.after.island] = numbers[row.after.island], numbers[row.after.island] + 1
            parts += [replace(part, island=row.after.island, replica=number) for part in replica]
        free[row.before.island] = replicas[row.count :]
    return tuple(parts)


def _stays(kind: ChangeKind) -> bool:
    return kind in ON_THE_SAME_GPUS


def _asks(scenario: Scenario) -> tuple[float, ...]:
    """What pods of the plan ask of their nodes beside GPUs."""
    settings = scenario.placement
    return settings.cpus_per_gpu, settings.memory_gb_per_gpu
