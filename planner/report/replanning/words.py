"""A change in words: what is said of it in one line, of a step, of a frontier's point; the page in Markdown."""

from collections.abc import Iterator, Sequence

from planner.domain import Plan
from planner.domain.replanning.changes import ChangeKind, ChangePoint, PlanChange, ServerChange, ServerRole
from planner.domain.replanning.rollouts import RollOut, RollOutStep
from planner.report.buckets.headline import promise_text
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import counted, money, percent, rate, significant

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
) -> str:
    """All of it in Markdown, ending in a newline. `plan`: the new one; `notes`: what must be known of the change."""
    parts = [
        f"# Change of {escaped(plan.scenario.name)}",
        change_verdict(change),
        f"The new plan: {promise_text(plan)}",
        *(["\n".join(f"- {escaped(note)}" for note in notes)] if notes else []),
        _changes_table(change),
        *_frontier_part(frontier, plan.scenario.objective.kind.row.unit),
        "## Roll-out",
        roll_out_verdict(roll_out),
        *(_steps_part(roll_out) if roll_out.steps else []),
    ]
    return "\n\n".join(parts) + "\n"


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


def _changes_table(change: PlanChange) -> str:
    header = ("Servers", "What becomes of them", "From", "To", "Drain (s)", "Load (s)")
    rows = [
        [
            f"{item.count:,}",
            KINDS[item.kind],
            _role(item.before),
            _role(item.after),
            f"{item.drain_s:.0f}",
            f"{item.load_s:.0f}",
        ]
        for item in change.changes
    ]
    return table(header, rows, "rlllrr")


def _role(role: ServerRole | None) -> str:
    if role is None:
        return "–"
    return f"{escaped(role.island)}: {role.gpus} {escaped(role.gpu)}, {role.phase.value}, {role.start}–{role.end - 1}"


def _frontier_part(points: Sequence[ChangePoint], unit: str) -> Iterator[str]:
    """`unit`: of values and bounds; a rate is told once."""
    if not points:
        return
    yield "## Rate against change"
    values = [] if unit == _RATE else [unit[0].upper() + unit[1:]]
    header = ("Plan", "GPUs touched", "Servers that run on", "Pools", "Requests/s", *values, "Bound", "USD of change")
    rows = [
        [
            f"**{escaped(point.label) or 'chosen'}**" if point.chosen else escaped(point.label),
            f"{point.gpus_touched:,}",
            percent(point.running_on_share),
            str(point.pools),
            rate(point.rate_rps),
            *[significant(point.value, 4) for _ in values],
            "–" if point.bound is None else significant(point.bound, 4),
            "–" if point.change_usd is None else money(point.change_usd),
        ]
        for point in points
    ]
    yield table(header, rows, "lrrrr" + "r" * len(values) + "rr")


def _steps_part(roll_out: RollOut) -> Iterator[str]:
    yield _steps_table(roll_out)
    yield _SHARES[roll_out.old_load]
    yield (
        "A step's folder has its files and its commands in order. To go back, apply the manifests of the plan before; "
        "servers that have stopped load again."
    )


def _steps_table(roll_out: RollOut) -> str:
    header = ("Step", "What happens", "Requests/s meanwhile", "Share", "Then", "Lasts", "Buckets", "Replay")
    replays = {None: "–", True: "holds", False: "**breaks**"}
    rows = [
        [
            str(step.number),
            " ".join(step_words(step)),
            rate(step.during_rps),
            f"{roll_out.share_of(step.during_rps):.1%}" if roll_out.lower_rps else "–",
            rate(step.after_rps),
            lasting(step.seconds),
            "new" if step.new_table else "deployed",
            replays[step.replayed],
        ]
        for step in roll_out.steps
    ]
    return table(header, rows, "llrrrrll")
