"""A schedule in words and tables: its cost beside static plans and bounds, its levels, its changes, its windows."""

from collections import Counter
from collections.abc import Iterator, Sequence

from planner.domain.schedules import DAY_S, LoopResult, Schedule, ScheduleLevel, TariffKind
from planner.report.kit.quantities import counted, measured, money, rate
from planner.report.kit.tables import Column, Table, csv_table, fields, of_part, table_of
from planner.report.kit.tree import Page, paragraphs

KNOWN_FORECAST = "known"


def clock(schedule: Schedule, window: int) -> tuple[int, str]:
    """(day from 0, time of that day) of a window's beginning."""
    at_s = schedule.series.begins_s + window * schedule.series.window_s
    minutes = int(at_s % DAY_S // 60)
    return int(at_s // DAY_S), f"{minutes // 60:02d}:{minutes % 60:02d}"


def percent_of(share: float) -> str:
    """A share to a tenth of a percent; what would round to 100 % or 0 % and is not shows more digits."""
    digits = next((digits for digits in (1, 2, 3, 4) if round(100 * share, digits) not in (0.0, 100.0)), 1)
    return f"{100 * share:.{digits}f} %"


def verdict(schedule: Schedule) -> str:
    """What the schedule comes to, in two or three sentences of Markdown."""
    days = measured(round(len(schedule.series.windows) * schedule.series.window_s / DAY_S, 2), "day")
    parts = [
        f"**{money(schedule.usd)} USD** over {days} with {counted(len(schedule.changes), 'change')}, "
        f"{_against(schedule)} the cheapest plan that stands all the time ({money(schedule.static_usd)} USD)."
    ]
    if schedule.forecast == KNOWN_FORECAST:
        parts.append(_proof(schedule))
    else:
        parts.append(
            f"Planned on the forecast {schedule.forecast}, {percent_of(schedule.carried_share)} of the windows are "
            f"carried; with the rates known it would cost {money(schedule.foresight_usd or 0.0)} USD."
        )
    if schedule.holding_share is not None:
        parts.append(f"Replayed, {percent_of(schedule.holding_share)} of the windows hold the levels.")
    return " ".join(parts)


def _against(schedule: Schedule) -> str:
    if schedule.static_usd <= 0:
        return "beside"
    share = schedule.usd / schedule.static_usd - 1
    return f"{percent_of(abs(share))} {'less' if share < 0 else 'more'} than" if share else "as much as"


def _proof(schedule: Schedule) -> str:
    limit = f"at most {counted(schedule.most_changes, 'change')} a day"
    if schedule.gap is None:
        return f"No schedule with {limit} is proven to cost {money(schedule.bound_usd)} USD or less."
    return (
        f"No schedule with {limit} costs less than {money(schedule.bound_usd)} USD: this one costs at most "
        f"{percent_of(schedule.gap)} more than the best."
    )


def costs(schedule: Schedule) -> Table[tuple[str, float]]:
    """The schedule beside what stands all the time and the bounds."""
    label = "this schedule" if schedule.forecast == KNOWN_FORECAST else f"this schedule, forecast {schedule.forecast}"
    figures: list[tuple[str, float]] = [("the cheapest plan, all the time", schedule.static_usd), (label, schedule.usd)]
    if schedule.foresight_usd is not None:
        figures.append(("with the rates known", schedule.foresight_usd))
    figures.append((f"bound, {counted(schedule.most_changes, 'change')} a day", schedule.bound_usd))
    figures.append(("bound, any number of changes", schedule.unlimited_bound_usd))
    static = schedule.static_usd
    columns: tuple[Column[tuple[str, float]], ...] = (
        Column("plans", lambda row: row[0]),
        Column("USD", lambda row: row[1], _six_digits),
        Column("of the static plan", lambda row: percent_of(row[1] / static) if static > 0 else None, right=True),
    )
    return table_of(columns, figures)


def followers(schedule: Schedule) -> Table[LoopResult]:
    """The schedule beside fleets whose copies follow the load; none where that was not asked for."""
    static = LoopResult(name="the cheapest plan, all the time", usd=schedule.static_usd, within=1.0, started=0)
    scheduled = LoopResult(name="this schedule", usd=schedule.usd, within=schedule.within_share, started=0)
    columns: tuple[Column[LoopResult], ...] = (
        Column("fleet", lambda row: row.name),
        Column("usd", lambda row: row.usd, _six_digits, "USD"),
        Column("of_schedule", lambda row: row.usd / schedule.usd, title="of the schedule's cost", unit="%"),
        Column("within", lambda row: row.within, title="requests within levels", unit="%"),
        Column("started", lambda row: row.started, "{:,}".format, "copies started"),
    )
    return table_of(columns, (static, scheduled, *schedule.autoscaled) if schedule.autoscaled else ())


_six_digits = "{:,.6g}".format


def gpus_of(level: ScheduleLevel) -> str:
    """`96 H20, 8 H200`."""
    return ", ".join(f"{count} {gpu}" for gpu, count in level.gpus)


def levels(schedule: Schedule, names: Sequence[str]) -> Table[int]:
    """A row a plan that stands in some window."""
    windows = Counter(window.level for window in schedule.windows)
    plans = schedule.levels
    columns: tuple[Column[int], ...] = (
        Column("plan", lambda n: names[n]),
        Column("promise_rps", lambda n: plans[n].promise_rps, _six_digits, "promise (requests/s)"),
        Column("usd_per_hour", lambda n: plans[n].usd_per_hour, _six_digits, "USD/hour"),
        Column("gpus", lambda n: gpus_of(plans[n]), title="GPUs"),
        Column("windows", lambda n: windows[n], str),
    )
    return table_of(columns, sorted(windows))


def changes(schedule: Schedule, names: Sequence[str]) -> Table[int]:
    """A row a change, in order."""
    windows = schedule.windows
    columns: tuple[Column[int], ...] = (
        *_when(schedule),
        Column("from", lambda n: names[windows[n - 1].level]),
        Column("to", lambda n: names[windows[n].level]),
        Column("rate_rps", lambda n: schedule.series.windows[n].rate_rps, _six_digits, "rate (requests/s)"),
        Column("change_usd", lambda n: windows[n].change_usd, _six_digits, "cost (USD)"),
        Column("why", lambda n: _reasons(schedule, n)),
    )
    return table_of(columns, schedule.changes)


def _when(schedule: Schedule) -> tuple[Column[int], Column[int]]:
    return (
        Column("day", lambda n: clock(schedule, n)[0] + 1, str),
        Column("time", lambda n: clock(schedule, n)[1]),
    )


def _reasons(schedule: Schedule, window: int) -> str:
    reasons = ["emergency" if window in schedule.emergencies else "planned"]
    if window - 1 in schedule.thin_windows:
        reasons.append("no room for both plans")
    return ", ".join(reasons)


def windows(schedule: Schedule, names: Sequence[str]) -> Table[int]:
    """A row a window, as in windows.csv."""
    carried, emergencies, planned = schedule.carried, set(schedule.emergencies), schedule.windows
    columns: tuple[Column[int], ...] = (
        Column("window", lambda n: n),
        *_when(schedule),
        Column("rate_rps", lambda n: schedule.series.windows[n].rate_rps),
        Column("plan", lambda n: names[planned[n].level]),
        Column("promise_rps", lambda n: schedule.levels[planned[n].level].promise_rps),
        *of_part(lambda n: planned[n], fields("usd", "change_usd")),
        Column("carried", lambda n: carried[n]),
        Column("holds", lambda n: planned[n].holds),
        Column("emergency", lambda n: n in emergencies),
    )
    return table_of(columns, range(len(planned)))


def spot_csv(schedule: Schedule) -> bytes:
    """spot.csv: GPUs of each type that no server has in an hour, none that loads or drains either."""
    return csv_table(("hour", "gpu", "spot_gpus"), spot_rows(schedule))


def spot_rows(schedule: Schedule) -> Iterator[tuple[int, str, int]]:
    """(hour from the first window, GPU type, GPUs free throughout)."""
    inventory = schedule.levels[0].plan.scenario.inventory
    hours: dict[int, list[Counter[str]]] = {}
    for number, window in enumerate(schedule.windows):
        used = Counter(dict(schedule.levels[window.level].gpus)) + Counter(dict(window.changing))
        hours.setdefault(int(number * schedule.series.window_s // 3600), []).append(used)
    for hour, uses in hours.items():
        for item in inventory.items:
            yield hour, item.gpu.name, item.count - max(used[item.gpu.name] for used in uses)


def roll_out_page(schedule: Schedule, names: Sequence[str]) -> Page:
    """What whoever carries the schedule out does, change by change."""
    thin = (
        f"In {counted(len(schedule.thin_windows), 'window')} before changes the inventory has no room for both plans: "
        "old servers stop first, and fewer serve meanwhile."
    )
    steps = changes(schedule, names).only("day", "time", "from", "to", "why").block()
    return Page(
        title="Changes in order",
        verdict="Each plan is a run folder under `plans/`. New servers load before the time of a change, so that they "
        "serve when it comes; then the router gets the new table, and old servers drain. `planner diff plans/A "
        "plans/B` tells what differs, `plans/B/manifests` what to apply.",
        lead=(steps, *paragraphs(thin if schedule.thin_windows else "")),
    )


def notes(schedule: Schedule) -> list[str]:
    """What a reader must know beside the figures."""
    lines = []
    missed = sum(not carried for carried in schedule.carried)
    if missed:
        verb = "is" if missed == 1 else "are"
        lines.append(
            f"{counted(missed, 'window')} of {len(schedule.windows):,} {verb} not carried: the rate is above the "
            "promise of the plan that stands, or a change takes servers."
        )
    if schedule.emergencies:
        lines.append(
            f"{counted(len(schedule.emergencies), 'change')} came unplanned, after rates had passed the promise."
        )
    if schedule.thin_windows:
        lines.append(
            f"In {counted(len(schedule.thin_windows), 'window')} a change finds no room for both plans in the "
            "inventory: old servers stop first. More GPUs in it, or fewer changes a day, may leave room."
        )
    if schedule.reserved:
        lines.append(f"Reserved all the time: {', '.join(f'{count} {gpu}' for gpu, count in schedule.reserved)}.")
    if schedule.tariff.kind is TariffKind.OWNED:
        lines.append("Costs are of owned GPUs: power, less what GPUs in no server earn; below 0 they earn more.")
    broken = sorted((rung for rung in schedule.replayed if rung.holds is False), key=lambda rung: -rung.windows)
    if broken:
        worst = broken[0]
        lines.append(
            f"Replayed, the levels break in {counted(sum(rung.windows for rung in broken), 'window')}, most of them "
            f"at {rate(worst.rate_rps)} requests/s, {percent_of(worst.share)} of the promise."
        )
    return lines
