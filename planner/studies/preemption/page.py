"""The scale-up study side by side with the paper: hit rates (its table 4) and search times (its table 5)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TypeVar

from planner.domain import VictimMethod
from planner.report.kit.markdown import bullets, escaped, pictures, table
from planner.report.kit.quantities import NONE, significant, whole
from planner.report.kit.tables import Frame, csv_table
from planner.studies.preemption.records import (
    GpuHolder,
    HitCount,
    InitialPlacement,
    InstanceCount,
    ScaleUpMode,
    ScaleUpSettings,
    Scenes,
    SourcingLatency,
    SourcingTime,
)

HIT_RATES_FILE, LATENCY_FILE = "hit_rates.csv", "latency.csv"
SCENE_FILES = ("figure-08.csv", "figure-09.csv", "figure-10.csv")
HIT_COLUMNS = tuple(field.name for field in fields(HitCount))
LATENCY_COLUMNS = tuple(field.name for field in fields(SourcingLatency))


def hit_rates_csv(counts: Iterable[HitCount]) -> bytes:
    """A row a size, placement, seed, method, mode and workload, summed over cycles; the same bytes for one seed."""
    return csv_table(HIT_COLUMNS, ([getattr(row, name) for name in HIT_COLUMNS] for row in counts))


def latency_csv(latencies: Iterable[SourcingLatency]) -> bytes:
    """A row a size, workload and method; CPU microseconds as measured."""
    return csv_table(LATENCY_COLUMNS, ([_cell(getattr(row, name)) for name in LATENCY_COLUMNS] for row in latencies))


def scene_csvs(scenes: Scenes) -> dict[str, bytes]:
    """Figures 8 to 10: a row a GPU and method, a step and workload, a search."""
    kinds = ((GpuHolder, scenes.holders), (InstanceCount, scenes.instances), (SourcingTime, scenes.searches))
    tables: dict[str, bytes] = {}
    for name, (kind, rows) in zip(SCENE_FILES, kinds, strict=True):
        columns = [field.name for field in fields(kind)]
        tables[name] = csv_table(columns, ([_cell(getattr(row, column)) for column in columns] for row in rows))
    return tables


def _cell(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


METHOD_TITLES = MappingProxyType(
    {
        VictimMethod.STANDARD: "Standard preemption",
        VictimMethod.NAIVE: "Topology-aware, all subsets",
        VictimMethod.IMP: "Topology-aware, IMP",
        VictimMethod.MASKS: "Topology-aware, target masks",
    }
)
PAPER_HITS = MappingProxyType({"Gödel standard preemption": (5000, 2225), "Gödel with FlexTopo": (5000, 5000)})
"""FlexTopo paper, table 4: preemptions and hits."""

PAPER_LATENCY_US = MappingProxyType(
    {
        ("B", VictimMethod.STANDARD): (6421.0, 62308.6),
        ("B", VictimMethod.NAIVE): (268011.0, 416780.6),
        ("B", VictimMethod.IMP): (180019.5, 275575.8),
        ("C", VictimMethod.STANDARD): (1801.0, 2491.5),
        ("C", VictimMethod.NAIVE): (2282.0, 20624.6),
        ("C", VictimMethod.IMP): (2115.0, 4853.1),
    }
)
"""FlexTopo paper, table 5: P50 and P90 on 100 nodes, Go, one CPU."""

PAPER_NODES = 100
INDEPENDENT_ONLY = (
    "Independent: every scale-up finds the same full cluster, as in the paper; only there can all of them be hits. "
    "Sequential: each finds what those before it have left, and fails where nothing is left to preempt."
)
MEASURED = (
    "CPU time of this run, measured: latency.csv is never the same twice. hit_rates.csv has the same bytes for the "
    "same seed and options."
)
SOURCING_WORDS = MappingProxyType(
    {
        ScaleUpMode.INDEPENDENT: "each search on the full cluster",
        ScaleUpMode.SEQUENTIAL: "each search on what the scale-ups before it left",
    }
)
HIT_HEADER = (
    "nodes",
    "initial",
    "mode",
    "method",
    "scale-ups",
    "hits",
    "hit %",
    "seeds, %",
    "B %",
    "C %",
    "failures",
    "searches",
    "victims each",
)
LATENCY_HEADER = ("nodes", "workload", "method", "P50 µs", "P90 µs", "searches")
Key = tuple[int, InitialPlacement, ScaleUpMode, VictimMethod]
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSummary:
    """The counts of one size, placement, mode and method, over all seeds and workloads."""

    key: Key
    counts: tuple[HitCount, ...]

    def total(self, name: str) -> int:
        """Sum of a field."""
        return sum(getattr(row, name) for row in self.counts)

    @property
    def rate(self) -> float:
        """Hit rate, percent."""
        return _rate(self.counts)

    @property
    def by_seed(self) -> tuple[float, ...]:
        """Hit rate of each seed, percent."""
        return tuple(_rate(rows) for rows in _grouped(self.counts, lambda row: row.seed).values())

    def of_workload(self, name: str) -> float | None:
        """Hit rate of one workload, percent; None where it was not scaled up."""
        rows = [row for row in self.counts if row.workload == name and row.preemptions]
        return _rate(rows) if rows else None


def _rate(rows: Iterable[HitCount]) -> float:
    listed = list(rows)
    preemptions = sum(row.preemptions for row in listed)
    return 100 * sum(row.hits for row in listed) / preemptions if preemptions else 0.0


def _grouped(rows: Iterable[HitCount], key: Callable[[HitCount], Shown]) -> dict[Shown, list[HitCount]]:
    groups: dict[Shown, list[HitCount]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def hit_summaries(counts: Iterable[HitCount]) -> list[HitSummary]:
    """One for each size, placement, mode and method, as they come."""
    grouped = _grouped(counts, lambda row: (row.nodes, row.initial, row.mode, row.method))
    return [HitSummary(key=key, counts=tuple(rows)) for key, rows in grouped.items()]


def hit_rows(counts: Iterable[HitCount]) -> list[list[str]]:
    """Cells under HIT_HEADER."""
    return [_hit_row(summary) for summary in hit_summaries(counts)]


def _hit_row(summary: HitSummary) -> list[str]:
    nodes, initial, mode, method = summary.key
    seeds = summary.by_seed
    placed = summary.total("preemptions") - summary.total("failures")
    workloads = [summary.of_workload(name) for name in ("B", "C")]
    return [
        whole(nodes),
        initial.value,
        mode.value,
        method.value,
        whole(summary.total("preemptions")),
        whole(summary.total("hits")),
        f"{summary.rate:.1f}",
        f"{min(seeds):.1f} to {max(seeds):.1f}" if len(seeds) > 1 else NONE,
        *(NONE if rate is None else f"{rate:.1f}" for rate in workloads),
        whole(summary.total("failures")),
        whole(summary.total("decisions")),
        f"{summary.total('victims') / placed:.2f}" if placed else NONE,
    ]


def latency_rows(latencies: Iterable[SourcingLatency]) -> list[list[str]]:
    """Cells under LATENCY_HEADER."""
    return [
        [
            whole(row.nodes),
            row.workload,
            row.method.value,
            f"{row.p50_us:,.0f}",
            f"{row.p90_us:,.0f}",
            whole(row.repetitions),
        ]
        for row in latencies
    ]


def preemption_frame(counts: Iterable[HitCount]) -> Frame:
    """One row a size, placement, mode and method, over all seeds; percents as numbers."""
    import pandas as pd  # half a second to load: only who asks for a table pays

    return pd.DataFrame(
        {
            "nodes": summary.key[0],
            "initial": summary.key[1].value,
            "mode": summary.key[2].value,
            "method": summary.key[3].value,
            "preemptions": summary.total("preemptions"),
            "hits": summary.total("hits"),
            "hit_percent": summary.rate,
            "hit_percent_b": summary.of_workload("B"),
            "hit_percent_c": summary.of_workload("C"),
            "failures": summary.total("failures"),
            "decisions": summary.total("decisions"),
        }
        for summary in hit_summaries(counts)
    )


def latency_frame(latencies: Iterable[SourcingLatency]) -> Frame:
    """One row a size, workload and method, with the paper's figures where it has them; microseconds."""
    import pandas as pd  # half a second to load: only who asks for a table pays

    rows = []
    for row in latencies:
        p50, p90 = _published(row) or (None, None)
        rows.append(
            {
                "nodes": row.nodes,
                "workload": row.workload,
                "method": row.method.value,
                "p50_us": row.p50_us,
                "p90_us": row.p90_us,
                "paper_p50_us": p50,
                "paper_p90_us": p90,
            }
        )
    return pd.DataFrame(rows)


def _published(row: SourcingLatency) -> tuple[float, float] | None:
    return PAPER_LATENCY_US.get((row.workload, row.method)) if row.nodes == PAPER_NODES else None


def preemption_page(
    counts: Sequence[HitCount],
    latencies: Sequence[SourcingLatency],
    settings: ScaleUpSettings,
    *,
    notes: Sequence[str] = (),
    figures: Mapping[str, str] | None = None,
) -> str:
    """The study as Markdown, ending in a newline. `notes`: on what was left out; `figures`: titles and paths."""
    parts = [
        "# Scale-up by preemption",
        _headline(hit_summaries(counts)),
        "## Hit rate (table 4 of the paper)\n\nA hit: all GPUs of the new pod inside one socket. "
        f"{_cycle_words(settings)}",
        _hit_table(counts),
        f"{INDEPENDENT_ONLY} Searches: distinct ones; where nothing changes and nothing is drawn, one search answers "
        "for all scale-ups of a workload in its cycle.",
        *_latency_part(latencies),
        *([f"## Left out\n\n{bullets([escaped(note) for note in notes])}"] if notes else []),
        *pictures(figures or {}),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(summaries: Sequence[HitSummary]) -> str:
    by_cluster: dict[tuple[int, InitialPlacement], dict[VictimMethod, HitSummary]] = {}
    for summary in summaries:
        nodes, initial, mode, method = summary.key
        if mode is ScaleUpMode.INDEPENDENT:
            by_cluster.setdefault((nodes, initial), {})[method] = summary
    for (nodes, initial), by_method in by_cluster.items():
        aware = next((by_method[method] for method in reversed(VictimMethod) if method in by_method), None)
        standard = by_method.get(VictimMethod.STANDARD)
        if standard and aware and aware is not standard:
            return (
                f"**{nodes:,} nodes, {escaped(initial.value)}, independent scale-ups: {standard.rate:.1f} % of the "
                f"newcomers lie inside one socket under standard preemption, {aware.rate:.1f} % where victims are "
                f"chosen by topology.** The paper: 44.5 % and 100 %."
            )
    return ""


def _cycle_words(settings: ScaleUpSettings) -> str:
    scale_ups = " and ".join(f"{count} of {name}" for name, count in settings.counts)
    return escaped(
        f"A cycle: {scale_ups}. QoS {settings.qos.value}, alpha {settings.victims.alpha:g}; standard preemption takes "
        f"{'a random candidate node' if settings.node_policy.value == 'random' else 'the best of all nodes'}, victims "
        f"of one priority {'in the order of their keys' if settings.tie.value == 'key' else 'youngest first'}."
    )


def _hit_table(counts: Sequence[HitCount]) -> str:
    blank = len(HIT_HEADER) - 7
    paper = [
        [
            str(PAPER_NODES),
            NONE,
            "paper",
            escaped(name),
            whole(preemptions),
            whole(hits),
            f"{100 * hits / preemptions:.1f}",
        ]
        + [NONE] * blank
        for name, (preemptions, hits) in PAPER_HITS.items()
    ]
    rows = [[escaped(cell) for cell in row] for row in hit_rows(counts)]
    return table(list(HIT_HEADER), [*rows, *paper], "rlll" + "r" * (len(HIT_HEADER) - 4))


def _latency_part(latencies: Sequence[SourcingLatency]) -> list[str]:
    if not latencies:
        return []
    rows = []
    for row, cells in zip(latencies, latency_rows(latencies), strict=True):
        published = _published(row)
        paper = [NONE, NONE] if published is None else [f"{value:,.0f}" for value in published]
        rows.append([*map(escaped, cells), *paper])
    header = [*LATENCY_HEADER, "paper P50", "paper P90"]
    return [
        "## Search for victims (table 5)",
        f"All nodes of the cluster ({latencies[0].initial.value}), candidates and the choice among them, "
        f"{SOURCING_WORDS[latencies[0].mode]}. {MEASURED}",
        table(header, rows, "rllrrrrr"),
        "The paper's are of a Go scheduler that runs its filters anew for every set of victims: compare ratios.",
        _savings(latencies),
    ]


def _savings(latencies: Sequence[SourcingLatency]) -> str:
    """What IMP and masks save against the form before them, P50 and P90, percent: of CPU time and of sets tried."""
    by_key = {(row.nodes, row.workload, row.method): row for row in latencies}
    rows = []
    for (nodes, name, method), row in by_key.items():
        for base in (VictimMethod.NAIVE, VictimMethod.IMP):
            against = by_key.get((nodes, name, base))
            if against and method in (VictimMethod.IMP, VictimMethod.MASKS) and method is not base:
                cells = (_saved(row.p50_us, against.p50_us), _saved(row.p90_us, against.p90_us))
                paper = _paper_saving(nodes, name, method, base)
                sets = (_sets_saved(row.p50_sets, against.p50_sets), _sets_saved(row.p90_sets, against.p90_sets))
                rows.append([whole(nodes), name, f"{method.value} against {base.value}", *cells, *sets, *paper])
    header = ["nodes", "workload", "saved, %", "P50", "P90", "sets, P50", "sets, P90", "paper P50", "paper P90"]
    return table(header, rows, "rllrrrrrr") if rows else ""


def _paper_saving(nodes: int, name: str, method: VictimMethod, base: VictimMethod) -> tuple[str, str]:
    own_us, base_us = PAPER_LATENCY_US.get((name, method)), PAPER_LATENCY_US.get((name, base))
    if nodes != PAPER_NODES or own_us is None or base_us is None:
        return NONE, NONE
    return _saved(own_us[0], base_us[0]), _saved(own_us[1], base_us[1])


def _sets_saved(sets: float | None, base: float | None) -> str:
    return NONE if sets is None or not base else _saved(sets, base)


def _saved(value: float, base: float) -> str:
    return f"{100 * (1 - value / base):.1f}" if base else significant(0)
