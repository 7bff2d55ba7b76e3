"""`planner workload summarize`: a trace becomes a workload."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.domain import PrefixReuse

group = typer.Typer(help="Workloads from traces.", no_args_is_help=True)


@group.callback()
def _group() -> None:
    """Workloads from traces."""


@group.command("summarize")
def summarize_trace(
    trace: Annotated[Path, typer.Argument(help="CSV or JSON lines with arrival time, input and output tokens.")],
    out: Annotated[Path | None, typer.Option(help="Workload file. [default: NAME.yaml beside the trace]")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the workload. [default: the trace's]")] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Names of the three columns, separated by commas, where they are unusual."),
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(help="What numbers in the column of times count, where it does not tell: s, ms, us, ns."),
    ] = None,
    block_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of each block that hash_ids of JSON lines have an id for.")
    ] = 512,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Summarise a trace as a length profile that any scenario can name."""
    from dataclasses import replace

    from planner import files
    from planner.workload import summarize

    profile = summarize(files.read_trace(trace, _columns(columns), _unit(time_unit), block_tokens))
    if name is not None:
        profile = replace(profile, name=name)
    path = out or files.workload_path(trace.parent, profile.name)
    files.write_workload(profile, path, force)
    facts = {
        "workload": profile.name,
        "file": str(path),
        "requests": profile.requests,
        "mean_input_tokens": profile.mean_input_tokens,
        "mean_output_tokens": profile.mean_output_tokens,
        "max_output_tokens": profile.max_output_tokens,
        "arrival_rps": profile.arrival_rps,
        "burstiness": profile.burstiness,
        "clock": profile.clock or "ISO 8601",
        **_cached(profile.prefix),
    }
    if json:
        screen.show_json(facts)
    else:
        screen.show_table("Workload", ("what", "value"), [(k, str(v)) for k, v in facts.items()])


def _cached(prefix: PrefixReuse | None) -> dict[str, float]:
    """Shares of all prompt tokens that one prefix cache of so many tokens would have found; nothing without hashes."""
    if prefix is None:
        return {}
    sizes = [*(f"{tokens}_tokens" for tokens in prefix.cache_tokens), "without_bounds"]
    return {f"cached_at_{size}": round(share, 4) for size, share in zip(sizes, prefix.mean_shares, strict=True)}


def _unit(text: str | None) -> str | None:
    from planner.errors import InputError

    units = ("s", "ms", "us", "ns")
    if text is not None and text not in units:
        raise InputError(
            f"--time-unit: must be one of {', '.join(units)}, got {text!r}.",
            hint="Give what the numbers in the column of times count.",
        )
    return text


def _columns(text: str | None) -> dict[str, str] | None:
    from planner.errors import InputError

    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(","))
    if len(names) != 3 or not all(names):
        raise InputError(
            f"--columns: must be three names (arrival time, input tokens, output tokens), got {text!r}.",
            hint="For example --columns TIMESTAMP,ContextTokens,GeneratedTokens.",
        )
    return dict(zip(("arrival_s", "input_tokens", "output_tokens"), names, strict=True))
