"""Tables of the scale-up study as CSV: hits of every method, and how long its searches take."""

from collections.abc import Iterable
from dataclasses import fields

from planner.report.kit.tables import csv_table
from planner.studies.preemption.records import GpuHolder, HitCount, InstanceCount, Scenes, SourcingLatency, SourcingTime

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
