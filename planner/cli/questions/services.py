"""Questions of several services in one line: what GPUs at hand do for all of them, what all of them cost; a scenario to
begin with."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan.fleets import show_fleet
from planner.cli.questions import options
from planner.cli.terminal.summaries import answer_last
from planner.errors import InputError
from planner.files.scenario.offers import inventory_of, prices_of

EXAMPLE = "chat=qwen3-30b-a3b-fp8:azure-conv-2023:20"

if TYPE_CHECKING:
    from planner.domain.frontier import GpuOffer
    from planner.runs.questions.services import FleetDraft

Services = Annotated[
    list[str] | None,
    typer.Option(
        "--service",
        metavar="NAME=MODEL:WORKLOAD[:DEMAND]",
        help="One of several services on these GPUs, instead of --model and --workload; may come again. DEMAND: "
        "requests/s. [default: the workload's own]",
        show_default=False,
    ),
]


def drafted(
    services: Sequence[str],
    typed: options.Typed,
    inventory: Mapping[str, int],
    prices: Mapping[str, float],
    *,
    name: str,
    aim: str = "multiple",
) -> "FleetDraft":
    """The fleet that a line asks for. InputError where it names a model or a workload, too."""
    from planner.runs.questions.services import FleetDraft, typed_service

    for flag, value in (("--model", typed.model), ("--workload", typed.workload)):
        if value:
            raise InputError(
                f"{flag}: goes without --service, each of which has its own, got {value}.", hint=f"Leave out {flag}."
            )
    rows = tuple(map(typed_service, services))
    sections = typed.sections()
    return FleetDraft(
        name=typed.name or name, services=rows, inventory=inventory, prices=prices, sections=sections, aim=aim
    )


def answer_fleet(output: options.Output, draft: "FleetDraft", offer: "GpuOffer | None" = None) -> None:
    """Plan the fleet, for least rent of an `offer` where there is one, write what is to be written, print. What cannot
    be written fails before the work."""
    from planner import files, pipeline
    from planner.files.plan.fleet_document import fleet_document
    from planner.report.fleets.page import fleet_summary
    from planner.runs.fleets import KINDS, publish_fleet, write_fleet
    from planner.runs.questions.services import cheapest_of_offer, fleet_draft_text

    if output.scenario is not None:
        files.refuse_existing(output.scenario, force=output.force)
    if output.out is not None:
        files.claim_folder(output.out, KINDS, force=output.force)
    quiet = output.quiet or output.json

    def tell(step: str) -> None:
        if not quiet:
            screen.show_note(f"{draft.name}: {step}")

    with screen.search_progress(draft.name, quiet=quiet) as progress:
        plan = partial(pipeline.plan_fleet, tell=tell, progress=progress)
        draft, planned = (draft, plan(draft.fleet())) if offer is None else cheapest_of_offer(draft, offer, plan)
    path = output.scenario
    texts = {} if path is None else {path: fleet_draft_text(draft, path.parent).encode()}
    with files.files_written(texts, force=output.force):
        published = None if output.out is None else publish_fleet(planned)
        if output.out is not None and published is not None:
            write_fleet(output.out, published, force=output.force)
    if output.out is not None and published is not None:
        show_fleet(planned, output.out, published.warnings, as_json=output.json)
    elif output.json:
        screen.show_json(fleet_document(planned))
    else:
        screen.show_markdown(answer_last(fleet_summary(planned)))
    if path is not None and not output.json:
        screen.show_text(f"The scenario is written to {path}")


def answer_cheapest(
    output: options.Output, services: Sequence[str], typed: options.Typed, offer: "GpuOffer", rps: float | None
) -> None:
    """What do all of them cost? The whole nodes of least rent that promise every demand."""
    if rps is not None:
        raise InputError("--rps: goes without --service.", hint="Write a rate behind each: NAME=MODEL:WORKLOAD:DEMAND.")
    answer_fleet(output, drafted(services, typed, {}, {}, name="cheapest", aim="target"), offer)


def begin_fleet(
    file: Path,
    services: Sequence[str],
    typed: options.Typed,
    inventory: str | None,
    prices: str | None,
    *,
    unfit: Mapping[str, object],
    force: bool,
) -> None:
    """Write a fleet that `planner check` takes. InputError where it would not, something is missing or does not go
    with services (`unfit`), or the file may not be written."""
    import shlex

    from planner import files, pipeline
    from planner.runs.questions.services import fleet_draft_text

    absent = [flag for flag, value in (("--service", services), ("--inventory", inventory)) if not value]
    if absent:
        raise InputError(
            f"init: {' and '.join(absent)} must be given for several services.",
            hint=f"For example: `planner init fleet.yaml --service {EXAMPLE} --inventory H200=16,H20=16`.",
        )
    for flag, value in unfit.items():
        if value is not None:
            raise InputError(
                f"{flag}: goes without --service.", hint="Write a rate behind a service: NAME=MODEL:WORKLOAD:DEMAND."
            )
    gpus = inventory_of("--inventory", inventory or "")
    rent = {} if prices is None else prices_of("--prices", prices)
    draft = drafted(services, typed, gpus, rent, name=file.stem)
    pipeline.check_fleet(draft.fleet())
    files.write_file(file, fleet_draft_text(draft, file.parent).encode(), force=force)
    path = shlex.quote(str(file))
    screen.show_text(f"Written to {file}. What to do next:\n  planner check {path}\n  planner plan {path}")
