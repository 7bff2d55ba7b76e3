"""`planner check`: is this scenario sound, and what would a plan start from?"""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.")],
    json: Annotated[bool, typer.Option("--json", help="Print as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Read a scenario, resolve every name, and check that the model fits, without searching."""
    from planner import files, pipeline
    from planner.domain.usable import left_out_of
    from planner.workload import summarize

    def tell(step: str) -> None:
        if not (quiet or json):
            screen.show_note(f"check: {step}")

    tell("reading the scenario and what it refers to")
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
