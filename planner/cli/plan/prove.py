"""`planner prove`: a bounded load of a plan's own mix on what serves it, and whether it keeps its levels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE

if TYPE_CHECKING:
    from planner.runs.live.proving.records import Proof


def command(
    run: saved_runs.Run,
    url: Annotated[
        str, typer.Option(help="The router that serves the plan, as http://localhost:8000.", show_default=False)
    ],
    confirm: Annotated[
        str, typer.Option(help="The host of --url, said again, where it is another machine.", show_default=False)
    ] = "",
    model_name: Annotated[
        str, typer.Option(help="What the engines call the model. [default: as exported]", show_default=False)
    ] = "",
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="The endpoint's API key. [default: PLANNER_ENDPOINT_KEY, where it is set]", show_default=False
        ),
    ] = None,
    trace: saved_runs.Trace = None,
    rate: saved_runs.Rate = None,
    requests: Annotated[int, typer.Option(help="Requests at most, warm-up included; at most 20000.")] = 2000,
    minutes: Annotated[float, typer.Option(help="Of time at most, start and last answers included.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of arrivals and lengths.")] = 0,
    warm_up: Annotated[float, typer.Option(help="Share of the requests that does not count.")] = 0.1,
    bytes_per_token: Annotated[
        float | None,
        typer.Option(help="Of prompts' texts. [default: the scenario's deploy.bytes_per_token]", show_default=False),
    ] = None,
    router: Annotated[
        str,
        typer.Option(help="What the prediction routes by, as of `planner replay`. [default: the plan's]"),
    ] = "",
    program: Annotated[
        list[str] | None,
        typer.Option(
            help="aiperf=COMMAND: how the load generator starts. [default: the one of PATH]", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for prove.md, .csv, .json and calibration.yaml.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a proof that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Load what serves a plan with its own mix, within bounds: which levels hold, and what to calibrate."""
    from planner import files
    from planner.runs.live.proving import settings as proof_settings
    from planner.runs.live.proving.proving import PreparedProof
    from planner.runs.live.proving.writing import NAMES, proof_files
    from planner.runs.rehearsal.naming import read_generator
    from planner.runs.replays.replays import rate_of, trace_of

    plan = saved_runs.read_run(run)
    settings = proof_settings.ProofSettings(
        url=url,
        confirmed_host=confirm,
        model=model_name,
        router=router,
        rate_rps=rate_of(plan, rate),
        requests=requests,
        minutes=minutes,
        seed=seed,
        warm_up=warm_up,
        bytes_per_token=bytes_per_token,
        key=proof_settings.SECRET.word(key_file),
        programs=dict(read_generator(text) for text in program or ()),
    )
    proof_settings.check_proof(settings)
    if out is not None:  # fails before the load, not after it
        files.claim_folder(out, NAMES, force=force)
    prepared = PreparedProof(plan, trace_of(plan, trace, run), settings)
    ahead = f"{len(prepared.requests):,} requests, about {proof_settings.expected_s(prepared.requests):.0f} s"
    proof = prepared.run(screen.tenths("prove", ahead, quiet=quiet or json))
    if out is not None:
        files.write_folder(out, proof_files(proof), force=force, kinds=NAMES)
    _show(proof, out, as_json=json)
    if proof.holds is not True:
        raise typer.Exit(EXIT_INFEASIBLE if proof.holds is False else EXIT_BAD_INPUT)


def _show(proof: "Proof", out: Path | None, *, as_json: bool) -> None:
    from planner import report
    from planner.runs.live.proving.writing import proof_document, proof_page

    if as_json:
        screen.show_json({"folder": None if out is None else str(out), **proof_document(proof)})
        return
    screen.show_markdown(report.page_text(proof_page(proof)))
    if out is not None:
        screen.show_prose(f"Written to {out}")
