"""The pages of a roll-out in Markdown: its commands, a page a step, and one of all steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.domain.replanning.changes import ServerChange, ServerRole
from planner.domain.replanning.rollouts import RollOut, RollOutStep
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import counted, rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Shell commands that belong together, `why`, and what to look at afterwards."""

    title: str
    why: str
    commands: tuple[str, ...]
    looks: tuple[str, ...] = ()


def step_page(step: RollOutStep, roll_out: RollOut, commands: Sequence[Commands]) -> str:
    """How to carry out one step."""
    lines = [
        f"# Step {step.number} of {len(roll_out.steps)}",
        "",
        *(f"- {line}" for line in step_words(step)),
        f"- {capacity_words(step, roll_out)}",
        "",
        "Run the commands in this folder; `NAMESPACE` is where the engines run.",
    ]
    for number, group in enumerate(commands, start=1):
        lines += ["", f"## {number}. {group.title}", "", group.why, "", *_block(group.commands)]
        if group.looks:
            lines += ["", "Then look at", "", *_block(group.looks)]
    return "\n".join(lines) + "\n"


def step_words(step: RollOutStep) -> Iterator[str]:
    """What stops, what starts."""
    for word, items, side in (("stop", step.stops, "before"), ("start", step.starts, "after")):
        counts: dict[ServerRole, int] = {}
        for item in items:
            role = _side(item, side)
            counts[role] = counts.get(role, 0) + item.count
        for role, count in counts.items():
            verb = word if count > 1 else f"{word}s"
            yield f"{counted(count, 'server')} of {escaped(role.island)} {verb} ({count * role.gpus} {escaped(role.gpu)})."
    if not step.stops and not step.starts:
        yield "No server stops or starts: the router gets the new plan's buckets."


def _side(item: ServerChange, side: str) -> ServerRole:
    role = item.before if side == "before" else item.after
    assert role is not None, "what stops was there, and what starts will be"
    return role


def capacity_words(step: RollOutStep, roll_out: RollOut) -> str:
    """What serves meanwhile, and under which table."""
    share = step.during_rps / roll_out.current_rps if roll_out.current_rps else 0.0
    table = "the new plan's" if step.new_table else "the old plan's"
    verdict = {None: "", True: "; levels held in its replay", False: "; **levels broken in its replay**"}[step.replayed]
    return (
        f"Meanwhile, about {step.seconds:.0f} s, {rate(step.during_rps)} requests/s are served ({share:.1%} of "
        f"{rate(roll_out.current_rps)}), by {table} buckets{verdict}."
    )


def _block(commands: Sequence[str]) -> list[str]:
    return ["```sh", *commands, "```"]
