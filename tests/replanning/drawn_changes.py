"""Changes of a deployed plan drawn by seed, and what becomes of them: steps, or a refusal whose hint is followed."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from five_nodes import CLUSTER
from replanned_scenarios import small_plan

from planner import pipeline
from planner.domain import Plan
from planner.errors import PlannerError
from planner.files import scenario_from_document
from planner.files.scenario.settings import Setting
from planner.runs.replanning.asking import ChangedPlan, ChangeQuestion, change_plan, lost_servers
from planner.runs.replanning.inputs import change_limits, new_scenario
from planner.workload import summarize

DEPLOYED = {
    "name": "deployed",
    "model": "llama-3.1-8b",
    "workload": "azure-conv-2023",
    "inventory": {"A100": 6, "L40S": 6},
    "ranges": {"width": 4096},
    "routing": {"most": 1},
    "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    "search": {"timings": False},
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Keys set anew, the new inventory, GPUs that are there meanwhile, what is lost, and the share to keep up."""

    kind: str
    settings: tuple[Setting, ...] = ()
    inventory: dict[str, int] | None = None
    meanwhile: dict[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    least_share: float = 0.9
    most_gpus: int | None = None

    def made(self, saved: Plan) -> ChangedPlan:
        """The change. Raises PlannerError where it is refused."""
        scenario = new_scenario(saved, inventory=self.inventory, settings=self.settings)
        limits = change_limits(scenario.changes.limits, self.most_gpus, None, None, turns_only=None)
        question = ChangeQuestion(
            scenario=scenario,
            limits=limits,
            lost=lost_servers(saved, self.lost),
            least_share=self.least_share,
            replays=False,
            meanwhile=self.meanwhile,
        )
        return change_plan(saved, question)


@cache
def deployed() -> Plan:
    """On two generations of GPUs."""
    return pipeline.plan(scenario_from_document(DEPLOYED, origin="deployed", base=Path(), summarize=summarize))


@cache
def placed() -> Plan:
    """On the nodes of a cluster."""
    unplaced = small_plan()
    return pipeline.place(unplaced, replace(unplaced.scenario, cluster=CLUSTER))


def drawn(seed: int) -> tuple[Plan, Drawn]:
    """A plan, and one change of it."""
    draw = random.Random(seed)
    kind = ("load", "levels", "prices", "nodes", "types")[seed % 5]
    if kind == "nodes":
        return placed(), _nodes(draw)
    return deployed(), {"load": _load, "levels": _levels, "prices": _prices, "types": _types}[kind](draw)


def _load(draw: random.Random) -> Drawn:
    if draw.random() < 0.5:
        workload = draw.choice(["azure-code-2023", "normal-500-2000", "azure-conv-2024"])
        return Drawn("load", settings=(Setting("workload", workload),))
    target = round(deployed().throughput_rps * draw.uniform(0.2, 1.6), 3)
    return Drawn("load", settings=(Setting("objective", {"kind": "target", "target_rps": target}),))


def _levels(draw: random.Random) -> Drawn:
    key, usual = draw.choice([("ttft_ms", 4000), ("tpot_ms", 60)])
    changed = [Setting(f"slo.{key}", round(usual * draw.uniform(0.15, 2)))]
    changed += [Setting("slo.percentile", draw.choice([50, 95]))] * (draw.random() < 0.3)
    return Drawn("levels", settings=tuple(changed), least_share=draw.choice([0.9, 0.7]))


def _prices(draw: random.Random) -> Drawn:
    target = round(deployed().throughput_rps * draw.uniform(0.3, 0.8), 3)
    prices = {gpu: round(draw.uniform(0.4, 6), 2) for gpu in ("A100", "L40S")}
    objective = {"kind": "target", "target_rps": target}
    return Drawn("prices", settings=(Setting("prices_usd_per_gpu_hour", prices), Setting("objective", objective)))


def _nodes(draw: random.Random) -> Drawn:
    plan = placed()
    nodes = sorted({part.node for part in plan.placement.parts})
    lost = draw.sample(nodes, draw.choice([1, 1, 2, len(nodes)]))
    return Drawn("nodes", lost=tuple(lost), least_share=draw.choice([0.9, 0.5]))


def _types(draw: random.Random) -> Drawn:
    counts = {"A100": draw.choice([0, 3, 6, 8]), "L40S": draw.choice([0, 2, 6, 10])}
    if draw.random() < 0.5:
        counts[draw.choice(["H100", "H200"])] = draw.choice([2, 4])
    counts = {gpu: count for gpu, count in counts.items() if count or draw.random() < 0.8}
    if not any(counts.values()):
        counts["H100"] = 4
    meanwhile = {"A100": 6, "L40S": 6} if draw.random() < 0.3 else {}
    return Drawn("types", inventory=counts, meanwhile=meanwhile)


def followed(change: Drawn, error: PlannerError) -> Iterator[Drawn]:
    """The changes that the hint of a refusal offers; none where it says nothing that can be done."""
    hint = error.hint
    for pattern, follow in _WAYS:
        for match in re.finditer(pattern, hint):
            yield follow(change, match)


def _counts(text: str) -> dict[str, int]:
    return {gpu: int(count) for gpu, count in (pair.split("=") for pair in text.split(","))}


def _setting(change: Drawn, key: str, value: Any) -> Drawn:
    return replace(change, settings=(*(s for s in change.settings if s.key != key), Setting(key, value)))


_WAYS: tuple[tuple[str, Callable[[Drawn, re.Match[str]], Drawn]], ...] = (
    (r"--least-share ([\d.]+\d|\d)", lambda change, match: replace(change, least_share=float(match[1]))),
    (r"--meanwhile ([\w=,-]+\d)", lambda change, match: replace(change, meanwhile=_counts(match[1]))),
    (r"Allow (\d+) GPUs to be touched", lambda change, match: replace(change, most_gpus=int(match[1]))),
    (
        r"--set inventory\.([\w-]+)=0",
        lambda change, match: replace(change, inventory={**(change.inventory or {}), match[1]: 0}),
    ),
    (
        r"Leave ([\w-]+) out of it, or lower the inventory",
        lambda change, match: replace(change, meanwhile={g: n for g, n in change.meanwhile.items() if g != match[1]}),
    ),
)
