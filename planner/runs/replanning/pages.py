"""The page of a step in Markdown: what it does, and its commands."""

from collections.abc import Sequence

from planner import export
from planner.domain.replanning.rollouts import RollOut, RollOutStep
from planner.report.replanning.words import capacity_words, step_words


def step_page(step: RollOutStep, roll_out: RollOut, commands: Sequence[export.Step]) -> str:
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


def _block(commands: Sequence[str]) -> list[str]:
    return ["```sh", *commands, "```"]
