"""A migration plan as a page, as JSON and as a table."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.domain.defragmentation import Defragmentation, Move, MoveAim, MoveStep, Occupation
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import percent
from planner.report.kit.tables import Column, counts, fields, table_of
from planner.report.kit.tree import Page, paragraphs, section

MOST_STEPS = 40
"""Steps that the page lists."""

NOTHING = "Nothing is gained by moving pods: no node can be vacated with what may be moved."
NOTHING_TO_GATHER = "Nothing is gained by moving pods: no scattered job can be brought to one place."


def migration_document(plan: Defragmentation) -> dict[str, Any]:
    """The whole plan as JSON has it."""
    return {
        "cluster": plan.cluster,
        "settings": asdict(plan.settings),
        "before": _occupation(plan.before),
        "after": _occupation(plan.after),
        "proven": plan.proven,
        "fewest_in_use": plan.fewest_in_use,
        "gpu_hours": plan.gpu_hours,
        "waves": plan.waves,
        "steps": [asdict(step) | {"slots_per_move": step.slots_per_move} for step in plan.steps],
        "moves": [asdict(move) for move in plan.moves],
        "rounds": [asdict(item) for item in plan.rounds],
        "gathered": [asdict(job) for job in plan.gathered],
        "problems": list(plan.problems),
        "left_out": list(plan.left_out),
    }


def _occupation(occupation: Occupation) -> dict[str, int]:
    return asdict(occupation) | {"partial": occupation.partial, "not_full": occupation.not_full}


def moves_csv(plan: Defragmentation) -> bytes:
    """A row a move, in order."""
    return table_of(_MOVE, plan.moves).csv()


def _ids(indices: tuple[int, ...]) -> str:
    return " ".join(map(str, indices))


_MOVE: tuple[Column[Move], ...] = (
    *fields("order", "wave", "step", "pod", "source", "target", "gpus"),
    Column("gpu_indices", lambda move: _ids(move.gpu_indices)),
    *fields("gpu_hours"),
)


def migration_summary(plan: Defragmentation) -> str:
    """What the plan gains and costs, in a few lines."""
    return "\n".join((*_gain(plan), *_how_good(plan), *_remarks(plan)))


def _gain(plan: Defragmentation) -> Iterator[str]:
    if not plan.moves:
        yield NOTHING if plan.settings.aim is MoveAim.NODES else NOTHING_TO_GATHER
        return
    cost = (
        f"{_count(len(plan.moves), 'move')} in {_count(plan.waves, 'wave')}, {plan.gpu_hours:,.4g} GPU-hours held twice"
    )
    if plan.settings.aim is MoveAim.NODES:
        before, after = plan.before, plan.after
        yield f"{_count(len(plan.steps), 'node')} vacated by {cost}."
        fewer = percent(1 - after.not_full / before.not_full)
        yield (
            f"Nodes with idle GPUs: {before.not_full:,} before, {after.not_full:,} after "
            f"({fewer} fewer); empty ones: {before.empty:,} before, {after.empty:,} after."
        )
    else:
        yield f"{_count(len(plan.gathered), 'job')} brought to one place by {cost}."
    best = plan.steps[0]
    yield f"The first step takes {_count(best.moves, 'move')}, the last {_count(plan.steps[-1].moves, 'move')}."


def _how_good(plan: Defragmentation) -> Iterator[str]:
    """Whether there are better moves, and how far the nodes in use are from what no moves go below."""
    if plan.settings.aim is not MoveAim.NODES:
        return
    fewer = plan.after.in_use - plan.fewest_in_use
    if plan.proven:
        yield (
            "Exact: without a budget no moves that open no empty node leave fewer nodes in use, and no fewer moves as "
            "few."
        )
    else:
        fewest = (
            "as few as can be without empty ones"
            if fewer == 0
            else f"no moves that open no empty one leave fewer than {plan.fewest_in_use:,}"
        )
        yield f"A heuristic (IPC): {_count(plan.after.in_use, 'node')} stay in use, {fewest}; fewer moves may do."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _remarks(plan: Defragmentation) -> Iterator[str]:
    shown = plan.problems[:MOST_STEPS]
    yield from (f"Problem: {problem}." for problem in shown)
    if len(plan.problems) > len(shown):
        yield f"{len(plan.problems) - len(shown):,} further problems: see moves.json."
    yield from (f"Not moved: {reason}." for reason in plan.left_out)


_HOW = """
1. Look at `moves.csv` and at the first steps below. Every move was replayed on the cluster: no node runs short while
   the old and the new copy of a pod run side by side, locked pods stay, and labels, taints and anti-affinity hold.
2. `bash migrate.sh` moves the pods wave by wave; it needs `kubectl` and `jq`. Moves of one wave run side by side. For
   pods of other owners than a ReplicaSet set `BRING_UP` (see the head of the script).
3. You may stop after any step: what has been vacated by then stays vacated. Run the script again to go on.
4. `evictions/` has the policy/v1 Evictions of each step, for those who carry out moves by other means: post one only
   once the copy of its pod is ready.
5. `cluster-after.yaml` is the cluster once all is done. Plan anew where the cluster has changed in the meantime.

Which GPUs a copy gets is for its node to say; `gpu_indices` names the lowest that are free by then. Moves are counted
in GPUs, CPUs and memory, NUMA nodes are not looked at. Tolerations are not known: a pod goes to nodes without other
taints than its own node has.
"""


def migration_page(plan: Defragmentation) -> Page:
    """README.md of the plan."""
    columns: tuple[Column[MoveStep], ...] = (
        *counts("Step=number"),
        Column(
            "Vacates" if plan.settings.aim is MoveAim.NODES else "Gathers", lambda step: f"{step.goal} ({step.gpu})"
        ),
        *counts("GPUs=gpus", "Moves=moves", "Up to move=last_move"),
        Column("8-GPU slots a move", lambda step: step.slots_per_move, "{:.2g}".format),
    )
    further = f"{len(plan.steps) - MOST_STEPS:,} further steps are in `moves.json`."
    steps = (
        table_of(columns, plan.steps[:MOST_STEPS]).block(),
        *paragraphs(further if len(plan.steps) > MOST_STEPS else ""),
    )
    return Page(
        title=f"Moves on cluster {plan.cluster}",
        lead=paragraphs(*map(escaped, migration_summary(plan).splitlines())),
        sections=(
            section("how", "How to carry it out", *paragraphs(_HOW.strip() if plan.moves else "")),
            section("steps", "Steps", *(steps if plan.moves else ())),
        ),
    )
