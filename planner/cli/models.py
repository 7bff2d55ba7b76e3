"""`planner models`: the models at hand."""

from typing import Annotated

import typer

from planner.cli import screen


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped models; a scenario may also name any supported config.json."""
    from dataclasses import asdict

    from planner import files

    models = [files.load_model(name) for name in files.shipped_models()]
    if json:
        screen.show_json([asdict(model) for model in models])
        return
    columns = (
        "model",
        "parameters (10^9)",
        "weights GB",
        "layers",
        "experts",
        "active",
        "KV bytes/token",
        "context",
    )
    rows = [
        (
            m.name,
            round(m.parameters / 1e9, 1),
            round(m.weights_gb, 1),
            m.layers,
            m.experts.routed,
            m.experts.active,
            m.kv_bytes_per_token,
            m.max_context,
        )
        for m in models
    ]
    screen.show_table("Models", columns, rows)
