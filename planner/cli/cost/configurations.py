"""`planner cost configurations`: parallel configurations of an island side by side."""

from typing import Annotated

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options
from planner.domain import CostMode, Phase

LENGTHS = "128,256,512,1024,2048,4096,8192"


def command(
    gpu: Annotated[list[str], typer.Option(help="GPU type; may be given several times.")],
    phase: Annotated[Phase, typer.Option(help="prefill or decode.")],
    size: Annotated[int, typer.Option(help="GPUs of the island.", min=1, max=100_000)] = 64,
    model: cost_options.Model = "deepseek-v3",
    lengths: Annotated[
        str, typer.Option(help="Prompt lengths, separated by commas.")
    ] = "128,256,512,1024,2048,4096,8192",
    mode: Annotated[CostMode, typer.Option(help="default, or reference (the paper's counting).")] = CostMode.DEFAULT,
    calibration: cost_options.Calibration = None,
    figure: cost_options.FigureFile = None,
    force: cost_options.Force = False,
    json: cost_options.Json = False,
) -> None:
    """Requests/s of every parallel configuration of an island over prompt lengths (the paper's figures 4.3, 4.4)."""
    from dataclasses import asdict, replace

    from planner import cost, files, report

    settings = replace(cost_options.settings(calibration), mode=mode)
    prompts, shape = sorted(set(cost_options.lengths(lengths))), files.load_model(model)
    rates = [
        row
        for name in dict.fromkeys(gpu)
        for row in cost.compare_configurations(name, shape, phase, size=size, lengths=prompts, settings=settings)
    ]
    cost_options.draw(figure, lambda: report.configurations_figure(rates), force=force)
    if json:
        screen.show_json([asdict(row) for row in rates])
        return
    rows = [
        (r.gpu, r.parallel.tp, r.parallel.dp, r.parallel.pp, r.parallel.replicas, *(round(v, 3) for v in r.rates_rps))
        for r in rates
    ]
    columns = ("GPU", "TP", "DP", "PP", "replicas", *(str(n) for n in prompts))
    screen.show_table(f"{phase} of {size} GPUs: requests/s by prompt length (0: does not fit)", columns, rows)
