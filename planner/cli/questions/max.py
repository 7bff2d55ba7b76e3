"""`planner max`: the most requests/s of GPUs at hand."""

from typing import Annotated

import typer

from planner.cli.questions import options
from planner.cli.questions.answering import Wanted, answer_with
from planner.files.scenario.offers import inventory_of, prices_of


def command(
    inventory: Annotated[str, typer.Option(help="GPUs at hand, as H100=40,A100=24.", show_default=False)],
    model: options.Model,
    workload: options.Workload,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    percentile: options.Percentile = 99.0,
    survive: options.Survive = 0,
    share: options.Share = None,
    engine: options.Engine = None,
    serving: options.Serving = None,
    prices: options.Prices = None,
    name: options.Name = "",
    scenario: options.ScenarioFile = None,
    out: options.Out = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """What can these GPUs do? The most requests/s that they promise within the levels, proven."""
    from planner.runs.questions import most_of_fleet

    typed = options.Typed(
        model=model, workload=workload, ttft=ttft, tpot=tpot, percentile=percentile, survive=survive, share=share,
        engine=engine, serving=serving, name=name,
    )  # fmt: skip
    demand, gpus = typed.demand(), inventory_of("--inventory", inventory)
    rent = {} if prices is None else prices_of("--prices", prices)
    wanted = Wanted(scenario=scenario, out=out, force=force, json=json, quiet=quiet, flags=typed.flags(prices=prices))
    answer_with(wanted, "max", lambda progress: most_of_fleet(demand, gpus, rent, progress))
