"""Figure 9: the share of its GPUs that a server has given out, by GPU type.

| symbol | meaning | unit |
|---|---|---|
| A, B, L | GPU-hours in an hour of guaranteed pods at work, on standby, and of spot pods | GPU-h |
| S | GPUs of the server | GPUs |
| HP | (A + max(B - L, 0)) / S | - |
| HP+LP | (min(A + L, S) + max(B - L, 0)) / S | - |

Means over the servers of a type, then over its hours (even ones and 23, as the scripts have it); not weighted by GPUs.
Source: cluster-trace-gpu-v2026, build_aggregates.py.
"""

from collections import defaultdict
from typing import ClassVar

from planner.studies.asi.figures.demand import STANDBY
from planner.studies.asi.figures.shares import HP, LP, used_hours
from planner.studies.asi.records import Drawn, Hour, Needs, Table, Tally, TraceFigure, TraceRow

LAST_HOUR = 23
ALL = "all"


class Allocation(Tally):
    """Figure 9."""

    number: ClassVar[str] = "9"
    title: ClassVar[str] = "GPUs given out by GPU type"
    needs: ClassVar[Needs] = {
        Table.PODS: ("server_id", "priority_class", "state_public", "gpu_request", "used_gpu_hours"),
        Table.SERVERS: ("server_id", "gpu_spec_public", "gpu_count"),
    }

    def __init__(self) -> None:
        self.pods: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self.servers: dict[str, tuple[str, float]] = {}
        self.hourly: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def add(self, table: Table, row: TraceRow, at: Hour) -> None:
        """A pod or a server in an hour that counts."""
        if not (at.even or at.hour == LAST_HOUR):
            return
        server = row.text("server_id")
        if table is Table.SERVERS and row.number("gpu_count") > 0:
            self.servers[server] = row.text("gpu_spec_public") or "unknown", row.number("gpu_count")
        elif table is Table.PODS and row.text("priority_class") in (HP, LP):
            lent = row.text("state_public") == STANDBY
            place = 2 if row.text("priority_class") == LP else int(lent)
            self.pods[server][place] += used_hours(row)

    def end_hour(self, at: Hour) -> None:  # noqa: ARG002 - the seam's
        """The mean over the servers of each type."""
        by_type: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for server, (spec, gpus) in self.servers.items():
            ratios = allocation_ratios(gpus, *self.pods.get(server, (0.0, 0.0, 0.0)))
            by_type[spec].append(ratios)
            by_type[ALL].append(ratios)
        for spec, listed in by_type.items():
            hp, both = (sum(values) / len(listed) for values in zip(*listed, strict=True))
            self.hourly[spec].append((hp, both))
        self.pods, self.servers = defaultdict(lambda: [0.0, 0.0, 0.0]), {}

    def figure(self) -> TraceFigure:
        """Percent."""
        points = [
            ("allocation", name, spec, 100 * sum(pair[place] for pair in hours) / len(hours))
            for spec, hours in sorted(self.hourly.items())
            for place, name in enumerate(("HP", "HP+LP"))
        ]
        return self.drawn(
            name="allocation",
            kind=Drawn.BARS,
            y="GPUs given out (%)",
            points=tuple(points),
        )


def allocation_ratios(gpus: float, active: float, standby: float, spot: float) -> tuple[float, float]:
    """HP and HP+LP of one server in one hour."""
    unused = max(standby - spot, 0.0)
    return (active + unused) / gpus, (min(active + spot, gpus) + unused) / gpus
