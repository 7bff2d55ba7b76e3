"""`planner cost explain`, `planner cost configurations`: what a step costs, and which configurations compete."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options
from planner.domain import CostMode, Phase
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.domain import CostSettings, PartOfStep, StepExplanation


class KernelEngine(StrEnum):
    """Engines with measured kernels."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRT = "trt"


def command(
    gpu: Annotated[str, typer.Option(help="GPU type.")],
    model: cost_options.Model,
    phase: Annotated[Phase, typer.Option(help="prefill, decode, or mixed: decode with a chunk of prompts.")],
    tp: Annotated[int, typer.Option(help="GPUs of an attention group.")],
    devices: Annotated[int, typer.Option(help="GPUs of a stage: tp x dp.")],
    length: Annotated[int, typer.Option(help="Tokens of a prompt, or in the cache of a sequence.")],
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    batch: Annotated[
        int | None, typer.Option(help="Prompts a rank, or sequences a group. [default: the most that fit]")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(help="Prompt tokens that a rank takes in with a mixed pass. [default: a prompt]")
    ] = None,
    prompt: Annotated[
        int | None, typer.Option(help="Tokens of the prompts that the chunk is cut from. [default: --length]")
    ] = None,
    two_micro_batches: Annotated[
        bool, typer.Option(help="Computation hides communication, but in a mixed pass.")
    ] = True,
    kv_cache_rate: Annotated[float, typer.Option(help="Share of a prompt in the prefix cache.")] = 0.0,
    engine: Annotated[
        KernelEngine | None, typer.Option(help="Whose measured kernels count. [default: formulas alone]")
    ] = None,
    calibration: cost_options.Calibration = None,
    figure: cost_options.FigureFile = None,
    force: cost_options.Force = False,
    json: cost_options.Json = False,
) -> None:
    """What one step costs, part by part, and what bounds it."""
    from dataclasses import asdict, replace

    from planner import cost, files, report

    settings = replace(
        cost_options.settings(calibration),
        two_micro_batches=two_micro_batches,
        kv_cache_rate=cost_options.share(kv_cache_rate, "--kv-cache-rate"),
        engine=engine or "",
    )
    if phase is Phase.DECODE and kv_cache_rate:
        raise InputError("--kv-cache-rate: belongs to prefill, got decode.", hint="Leave it out.")
    for flag, count in (("--batch", batch), ("--chunk", chunk), ("--prompt", prompt)):
        if count is not None:
            cost_options.at_least_one(count, flag)
    shape, degrees = files.load_model(model), {"tp": tp, "devices": devices}
    if phase is Phase.MIXED:
        _require_mixed(pp, length, chunk, settings)
        explained = cost.explain_mixed(
            gpu, shape, **degrees, length=length, chunk=chunk, prompt=prompt, batch=batch, settings=settings
        )
    else:
        _refuse_mixed(phase, chunk, prompt)
        explained = cost.explain(gpu, shape, phase, **degrees, pp=pp, length=length, batch=batch, settings=settings)
    if calibration is not None:
        _warn_of_others(settings, calibration, cost.place(explained.gpu, cost.known_as(shape), settings.engine))
    cost_options.draw(figure, lambda: report.roofline_figure([explained]), force=force)
    if json:
        screen.show_json(asdict(explained))
    else:
        _show(explained)


def _warn_of_others(settings: "CostSettings", file: Path, here: str) -> None:
    """Paces are those of one place each: a calibration of another engine or model moves nothing here."""
    factors = settings.calibration.factors if settings.calibration else ()
    paces = [factor.family for factor in factors if factor.name.startswith("pace_")]
    if paces and here not in paces:
        screen.show_warning(f"{file} tells nothing of {here}, but of {', '.join(dict.fromkeys(paces))}: see --engine.")


def _require_mixed(pp: int, length: int, chunk: int | None, settings: "CostSettings") -> None:
    """What a mixed pass cannot have, by its flag."""
    if pp != 1:
        raise InputError(f"--pp: must be 1 in a mixed pass, got {pp}.", hint="Leave it out.")
    cost_options.at_least_one(length, "--length")
    budget = settings.max_tokens_per_step
    if chunk is not None and chunk > budget:
        raise InputError(f"--chunk: must be at most {budget}, the budget of a step, got {chunk}.", hint="Lower it.")


def _refuse_mixed(phase: Phase, chunk: int | None, prompt: int | None) -> None:
    """Flags of a mixed pass beside another one."""
    for flag, count in (("--chunk", chunk), ("--prompt", prompt)):
        if count is not None:
            raise InputError(f"{flag}: belongs to mixed, got {phase}.", hint="Leave it out, or give --phase mixed.")


def _show(e: "StepExplanation") -> None:
    parts, all_ms = sorted(e.parts, key=lambda part: -part.ms), e.step_ms + e.hidden_ms
    if e.hidden_ms:
        parts.append(_hidden(e))
    beside: dict[str, Callable[[PartOfStep], float | str]] = {
        "by": lambda p: p.basis,
        "formula": lambda p: p.formula_ms,
    }
    columns: dict[str, Callable[[PartOfStep], float | str]] = {
        "part": lambda p: p.name,
        "time": lambda p: p.ms,
        **(beside if any(part.measured_ms is not None for part in parts) else {}),
        "limit": lambda p: p.limit_ms,
        "share": lambda p: f"{p.ms / all_ms:.0%}",
        "compute": lambda p: p.compute_ms,
        "memory": lambda p: p.memory_ms,
        "network": lambda p: p.network_ms,
        "latency": lambda p: p.latency_ms,
        "bound by": lambda p: p.bound,
    }
    rows = [tuple(of(part) for of in columns.values()) for part in parts]
    c = e.parallel
    degrees = f"tp {c.tp}, dp {c.dp}" + (f", pp {c.pp}" if c.pp > 1 else "")
    chunk = f", chunk {e.chunk} of prompts of {e.prompt}" if e.chunk else ""
    title = f"{e.model} on {c.devices} {e.gpu} ({degrees}): {e.phase}, {e.length} tokens, batch {e.batch}{chunk} (ms)"
    screen.show_table(title, tuple(columns), rows)
    time = _TIMES[e.phase]
    share = e.tokens_per_s_per_gpu / e.roofline_tokens_per_s_per_gpu
    lines = (
        f"{time}: {e.total_ms:,.2f} ms; {_rate(e)}, {share:.0%} of the roofline; bound by {e.bound}",
        f"limit: the least that the data sheet leaves a part; the roofline, a step: {share * e.total_ms:,.2f} ms",
        f"memory per GPU: {e.weights_gb:.1f} GB of weights, {e.cache_gb:.1f} GB of KV cache, of {e.usable_gb:.1f} GB",
        f"origin of the estimate: {e.origin} ({e.origin_source}); rates of the GPU: data sheet",
    )
    if e.waiting > 1:
        waited_ms = e.waiting * e.step_ms
        screen.show_prose(f"attention ranks wait for the fullest: {e.step_ms:,.2f} ms become {waited_ms:,.2f} ms")
    if e.pace != 1:
        screen.show_prose(f"runs of this kind are {e.pace:.2f} times as fast as their parts add up to")
    for line in lines:
        screen.show_prose(line)
    if e.phase is Phase.PREFILL:
        screen.show_prose(_pool(e))


def _hidden(e: "StepExplanation") -> "PartOfStep":
    """What computation hides of the communication, as a part that takes less than nothing."""
    from planner.domain import PartOfStep

    none = dict.fromkeys(
        ("formula_ms", "limit_ms", "compute_ms", "memory_ms", "network_ms", "latency_ms", "flops", "bytes"), 0.0
    )
    return PartOfStep(name="hidden behind computation", ms=-e.hidden_ms, bound="", basis="", **none)


_TIMES = {
    "prefill": "time to take the prompts in",
    "decode": "time per output token",
    "mixed": "time of the pass, prompts and sequences together",
}


def _pool(e: "StepExplanation") -> str:
    """What is left of the pace of single steps in a pool behind a router."""
    share = next(factor.value for factor in e.factors if factor.name == "prefill_pool")
    pooled = share * e.tokens_per_s_per_gpu
    share_kept = f"a prefill pool behind a router keeps {share:.0%} of that pace"
    return f"{share_kept}, as plans count it: {pooled:,.0f} tokens/s per GPU"


def _rate(e: "StepExplanation") -> str:
    """Throughput, with its band and where that comes from."""
    from planner.report.kit.quantities import banded_by

    if e.band is None:
        return f"{e.tokens_per_s_per_gpu:,.0f} tokens/s per GPU"
    banded = banded_by(e.tokens_per_s_per_gpu, e.band)
    return f"about {banded.figure} tokens/s per GPU ({banded.range}: {e.band.basis})"


LENGTHS = "128,256,512,1024,2048,4096,8192"


def configurations(
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
