"""A fleet's schedule in words and tables: what batches gain, who has which GPUs when, levels, replays, lost nodes."""

from collections.abc import Iterable, Mapping, Sequence

from planner.domain.fleets import FleetPart, FleetPlan
from planner.domain.schedules import DAY_S
from planner.domain.serving.fleets.lending import FleetNodeLoss, FleetSchedule, ReplayedLevel
from planner.report.kit.quantities import counted, measured, percent, rate, significant
from planner.report.kit.tables import Column, Table, entries, fields, table_of
from planner.report.kit.tree import Page, section

NOBODY = "nobody"


def gpu_words(gpus: Mapping[str, int]) -> str:
    """GPUs by type."""
    return " + ".join(f"{count} {gpu}" for gpu, count in gpus.items() if count)


def verdict(schedule: FleetSchedule) -> str:
    """What the schedule comes to."""
    gained, standing = schedule.gained_tokens_a_day, schedule.standing_tokens_a_day
    beside = f" beside the {significant(standing)} of nodes that nobody has" if standing else ""
    short = len(schedule.short)
    return (
        f"**{significant(gained)} tokens a day** of work that waits on nodes that services do not need by the hour"
        f"{beside}, for no more rent: {significant(schedule.lent_gpu_hours_a_day)} GPU-hours a day are lent. Over "
        f"{measured(round(schedule.days, 2), 'day')} deployments change {counted(schedule.switches, 'time')}, and "
        f"{counted(schedule.starts, 'block')} of nodes load for batches. In {counted(short, 'window')} all servers of "
        "a deployment promise less than its rate."
    )


def deployments(plan: FleetPlan) -> Table[FleetPart]:
    """A row a deployment of a fleet's plan, batches' too."""
    columns: tuple[Column[FleetPart], ...] = (
        *fields("name"),
        Column("gpus", lambda part: gpu_words(dict(part.gpus))),
        *fields("promise_rps"),
    )
    return table_of(columns, plan.plans)


def windows(schedule: FleetSchedule) -> Table[int]:
    """A row a window: rates, GPUs by deployment, batch and nobody, tokens on lent nodes."""
    numbers = range(len(schedule.windows))
    names = [ladder.deployment for ladder in schedule.ladders]
    words = [{holder or NOBODY: gpu_words(g) for holder, g in schedule.gpus(number).items()} for number in numbers]
    columns: tuple[Column[int], ...] = (
        Column("day", lambda n: int(schedule.windows[n].start_s // DAY_S)),
        Column("time", lambda n: _time(schedule.windows[n].start_s)),
        *entries(lambda n: zip(names, schedule.windows[n].rates_rps, strict=True), numbers, "rate_rps "),
        *entries(lambda n: words[n].items(), numbers, "gpus "),
        Column("tokens", lambda n: schedule.windows[n].tokens),
    )
    return table_of(columns, numbers)


def _time(start_s: float) -> str:
    minutes = int(start_s % DAY_S // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def levels(schedule: FleetSchedule) -> Table[tuple[int, int]]:
    """A row a level that stands in some window."""
    numbers = [window.levels for window in schedule.windows]
    standing = [[row[place] for row in numbers] for place in range(len(schedule.ladders))]
    rows = [
        (place, k)
        for place, ladder in enumerate(schedule.ladders)
        for k in range(len(ladder.levels))
        if k in standing[place]
    ]

    columns: tuple[Column[tuple[int, int]], ...] = (
        Column("deployment", lambda row: schedule.ladders[row[0]].deployment),
        Column("gpus", lambda row: gpu_words(dict(schedule.ladders[row[0]].levels[row[1]].gpus)), title="GPUs"),
        Column("promise_rps", lambda row: schedule.ladders[row[0]].levels[row[1]].promise_rps, rate, "promise"),
        Column("windows", lambda row: standing[row[0]].count(row[1])),
    )
    return table_of(columns, rows)


def blocks(schedule: FleetSchedule) -> Table[int]:
    """A row a batch and GPU type: the nodes that are lent together, and what they do."""
    numbers = range(len(schedule.blocks))
    lent = [sum(window.lent[k] for window in schedule.windows) for k in numbers]
    columns: tuple[Column[int], ...] = (
        Column("batch", lambda k: schedule.blocks[k].service),
        Column("block", lambda k: f"{schedule.blocks[k].gpus} {schedule.blocks[k].gpu}"),
        Column("tokens_per_s", lambda k: schedule.blocks[k].tokens_per_s, significant, "tokens/s"),
        Column("lost_s", lambda k: schedule.blocks[k].lost_s, significant, "s to drain, load, drain"),
        Column("blocks_at_once", lambda k: lent[k] / len(schedule.windows), significant, "lent on average"),
    )
    return table_of(columns, numbers)


def replays(rows: Iterable[ReplayedLevel]) -> Table[ReplayedLevel]:
    """A row a level that was replayed."""
    columns = fields(
        "deployment", "level", "windows", "rate_rps", "promise_rps", "burstiness", "within_levels", "holds"
    )
    return table_of(columns, rows)


def losses(rows: Sequence[FleetNodeLoss]) -> Table[FleetNodeLoss]:
    """A row a deployment and type of its nodes: who lends, and what every service is promised until then and after."""
    columns: tuple[Column[FleetNodeLoss], ...] = (
        *fields("deployment", "gpu", "lender", "load_s"),
        *entries(lambda row: row.meanwhile, rows, "meanwhile "),
        *entries(lambda row: row.after, rows, "after "),
    )
    return table_of(columns, rows)


def fleet_schedule_page(
    schedule: FleetSchedule, replayed: Sequence[ReplayedLevel] = (), lost: Sequence[FleetNodeLoss] = ()
) -> Page:
    """The schedule as a report; `replayed` and `lost` where they were asked for."""
    sections = [
        section("levels", "Levels of the services", levels(schedule).block()),
        section("batches", "What is lent", blocks(schedule).block()),
    ]
    if replayed:
        worst = min(row.within_levels for row in replayed)
        sections.append(
            section("replays", f"Replays: {percent(worst)} within the levels at worst", replays(replayed).block())
        )
    if lost:
        sections.append(section("losses", "Where a node is lost", losses(lost).block()))
    return Page(title=f"Schedule of {schedule.plan.fleet.name}", verdict=verdict(schedule), sections=tuple(sections))
