"""Tables of the scale-up study as CSV: hits of every method, and how long its searches take."""

from collections.abc import Iterable
from dataclasses import fields

from planner.report.kit.csv_tables import csv_table
from planner.studies.preemption.records import HitCount, SourcingLatency

HIT_RATES_FILE, LATENCY_FILE = "hit_rates.csv", "latency.csv"
HIT_COLUMNS = tuple(field.name for field in fields(HitCount))
LATENCY_COLUMNS = tuple(field.name for field in fields(SourcingLatency))


def hit_rates_csv(counts: Iterable[HitCount]) -> bytes:
    """A row a size, placement, seed, method, mode and workload, summed over cycles; the same bytes for one seed."""
    return csv_table(HIT_COLUMNS, ([getattr(row, name) for name in HIT_COLUMNS] for row in counts))


def latency_csv(latencies: Iterable[SourcingLatency]) -> bytes:
    """A row a size, workload and method; CPU microseconds as measured."""
    return csv_table(LATENCY_COLUMNS, ([_cell(getattr(row, name)) for name in LATENCY_COLUMNS] for row in latencies))


def _cell(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value
