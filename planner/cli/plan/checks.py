"""`planner check`, `planner import`, `planner diff`, `planner verify`: a scenario, what is deployed, what would change
and a run are looked at."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders, saved_runs
from planner.errors import EXIT_BAD_INPUT, EXIT_FAILURE, InputError

if TYPE_CHECKING:
    from planner.domain import DeployedPlan, Plan
    from planner.domain.comparisons import Verification


def deployed_plan(
    source: Annotated[Path, typer.Argument(help="A run folder, its plan.json, or a folder of manifests.")],
    out: Annotated[Path | None, typer.Option(help="File for the plan as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what a run or a folder of manifests deploys: islands, degrees, GPUs, routes."""
    from planner import files
    from planner.report.comparison.changes import deployed_document
    from planner.report.comparison.plan_diff import deployed_page
    from planner.report.kit.markdown import page_text

    plan = deployed(source)
    document = deployed_document(plan)
    if out is not None:
        text = json_text.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        files.write_file(out, f"{text}\n".encode(), force=force)
    if json:
        screen.show_json(document)
    else:
        screen.show_markdown(page_text(deployed_page(plan)))


def deployed(source: Path) -> "DeployedPlan":
    """The plan of a run (folder, or its plan.json) or of a folder of manifests.

    Raises:
        InputError: it is neither, or what is in it is not sound; the error names file, object and field.
    """
    return deployed_and_planned(source)[0]


def deployed_and_planned(source: Path) -> "tuple[DeployedPlan, Plan | None]":
    """As `deployed`, and the plan itself where `source` is a run: manifests tell little of its rate."""
    from planner import export, files

    if (files.is_there(source) and not files.is_folder(source)) or files.holds_run(source):
        plan = saved_runs.read_run(source)
        folder = source if files.is_folder(source) else source.parent
        exported = any((folder / "manifests").glob("*.yaml"))  # without manifests nobody has chosen an engine
        return export.summarize_plan(plan, engine=files.engine_of(folder) if exported else ""), plan
    plan_of_folder = export.read_plan(files.load_manifests(source), str(source))
    # A router's configuration is compared, not read: only a plan says what it has to be.
    screen.show_note(
        f"{source}: routes are those of the routing table; `planner export RUN --check {source}` says whether the "
        "router's configuration is still the plan's."
    )
    return plan_of_folder, None


def check(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.")],
    json: Annotated[bool, typer.Option("--json", help="Print as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Read a scenario, resolve every name, and check that the model fits, without searching.

    Of several services on one inventory: say what would be planned."""
    from planner import files, pipeline
    from planner.cli.plan.fleets import show_checked_fleet
    from planner.domain.usable import left_out_of
    from planner.files.scenario.fleets import load_fleet
    from planner.workload import summarize

    def tell(step: str) -> None:
        if not (quiet or json):
            screen.show_note(f"check: {step}")

    tell("reading the scenario and what it refers to")
    fleet = load_fleet(scenario, summarize)
    if fleet is not None:
        show_checked_fleet(scenario, fleet, pipeline.check_fleet(fleet, tell), as_json=json)
        return
    read = files.load_scenario(scenario, summarize)
    workload = pipeline.check(read, tell)
    types = [item.gpu.name for item in read.inventory.items]
    left_out = left_out_of(read.cluster, read.placement, types) if read.cluster else ()
    facts = {
        "scenario": read.name,
        "model": read.model.name,
        "weights_gb": round(read.model.weights_gb, 1),
        "workload": workload.name,
        **({"clock": read.workload.clock} if read.workload.clock else {}),
        "ranges": len(workload.ranges),
        "longest_prompt": workload.longest_prompt,
        "mean_input_tokens": round(workload.mean_input_tokens, 1),
        "mean_output_tokens": round(workload.mean_output_tokens, 1),
        "inventory": {item.gpu.name: item.count for item in read.inventory.items},
        "left_out": list(left_out),
        "price_usd_per_hour": read.inventory.price_usd_per_hour,
        **({"without_price": list(read.inventory.without_price)} if read.inventory.without_price else {}),
        "cost_mode": read.cost.mode.value,
        "search": f"{read.search.method.value}, {read.search.iterations} x {read.search.batch_size}",
    }
    if json:
        screen.show_json(facts)
    else:
        rows = [(key, _words(value)) for key, value in facts.items() if key != "left_out"]
        screen.show_table(f"{scenario}: sound", ("what", "value"), rows)
        for reason in left_out:
            screen.show_warning(f"left out of the cluster: {reason}")
        for gpu in read.inventory.unused_prices:
            screen.show_warning(f"price not used: the inventory has no {gpu}")


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={count}" for key, count in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def diff(
    old: Annotated[Path, typer.Argument(help="What runs: a run folder or a folder of manifests.")],
    new: Annotated[Path, typer.Argument(help="What is to run: a run folder or a folder of manifests.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with status 1 if they differ.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what two runs serve, cost and promise, old against new, which is likely faster; then which islands start,
    stop, restart or stay, how many GPUs that takes, which requests move, and what changes of buckets and P99.

    Of two folders of fleets: what every service was and is promised, and which GPUs change hands."""
    if any(map(fleet_folders.of_fleet, (old, new))):
        fleet_folders.diff_fleets(old, new, exit_code=exit_code, as_json=json)
        return
    from dataclasses import replace

    from planner.plans.comparing import plan_figures
    from planner.plans.diff import compare, compare_buckets
    from planner.plans.rate_bands import compare_rates
    from planner.report.comparison.changes import diff_document
    from planner.report.comparison.plan_diff import diff_page
    from planner.report.kit.markdown import page_text

    (before, old_plan), (after, new_plan) = deployed_and_planned(old), deployed_and_planned(new)
    difference = compare(before, after)
    if old_plan is not None and new_plan is not None:
        difference = replace(
            difference,
            rates=compare_rates(old_plan, new_plan),
            buckets=compare_buckets(old_plan, new_plan),
            figures=(plan_figures(old_plan, str(old)), plan_figures(new_plan, str(new))),
        )
    if json:
        screen.show_json(diff_document(difference))
    else:
        screen.show_markdown(page_text(diff_page(difference)))
    if exit_code and difference.differs:
        raise typer.Exit(EXIT_FAILURE)


MOST_ROWS = 60
"""Differences that are shown; --json has all."""


def verify(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder, its plan.json, or a folder of a schedule, a watch, a batch, a sweep, of runs."
        ),
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(help="The scenario that RUN was planned from. [default: found by its name]", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As it was planned with; goes with --scenario."),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Repeat a search, too; else its layouts are judged anew, not chosen anew.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compute a run anew from its question: list every figure, line and file that differs from what is written."""
    from planner.files.scenario.settings import read_setting
    from planner.runs.verifying.folders import verify

    if settings and scenario is None:
        raise InputError("--set: goes with --scenario only.", hint="Name the scenario that the run was planned from.")
    verification = verify(run, scenario=scenario, settings=tuple(map(read_setting, settings or [])), search=search)
    if json:
        screen.show_json(_document(run, verification))
    else:
        _show(run, verification)
    if not verification.agrees:
        raise typer.Exit(EXIT_BAD_INPUT)


def _document(run: Path, verification: "Verification") -> dict[str, object]:
    from dataclasses import asdict

    return {"run": str(run), "agrees": verification.agrees, **asdict(verification)}


def _show(run: Path, verification: "Verification") -> None:
    count = len(verification.differences)
    if verification.differences:
        rows = [(row.file, row.key, row.written, row.due) for row in verification.differences[:MOST_ROWS]]
        screen.show_table(
            f"{run}: written, and computed anew",
            ("file", "key", "written", "comes out"),
            rows,
            important=("file", "key"),
        )
    if count > MOST_ROWS:
        screen.show_note(f"and {count - MOST_ROWS:,} more; --json has all.")
    if verification.unchecked:
        screen.show_text("Taken as it is written:")
        for sentence in verification.unchecked:
            screen.show_text(f"  {sentence}")
    files = f"{len(verification.files):,} file{'s' * (len(verification.files) != 1)}"
    verdict = (
        "agree with what comes out" if verification.agrees else f"looked at: {count:,} difference{'s' * (count != 1)}"
    )
    screen.show_prose(f"{run}: {files} {verdict}.")
