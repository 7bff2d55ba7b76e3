"""Names of the islands of a new plan: those whose servers run on keep the names of the old plan."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from planner.domain import BucketPool, Plan, Scenario
from planner.domain.changes import ChangeSettings
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
