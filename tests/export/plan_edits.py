"""Edits of a folder that leave every object sound by itself and the deployment broken: other routes, another vendor's
GPUs, other weights, less memory, a way of the KV cache that ends nowhere.

A row: the mistake, the cases that it is made in (see `seeded_mistakes.CASES`), what becomes what, and a text that one
of the faults must hold. `folder`: it is found without the plan, too.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from contract_plans import placed_plan, single_node_plan
from export_plans import example_plan
from seeded_mistakes import CASES as SEEDED
from seeded_mistakes import Case

from planner.domain import Plan
from planner.export import ExportOptions

Edit = Callable[[dict[str, str]], dict[str, str]]


def ranked_plan() -> Plan:
    """A placed plan whose placement has a priority class."""
    plan = placed_plan()
    placement = replace(plan.scenario.placement, priority_class="prod")
    return replace(plan, scenario=replace(plan.scenario, placement=placement))


CASES = SEEDED | {
    "placed": Case(plan=ranked_plan, target="lws"),
    "script, sglang": Case(plan=example_plan, target="script", engine="sglang"),
    "kubernetes, sglang": Case(plan=single_node_plan, target="kubernetes", engine="sglang"),
    "llm-d plain": Case(plan=placed_plan, target="llm-d"),
    "two islands": Case(plan=example_plan, target="lws", options=ExportOptions(name="two")),
}
VLLM = ("lws", "kubernetes", "disaggregatedset", "dynamo", "llm-d", "kserve", "script")
SGLANG = ("lws, sglang", "kubernetes, sglang", "script, sglang")
PODS = ("lws", "kubernetes", "disaggregatedset", "dynamo", "llm-d", "kserve", "lws, sglang")
TABLES = ("two islands", "kubernetes", "disaggregatedset", "script")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMistake:
    """One row of the table."""

    name: str
    cases: tuple[str, ...]
    edit: Edit
    told: str
    folder: bool = True


def text(old: str, new: str, *, count: int = 1, whole: bool = False) -> Edit:
    """`old` becomes `new` in the first file that has it, so many times (-1: in all files, every time); `whole`: every
    time in that file."""

    def edit(files: dict[str, str]) -> dict[str, str]:
        names = [name for name in sorted(files) if old in files[name]]
        assert names, f"{old!r} is in no file"
        chosen = names if count < 0 else names[:1]
        return files | {name: files[name].replace(old, new, -1 if whole else count) for name in chosen}

    return edit


def flag(name: str, new: str | None, *, every: bool = False) -> Edit:
    """The flag becomes `new` (None: it is left out), in the first place where it stands or in every one. It may stand
    as `--name=value`, bare, or as two YAML items."""
    value = r"(?:=(?:\{.*?\}|[^\s'\"]+)|\n\s+- (?!-)(?:'\{.*?\}'|\S+))?"
    pattern = re.compile(rf"--{name}(?![\w-]){value}")

    def edit(files: dict[str, str]) -> dict[str, str]:
        found = next(file for file in sorted(files) if pattern.search(files[file]))
        removed = "--seed=0"  # a flag that changes nothing keeps the list whole in every notation
        return files | {found: pattern.sub(lambda _: new or removed, files[found], count=0 if every else 1)}

    return edit


def both(*edits: Edit) -> Edit:
    """One edit after the other."""

    def edit(files: dict[str, str]) -> dict[str, str]:
        for one in edits:
            files = one(files)
        return files

    return edit


def pattern(old: str, new: str | Callable[[re.Match[str]], str], *, every: bool = False) -> Edit:
    """What the regular expression `old` finds becomes `new`: the first time, or in all files every time."""
    compiled = re.compile(old, re.DOTALL)

    def edit(files: dict[str, str]) -> dict[str, str]:
        names = [name for name in sorted(files) if compiled.search(files[name])]
        assert names, f"{old!r} is in no file"
        chosen = names if every else names[:1]
        return files | {name: compiled.sub(new, files[name], count=0 if every else 1) for name in chosen}

    return edit


def init_container(image: str, gpus: int) -> str:
    """A replacement that puts an init container before what was found, whose indent is group 1."""
    limits = f", resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}" if gpus else ""
    return rf"\g<1>initContainers: [{{name: init, image: '{image}'{limits}}}]\n\g<0>"
