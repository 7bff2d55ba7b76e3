"""`planner cost measure`: which benchmark runs would narrow a scenario's plan most, as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options

if TYPE_CHECKING:
    from planner.domain import MeasuringAdvice, ProposedRun
    from planner.export import BenchmarkCommands


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.", show_default=False)],
    runs: Annotated[int, typer.Option(help="Runs to propose, at most 8; fewer where fewer change the plan.")] = 3,
    draws: Annotated[int, typer.Option(help="Draws of the cost model's factors, 12 to 1000.")] = 48,
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0)] = 0,
    engine: Annotated[str, typer.Option(help="Engine to measure: vllm or sglang.")] = "vllm",
    tool: Annotated[str, typer.Option(help="What loads it: vllm (vllm bench serve) or aiperf.")] = "vllm",
    json: cost_options.Json = False,
) -> None:
    """What to measure next: the benchmark runs that narrow a scenario's plan most, as commands."""
    from planner import export, files
    from planner.proposing.measuring import what_to_measure
    from planner.workload import summarize

    export.require_tools(engine, tool)  # fails before the work, not after it
    read = files.load_scenario(scenario, summarize)

    def commands_of(run: "ProposedRun") -> "BenchmarkCommands":
        return export.benchmark_commands(read, run, engine=engine, tool=tool)

    advice = what_to_measure(read, runs=runs, draws=draws, seed=seed, can_run=lambda run: not commands_of(run).refusal)
    commands = [commands_of(run) for run in advice.runs]
    if json:
        screen.show_json(_document(read.name, advice, commands))
    else:
        _show(read.name, advice, commands)


def _document(name: str, advice: "MeasuringAdvice", commands: "list[BenchmarkCommands]") -> dict[str, Any]:
    return {
        "scenario": name,
        "layout": advice.label,
        "layouts": advice.layouts,
        "draws": advice.draws,
        "considered": advice.considered,
        "expected_rps": advice.expected_rps,
        "regret_rps": advice.regret_rps,
        "reduction_rps": advice.reduction_rps,
        "runs": [
            {"rank": rank, **_row(advice, run), "serve": list(c.serve), "load": c.load}
            for rank, (run, c) in enumerate(zip(advice.runs, commands, strict=True), start=1)
        ],
    }


def _row(advice: "MeasuringAdvice", run: "ProposedRun") -> dict[str, Any]:
    return {
        "gpu": run.gpu,
        "phase": run.phase.value,
        "tp": run.parallel.tp,
        "dp": run.parallel.dp,
        "pp": run.parallel.pp,
        "gpus": run.parallel.devices,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "concurrency": run.concurrency,
        "requests": run.requests,
        "predicted_tokens_per_s": run.predicted_tokens_per_s,
        "spread": run.spread,
        "reduction_rps": run.reduction_rps,
        "share": advice.share(run.reduction_rps),
    }


def _show(name: str, advice: "MeasuringAdvice", commands: "list[BenchmarkCommands]") -> None:
    lost = advice.regret_rps / advice.expected_rps
    screen.show_prose(
        f"{name}: by what is known, the best plan is {advice.label}: {advice.expected_rps:.1f} requests/s on average "
        f"over {advice.draws} draws of the cost model's factors.\n"
        f"Deciding now is expected to lose {advice.regret_rps:.2f} requests/s ({lost:.1%}) against knowing the GPUs' "
        f"speed; {advice.layouts} plans and {advice.considered} runs were compared."
    )
    if not advice.considered:
        screen.show_prose("This engine serves no configuration of these plans: another may (--engine).")
        return
    if not advice.runs:
        screen.show_prose("No run is worth its time for this decision: none would change the plan enough.")
        return
    columns = ("rank", "GPU type", "phase", "TP", "DP", "PP", "tokens in", "tokens out", "in flight")
    rows = [
        (
            *(rank, run.gpu, run.phase.value, run.parallel.tp, run.parallel.dp, run.parallel.pp),
            *(run.input_tokens, run.output_tokens, run.concurrency),
            f"{run.predicted_tokens_per_s:,.0f} ± {run.spread:.0%}",
            round(run.reduction_rps, 2),
            f"{advice.share(run.reduction_rps):.0%}",
        )
        for rank, run in enumerate(advice.runs, start=1)
    ]
    screen.show_table("What to measure next", (*columns, "predicted tokens/s", "saves requests/s", "of the loss"), rows)
    for rank, (run, lines) in enumerate(zip(advice.runs, commands, strict=True), start=1):
        _show_commands(rank, run, lines)


def _show_commands(rank: int, run: "ProposedRun", lines: "BenchmarkCommands") -> None:
    screen.show_text(f"\n{rank}. {run.phase.value} on {run.parallel.devices} {run.gpu}:")
    for node, line in enumerate(lines.serve, start=1):
        screen.show_text(f"# node {node} of {len(lines.serve)}\n{line}" if len(lines.serve) > 1 else line)
    screen.show_text(lines.load)
