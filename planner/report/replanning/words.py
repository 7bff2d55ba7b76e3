"""A change in words: what is said of it in one line, of a step, of a frontier's point; the report."""

from collections.abc import Iterator, Sequence

from planner.domain import Plan
from planner.domain.changes import ChangeKind, ChangePoint, PlanChange, ServerChange, ServerRole
from planner.domain.rollouts import RollOut, RollOutStep
from planner.report.buckets.headline import promise_text
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.plots import chart_of
from planner.report.kit.quantities import counted, money, percent, rate, significant
from planner.report.kit.tables import Column, counts, table_of
from planner.report.kit.tree import DataTable, Page, paragraphs, section
from planner.report.replanning.plots import change_plots

_RATE = "requests/s"

SECONDS = {3600.0: "h", 60.0: "min"}

_SHARES = {
    False: "Shares are of the lower of both plans' rates on the new workload, of prompts that both plans take.",
    True: "The deployed servers serve nothing of the new workload as a whole: rates, shares and replays are of the "
    "deployed plan's workload and levels, of prompts that both plans take.",
}

KINDS = {
    ChangeKind.KEEP: "run on",
    ChangeKind.REROUTE: "run on with other prompts",
    ChangeKind.RESTART: "start anew with other flags",
    ChangeKind.TURN: "turn to another phase",
    ChangeKind.RESIZE: "are put together anew",
    ChangeKind.MOVE: "move to other nodes",
    ChangeKind.START: "start",
    ChangeKind.STOP: "stop",
}
"""What servers do, in words."""


def change_page(
    change: PlanChange, frontier: Sequence[ChangePoint], roll_out: RollOut, plan: Plan, notes: Sequence[str] = ()
) -> Page:
    """All of it. `plan`: the new one; `notes`: what must be known of the change."""
    words = (*paragraphs(f"The new plan: {promise_text(plan)}"), *listed([escaped(note) for note in notes]))
    steps = (_steps_table(roll_out), *paragraphs(_SHARES[roll_out.old_load], _STEPS)) if roll_out.steps else ()
    unit = plan.scenario.objective.kind.row.unit
    return Page(
        title=f"Change of {plan.scenario.name}",
        verdict=change_verdict(change),
        lead=(*words, table_of(_CHANGE, change.changes).block()),
        sections=(
            section("charts-of-it", "Charts", *map(chart_of, change_plots(roll_out, frontier))),
            section("frontier", "Rate against change", _frontier_table(frontier, unit)),
            section("steps", "Roll-out", *paragraphs(roll_out_verdict(roll_out)), *steps),
        ),
    )


_STEPS = (
    "Steps that are written have a folder each, with its files and its commands in order. To go back, apply the "
    "manifests of the plan before; servers that have stopped load again."
)


def change_verdict(change: PlanChange) -> str:
    """What runs on, what does not, and what that costs."""
    stay, all_servers = change.servers_running_on, change.servers_before
    return (
        f"**{stay:,} of {counted(all_servers, 'server')} run on ({percent(change.running_on_share)})**; "
        f"{counted(change.gpus_touched, 'GPU')} touched, {significant(change.gpu_seconds / 3600)} GPU-hours that serve "
        f"nothing meanwhile, {_rent(change)}."
    )


def _rent(change: PlanChange) -> str:
    return "of GPUs without a price" if change.usd is None else f"{money(change.usd)} USD of rent"


def roll_out_verdict(roll_out: RollOut) -> str:
    """How many steps, how long, what they leave, and what replays said of it."""
    if not roll_out.steps:
        return "Nothing is to be done: the same servers serve the same prompts."
    if not roll_out.current_rps:
        return (
            f"**{counted(len(roll_out.steps), 'step')}, about {lasting(roll_out.seconds)}.** The servers that are left "
            "do not serve all prompts, so no share of a rate can be kept up meanwhile."
        )
    floor = min(step.during_rps for step in roll_out.steps)
    replays = {
        None: "Not replayed.",
        True: f"Replayed at {rate(roll_out.replayed_rps or 0.0)} requests/s, the levels hold in every step.",
        False: f"**Replayed at {rate(roll_out.replayed_rps or 0.0)} requests/s, the levels break in step "
        f"{', '.join(str(step.number) for step in roll_out.steps if step.replayed is False)}.**",
    }
    return (
        f"**{counted(len(roll_out.steps), 'step')}, about {lasting(roll_out.seconds)}; at least {rate(floor)} "
        f"requests/s at any time, {roll_out.reached_share:.1%} of the lower of both plans' rates, "
        f"{rate(roll_out.lower_rps)}** (asked for: {roll_out.least_share:.1%}). {replays[roll_out.holds]}"
    )


def lasting(seconds: float) -> str:
    """`2.5 h`, `45 min`, `30 s`."""
    for unit, word in SECONDS.items():
        if seconds >= 2 * unit:
            return f"{significant(seconds / unit, 2)} {word}"
    return f"{seconds:.0f} s"


def step_words(step: RollOutStep) -> Iterator[str]:
    """What stops, what starts."""
    for word, roles in (("stop", _counts(step.stops, "before")), ("start", _counts(step.starts, "after"))):
        for role, count in roles.items():
            verb = word if count > 1 else f"{word}s"
            gpus = f"{count * role.gpus} {escaped(role.gpu)}"
            yield f"{counted(count, 'server')} of {escaped(role.island)} {verb} ({gpus})."
    if not step.stops and not step.starts:
        yield "No server stops or starts: the router gets the new plan's buckets."


def capacity_words(step: RollOutStep, roll_out: RollOut) -> str:
    """What serves meanwhile, and under which table."""
    table_words = "the new plan's" if step.new_table else "the deployed plan's"
    verdict = {None: "", True: "; levels held in a replay", False: "; **levels broken in a replay**"}[step.replayed]
    return (
        f"Meanwhile, for about {lasting(step.seconds)}, {rate(step.during_rps)} requests/s can be served "
        f"({roll_out.share_of(step.during_rps):.1%} of {rate(roll_out.lower_rps)}), behind {table_words} "
        f"buckets{verdict}."
    )


def _counts(items: Sequence[ServerChange], side: str) -> dict[ServerRole, int]:
    counts: dict[ServerRole, int] = {}
    for item in items:
        role = item.before if side == "before" else item.after
        assert role is not None, "what stops was there, and what starts will be"
        counts[role] = counts.get(role, 0) + item.count
    return counts


def _role(role: ServerRole | None) -> str:
    if role is None:
        return "–"
    return f"{escaped(role.island)}: {role.gpus} {escaped(role.gpu)}, {role.phase.value}, {role.start}–{role.end - 1}"


_CHANGE: tuple[Column[ServerChange], ...] = (
    *counts("Servers=count"),
    Column("What becomes of them", lambda item: KINDS[item.kind]),
    Column("From", lambda item: _role(item.before), str, right=False),
    Column("To", lambda item: _role(item.after), str, right=False),
    Column("Drain (s)", lambda item: item.drain_s, "{:.0f}".format),
    Column("Load (s)", lambda item: item.load_s, "{:.0f}".format),
)


def _frontier_table(points: Sequence[ChangePoint], unit: str) -> DataTable:
    """`unit`: of values and bounds; a rate is told once."""
    value: Column[ChangePoint] = Column(unit[0].upper() + unit[1:], lambda point: point.value, _four_digits)
    columns: tuple[Column[ChangePoint], ...] = (
        Column("Plan", _plan_label, str, right=False),
        *counts("GPUs touched=gpus_touched"),
        Column("Servers that run on", lambda point: point.running_on_share, percent),
        Column("Pools", lambda point: point.pools, str),
        Column("Requests/s", lambda point: point.rate_rps, rate),
        *([] if unit == _RATE else [value]),
        Column("Bound", lambda point: point.bound, _four_digits),
        Column("USD of change", lambda point: point.change_usd, money),
    )
    return table_of(columns, points).block()


def _plan_label(point: ChangePoint) -> str:
    return f"**{escaped(point.label) or 'chosen'}**" if point.chosen else escaped(point.label)


def _four_digits(value: float) -> str:
    return significant(value, 4)


def _steps_table(roll_out: RollOut) -> DataTable:
    columns: tuple[Column[RollOutStep], ...] = (
        Column("Step", lambda step: step.number, str, right=False),
        Column("What happens", lambda step: " ".join(step_words(step)), str, right=False),
        Column("Requests/s meanwhile", lambda step: step.during_rps, rate),
        Column(
            "Share", lambda step: roll_out.share_of(step.during_rps) if roll_out.lower_rps else None, "{:.1%}".format
        ),
        Column("Then", lambda step: step.after_rps, rate),
        Column("Lasts", lambda step: step.seconds, lasting),
        Column("Buckets", lambda step: "new" if step.new_table else "deployed"),
        Column("Replay", lambda step: step.replayed, {True: "holds", False: "**breaks**"}.__getitem__, right=False),
    )
    return table_of(columns, roll_out.steps).block()
