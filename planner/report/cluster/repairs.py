"""What topology costs a plan's islands, and the single change that wins most back, with the commands that do it."""

from collections.abc import Callable, Mapping, Sequence

from planner.domain.defragmentation import IslandRepair, Repair, RepairKind, RepairReport
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import NONE, rate, significant, whole
from planner.report.kit.tables import Column, Table, fields, table_of
from planner.report.kit.tree import Block, Section, paragraphs, section

_KINDS: Mapping[RepairKind, tuple[str, str]] = {
    RepairKind.EXCHANGE: ("exchange", "exchanges"),
    RepairKind.MOVE: ("move", "moves"),
    RepairKind.EVICTION: ("eviction", "evictions"),
    RepairKind.LAYOUT: ("other layout", "other layouts"),
}


def repairs_section(repairs: RepairReport, commands: Mapping[Repair, Sequence[str]]) -> Section:
    """A row an island that loses, what was tried, and the `commands` of each repair."""
    blocks: list[Block] = [*paragraphs(_lead(repairs))]
    if repairs.islands:
        blocks.append(table_of(_columns(repairs.rate_rps), repairs.islands).block("Islands that topology costs"))
        blocks += paragraphs(_tried(repairs))
    for repair in filter(commands.__contains__, repairs.each):
        blocks += paragraphs(f"**{_capital(_words(repair))}**, which {_gain(repair.rate_rps, repairs.rate_rps)}:")
        blocks += paragraphs("\n".join(("```bash", *commands[repair], "```")))
    return section("repairs", "Repairs", *blocks)


def repairs_table(repairs: RepairReport) -> Table[IslandRepair]:
    """One row an island that loses: its rate and under one switch, what is done, its rate and the plan's after it."""
    columns: tuple[Column[IslandRepair], ...] = (
        *fields("island", "rate_rps", "ideal_rps"),
        Column("kind", lambda row: row.repair.kind.value if row.repair else None),
        Column("repair", lambda row: _words(row.repair) if row.repair else None),
        Column("repaired_rps", _repaired),
        Column("plan_rps", lambda _: repairs.rate_rps),
        Column("plan_repaired_rps", lambda row: row.repair.rate_rps if row.repair else repairs.rate_rps),
        Column("lost_gpu_hours", lambda row: row.repair.lost_gpu_hours if row.repair else None),
    )
    return table_of(columns, repairs.islands)


def _repaired(row: IslandRepair) -> float | None:
    """What the island serves after the change; nothing of another layout, which has other islands."""
    return None if row.repair and row.repair.layout else row.repaired_rps


def _lead(repairs: RepairReport) -> str:
    if not repairs.islands:
        return f"Topology costs no island of the plan anything on cluster {escaped(repairs.cluster)}."
    best = repairs.best
    lost = repairs.unplaced_rps - repairs.rate_rps
    cost = f"the plan serves {rate(repairs.rate_rps)} requests/s, {rate(max(0.0, lost))} less than before it was placed"
    if best is None:
        return f"On cluster {escaped(repairs.cluster)} {cost}; no single change that was tried wins any of it back."
    return (
        f"On cluster {escaped(repairs.cluster)} {cost}. **{_capital(_words(best))}** wins most back: "
        f"{rate(best.rate_rps)} requests/s. Nothing has been changed."
    )


def _columns(plan_rps: float) -> tuple[Column[IslandRepair], ...]:
    def of(column: Callable[[Repair], str]) -> Callable[[IslandRepair], str]:
        return lambda row: NONE if row.repair is None else column(row.repair)

    return (
        Column("Island", lambda row: row.island, escaped, right=False),
        Column("Could serve", lambda row: row.rate_rps, rate),
        Column("Under one switch", lambda row: row.ideal_rps, rate),
        Column("Best single change", of(_words), escaped, right=False),
        Column("It then serves", lambda row: NONE if (served := _repaired(row)) is None else rate(served), str),
        Column("The plan", of(lambda repair: f"{rate(repair.rate_rps)} ({_change(repair.rate_rps, plan_rps)})"), str),
        Column("Costs", of(_costs), str, right=False),
    )


def _change(now: float, before: float) -> str:
    return f"{100 * (now / before - 1):+.1f} %" if before else "from nothing"


def _gain(now: float, before: float) -> str:
    return f"brings the plan from {rate(before)} to {rate(now)} requests/s"


def _words(repair: Repair) -> str:
    """The change in words."""
    if repair.move is not None:
        return f"move {repair.move.pod} from {repair.move.source} to {repair.move.target}"
    if repair.kind is RepairKind.EVICTION:
        return f"evict {repair.pod} from {repair.node}"
    if repair.layout is not None:
        return f"plan {repair.layout.label}"
    return f"exchange {repair.exchange.replace('=', ' and ')}"


def _costs(repair: Repair) -> str:
    if repair.move is not None:
        return f"{significant(repair.move.gpu_hours)} GPU-hours with both copies up"
    if repair.kind is RepairKind.EVICTION:
        lost = repair.lost_gpu_hours
        return "work since an unknown checkpoint" if lost is None else f"{significant(lost)} GPU-hours of work"
    return "nothing, as nothing of the plan runs yet" if repair.kind is RepairKind.EXCHANGE else "another plan"


def _tried(repairs: RepairReport) -> str:
    def counted(kind: RepairKind, number: int) -> str:
        return f"{whole(number)} {_KINDS[kind][number != 1]}"

    listed = ", ".join(counted(kind, tried) for kind, tried, _ in repairs.tried)
    left = [
        f"{whole(every - tried)} of {counted(kind, every)}" for kind, tried, every in repairs.tried if every > tried
    ]
    more = f" Not tried: {', '.join(left)}." if left else " These are all that there are."
    return f"Tried, each by placing again: {listed}.{more}"


def _capital(text: str) -> str:
    return escaped(text[:1].upper() + text[1:])
