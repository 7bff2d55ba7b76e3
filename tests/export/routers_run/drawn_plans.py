"""Plans of intervals drawn at random, cheaply and always the same: split, of both phases, or both beside each other;
with shares or balanced."""

import random
from dataclasses import replace

from export_plans import island, plan_of, route

from planner.domain import PHASES, ParallelConfig, Phase, Plan, PlannedIsland, RoutingForm, RoutingSettings

_CUTS = (300, 512, 1000, 2048, 4096)
_END = 8192


def drawn_plan(seed: int) -> Plan:
    """A plan of one to four buckets a phase, one or two islands in each."""
    draw = random.Random(seed)  # no secrets
    form = draw.choice(["split", "mixed", "beside"])
    cuts = {phase: _cuts(draw) for phase in PHASES}
    if form != "split":
        cuts[PHASES[1]] = cuts[PHASES[0]]
    spans = sorted({cut for phase in PHASES for cut in cuts[phase]})
    islands: list[PlannedIsland] = []
    shares: dict[tuple[Phase, int], dict[str, float]] = {}
    for number, cut in enumerate(cuts[PHASES[0]] if form != "split" else ()):
        both = [_island(f"b{number}-{at}", "H20", Phase.MIXED, draw) for at in range(draw.choice([1, 2]))]
        islands += both
        for phase in PHASES:
            shares[phase, cut] = {each.id: (0.5 if form == "beside" else 1.0) / len(both) for each in both}
    for phase, kind in zip(PHASES, ("H200", "H20"), strict=True):
        for number, cut in enumerate(cuts[phase] if form != "mixed" else ()):
            half = [_island(f"{phase.value[0]}{number}-{at}", kind, phase, draw) for at in range(draw.choice([1, 2]))]
            islands += half
            parts = shares.setdefault((phase, cut), {})
            parts |= {each.id: (1.0 - (0.5 if form == "beside" else 0.0)) / len(half) for each in half}
    rows = tuple(
        route(name, phase, start, share, width=end - start)
        for start, end in zip(spans, (*spans[1:], _END), strict=True)
        for phase in PHASES
        for name, share in shares[phase, max(cut for cut in cuts[phase] if cut <= start)].items()
    )
    plan = plan_of(tuple(islands), name=f"drawn-{seed}", routing=rows)
    if draw.random() < 0.5:  # one of two
        settings = RoutingSettings(form=RoutingForm.SETS)
        plan = replace(plan, scenario=replace(plan.scenario, routing=settings))
    return plan


def _cuts(draw: random.Random) -> tuple[int, ...]:
    return (0, *sorted(draw.sample(_CUTS, draw.randint(0, 3))))


def _island(name: str, kind: str, phase: Phase, draw: random.Random) -> PlannedIsland:
    return replace(
        island(name, kind, phase, ParallelConfig(tp=8, dp=1, replicas=draw.randint(1, 3)), batch_size=8),
        longest_prompt=_END - 1,
    )
