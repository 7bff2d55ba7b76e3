"""The table of a fleet's replay: every service in each of its deployments, and whether its levels hold there."""

from planner.domain.replay import FleetReplay, ServiceReplay
from planner.domain.serving.levels import LevelCheck
from planner.report.kit.quantities import NONE, rate
from planner.report.kit.tables import Column, Table, fields, table_of
from planner.report.replay.tables import LEVELS_STATE
from planner.report.replay.words import share_with


def services_table(replay: FleetReplay) -> Table[ServiceReplay]:
    """One row a service and deployment."""
    return table_of(_SERVICE, replay.services)


def _tightest(service: ServiceReplay) -> LevelCheck | None:
    """The level that the fewest keep beyond what must."""
    judged = [level for level in service.levels if level.bound_ms is not None and level.share is not None]
    return min(judged, key=lambda level: level.keeping - level.needed, default=None)


def _tightest_words(service: ServiceReplay) -> str:
    level = _tightest(service)
    return NONE if level is None else f"{level.name}: {share_with(level.share)}"


_SERVICE: tuple[Column[ServiceReplay], ...] = (
    *fields("Service=service", "Deployment=deployment"),
    Column("requests/s", lambda row: row.rate_rps, rate),
    Column("Requests", lambda row: row.requests),
    Column("Within all levels", lambda row: share_with(row.within_levels), str),
    Column("Tightest level", _tightest_words, str, right=False),
    Column("Levels", lambda row: NONE if row.standing is None else LEVELS_STATE[row.standing], str, right=False),
)
