"""`planner simulate preemption`: services scale up on a full cluster, as in the FlexTopo study."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import screen
from planner.cli.program.shared_options import seeds_of
from planner.domain import Qos, VictimMethod, VictimSettings
from planner.errors import InputError
from planner.studies.commands import (
    FIGURES_FOLDER,
    REPORT_FILE,
    SUMMARY_FILE,
    Figures,
    Force,
    Json,
    Quiet,
    runs_progress,
    study_files,
)
from planner.studies.preemption.records import InitialPlacement, NodePolicy, ScaleUpMode, ScaleUpSettings, VictimTie
from planner.studies.runner import RunsDone

if TYPE_CHECKING:
    from planner.studies.preemption.records import HitCount, Scenes, SourcingLatency
    from planner.studies.preemption.study import PreemptionStudy

BOTH = "both"
MODES = {mode.value: (mode,) for mode in ScaleUpMode} | {BOTH: tuple(ScaleUpMode)}
COUNTED = (VictimMethod.STANDARD, VictimMethod.IMP, VictimMethod.MASKS)


def command(
    nodes: Annotated[
        list[int] | None,
        typer.Option(min=1, max=100_000, help="Nodes of 8 GPUs; may be repeated. [default: 100]", show_default=False),
    ] = None,
    cycles: Annotated[int, typer.Option(min=1, max=100_000, help="Clusters of each seed.")] = 100,
    scale_ups: Annotated[int, typer.Option(min=1, max=100_000, help="Scale-ups in a cycle.")] = 50,
    workload: Annotated[str, typer.Option(help="Parts of B and C (table 3) among them.")] = "25:25",
    seed: Annotated[int | None, typer.Option(min=0, help="One seed; 0 if none is given.", show_default=False)] = None,
    seeds: Annotated[str | None, typer.Option(help="Several seeds: 0-4 or 1,5,42-44.", show_default=False)] = None,
    initial: Annotated[
        list[InitialPlacement] | None,
        typer.Option(
            help="How the cluster was filled; may be repeated. spread: emptiest node, lowest free GPU; saturated: "
            "then by preemption until all GPUs are held. [default: spread and saturated]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        list[VictimMethod] | None,
        typer.Option(help="Methods compared; may be repeated. Without it standard, imp and masks; timed are all."),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="independent: each scale-up finds the full cluster; sequential: what is left; both.")
    ] = BOTH,
    qos: Annotated[Qos, typer.Option(help="How firmly the newcomers' GPUs must be aligned.")] = Qos.GUARANTEED,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Weight of priorities against topology.")] = 0.5,
    tie: Annotated[
        VictimTie, typer.Option(help="standard: order of victims of one priority, by key or youngest first.")
    ] = VictimTie.KEY,
    node_policy: Annotated[
        NodePolicy, typer.Option(help="standard: first candidate of a random scan, or best of all nodes.")
    ] = NodePolicy.RANDOM,
    repetitions: Annotated[int, typer.Option(min=1, max=100_000, help="Searches of each kind that are timed.")] = 30,
    timed: Annotated[
        list[str] | None,
        typer.Option(help="Workload whose searches are timed: A, B, C or D; may be repeated. [default: B and C]"),
    ] = None,
    timed_mode: Annotated[
        ScaleUpMode,
        typer.Option(help="independent: timed on the full cluster; sequential: on what scale-ups before it left."),
    ] = ScaleUpMode.INDEPENDENT,
    paper_figures: Annotated[
        bool, typer.Option("--paper-figures", help="Also the paper's figures 8 to 10, with a table each.")
    ] = False,
    latency: Annotated[bool, typer.Option("--latency/--no-latency", help="Time the searches.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for hit_rates.csv, latency.csv, summary.md and figures.", show_default=False),
    ] = None,
    figures: Figures = True,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pods of services come to a full cluster and preempt: how often their GPUs share a socket, how long it takes."""
    from planner import files
    from planner.studies.preemption.records import SCALED_UP
    from planner.studies.preemption.study import PreemptionStudy, hit_counts, latencies, scenes

    if paper_figures and out is None:
        raise InputError("--paper-figures: needs --out, a folder for them, got none.", hint="Add --out DIR.")

    study = PreemptionStudy(
        sizes=tuple(nodes or (100,)),
        initials=tuple(initial or (InitialPlacement.SPREAD, InitialPlacement.SATURATED)),
        seeds=_seeds(seed, seeds),
        cycles=cycles,
        settings=ScaleUpSettings(
            counts=counts_of(workload, scale_ups),
            methods=_methods(method, COUNTED),
            modes=_modes(mode),
            qos=qos,
            victims=VictimSettings(alpha=alpha),
            node_policy=node_policy,
            tie=tie,
        ),
        timed=_methods(method, tuple(VictimMethod)),
        repetitions=repetitions if latency else 0,
        timed_workloads=tuple(timed or SCALED_UP),
        timed_mode=timed_mode,
    )
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, _names(), force=force)
    with _progress("cycles", study.steps, quiet=quiet) as listen:
        hits = list(hit_counts(study, listen=listen))
    with _progress("sizes timed", len(study.sizes) if latency else 0, quiet=quiet) as listen:
        times = list(latencies(study, listen=listen))
    if out is not None:
        rendered = _rendered(study, hits, times, scenes(study) if paper_figures else None, figures=figures)
        files.write_folder(out, rendered, force=force, kinds=_names())
    if json:
        screen.show_json(_document(study, hits, times))
    else:
        _show(study, hits, times, out)


def counts_of(parts: str, scale_ups: int) -> tuple[tuple[str, int], ...]:
    """Scale-ups of B and C: `25:25` of 50. InputError: other words, or nothing to share."""
    from planner.studies.preemption.records import SCALED_UP

    words = [word.strip() for word in parts.split(":")]
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 6]
    if len(words) != len(SCALED_UP) or len(numbers) != len(words) or not sum(numbers):
        raise InputError(
            f"--workload: must be two whole numbers, parts of B and C, not both 0, got {parts!r}.", hint="Write 25:25."
        )
    first = round(scale_ups * numbers[0] / sum(numbers))
    return tuple(zip(SCALED_UP, (first, scale_ups - first), strict=True))


def _methods(chosen: Sequence[VictimMethod] | None, default: tuple[VictimMethod, ...]) -> tuple[VictimMethod, ...]:
    return tuple(dict.fromkeys(chosen)) if chosen else default


def _modes(word: str) -> tuple[ScaleUpMode, ...]:
    if word not in MODES:
        raise InputError(f"--mode: must be one of {', '.join(MODES)}, got {word!r}.", hint="Choose one of them.")
    return MODES[word]


def _seeds(seed: int | None, seeds: str | None) -> tuple[int, ...]:
    if seed is not None and seeds is not None:
        raise InputError("--seeds: goes without --seed, got both.", hint="Drop one of the two.")
    return seeds_of(str(seed or 0) if seeds is None else seeds)


def _names() -> list[str]:
    """What a result may hold, figures as their folder."""
    from planner.studies.preemption.page import HIT_RATES_FILE, LATENCY_FILE, SCENE_FILES

    return [HIT_RATES_FILE, LATENCY_FILE, *SCENE_FILES, SUMMARY_FILE, REPORT_FILE, f"{FIGURES_FOLDER}/latency.png"]


def _rendered(
    study: "PreemptionStudy",
    hits: "Sequence[HitCount]",
    times: "Sequence[SourcingLatency]",
    shown: "Scenes | None",
    *,
    figures: bool,
) -> dict[str, bytes]:
    """Every file of the study by its path; `shown`: the paper's figures 8 to 10."""
    from planner.studies.preemption.page import (
        HIT_RATES_FILE,
        LATENCY_FILE,
        hit_rates_csv,
        latency_csv,
        preemption_page,
        scene_csvs,
    )
    from planner.studies.preemption.plots import preemption_figures, preemption_plots, scene_figures
    from planner.studies.preemption.study import left_out

    drawn = preemption_figures(hits, times) if figures else {}
    tables = {HIT_RATES_FILE: hit_rates_csv(hits)} | ({LATENCY_FILE: latency_csv(times)} if times else {})
    if shown is not None:
        tables |= scene_csvs(shown)
        drawn |= scene_figures(shown) if figures else {}
    notes = left_out(study)
    return study_files(
        tables,
        lambda titles: preemption_page(hits, times, study.settings, notes=notes, figures=titles),
        drawn,
        preemption_plots(hits, times),
    )


def _document(
    study: "PreemptionStudy", hits: "Sequence[HitCount]", times: "Sequence[SourcingLatency]"
) -> dict[str, Any]:
    """Both tables and the settings, as JSON holds them."""
    from planner.studies.preemption.page import HIT_COLUMNS, LATENCY_COLUMNS
    from planner.studies.preemption.study import left_out

    settings = study.settings
    return {
        "cycles": study.cycles,
        "scale_ups": dict(settings.counts),
        "qos": settings.qos.value,
        "alpha": settings.victims.alpha,
        "tie": settings.tie.value,
        "node_policy": settings.node_policy.value,
        "hit_rates": [{name: getattr(row, name) for name in HIT_COLUMNS} for row in hits],
        "latency": [{name: getattr(row, name) for name in LATENCY_COLUMNS} for row in times],
        "notes": list(left_out(study)),
    }


def _show(
    study: "PreemptionStudy", hits: "Sequence[HitCount]", times: "Sequence[SourcingLatency]", out: Path | None
) -> None:
    from planner.studies.preemption.page import (
        HIT_HEADER,
        INDEPENDENT_ONLY,
        LATENCY_HEADER,
        MEASURED,
        hit_rows,
        latency_rows,
    )
    from planner.studies.preemption.study import left_out

    screen.show_table("GPUs of newcomers inside one socket", HIT_HEADER, hit_rows(hits))
    if ScaleUpMode.INDEPENDENT in study.settings.modes:
        screen.show_prose(INDEPENDENT_ONLY)
    if times:
        screen.show_table("A search for victims over all nodes, CPU time", LATENCY_HEADER, latency_rows(times))
        screen.show_prose(MEASURED)
    for note in left_out(study):
        screen.show_prose(note)
    if out is not None:
        screen.show_prose(f"Written to {out}")


@contextmanager
def _progress(noun: str, total: int, *, quiet: bool) -> "Iterator[Callable[[int], None]]":
    """A bar on a terminal, ten lines elsewhere, nothing where `quiet`."""

    def line(step: "RunsDone[None]") -> None:
        if step.done * 10 // total > (step.done - 1) * 10 // total:
            screen.show_note(f"{step.done:.0f}/{total} {noun}")

    with runs_progress(noun, line, quiet=quiet or not total, counted=noun) as listen:
        yield lambda done: listen(RunsDone(done=done, total=total))
