"""What a shell offers for values: names that are shipped, by option and argument.

A command says nothing of it: its parameters are looked up here by name. Where nothing is offered, the shell goes on
with files.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

TARGETS = ("lws", "kubernetes", "disaggregatedset", "llm-d", "kserve", "kueue", "script", "dynamo")
ENGINES = ("vllm", "sglang")
"""As `planner.export` has them, which takes too long to read between two keys; a test holds that they are the same."""

Names = Callable[[], Collection[str]]


def _models() -> Collection[str]:
    from planner.files.disk.names import shipped_models

    return shipped_models()


def _workloads() -> Collection[str]:
    from planner.files.disk.names import shipped_workloads

    return shipped_workloads()


def _scenarios() -> Collection[str]:
    from planner.files.disk.names import shipped_scenarios

    return shipped_scenarios()


def _gpus() -> Collection[str]:
    from planner.files.models.gpu_specs import gpu_spec_files

    return gpu_spec_files()


def _targets() -> Collection[str]:
    return TARGETS


def _engines() -> Collection[str]:
    return ENGINES


OFFERED: Mapping[str, Names] = MappingProxyType(
    {
        "--model": _models,
        "--workload": _workloads,
        "--gpu": _gpus,
        "--gpu-type": _gpus,
        "--target": _targets,
        "--engine": _engines,
        "scenario": _scenarios,
        "scenarios": _scenarios,
        "gpus name": _gpus,
        "engines name": _engines,
    }
)
"""Option, argument, or command and argument -> what may stand there."""


def with_completions(command: Any) -> None:
    """Let the parameters of a command, or of those of a group, offer their names."""
    for below in getattr(command, "commands", {}).values():
        with_completions(below)
    for parameter in command.params:
        words = (f"{command.name} {parameter.name}", *parameter.opts, parameter.name)
        names = next((OFFERED[word] for word in words if word in OFFERED), None)
        if names is not None:
            parameter.shell_complete = _offering(names)


def _offering(names: Names) -> Callable[[Any, str], list[Any]]:
    def offer(_context: Any, begun: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in sorted(names()) if name.casefold().startswith(begun.casefold())]

    return offer
