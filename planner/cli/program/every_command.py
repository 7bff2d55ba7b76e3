"""What every command is given: bounds told in one form, completions of the shell, tables at their whole width.

A command says nothing of it: its parameters are looked up here by name. Where nothing is offered, the shell goes on
with files.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

import typer

from planner.cli import screen
from planner.errors import MOST_OF_INPUT, InputError, shortened

MOST_WHOLE = 10**15
"""Of an option that has no bound of its own, as of a key in a file."""


def with_bounds(command: Any) -> None:
    """Give the whole numbers of the command, or of those of a group, a bound where they have none."""
    for below in getattr(command, "commands", {}).values():
        with_bounds(below)
    for parameter in command.params:
        described = getattr(parameter, "type_descriptor", None)
        if described is not None and described.annotation is int and parameter.max is None:
            parameter.callback = _bounded(parameter.opts[0], parameter.callback)


def _bounded(name: str, then: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > MOST_WHOLE:
            raise InputError(
                f"{name}: must be a whole number of at most {MOST_WHOLE:.0e} either way, got {value!s:.40}.",
                hint="Give a number of ordinary size.",
            )
        return value if then is None else then(context, parameter, value)

    return check


@contextmanager
def short_errors() -> Iterator[None]:
    """What the library says of words that it cannot read, shortened."""
    try:
        yield
    except Exception as error:
        message, option = getattr(error, "message", None), str(getattr(error, "option_name", ""))
        if isinstance(message, str):
            # an option that nobody knows stands there without quotes, blanks and all
            message = message.replace(option, option[:MOST_OF_INPUT]) if option else message
            error.message = shortened(message)  # type: ignore[attr-defined]  # the library's own errors
        raise


ENGINES = ("vllm", "sglang", "trtllm")
"""As `planner.export` has them, which takes too long to read for each help; a test holds that they are the same."""


def any_of(names: Collection[str]) -> str:
    """The names for a help text: `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


ANY_ENGINE = any_of(ENGINES)

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
    from planner.domain.serving.targets import TARGET_ROWS

    return TARGET_ROWS


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


def with_wide_tables(command: Any) -> None:
    """Give the command, or those of a group, the option."""
    for below in getattr(command, "commands", {}).values():
        with_wide_tables(below)
    if any("--json" in parameter.opts for parameter in command.params):
        command.params.append(_wide_option())


@cache
def _wide_option() -> Any:
    """As typer makes it of a function's parameter; the callback is all that sees its value."""
    shell = typer.Typer(add_completion=False)
    shell.command()(_with_option)
    command: Any = typer.main.get_command(shell)
    return next(parameter for parameter in command.params if "--wide" in parameter.opts)


def _set(context: typer.Context, wide: bool) -> bool:
    if not context.resilient_parsing:
        screen.show_every_column(wide)
    return wide


def _with_option(
    wide: bool = typer.Option(
        False,
        "--wide",
        help="Tables with every column, however narrow the terminal.",
        callback=_set,
        expose_value=False,
    ),
) -> None:
    """Never called."""
