"""`planner cheapest`, `planner buy`, `planner max`: fleets for a load, for money, and what GPUs at hand can do."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.questions import options
from planner.cli.questions.services import Services, answer_cheapest, answer_fleet, drafted
from planner.errors import InputError
from planner.files.scenario.offers import inventory_of, prices_of

if TYPE_CHECKING:
    from planner.domain import ReportProgress
    from planner.runs.questions import MoneyAnswer


def answer_with(output: options.Output, flags: str, name: str, ask: "Callable[[ReportProgress], MoneyAnswer]") -> None:
    """Ask, write what is to be written, print. `flags`: the question's own, for the next one. What cannot be written
    fails before the work, not after it."""
    from planner import files
    from planner.runs.questions import answer_document, answer_text
    from planner.runs.questions.documents import text_of
    from planner.runs.questions.words import next_questions

    if output.scenario is not None:
        files.refuse_existing(output.scenario, force=output.force)
    if output.out is not None:
        files.claim_run_folder(output.out, force=output.force)
    with screen.search_progress(name, quiet=output.quiet or output.json) as progress:
        answer = ask(progress)
    texts = {} if output.scenario is None else {output.scenario: text_of(answer, output.scenario.parent).encode()}
    with files.files_written(texts, force=output.force):
        warnings = () if output.out is None else _published(answer, output.out, force=output.force)
    if output.json:
        screen.show_json(answer_document(answer, scenario=output.scenario, run=output.out, flags=flags))
    else:
        screen.show_prose(answer_text(answer))
        _show_scenario(text_of(answer), output.scenario, str(answer.document["name"]))
        screen.show_text("What to ask next")
        for why, command in next_questions(answer, output.scenario, flags, output.out):
            screen.show_text(f"  {why}\n    {command}")
        if output.out is not None:
            screen.show_text(f"Written to {output.out}")
    for warning in warnings:
        screen.show_warning(warning)


def _show_scenario(text: str, path: Path | None, name: str) -> None:
    where = f"written to {path}" if path else f"--scenario {name}.yaml writes it"
    screen.show_text(f"The scenario that this stands for ({where})")
    screen.show_text("".join(f"  {line}\n" for line in text.splitlines()))


def _published(answer: "MoneyAnswer", folder: Path, *, force: bool) -> tuple[str, ...]:
    from planner import files
    from planner.runs import publication

    published = publication.publish(answer.plan, engine=answer.scenario.engine.name)
    files.write_run(folder, published.files, force=force)
    return published.warnings


@with_records
def cheapest(
    rps: Annotated[float | None, typer.Option(help="Requests/s to be promised.", show_default=False)] = None,
    *,
    typed: options.Typed,
    service: Services = None,
    offer: options.OfferFile = None,
    prices: options.Prices = None,
    output: options.Output,
) -> None:
    """What does this rate cost? The cheapest fleet that promises it within the levels, proven."""
    from planner.runs.questions import cheapest_fleet

    gpus = options.offer_of(offer, prices)
    if service:
        if typed.sure is not None:
            raise InputError("--sure: goes without --service.", hint="Ask for the services one by one.")
        answer_cheapest(output, service, typed, gpus, rps)
        return
    if rps is None:
        raise typer.BadParameter("must be given.", param_hint="--rps")
    demand, flags = typed.demand(), typed.flags(offer=offer, prices=prices)

    answer_with(output, flags, "cheapest", lambda progress: cheapest_fleet(demand, rps, gpus, progress))


@with_records
def buy(
    usd: Annotated[float, typer.Option(help="USD per hour.", show_default=False)],
    typed: options.Typed,
    *,
    offer: options.OfferFile = None,
    prices: options.Prices = None,
    output: options.Output,
) -> None:
    """What does this money buy? The fleet that serves most requests/s for at most so much rent, proven."""
    from planner.runs.questions import best_fleet_for

    demand, gpus, flags = typed.demand(), options.offer_of(offer, prices), typed.flags(offer=offer, prices=prices)
    answer_with(output, flags, "buy", lambda progress: best_fleet_for(demand, usd, gpus, progress))


@with_records
def largest(
    inventory: Annotated[str, typer.Option(help="GPUs at hand, as H100=40,A100=24.", show_default=False)],
    typed: options.Typed,
    *,
    service: Services = None,
    prices: options.Prices = None,
    output: options.Output,
) -> None:
    """What can these GPUs do? The most requests/s that they promise within the levels, proven."""
    from planner.runs.questions import most_of_fleet

    gpus, rent = inventory_of("--inventory", inventory), {} if prices is None else prices_of("--prices", prices)
    if service:
        answer_fleet(output, drafted(service, typed, gpus, rent, name="max"))
        return
    demand = typed.demand()
    flags = typed.flags(prices=prices)
    answer_with(output, flags, "max", lambda progress: most_of_fleet(demand, gpus, rent, progress))
