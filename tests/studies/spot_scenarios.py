"""Small spot scenarios: builders of nodes and jobs, random ones, and what events say of a run."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from planner.studies.spot.records import EvictionLaw, JobClass, SpotAction, SpotEvent, SpotJob, SpotNode, StandbyWindow

TEN_SECONDS = EvictionLaw(mu=5.0, sigma=0.0, longest_s=10.0)
"""Every eviction is cut at 10 s."""

S_PER_DAY = 86_400.0


def machine(name: str = "n", gpus: int = 4, cpus: int = 64, model: str = "") -> SpotNode:
    return SpotNode(name=name, gpus=gpus, cpus=cpus, gpu_model=model)


def hp(name: str, submit_s: float, gpus: int, duration_s: float, *windows: tuple[float, float], **more: int) -> SpotJob:
    standby = tuple(StandbyWindow(start_s=start, end_s=end) for start, end in windows)
    asked = {"pods": 1, "cpus": gpus} | more
    return SpotJob(
        name=name, kind=JobClass.HP, submit_s=submit_s, gpus=gpus, duration_s=duration_s, standby=standby, **asked
    )


def spot(name: str, submit_s: float, gpus: int, duration_s: float, checkpoint_s: float = 60, **more: int) -> SpotJob:
    asked = {"pods": 1, "cpus": gpus} | more
    return SpotJob(
        name=name,
        kind=JobClass.SPOT,
        submit_s=submit_s,
        gpus=gpus,
        duration_s=duration_s,
        checkpoint_s=checkpoint_s,
        **asked,
    )


def told(events: Sequence[SpotEvent]) -> list[tuple[float, str, str]]:
    """Time, job and action of every event."""
    return [(event.time_s, event.job.name, event.action.value) for event in events]


def random_nodes(draw: np.random.Generator) -> list[SpotNode]:
    """A few nodes of two models."""
    return [
        machine(f"n{k}", gpus=int(draw.choice([1, 2, 4, 8])), cpus=int(draw.choice([6, 12, 40])), model="AB"[k % 2])
        for k in range(int(draw.integers(2, 7)))
    ]


def random_jobs(draw: np.random.Generator, nodes: Sequence[SpotNode], count: int = 60) -> list[SpotJob]:
    """Jobs for two hours that fit on the empty nodes: gangs, standby windows, few CPUs, two models."""
    found: list[SpotJob] = []
    while len(found) < count:
        gpus, pods = int(draw.choice([1, 1, 2, 4])), int(draw.choice([1, 1, 1, 2, 3]))
        cpus, model = gpus * int(draw.integers(0, 4)), str(draw.choice(["", "A", "B"]))
        fits = sum(
            min(node.gpus // gpus, node.cpus // cpus if cpus else node.gpus)
            for node in nodes
            if model in ("", node.gpu_model)
        )
        if fits < pods:
            gpus, pods, cpus, model = 1, 1, 1, ""
        is_hp, submit_s = bool(draw.random() < 0.5), round(float(draw.uniform(0, 7200)))
        duration_s = round(float(draw.uniform(30, 2500)))
        windows = ()
        if is_hp and draw.random() < 0.6 and duration_s > 100:
            at = sorted(draw.choice(duration_s, size=4, replace=False).tolist())
            end = duration_s if draw.random() < 0.2 else at[3]
            windows = (
                StandbyWindow(start_s=float(at[0]), end_s=float(at[1])),
                StandbyWindow(start_s=float(at[2]), end_s=float(end)),
            )
        found.append(
            SpotJob(
                name=f"j{len(found)}",
                kind=JobClass.HP if is_hp else JobClass.SPOT,
                submit_s=float(submit_s),
                pods=pods,
                gpus=gpus,
                cpus=cpus,
                duration_s=float(duration_s),
                checkpoint_s=None if is_hp else float(draw.choice([20, 100, 777])),
                gpu_model=model,
                standby=windows,
            )
        )
    return found


def gpu_seconds(events: Sequence[SpotEvent], end_s: float) -> Counter[str]:
    """GPU-seconds that events tell of: claims of guaranteed jobs, what they lent, what spot jobs held and lost."""
    since: dict[tuple[str, str], float] = {}
    found: Counter[str] = Counter()
    changes = {
        (JobClass.HP, SpotAction.CLAIM): ("+claimed",),
        (JobClass.HP, SpotAction.STANDBY): ("+standby",),
        (JobClass.HP, SpotAction.RECLAIM): ("-standby",),
        (JobClass.HP, SpotAction.FINISH): ("-standby", "-claimed"),
        (JobClass.SPOT, SpotAction.START): ("+spot", "+run"),
        (JobClass.SPOT, SpotAction.EVICT): ("-run", "+ending"),
        (JobClass.SPOT, SpotAction.GONE): ("-spot", "-ending"),
        (JobClass.SPOT, SpotAction.FINISH): ("-spot", "-run"),
    }
    gpus = {event.job.name: event.job.total_gpus for event in events}
    for event in events:
        for change in changes.get((event.job.kind, event.action), ()):
            what, key = change[1:], (event.job.name, change[1:])
            if change[0] == "+":
                since[key] = event.time_s
            elif key in since:
                ran = event.time_s - since.pop(key)
                found[what] += event.job.total_gpus * ran
                if event.action is SpotAction.EVICT:
                    found["lost"] += event.job.total_gpus * (ran % event.job.checkpoint_s)
    for (name, what), start in since.items():
        found[what] += gpus[name] * (end_s - start)
    return found
