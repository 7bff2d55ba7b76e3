"""The tables of the summary, one function a section."""

from collections.abc import Mapping, Sequence

from planner.domain import PHASES, Band, Phase, Plan, SearchRecord
from planner.report.kit.bands import band_in_percent
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, money, percent, percent_span, rate, span, whole
from planner.report.kit.tables import Column, counts, fields, of_part, table_of
from planner.report.plan.groups import PHASE_ORDER, IslandGroup, groups
from planner.report.plan.routing import MINOR_SHARE, Stretch, stretches

LISTED_GROUPS = 4
"""A row of the routing table names so many groups; the rest are counted."""

EXACT = "exact"
"""Generator of a layout that was solved for."""

_DEGREES = {"tp": "TP", "dp": "DP", "pp": "PP", "replicas": "Replicas"}
_BARS = "▁▂▃▄▅▆▇█"


def fleet_table(plan: Plan) -> str:
    """GPUs per type and what they do; GPUs in no island count as idle. Types that are only on offer are in a line."""
    types = [item.gpu.name for item in plan.scenario.inventory.items]
    offered = [gpu for gpu in types if plan.scenario.objective.rents and not plan.fleet[gpu]]
    rows = [_fleet_row(plan, gpu) for gpu in types if gpu not in offered]
    total = [sum(column) for column in zip(*(counts for _, counts, _ in rows), strict=True)]
    unpriced = plan.scenario.inventory.without_price
    lines = [
        [escaped(gpu), *map(whole, counts), NONE if gpu in unpriced else money(price)] for gpu, counts, price in rows
    ]
    lines.append(["**Total**", *map(whole, total), money(plan.price_usd_per_hour)])
    both = ["In both"] if Phase.MIXED in plan.phases else []
    header = [
        "GPU type",
        "GPUs",
        f"{plan.form.row.part.capitalize()}s",
        "In prefill",
        "In decode",
        *both,
        "Idle",
        "USD/hour",
    ]
    rest = f"\n\nOn offer, not rented: {', '.join(map(escaped, offered))}." if offered else ""
    return table(header, lines, "l" + "r" * (len(header) - 1)) + rest


def _fleet_row(plan: Plan, gpu: str) -> tuple[str, tuple[int, ...], float]:
    item = plan.scenario.inventory.item(gpu)
    islands = [i for i in plan.islands if i.gpu == gpu]
    busy = [sum(i.size for i in islands if i.phase is phase) for phase in plan.phases]
    count = plan.fleet[gpu]
    idle = count - sum(busy)
    price = count * item.price_usd_per_gpu_hour
    return gpu, (count, len(islands), *busy, idle), price


def islands_table(plan: Plan) -> str:
    """Equal islands in one row; rate and price are of the row's islands together. PP only where some island has it."""
    degrees = [d for d in _DEGREES if d != "pp" or any(i.parallel and i.parallel.pp > 1 for i in plan.islands)]
    bands = {(e.gpu, e.phase): e.band for e in plan.provenance.estimates if e.band is not None}
    unpriced = plan.scenario.inventory.without_price
    busy: tuple[Column[IslandGroup], ...] = (
        *(_degree(degree) for degree in degrees),
        Column("Batch", lambda group: [i.batch_size for i in group.islands], span),
        Column("Longest prompt", lambda group: [i.longest_prompt for i in group.islands], span),
        Column("Requests/s", lambda group: group.rate_rps, rate),
        *([_band(bands)] if bands else []),
        Column("Utilisation", lambda group: [i.utilisation for i in group.islands], percent_span),
    )
    columns: tuple[Column[IslandGroup], ...] = (
        Column("Islands", lambda group: len(group.islands), whole),
        *fields("GPU type=gpu"),
        Column("GPUs each", lambda group: group.sizes, span),
        Column("Phase", lambda group: group.phase.value if group.phase else "idle"),
        *of_part(lambda group: group if group.phase and group.islands[0].parallel else None, busy),
        Column("USD/hour", lambda group: None if group.gpu in unpriced else group.price_usd_per_hour, money),
    )
    return table_of(columns, sorted(groups(plan), key=lambda g: PHASE_ORDER.index(g.phase))).markdown()


def _degree(name: str) -> Column[IslandGroup]:
    return Column(_DEGREES[name], lambda group: getattr(group.islands[0].parallel, name), whole)


def _band(bands: Mapping[tuple[str, Phase], Band]) -> Column[IslandGroup]:
    return Column(
        "P10–P90", lambda group: bands.get((group.gpu, group.phase)) if group.phase else None, band_in_percent
    )


def routing_tables(plan: Plan) -> str:
    """One table a phase, neighbouring ranges that are served alike in one row."""
    lead = (
        "Ranges are input lengths in tokens. `type/GPUs ×islands` names a group of islands of one size or "
        "of neighbouring sizes. "
        "Neighbouring ranges served by the same groups in similar shares are one row; `routing.csv` has "
        "every cell."
    )
    return "\n\n".join([lead, *(f"### {phase.capitalize()}\n\n{_phase_table(plan, phase)}" for phase in PHASES)])


def _phase_table(plan: Plan, phase: Phase) -> str:
    rows = stretches(plan, phase)
    if not rows:
        return "Nothing is routed."
    return table_of(_STRETCH, rows).markdown()


def _servers(stretch: Stretch) -> str:
    major = [pair for pair in stretch.shares if pair[1] >= MINOR_SHARE][:LISTED_GROUPS]
    servers = [f"{escaped(label)} {percent(share)}" for label, share in major]
    minor = stretch.shares[len(major) :]
    if minor:
        servers.append(f"{len(minor)} more {percent(sum(share for _, share in minor))}")
    return ", ".join(servers) or "**nobody**"


_STRETCH: tuple[Column[Stretch], ...] = (
    Column("Input tokens", lambda stretch: stretch.label, right=True),
    *counts("Ranges=ranges"),
    Column("Of all requests", lambda stretch: stretch.probability, percent),
    Column("Requests/s", lambda stretch: stretch.rate_rps, rate),
    Column("Served by", _servers, str, right=False),
)


def search_text(plan: Plan) -> str:
    """How the layout was found: effort, progress, the best trial."""
    return "\n\n".join([_effort(plan), *_progress(plan), *_outcome(plan)])


def _progress(plan: Plan) -> list[str]:
    if not plan.search.trials or _solved(plan):
        return []
    by_round = plan.search.best_by_iteration()
    return [f"Best so far, round by round: `{_sparkline(by_round)}`", _progress_table(plan.search, by_round)]


def search_words(plan: Plan) -> str:
    """The same without the progress, which a chart shows."""
    return "\n\n".join([_effort(plan), *_outcome(plan)])


def _outcome(plan: Plan) -> list[str]:
    return [*_best_trial(plan), *_as_predicted(plan)] if plan.search.trials else []


def _solved(plan: Plan) -> bool:
    """Whether nothing was searched: the layout was solved for."""
    return plan.scenario.search.method.row.solves or all(trial.generator == EXACT for trial in plan.search.trials)


def _effort(plan: Plan) -> str:
    trials, settings = plan.search.trials, plan.scenario.search
    if not trials:
        return "No search was made: the layout was given."
    if _solved(plan):
        return f"Method {settings.method}: {plan.form.row.solved} solved for, as a MILP."
    rounds = len({t.iteration for t in trials})
    surrogate = f" with surrogate {settings.surrogate}" if settings.method.row.surrogate else ""
    effort = (
        f"Method {settings.method}{surrogate}: {len(trials)} layouts in {rounds} rounds "
        f"(planned: {settings.iterations} rounds of {settings.batch_size}), seed {settings.seed}."
    )
    if plan.search.replayed:
        replays = sum(trial.replayed_rps is not None for trial in trials)
        effort += f" The model of queues judged all of them; {replays} were replayed, and of those are the rates here."
    return effort


def _as_predicted(plan: Plan) -> list[str]:
    """What "best" means of layouts whose rates are closer than their bands."""
    if plan.rate_band is None:
        return []
    return [
        "Best is meant as predicted: layouts that use the same GPU types in the same phases err alike and keep their "
        "order, others that come closer than their bands may not (`planner diff` of two runs says how likely)."
    ]


def _sparkline(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[int((v - low) / step)] for v in values)


def _progress_table(record: SearchRecord, by_round: Sequence[float]) -> str:
    """Only rounds that improved on the one before, and the last."""
    last = len(by_round) - 1
    listed = [i for i, best in enumerate(by_round) if i in (0, last) or best > by_round[i - 1]]
    lines = [_progress_row(record, i, by_round[i]) for i in listed]
    return table(["Iteration", "Best so far (requests/s)", "Mean of round", "Failed or zero"], lines, "rrrr")


def _progress_row(record: SearchRecord, iteration: int, best: float) -> list[str]:
    batch = [record.judged_rps(trial) for trial in record.judged if trial.iteration == iteration]
    served = [rate_rps for rate_rps in batch if rate_rps > 0]
    mean = rate(sum(served) / len(served)) if served else NONE
    return [whole(iteration), rate(best), mean, f"{len(batch) - len(served)} of {len(batch)}"]


def _best_trial(plan: Plan) -> list[str]:
    best = [t for t in plan.search.trials if t.index == plan.search.best_trial]
    members = plan.form.row.members
    return [
        f"Best trial: number {t.index}, iteration {t.iteration}, {rate(plan.search.judged_rps(t))} requests/s, "
        f"proposed by {escaped(t.generator)}, layout {escaped(t.layout.label)} (GPUs each x {members})."
        for t in best
    ]


def provenance_list(plan: Plan) -> list[str]:
    """Versions, seed and inputs."""
    provenance = plan.provenance
    libraries = ", ".join(f"{escaped(name)} {escaped(version)}" for name, version in provenance.libraries)
    return [
        f"planner {escaped(provenance.planner_version)}, Python {escaped(provenance.python_version)}",
        f"Libraries: {libraries or NONE}",
        f"Solver: {escaped(provenance.solver)}; seed: {provenance.seed}; cost mode: {escaped(provenance.cost_mode)}",
        *_estimates(plan),
        *(f"Input {escaped(name)}: SHA-256 {escaped(sha256)}" for name, sha256 in provenance.input_hashes),
    ]


def _estimates(plan: Plan) -> list[str]:
    """Where the rates of each GPU type and phase come from."""
    provenance = plan.provenance
    if not provenance.estimates:
        return []
    rates = "; ".join(f"{escaped(e.gpu)} {e.phase}: {e.origin} ({escaped(e.source)})" for e in provenance.estimates)
    bands = "; ".join(
        f"{escaped(e.gpu)} {e.phase}: {band_in_percent(e.band)} ({escaped(e.band.basis)})"
        for e in provenance.estimates
        if e.band is not None
    )
    return [
        f"Efficiency factors: {escaped(provenance.calibration)}. Origin of the rates: {rates}",
        *([f"P10–P90 of measured over predicted rates: {bands}"] if bands else []),
    ]
