"""`planner cheapest`: the cheapest fleet that promises a rate within the levels."""

from typing import Annotated

import typer

from planner.cli.questions import options
from planner.cli.questions.answering import Wanted, answer_with


def command(
    rps: Annotated[float, typer.Option(help="Requests/s to be promised.", show_default=False)],
    model: options.Model,
    workload: options.Workload,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    percentile: options.Percentile = 99.0,
    survive: options.Survive = 0,
    share: options.Share = None,
    engine: options.Engine = None,
    serving: options.Serving = None,
    offer: options.OfferFile = None,
    prices: options.Prices = None,
    name: options.Name = "",
    scenario: options.ScenarioFile = None,
    out: options.Out = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """What does this rate cost? The cheapest fleet that promises it within the levels, proven."""
    from planner.runs.questions import cheapest_fleet

    typed = options.Typed(
        model=model, workload=workload, ttft=ttft, tpot=tpot, percentile=percentile, survive=survive, share=share,
        engine=engine, serving=serving, name=name,
    )  # fmt: skip
    demand, gpus = typed.demand(), options.offer_of(offer, prices)
    wanted = Wanted(
        scenario=scenario, out=out, force=force, json=json, quiet=quiet, flags=typed.flags(offer=offer, prices=prices)
    )
    answer_with(wanted, "cheapest", lambda progress: cheapest_fleet(demand, rps, gpus, progress))
