"""The `planner` program: commands, and what an exception becomes."""

import gc
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module

import typer

from planner.cli import screen
from planner.cli.patience import interruptible
from planner.errors import EXIT_FAILURE, EXIT_INTERRUPTED, PlannerError

COMMANDS = {
    "cheapest": "questions.cheapest",
    "buy": "questions.buy",
    "max": "questions.max",
    "init": "questions.init",
    "scenarios": "facts.scenarios",
    "plan": "plan.plan",
    "place": "plan.place",
    "frontier": "plan.frontier",
    "serving": "plan.serving",
    "replay": "plan.replay",
    "routers": "plan.routers",
    "check": "plan.check",
    "export": "plan.export",
    "import": "plan.import_plan",
    "observe": "plan.observe",
    "compare": "comparison.compare",
    "sweep": "comparison.sweep",
    "explain": "comparison.explain",
    "diff": "plan.diff",
    "report": "plan.report",
    "defrag": "cluster.defrag",
    "docs": "docs.command",
    "gpus": "facts.gpus",
    "models": "facts.models",
    "engines": "facts.engines",
    "workloads": "facts.workloads",
}
GROUPS = {
    "workload": "facts.workload",
    "cost": "cost.group",
    "study": "simulate.chapter5",
    "cluster": "cluster.group",
    "simulate": "simulate.group",
}
DEBUG = "PLANNER_DEBUG"


_COLLECTIONS = (100_000, 20, 50)
"""Values made before the collector looks at the newest, and how often it looks at all the older (gc.set_threshold)."""


def build() -> typer.Typer:
    """The program with all its commands."""
    app = typer.Typer(
        name="planner",
        help="Plan the serving of large language models on mixed GPU fleets.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_version)
    for name, module in COMMANDS.items():
        command: Callable[..., None] = import_module(f"planner.cli.{module}").command
        app.command(name)(command)
    for name, module in GROUPS.items():
        app.add_typer(import_module(f"planner.cli.{module}").group, name=name)
    return app


def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        from planner.plans.provenance import planner_version

        screen.show_text(f"planner {planner_version()}")
        raise typer.Exit


def main() -> None:
    """Run the program.

    Exit status: 0 done, 2 bad input, 3 infeasible, 130 interrupted, 143 terminated, 1 anything else.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # small matrices: more threads only wait for each other
    # a cluster is millions of values that all stay: rarely is there garbage to look for
    gc.set_threshold(*_COLLECTIONS)
    with interruptible() as interrupts:
        try:
            _run()
        except KeyboardInterrupt:
            sys.exit(interrupts.status)
        except SystemExit as end:
            if end.code == EXIT_INTERRUPTED:  # as the library that reads the command line calls it, whatever the signal
                sys.exit(interrupts.status)
            raise


def _run() -> None:
    try:
        build()()
    except PlannerError as error:
        screen.show_error(error)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except Exception as error:  # noqa: BLE001  (the last resort: a defect of ours, told in one line)
        if os.environ.get(DEBUG):
            traceback.print_exc()
        screen.show_error(
            PlannerError(
                f"internal error: {type(error).__name__}: {error}.",
                hint=f"This is a defect of the planner; set {DEBUG}=1 to see where.",
            )
        )
        sys.exit(EXIT_FAILURE)
