"""The `planner` program: commands, and what an exception becomes."""

import gc
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer

from planner.cli import screen
from planner.cli.patience import interruptible
from planner.cli.program.every_command import with_bounds, with_completions, with_wide_tables
from planner.cli.program.lazy_group import LazyCommands, LazyGroup
from planner.cli.program.listing import help_text
from planner.cli.screen import never_fail_to_write
from planner.errors import EXIT_FAILURE, EXIT_INTERRUPTED, PlannerError
from planner.guests import guest_commands, load

COMMANDS = {  # the module, and its function where that is not `command`
    "cheapest": "questions.fleets:cheapest",
    "buy": "questions.fleets:buy",
    "max": "questions.fleets:largest",
    "init": "questions.init",
    "scenarios": "facts.shipped:scenarios",
    "plan": "plan.plan",
    "place": "plan.place",
    "frontier": "plan.frontier",
    "serving": "plan.serving",
    "replan": "replanning.replan",
    "replay": "plan.replay",
    "routers": "plan.routers",
    "doubt": "plan.doubt",
    "tune": "replanning.tune",
    "rehearse": "plan.rehearse",
    "prove": "plan.prove",
    "check": "plan.checks:check",
    "export": "plan.export",
    "import": "plan.checks:deployed_plan",
    "observe": "plan.observe",
    "advise": "replanning.advise",
    "compare": "comparison.compare",
    "sweep": "comparison.sweep",
    "schedule": "replanning.schedule",
    "batch": "batches.batch",
    "batch-manifests": "batches.batch:manifests",
    "explain": "comparison.explain",
    "diff": "plan.checks:diff",
    "verify": "plan.checks:verify",
    "watch": "replanning.watch",
    "report": "plan.report",
    "defrag": "cluster.defrag:defrag",
    "docs": "docs.command",
    "doctor": "facts.doctor",
    "mcp": "assistants.command",
    "gpus": "facts.shipped:gpus",
    "models": "facts.models:models",
    "engines": "facts.engines",
    "workloads": "facts.shipped:workloads",
}
GROUPS = {
    "model": "facts.models",
    "workload": "facts.workload",
    "cost": "cost.group",
    "cluster": "cluster.group",
}
DEBUG = "PLANNER_DEBUG"


_COLLECTIONS = (100_000, 20, 50)
"""Values made before the collector looks at the newest, and how often it looks at all the older (gc.set_threshold)."""


def build() -> typer.Typer:
    """The program with all its commands, none of them read yet."""

    class Program(LazyGroup):
        source = staticmethod(lambda: LazyCommands((*COMMANDS, *GROUPS), _load))

    app = typer.Typer(
        name="planner",
        cls=Program,
        help=help_text(),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_version)
    return app


def _load(name: str) -> Any:
    """The command `name` or the group, read from its file."""
    shell = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if name in COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        shell.command(name)(getattr(import_module(f"planner.cli.{module}"), function or "command"))
    elif name in GROUPS:
        shell.add_typer(import_module(f"planner.cli.{GROUPS[name]}").group, name=name)
    else:
        shell.add_typer(load(guest_commands()[name].group), name=name)
    command: Any = typer.main.get_command(shell)
    if name not in COMMANDS:
        command = command.commands[name]
    with_wide_tables(command)
    with_completions(command)
    with_bounds(command)
    return command


def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        from planner.plans.provenance import planner_version

        screen.show_text(f"planner {planner_version()}")
        raise typer.Exit


def main(tell: Callable[[PlannerError], None] | None = None) -> None:
    """Run the program; `tell`: how an error is shown, for people where nobody says it.

    Exit status: 0 done, 2 bad input, 3 infeasible, 130 interrupted, 143 terminated, 1 anything else.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # small matrices: more threads only wait for each other
    # a cluster is millions of values that all stay: rarely is there garbage to look for
    gc.set_threshold(*_COLLECTIONS)
    never_fail_to_write()
    with interruptible() as interrupts:
        try:
            _run(tell or screen.show_error)
        except KeyboardInterrupt:
            sys.exit(interrupts.status)
        except SystemExit as end:
            if end.code == EXIT_INTERRUPTED:  # as the library that reads the command line calls it, whatever the signal
                sys.exit(interrupts.status)
            raise


def _run(tell: Callable[[PlannerError], None]) -> None:
    try:
        build()()
    except PlannerError as error:
        tell(error)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except Exception as error:  # noqa: BLE001  (the last resort: a defect of ours, told in one line)
        if os.environ.get(DEBUG):
            traceback.print_exc()
        tell(internal_error(error))
        sys.exit(EXIT_FAILURE)


def internal_error(error: Exception) -> PlannerError:
    """A defect of ours, as users are told of it."""
    return PlannerError(
        f"internal error: {type(error).__name__}: {error}.",
        hint=f"This is a defect of the planner; set {DEBUG}=1 to see where.",
    )
