"""Tables of the scale-up study as CSV: hits of every method, and how long its searches take."""

import csv
import io
from collections.abc import Iterable, Sequence

from planner.studies.preemption.records import HitCount, SourcingLatency

HIT_RATES_FILE, LATENCY_FILE = "hit_rates.csv", "latency.csv"
HIT_COLUMNS = (
    "nodes",
    "initial",
    "seed",
    "method",
    "workload",
    "mode",
    "preemptions",
    "hits",
    "failures",
    "decisions",
    "victims",
    "priority_sum",
)
LATENCY_COLUMNS = ("nodes", "workload", "method", "p50_us", "p90_us", "repetitions", "initial")


def hit_rates_csv(counts: Iterable[HitCount]) -> bytes:
    """A row a size, placement, seed, method, mode and workload, summed over cycles; the same bytes for one seed."""
    return _table(HIT_COLUMNS, ([getattr(row, name) for name in HIT_COLUMNS] for row in counts))


def latency_csv(latencies: Iterable[SourcingLatency]) -> bytes:
    """A row a size, workload and method; CPU microseconds as measured."""
    return _table(LATENCY_COLUMNS, ([_cell(getattr(row, name)) for name in LATENCY_COLUMNS] for row in latencies))


def _cell(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
