"""`planner buy`: the best fleet for a rent."""

from typing import Annotated

import typer

from planner.cli.questions import options
from planner.cli.questions.answering import Wanted, answer_with


def command(
    usd: Annotated[float, typer.Option(help="USD per hour.", show_default=False)],
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
    """What does this money buy? The fleet that serves most requests/s for at most so much rent, proven."""
    from planner.runs.questions import best_fleet_for

    typed = options.Typed(
        model=model, workload=workload, ttft=ttft, tpot=tpot, percentile=percentile, survive=survive, share=share,
        engine=engine, serving=serving, name=name,
    )  # fmt: skip
    demand, gpus = typed.demand(), options.offer_of(offer, prices)
    wanted = Wanted(
        scenario=scenario, out=out, force=force, json=json, quiet=quiet, flags=typed.flags(offer=offer, prices=prices)
    )
    answer_with(wanted, "buy", lambda progress: best_fleet_for(demand, usd, gpus, progress))
