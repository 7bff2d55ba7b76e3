"""What `planner simulate spot` is given: nodes, jobs, policies, loads; faults name the file or the option."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.studies.spot.records import SpotJob, SpotNode, SpotPolicy

GPUS, CPUS = 8, 192
MOST_LOADS = 50


def nodes_of(path: Path | None, machines: int) -> "tuple[SpotNode, ...]":
    """Nodes of a file, or so many alike."""
    from planner.studies.spot.inputs import read_spot_nodes
    from planner.studies.spot.records import SpotNode

    if path is not None:
        return read_spot_nodes(path)
    return tuple(SpotNode(name=f"node-{k}", gpus=GPUS, cpus=CPUS) for k in range(machines))


def jobs_of(path: Path | None, nodes: "Sequence[SpotNode]") -> "tuple[SpotJob, ...] | None":
    """Jobs of a file that can run on the nodes; None without a file. InputError names file and row."""
    from planner.studies.spot.inputs import read_spot_jobs
    from planner.studies.spot.simulation.requirements import require_simulable

    if path is None:
        return None
    jobs = read_spot_jobs(path)
    try:
        require_simulable(nodes, jobs)
    except InputError as error:
        rows = [row for row, job in enumerate(jobs, start=1) if error.message.startswith(f"job {job.name}:")]
        where = f"row {rows[0]}, " if rows else ""
        raise InputError(f"{path}: {where}{error.message}", hint=error.hint) from None
    return jobs


def spot_policy(word: str) -> "SpotPolicy":
    """The policy of that name, in any case."""
    from planner.studies.spot.simulation.policies import parse_spot_policy

    return parse_spot_policy(word.strip().lower())


def curve_of(text: str | None) -> tuple[float, ...]:
    """`0.05,0.1,0.2`: spot loads, ascending; none without a text."""
    if text is None:
        return ()
    loads = [_number(part) for part in text.split(",")]
    if not all(0 < load <= 2 for load in loads) or loads != sorted(set(loads)) or len(loads) > MOST_LOADS:
        raise InputError(
            f"--curve: must be at most {MOST_LOADS} spot loads above 0 and at most 2, ascending, got {text!r}.",
            hint="Write 0.05,0.1,0.2.",
        )
    return tuple(loads)


def hours_of(text: str) -> tuple[float, float]:
    """`1-8`, or `2` for both: shortest and longest, above 0."""
    first, dash, last = text.partition("-")
    short, long = _number(first), _number(last if dash else first)
    if not (short > 0 and long >= short and math.isfinite(long)):
        raise InputError(
            f"--checkpoint-hours: must be hours above 0, the longer last, got {text!r}.", hint="Write 1-8."
        )
    return short, long


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
