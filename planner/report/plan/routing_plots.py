"""Who serves which prompts, drawn: areas over the requests, rates, the mix served; and the section of the page."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from planner.domain import PHASES, BucketPool, LoadPoint, Phase, Plan
from planner.report.buckets.view import BucketView, buckets_of, degrees, latencies_at
from planner.report.kit.plots import Kind, Plot, Series, chart_of, held_series, series_of
from planner.report.kit.quantities import banded_rate, counted, percent, rate, significant
from planner.report.kit.tables import Column, fields, table_of
from planner.report.kit.tree import DataTable, Section, paragraphs, section
from planner.report.plan.routing import (
    READABLE_GROUPS,
    IslandGroup,
    achieved_mix,
    groups,
    intervals,
    merged,
    of_phase,
    rates,
    shares,
    stretch_table,
)

MOST_BARS = 60
"""Stretches of a histogram."""
MOST_TICKS = 32
"""Ranges named on an axis; beyond, every second, third … is."""
APART = 0.024
"""Part of a panel that a length at an edge takes."""
LEAST_GAP = 0.05
"""Percentage points; smaller differences are rounding, and have no panel."""
PALEST = 0.7
"""How much white the last of a type's groups has in its colour."""

_BAND = "P10–P90 of the rate"
_FULL_TABLE = "routing.csv of the run folder"
_TABLE = (
    "Requests/s by input length in tokens, and who serves them. `type/GPUs ×islands` names a group of islands of one "
    "size or of neighbouring sizes. Neighbouring ranges served by the same groups in similar shares are one row; "
    "`routing.csv` of the run folder has every cell."
)


def routing_section(plan: Plan) -> Section:
    """Prompt lengths with the cuts between buckets, or the routing table from afar."""
    if not plan.routing:
        return section("routing", "Routing", *paragraphs("Nothing is routed."))
    if plan.form.row.pooled:
        lengths, arrivals = length_plots(plan)
        drawn = (chart_of(lengths, _lengths_table(plan)), chart_of(arrivals))
        return section("routing", "Buckets", *drawn, _buckets(plan))
    charts = (chart_of(plot, _served(plan, phase)) for plot, phase in zip(rate_plots(plan), PHASES, strict=True))
    tables = (stretch_table(plan, phase) for phase in PHASES)
    return section("routing", "Routing", *paragraphs(_TABLE), *charts, *tables)


def _served(plan: Plan, phase: Phase) -> DataTable:
    """A row a range: its share of all requests, the requests/s of each group."""
    cut, listed = intervals(plan), merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    by_group = rates(plan, phase, listed)
    columns: tuple[Column[int], ...] = (
        Column("Tokens", lambda at: cut[at].label),
        Column("Of all requests", lambda at: cut[at].probability, unit="%"),
        *(_of_group(group.label, row) for group, row in zip(listed, by_group, strict=True)),
    )
    return table_of(columns, range(len(cut))).block(rest_file=_FULL_TABLE)


def _of_group(label: str, row: Sequence[float]) -> Column[int]:
    return Column(label, lambda at: row[at])


def _buckets(plan: Plan) -> DataTable:
    columns: tuple[Column[BucketView], ...] = (
        *fields("Phase=phase", "Prompts (tokens)=label"),
        Column("Of all requests", lambda bucket: bucket.probability, percent),
        Column("Requests/s at capacity", lambda bucket: bucket.probability * plan.throughput_rps, rate),
        Column("Pools could serve, requests/s", lambda bucket: bucket.capacity_rps, rate),
        Column("Served by", lambda bucket: ", ".join(f"{pool.island} {percent(pool.share)}" for pool in bucket.pools)),
    )
    caption = "The router sends a request to the pools of its bucket, there to the server that it chooses."
    scenario = plan.scenario
    if scenario.most_buckets < scenario.routing.most:
        caption += f" As {scenario.router.name} tells lengths by bytes, a phase has one bucket."
    return table_of(columns, (bucket for phase in PHASES for bucket in buckets_of(plan, phase))).block(caption)


def share_plots(plan: Plan) -> tuple[Plot, ...]:
    """Share of each range's requests by group of islands, or of each bucket's by pool; as wide as a range or bucket is
    its share of all requests. None where nothing is routed."""
    drawn = [(phase, *_areas(plan, phase, served=False)) for phase in PHASES] if plan.routing else []
    unit = "bucket" if plan.form.row.pooled else "range"
    return tuple(
        Plot(
            name=f"shares-{phase.value}",
            title=f"Who serves which prompts in {phase.value}",
            says=f"Of each {unit}'s requests, who serves how many.",
            kind=Kind.AREAS,
            x=f"input length (tokens) at the edges of {unit}s, as wide as their share of all requests",
            y=f"{phase}: share (%)",
            series=areas,
            ticks=ticks,
        )
        for phase, areas, ticks in drawn
    )


def rate_plots(plan: Plan) -> tuple[Plot, ...]:
    """Requests/s of each range by group of islands, beside the target mix at the plan's rate; of each bucket what its
    pools could serve of the whole mix, beside the loads that the plan is told at. None where nothing is routed."""
    if not plan.routing:
        return ()
    return tuple((_bucket_rates if plan.form.row.pooled else _range_rates)(plan, phase) for phase in PHASES)


def _range_rates(plan: Plan, phase: Phase) -> Plot:
    cut, banded = intervals(plan), banded_rate(plan)
    areas, _ = _areas(plan, phase, served=True)
    target = [plan.throughput_rps * interval.probability for interval in cut]
    low, high = (
        tuple(value * end / banded.value for value in target) if banded else ()
        for end in ((banded.low, banded.high) if banded else (0.0, 0.0))
    )
    middles = [at + 0.5 for at in range(len(cut))]
    points = list(zip(middles, target, strict=True))
    mix = series_of("target mix", points, tone="bound", low=low, high=high, interval=_BAND, kind=Kind.DOTS)
    step = -(-len(cut) // MOST_TICKS) or 1
    return Plot(
        name=f"routing-{phase.value}",
        title=f"Who serves which prompts in {phase.value}",
        says=f"{counted(len(areas), 'group')} of islands; strokes are the target mix at the plan's rate.",
        kind=Kind.AREAS,
        x="input length (tokens)",
        y=f"{phase}: served (requests/s)",
        series=(*areas, mix),
        ticks=tuple((middles[at], cut[at].label) for at in range(0, len(cut), step)),
        rest=_FULL_TABLE,
    )


def _bucket_rates(plan: Plan, phase: Phase) -> Plot:
    areas, ticks = _areas(plan, phase, served=True)
    loads = [(load, rows[0].rate_rps) for load in LoadPoint if (rows := latencies_at(plan, load, Phase.PREFILL))]
    banded = banded_rate(plan)
    band = () if banded is None else (_with_band(plan, banded.low, banded.high),)
    return Plot(
        name=f"routing-{phase.value}",
        title=f"What each bucket's pools could serve in {phase.value}",
        says="The lowest of both phases is what the plan serves.",
        kind=Kind.AREAS,
        x="input length (tokens) at the edges of buckets, as wide as their share of all requests",
        y=f"{phase}: could serve (requests/s of the whole mix)",
        series=(*areas, *band),
        bounds=tuple((f"{load} ({significant(rate)})", rate) for load, rate in loads),
        ticks=ticks,
    )


def _with_band(plan: Plan, low: float, high: float) -> Series:
    return series_of(
        "capacity", [(1.0, plan.throughput_rps)], low=(low,), high=(high,), interval=_BAND, kind=Kind.DOTS, tone="bound"
    )


def _areas(plan: Plan, phase: Phase, *, served: bool) -> tuple[tuple[Series, ...], tuple[tuple[float, str], ...]]:
    """A series a group or pool, and lengths at the edges where there is room for them."""
    if plan.form.row.pooled:
        return _of_pools(plan, phase, served=served)
    cut, listed = intervals(plan), merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    edges = _edges([interval.probability for interval in cut])
    if served:
        matrix, places = rates(plan, phase, listed), [float(at) for at in range(len(cut) + 1)]
    else:
        matrix, places = [[100 * share for share in row] for row in shares(plan, phase, listed)], edges
    pales = _pales(listed)
    areas = tuple(
        held_series(group.label, places, row, place=at, gpu=group.gpu, pale=pales[at])
        for at, (group, row) in enumerate(zip(listed, matrix, strict=True))
    )
    lengths = [*(interval.start for interval in cut), cut[-1].end]
    return areas, _length_ticks(list(zip(edges, lengths, strict=True)))


def _of_pools(plan: Plan, phase: Phase, *, served: bool) -> tuple[tuple[Series, ...], tuple[tuple[float, str], ...]]:
    buckets = buckets_of(plan, phase)
    edges = _edges([bucket.probability for bucket in buckets])
    listed = (*of_phase(groups(plan), phase), *of_phase(groups(plan), Phase.MIXED))
    pales = dict(zip((group.islands[0].id for group in listed), _pales(listed), strict=True))
    pools = [(at, bucket, pool) for at, bucket in enumerate(buckets) for pool in bucket.pools[::-1]]
    areas = []
    for place, (at, bucket, pool) in enumerate(pools):
        of_mix = pool.count * pool.capacity_rps / bucket.probability if bucket.probability else 0.0
        values = [0.0] * len(buckets)
        values[at] = of_mix if served else 100 * pool.share
        name = _pool_label(plan, bucket, pool, alone=len(buckets) == 1)
        areas.append(held_series(name, edges, values, place=place, gpu=pool.gpu, pale=pales[pool.island]))
    lengths = [*(bucket.start for bucket in buckets), buckets[-1].end]
    return tuple(areas), _length_ticks(list(zip(edges, lengths, strict=True)))


def _pool_label(plan: Plan, bucket: BucketView, pool: BucketPool, *, alone: bool) -> str:
    """`8 × 8 H200, TP1 DP8`, and its bucket where there are several."""
    server = f"{pool.count} × {pool.server.parallel.devices} {pool.gpu}, {degrees(plan, pool)}"
    return server if alone else f"{server}: {bucket.label}"


def _pales(listed: Sequence[IslandGroup]) -> list[float]:
    """The lighter the smaller the islands of a type."""
    kin = [[group for group in listed if group.gpu == other.gpu] for other in listed]
    return [PALEST * siblings.index(group) / max(1, len(siblings)) for group, siblings in zip(listed, kin, strict=True)]


def _edges(probabilities: Sequence[float]) -> list[float]:
    """Where each begins, side by side from 0 to 1."""
    total = sum(probabilities) or 1.0
    return [*accumulate((probability / total for probability in probabilities), initial=0.0)]


def _length_ticks(edges: list[tuple[float, int]]) -> tuple[tuple[float, str], ...]:
    """Lengths at edges, where there is room for them; the last always."""
    ticks: list[tuple[float, int]] = []
    for at, length in edges:
        if not ticks or at - ticks[-1][0] >= APART:
            ticks.append((at, length))
    if ticks[-1] != edges[-1]:
        ticks = [*(tick for tick in ticks if edges[-1][0] - tick[0] >= APART), edges[-1]]
    return tuple((at, f"{length:,}") for at, length in ticks)


def mix_plots(plan: Plan) -> tuple[Plot, ...]:
    """Whether each phase serves the ranges in the proportions of the workload: the mix achieved beside the target, and
    the difference where there is any."""
    cut = intervals(plan)
    if not plan.routing:
        return ()
    edges = [float(interval.start) for interval in cut] + [float(cut[-1].end)]
    target = [100 * interval.probability for interval in cut]
    achieved = {phase: [100 * share for share in achieved_mix(plan, phase)] for phase in PHASES}
    gaps = {phase: [a - t for a, t in zip(row, target, strict=True)] for phase, row in achieved.items()}
    served = _mix("served-mix", "Served mix", "share of requests (%)", edges, {"target": target}, achieved)
    if not any(abs(gap) >= LEAST_GAP for row in gaps.values() for gap in row):
        return (served,)
    return served, _mix("mix-gaps", "Served less target", "served less target (percentage points)", edges, {}, gaps)


def _mix(
    name: str,
    title: str,
    y: str,
    edges: Sequence[float],
    target: dict[str, list[float]],
    of_phases: dict[Phase, list[float]],
) -> Plot:
    return Plot(
        name=name,
        title=title,
        says="Over the lengths of prompts.",
        kind=Kind.STEPS,
        x="input length (tokens)",
        y=y,
        series=(
            *(held_series(phase.value, edges, row, tone=phase.value) for phase, row in of_phases.items()),
            *(held_series(word, edges, row, tone="bound") for word, row in target.items()),
        ),
        from_zero=bool(target),
    )


def length_plots(plan: Plan) -> tuple[Plot, Plot]:
    """Prompts by length and where buckets cut them: how many there are, and how many, and how many of their tokens, are
    shorter."""
    workload, end = plan.scenario.workload, max(b.end for phase in PHASES for b in buckets_of(plan, phase))
    cuts = sorted({bucket.start for phase in PHASES for bucket in buckets_of(plan, phase)} - {0})
    words = (
        f"Buckets begin at {', '.join(f'{cut:,}' for cut in cuts)} tokens." if cuts else "One bucket takes all prompts."
    )
    marks = tuple(
        (f"{phase} cut at {bucket.start:,}", float(bucket.start))
        for phase in PHASES
        for bucket in buckets_of(plan, phase)[1:]
    )
    width, masses = _histogram(plan)
    lengths = Plot(
        name="prompt-lengths",
        title="Prompt lengths",
        says=f"Share of the requests by length of the prompt. {words}",
        kind=Kind.AREAS,
        x="tokens of the prompt",
        y="% of requests",
        series=(
            held_series("requests", [float(at * width) for at in range(len(masses) + 1)], [100 * m for m in masses]),
        ),
        marks=marks,
    )
    tokens = [length * p for length, p in zip(workload.input_tokens, workload.probabilities, strict=True)]
    shorter = Plot(
        name="shorter-prompts",
        title="Shorter prompts",
        says="Of the requests and of their prompts' tokens, the share that shorter prompts have.",
        kind=Kind.STEPS,
        x="input length (tokens)",
        y="share of shorter prompts (%)",
        series=tuple(
            series_of(
                name,
                [
                    (0.0, 0.0),
                    *zip(map(float, workload.input_tokens), _running(weights), strict=True),
                    (float(end), 100.0),
                ],
            )
            for name, weights in (("of all requests", workload.probabilities), ("of all prompt tokens", tokens))
        ),
        marks=marks,
    )
    return lengths, shorter


def _running(weights: Sequence[float]) -> Iterator[float]:
    total = sum(weights)
    return (100 * weight / total for weight in accumulate(weights))


def _histogram(plan: Plan) -> tuple[int, list[float]]:
    """Tokens of a stretch, and the share of requests in each of at most so many equal ones."""
    workload = plan.scenario.workload
    width = max(1, -(-(workload.input_tokens[-1] + 1) // MOST_BARS))
    masses = [0.0] * (workload.input_tokens[-1] // width + 1)
    for tokens, probability in zip(workload.input_tokens, workload.probabilities, strict=True):
        masses[tokens // width] += probability
    return width, masses


def _lengths_table(plan: Plan) -> DataTable:
    width, masses = _histogram(plan)
    rows = ((f"{at * width}–{(at + 1) * width - 1}", 100 * mass) for at, mass in enumerate(masses) if mass)
    return DataTable(columns=("Tokens", "Of all requests (%)"), rows=tuple(rows))
