"""What an error tells people to type exists: every `--flag` of every hint is a flag of the command that it is for.

Hints are found in the source: what stands in `hint=`, and what is handed to the helpers that make errors. Where a hint
says `planner COMMAND ...`, that command has the flag. A flag without a command is one of every command that the hint's
module serves: the command's own file, or the row of `SERVES`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from planner.cli.app import build

PACKAGE = Path(__file__).resolve().parents[2] / "planner"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_PROGRAM = r"(?P<program>kubectl|vllm|jq|docker|helm|planner)(?P<words>(?: [a-z][a-z0-9-]*)*)"
CALLS = (re.compile(rf"`{_PROGRAM}[^`]*`"), re.compile(rf"\b{_PROGRAM}[^`.;|]*"))
"""In backquotes up to their end, else up to the end of the sentence."""
OTHERS = ("kubectl", "vllm", "jq", "docker", "helm")
"""Programs whose flags are their own matter."""
ENGINES = ("export/engines/", "export/checking/", "export/targets/dynamo/checks.py", "files/benchmarks/vllm_results.py")
"""These tell of the command lines of engines."""

# module or folder -> commands that meet what it refuses; `--flag`: every command that has this flag
SERVES: dict[str, str] = {
    "cli/cluster/repairing.py": "place",
    "cli/assistants/": "mcp",
    "cli/program/shared_options.py": "--kubernetes",
    "cli/questions/options.py": "cheapest, buy, max",
    "evaluation/doubts/plans.py": "doubt",
    "cli/questions/services.py": "cheapest, init, max",
    "evaluation/replay/": "plan",
    "export/batch_objects.py": "batch-manifests",
    "export/": "export",
    "export/objects/operating/traffic_queries.py": "workload from-metrics",
    "files/benchmarks/": "cost calibrate, cost accuracy",
    "files/cluster/host_probes.py": "cluster import",
    "files/disk/folders.py": "--force",
    "files/disk/pages.py": "report",
    "files/disk/single_files.py": "--force",
    "files/kubernetes/kubectl_lists.py": "cluster import",
    "files/models/built_models.py": "model add",
    "files/plan/batches/": "batch, sweep",
    "files/plan/watch_folders.py": "watch",
    "files/scenario/settings.py": "--set",
    "files/tables/rates.py": "schedule",
    "files/tables/traces/json_rows.py": "workload summarize, workload show, workload sample",
    "files/tables/traces/turns.py": "workload summarize, workload show, workload sample",
    "placement/clusters/imported_nodes.py": "cluster import",
    "placement/flextopo.py": "cluster import",
    "plans/observed/": "observe",
    "proposing/fleets/growing.py": "frontier",
    "replanning/days/": "schedule",
    "replanning/rollouts/": "replan",
    "replanning/changes.py": "replan",
    "replanning/finding.py": "replan",
    "replanning/fleets/": "replan",
    "runs/questions/services.py": "cheapest, init, max",
    "runs/replanning/": "replan",
    "runs/batches/batches.py": "batch",
    "runs/batches/choosing.py": "--executor",
    "runs/batches/dask_engine/": "--executor",
    "runs/batches/jobs.py": "batch",
    "runs/batches/running.py": "plan",
    "runs/rehearsal/": "rehearse",
    "runs/batches/sweeps.py": "sweep",
    "runs/cluster_import.py": "cluster import",
    "runs/cluster_sources.py": "cluster import",
    "runs/defragmenting.py": "defrag",
    "runs/replanning/scheduling.py": "schedule",
    "runs/replays/": "replay",
    "runs/live/": "observe",
    "runs/live/advice/": "advise",
    "runs/live/kubeconfigs.py": "--kubernetes",
    "runs/live/lengths.py": "workload from-metrics",
    "runs/live/loads.py": "watch",
    "runs/live/proving/": "prove",
    "runs/replays/tuning.py": "tune",
    "runs/watching/": "watch",
    "studies/asi/": "study asi",
    "studies/papers/": "study papers",
    "studies/commands.py": "--policy",
    "studies/policies/": "--policy",
    "studies/preemption/": "simulate preemption",
    "studies/runner.py": "--processes",
    "studies/serving/": "simulate serving",
    "studies/chapter5/readings/": "study readings",
}
HINT_MAKERS = re.compile(r"fault|refus|Error$")


@cache
def flags() -> dict[str, frozenset[str]]:
    """The flags of every command."""
    return dict(_flags(typer.main.get_command(build()), ()))


def _flags(command: Any, above: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    if not hasattr(command, "commands"):
        names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        yield " ".join(above), frozenset(names | {"--help"})
        return
    for name, below in command.commands.items():
        yield from _flags(below, (*above, name))


def hints() -> Iterator[tuple[str, str]]:
    """`file:line` below the package, and the text: what is filled in is `{}`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            parts = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
            name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
            # the first of the others say what is wrong, and name the option that it is wrong with
            parts += call.args[1:] if HINT_MAKERS.search(name) else []
            for text in (text for part in parts for text in _texts(part)):
                yield f"{path.relative_to(PACKAGE).as_posix()}:{call.lineno}", text


def _texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in values)  # type: ignore[misc]
        case ast.BinOp(left=left, right=right):
            yield "".join([*_texts(left), *_texts(right)])
        case _:
            for below in ast.iter_child_nodes(node):
                if isinstance(below, ast.expr):
                    yield from _texts(below)


def served(module: str) -> list[str]:
    """The commands that meet the hints of a module."""
    commands = [name for name, file in _files().items() if file == module]
    if commands and module not in SERVES:
        return commands
    row = next((row for prefix, row in sorted(SERVES.items(), reverse=True) if module.startswith(prefix)), "")
    if row.startswith("--"):
        return [name for name, of in flags().items() if row in of]
    return [name for name in row.split(", ") if name]


@cache
def _files() -> dict[str, str]:
    """The file of every command, as its function says."""
    return dict(_functions(typer.main.get_command(build()), ()))


def _functions(command: Any, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not hasattr(command, "commands"):
        function = getattr(command.callback, "__wrapped__", command.callback)
        yield " ".join(above), f"{function.__module__.removeprefix('planner.').replace('.', '/')}.py"
        return
    for name, below in command.commands.items():
        yield from _functions(below, (*above, name))


def faults(place: str, text: str) -> Iterator[str]:
    """What is wrong with the flags of a hint."""
    rest = text
    for pattern in CALLS:
        for call in pattern.finditer(rest):
            yield from _call_faults(f"{place}: {text}", call)
        rest = pattern.sub(lambda call: "" if FLAG.search(call[0]) else call[0], rest)
    bare = FLAG.findall(rest)
    module = place.partition(":")[0]
    if not bare or module.startswith(ENGINES):
        return
    commands = served(module)
    if not commands:
        yield f"{place}: says for no command what it is a flag of (a row of SERVES is missing): {text}"
    # kin in one file: a hint there is of the one that has the flag
    if module not in SERVES and module in _files().values():
        commands = [max(commands, key=lambda name: sum(flag in flags()[name] for flag in bare))]
    yield from (
        f"{place}: {name} has no {flag}: {text}" for name in commands for flag in bare if flag not in flags()[name]
    )


def _call_faults(where: str, call: re.Match[str]) -> Iterator[str]:
    """Of a command that a hint writes out."""
    if call["program"] in OTHERS or not FLAG.search(call[0]):
        return
    words = call["words"].split()
    name = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in flags()), None)
    if name is None:
        yield f"{where}: there is no command `planner{call['words']}`"
        return
    yield from (f"{where}: {name} has no {flag}" for flag in FLAG.findall(call[0]) if flag not in flags()[name])


def test_hints_name_flags_of_their_command() -> None:
    listed = [(place, text) for place, text in hints() if FLAG.search(text)]
    assert [fault for place, text in listed for fault in faults(place, text)] == []
    assert len(listed) > 80


@pytest.mark.parametrize(
    ("place", "text", "fault"),
    [
        ("files/tables/rates.py:1", "Give --gaps previous.", ""),
        ("files/tables/rates.py:1", "Give --gap previous.", "schedule has no --gap"),
        ("cli/plan/replay.py:1", "Give --most-gpus 3.", "replay has no --most-gpus"),
        ("domain/plan.py:1", "Give --trace.", "a row of SERVES is missing"),
        ("domain/plan.py:1", "Plan anew: `planner plan SCENARIO --resum DIR`.", "plan has no --resum"),
        ("domain/plan.py:1", "Try `planner workload show FILE --json`.", ""),
        ("domain/plan.py:1", "Try `planner workloads2 --json`.", "there is no command"),
        ("domain/plan.py:1", "Ask `kubectl get nodes --show-labels`.", ""),
        ("cli/plan/replay.py:1", "Add --seeds 1.", ""),
        ("runs/batches/dask_engine/x.py:1", "Give --resum.", "batch has no --resum"),
    ],
)
def test_a_wrong_flag_is_told(place: str, text: str, fault: str) -> None:
    told = list(faults(place, text))
    assert any(fault in line for line in told) if fault else not told
