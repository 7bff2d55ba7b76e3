"""`planner routers`: which routers can execute a plan, and what each makes of its promise."""

from itertools import compress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.cli.program.every_command import ANY_ENGINE

if TYPE_CHECKING:
    from planner.runs.replays.router_losses import RouterLoss

_COLUMNS = (
    "router",
    "targets",
    "tells lengths by",
    "chooses",
    "P99 TTFT",
    "within levels",
    "wrong bucket",
    "refused",
    "held",
    "promise if planned for it",
)


def command(
    run: saved_runs.Run,
    engine: Annotated[str, typer.Option(help=f"{ANY_ENGINE}. [default: the scenario's]", show_default=False)] = "",
    sweep: Annotated[
        bool, typer.Option("--sweep", help="With the highest rate at which each holds the levels; takes minutes.")
    ] = False,
    replan: Annotated[
        bool, typer.Option("--replan", help="With what a plan for each would promise: what another router is worth.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Replay a plan's promise under every router: which can execute it, and what each gives up."""
    from planner.runs.replays.router_losses import router_losses

    def listen(router: str) -> None:
        if not (quiet or json):
            screen.show_note(f"routers: {router}")

    plan = saved_runs.read_run(run)
    losses = router_losses(plan, engine=engine, sweep=sweep, replan=replan, progress=listen)
    if json:
        screen.show_json([_row(loss) for loss in losses])
        return
    shown = [True] * (len(_COLUMNS) - 2) + [sweep, replan]
    rows = [_cells(loss) for loss in losses if not loss.refusal]
    screen.show_table(
        f"Promise of {_rate(losses)} requests/s",
        tuple(compress(_COLUMNS, shown)),
        [tuple(compress(row, shown)) for row in rows],
    )
    for loss in losses:
        for note in loss.behaviour.notes if not loss.refusal else ():
            screen.show_prose(f"{loss.router}: {note}")
        if loss.refusal:
            screen.show_prose(f"{loss.router} cannot: {loss.refusal}")


def _rate(losses: "tuple[RouterLoss, ...]") -> str:
    routed = losses[0].routed
    return f"{routed.rate_rps:.1f}" if routed else "0"


def _cells(loss: "RouterLoss") -> tuple[str, ...]:
    routed = loss.routed
    assert routed is not None, "only routers that can do the plan are shown"
    ttft = routed.total.ttft_ms
    return (
        loss.router,
        ", ".join(loss.targets) or "-",
        loss.behaviour.measure.value,
        loss.chooses,
        f"{ttft.p99.mean / 1000:.2f} s" if ttft else "-",
        f"{routed.total.within_levels.mean:.1%}",
        f"{routed.misrouted:.1%}" if routed.misrouted else "none",
        f"{routed.refused:.2%}" if routed.refused else "none",
        f"{loss.held_rps:.1f}" if loss.held_rps else "none",
        f"{loss.planned_rps:.1f}" if loss.planned_rps else "none",
    )


def _row(loss: "RouterLoss") -> dict[str, Any]:
    routed = loss.routed
    ttft = routed.total.ttft_ms if routed else None
    return {
        "router": loss.router,
        "targets": list(loss.targets),
        "measure": loss.behaviour.measure.value,
        "chooses": loss.chooses,
        "notes": list(loss.behaviour.notes),
        "refusal": loss.refusal or None,
        "rate_rps": routed.rate_rps if routed else None,
        "ttft_p99_ms": ttft.p99.mean if ttft else None,
        "within_levels": routed.total.within_levels.mean if routed else None,
        "misrouted": routed.misrouted if routed else None,
        "refused": routed.refused if routed else None,
        "held_rps": loss.held_rps,
        "planned_rps": loss.planned_rps,
    }
