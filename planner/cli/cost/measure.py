"""`planner cost measure`: which benchmark runs are worth most before a decision, as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options
from planner.cli.plan import saved_runs
from planner.cli.program.every_command import ANY_ENGINE

if TYPE_CHECKING:
    from planner.domain import MeasuringAdvice, ProposedRun, Scenario
    from planner.export import BenchmarkCommands


def command(
    scenario: Annotated[Path, typer.Argument(help="A scenario file, or a run folder.", show_default=False)],
    runs: Annotated[int, typer.Option(help="Runs to propose, at most 8; fewer where fewer change the plan.")] = 3,
    draws: Annotated[int, typer.Option(help="Draws of how fast servers are, 16 to 1024.")] = 128,
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0)] = 0,
    days: Annotated[float, typer.Option(help="Of operation: runs are ranked by what they save in these.")] = 30,
    engine: Annotated[
        str | None, typer.Option(help=f"Engine to measure: {ANY_ENGINE}. [default: the scenario's, else vllm]")
    ] = None,
    tool: Annotated[str, typer.Option(help="What loads it: vllm (vllm bench serve) or aiperf.")] = "vllm",
    json: cost_options.Json = False,
) -> None:
    """What to measure next: the benchmark runs that are worth most to a scenario's plan, as commands."""
    from planner import export
    from planner.proposing.measuring import what_to_measure

    export.require_tools(engine or "vllm", tool)  # fails before the work, not after it
    read = _read(scenario)
    measured = engine or read.engine.name or "vllm"
    export.require_tools(measured, tool)

    def commands_of(run: "ProposedRun") -> "BenchmarkCommands":
        return export.benchmark_commands(read, run, engine=measured, tool=tool)

    advice = what_to_measure(
        read, runs=runs, draws=draws, seed=seed, days=days, can_run=lambda run: not commands_of(run).refusal
    )
    commands = [commands_of(run) for run in advice.runs]
    if json:
        screen.show_json(_document(read.name, advice, commands))
    else:
        _show(read.name, advice, commands)


def _read(scenario: Path) -> "Scenario":
    from planner import files
    from planner.workload import summarize

    if scenario.is_dir():
        return saved_runs.read_run(scenario).scenario
    return files.load_scenario(scenario, summarize)


def _document(name: str, advice: "MeasuringAdvice", commands: "list[BenchmarkCommands]") -> dict[str, Any]:
    return {
        "scenario": name,
        "pools": advice.label,
        "decisions": advice.decisions,
        "draws": advice.draws,
        "days": advice.days,
        "considered": advice.considered,
        "expected_rps": advice.expected_rps,
        "regret_rps": advice.regret_rps,
        "regret_usd_per_day": advice.usd_per_day(advice.regret_rps),
        "worth_rps": advice.worth_rps,
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
        "worth_rps": run.worth_rps,
        "share": advice.share(run.worth_rps),
        "worth_usd_per_day": advice.usd_per_day(run.worth_rps),
        "hours": run.hours,
        "cost_usd": run.cost_usd,
        "days_to_pay": advice.days_to_pay(run),
    }


def _show(name: str, advice: "MeasuringAdvice", commands: "list[BenchmarkCommands]") -> None:
    lost, usd = advice.regret_rps / advice.expected_rps, advice.usd_per_day(advice.regret_rps)
    in_money = "" if usd is None else f", {usd:,.2f} USD a day,"
    screen.show_prose(
        f"{name}: by what is known, the best pools are {advice.label}: {advice.expected_rps:.1f} requests/s on average "
        f"over {advice.draws} draws of how fast servers are.\n"
        f"Deciding now is expected to lose {advice.regret_rps:.2f} requests/s ({lost:.1%}){in_money} against knowing "
        f"how fast they are; {advice.decisions} fleets and {advice.considered} runs were compared."
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
            round(run.worth_rps, 2),
            f"{advice.share(run.worth_rps):.0%}",
        )
        for rank, run in enumerate(advice.runs, start=1)
    ]
    screen.show_table("What to measure next", (*columns, "predicted tokens/s", "saves requests/s", "of the loss"), rows)
    for run in advice.runs:
        screen.show_prose(_money(advice, run))
    for rank, (run, lines) in enumerate(zip(advice.runs, commands, strict=True), start=1):
        _show_commands(rank, run, lines)


def _money(advice: "MeasuringAdvice", run: "ProposedRun") -> str:
    """What a run costs and saves."""
    taken = f"{run.phase.value} on {run.gpu} takes {run.parallel.devices} GPUs for {run.hours:.1f} hours"
    worth, days = advice.usd_per_day(run.worth_rps), advice.days_to_pay(run)
    if worth is None or days is None:
        return f"{taken}; without prices nobody can say whether it pays."
    paid = f"it has paid after {days:,.1f} days" if days >= 1 else "it has paid within a day"
    beyond = "" if days <= advice.days else f", more than the {advice.days:g} that it was asked for"
    return f"{taken}, {run.cost_usd:,.2f} USD, and saves {worth:,.2f} USD a day: {paid}{beyond}."


def _show_commands(rank: int, run: "ProposedRun", lines: "BenchmarkCommands") -> None:
    screen.show_text(f"\n{rank}. {run.phase.value} on {run.parallel.devices} {run.gpu}:")
    for node, line in enumerate(lines.serve, start=1):
        screen.show_text(f"# node {node} of {len(lines.serve)}\n{line}" if len(lines.serve) > 1 else line)
    screen.show_text(lines.load)
