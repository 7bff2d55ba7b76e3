"""A schedule in words and tables: its cost beside static plans and bounds, its levels, its changes, its windows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from planner.domain.replanning.rates import DAY_S
from planner.domain.replanning.schedules import Schedule, ScheduleLevel, TariffKind
from planner.report.kit.csv_tables import csv_table
from planner.report.kit.frames import Frame, frame_of
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, measured, money, rate, significant

Row = tuple[Any, ...]

COST_COLUMNS = ("plans", "USD", "of the static plan")
LEVEL_COLUMNS = ("plan", "promise (requests/s)", "USD/hour", "GPUs", "windows")
CHANGE_COLUMNS = ("day", "time", "from", "to", "rate (requests/s)", "cost (USD)", "why")
WINDOW_COLUMNS = (
    *("window", "day", "time", "rate_rps", "plan", "promise_rps", "usd", "change_usd", "carried", "holds", "emergency"),
)
KNOWN = "known"


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
    if schedule.forecast == KNOWN:
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


def cost_rows(schedule: Schedule) -> list[Row]:
    """The schedule beside what stands all the time and the bounds."""
    label = "this schedule" if schedule.forecast == KNOWN else f"this schedule, forecast {schedule.forecast}"
    figures: list[tuple[str, float]] = [("the cheapest plan, all the time", schedule.static_usd), (label, schedule.usd)]
    if schedule.foresight_usd is not None:
        figures.append(("with the rates known", schedule.foresight_usd))
    figures.append((f"bound, {counted(schedule.most_changes, 'change')} a day", schedule.bound_usd))
    figures.append(("bound, any number of changes", schedule.unlimited_bound_usd))
    static = schedule.static_usd
    return [(name, usd, percent_of(usd / static) if static > 0 else None) for name, usd in figures]


def gpus_of(level: ScheduleLevel) -> str:
    """`96 H20, 8 H200`."""
    return ", ".join(f"{count} {gpu}" for gpu, count in level.gpus)


def level_rows(schedule: Schedule, names: Sequence[str]) -> list[Row]:
    """A row a plan that stands in some window."""
    counts = [0] * len(schedule.levels)
    for window in schedule.windows:
        counts[window.level] += 1
    return [
        (name, level.promise_rps, level.usd_per_hour, gpus_of(level), count)
        for name, level, count in zip(names, schedule.levels, counts, strict=True)
        if count
    ]


def change_rows(schedule: Schedule, names: Sequence[str]) -> list[Row]:
    """A row a change, in order."""
    return [_change(schedule, names, window) for window in schedule.changes]


def _change(schedule: Schedule, names: Sequence[str], window: int) -> Row:
    day, time = clock(schedule, window)
    before, after = schedule.windows[window - 1], schedule.windows[window]
    reasons = ["emergency" if window in schedule.emergencies else "planned"]
    if window - 1 in schedule.thin_windows:
        reasons.append("no room for both plans")
    rate_rps = schedule.series.windows[window].rate_rps
    return day + 1, time, names[before.level], names[after.level], rate_rps, after.change_usd, ", ".join(reasons)


def window_rows(schedule: Schedule, names: Sequence[str]) -> Iterator[Row]:
    """A row a window."""
    carried, emergencies = schedule.carried, set(schedule.emergencies)
    for number, (rates, window) in enumerate(zip(schedule.series.windows, schedule.windows, strict=True)):
        day, time = clock(schedule, number)
        level = schedule.levels[window.level]
        yield (
            *(number, day + 1, time, rates.rate_rps, names[window.level], level.promise_rps, window.usd),
            *(window.change_usd, carried[number], window.holds, number in emergencies),
        )


def windows_csv(schedule: Schedule, names: Sequence[str]) -> bytes:
    """windows.csv."""
    return csv_table(WINDOW_COLUMNS, window_rows(schedule, names))


def windows_frame(schedule: Schedule, names: Sequence[str]) -> Frame:
    """The same as a data frame."""
    rows = (dict(zip(WINDOW_COLUMNS, row, strict=True)) for row in window_rows(schedule, names))
    return frame_of(rows, WINDOW_COLUMNS)


def spot_csv(schedule: Schedule) -> bytes:
    """spot.csv: GPUs of each type that no server has in an hour, none that loads or drains either."""
    return csv_table(("hour", "gpu", "spot_gpus"), spot_rows(schedule))


def spot_rows(schedule: Schedule) -> Iterator[Row]:
    """(hour from the first window, GPU type, GPUs free throughout)."""
    inventory = schedule.levels[0].plan.scenario.inventory
    hours: dict[int, list[Counter[str]]] = {}
    for number, window in enumerate(schedule.windows):
        used = Counter(dict(schedule.levels[window.level].gpus)) + Counter(dict(window.changing))
        hours.setdefault(int(number * schedule.series.window_s // 3600), []).append(used)
    for hour, uses in hours.items():
        for item in inventory.items:
            yield hour, item.gpu.name, item.count - max(used[item.gpu.name] for used in uses)


def roll_out_note(schedule: Schedule, names: Sequence[str]) -> str:
    """What whoever carries the schedule out does, change by change, in Markdown."""
    lines = [
        "# Changes in order",
        "",
        "Each plan is a run folder under `plans/`. New servers load before the time of a change, so that they serve "
        "when it comes; then the router gets the new table, and old servers drain. `planner diff plans/A plans/B` "
        "tells what differs, `plans/B/manifests` what to apply.",
        "",
        "| day | time | from | to | why |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {day} | {time} | {before} | {after} | {why} |"
        for day, time, before, after, _, _, why in change_rows(schedule, names)
    ]
    if schedule.thin_windows:
        lines += [
            "",
            f"In {counted(len(schedule.thin_windows), 'window')} before changes the inventory has no room for both "
            "plans: old servers stop first, and fewer serve meanwhile.",
        ]
    return "\n".join(lines) + "\n"


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


def schedule_report(schedule: Schedule, names: Sequence[str]) -> str:
    """schedule.md: verdict, costs, levels, changes."""
    scenario = escaped(schedule.levels[0].plan.scenario.name)
    tables = (
        ("Cost", COST_COLUMNS, cost_rows(schedule)),
        ("Plans", LEVEL_COLUMNS, level_rows(schedule, names)),
        ("Changes", CHANGE_COLUMNS, change_rows(schedule, names)),
    )
    parts = [f"# Schedule of {scenario}: {escaped(schedule.series.name)}", verdict(schedule), *notes(schedule)]
    for title, columns, rows in tables:
        parts += [f"## {title}", _markdown_table(columns, rows)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines += [f"| {' | '.join(_text(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return significant(cell, 6) if isinstance(cell, float) else str(cell)
