"""Runs of deployments under load from CSV: one closed loop a row, prefill and decode on the same GPUs or apart.

Lengths: `isl` and `osl` are the longest of a run; requests have 0.8 to 1.0 of them, evenly, 0.9 on average, which is
what a run's `input_tokens` and `output_tokens` hold.

Degrees: a worker has `*_gpus` / `*_workers` GPUs (of one worker, where 0 are told). With `*_dp_attention` each is an
attention group of its own (tp 1), without it all are one group. Sources write `*_tp` in three ways: all GPUs of the
worker; the GPUs beside `*_ep` (tp 1, ep 8 on eight); or 1 with ep 1 on several GPUs, which says nothing: then experts
are taken as spread over the worker, as such deployments do. An aggregated row is one worker of `decode_tp` GPUs.
Where degrees and workers do not make up the GPUs, the pool is read with 0 workers, and `names` says why the run cannot
be predicted: so are disaggregated rows without workers, which tell the GPUs of both phases together.
"""

from dataclasses import replace
from pathlib import Path

from planner.domain import BenchmarkRun, Load, Metric, Pool, Precision
from planner.errors import InputError
from planner.files.benchmarks.published_points import PointRow, excess_in_flight, read_points

_POOL_COLUMNS = ("tp", "ep", "dp_attention", "workers", "gpus")
_RATES = {"input_tokens_per_s_per_gpu": Metric.INPUT_RATE, "output_tokens_per_s_per_gpu": Metric.OUTPUT_RATE}
_TIMES = {"ttft": Metric.TTFT, "tpot": Metric.TPOT}
SERVING_COLUMNS = (
    *("gpu", "engine", "model", "precision", "mtp", "disaggregated", "isl", "osl", "concurrency"),
    *(f"{phase}_{column}" for phase in ("prefill", "decode") for column in _POOL_COLUMNS),
    *_RATES,
    *("ttft_p50_ms", "tpot_p50_ms"),
)
MEAN_OF_LONGEST = 0.9
MTP_TOKENS = 3  # drafted a step where a row says mtp: what InferenceX' recipes for DeepSeek-R1 set
_MLA_FAMILIES = ("deepseek", "kimi")  # their FP4 checkpoints keep attention in 8 bits


def read_serving_points(path: Path) -> tuple[BenchmarkRun, ...]:
    """The runs of a file. InputError names file, rows, columns and rules."""
    return read_points(path, SERVING_COLUMNS, _run)


def _run(row: PointRow) -> BenchmarkRun:
    prefill, decode = _pools(row)
    run = BenchmarkRun(
        row=row.place,
        gpu=row.name("gpu"),
        model=row.name("model"),
        load=Load.CLOSED_LOOP,
        prefill=prefill,
        decode=decode,
        input_tokens=row.count("isl") * MEAN_OF_LONGEST,
        output_tokens=row.count("osl") * MEAN_OF_LONGEST,
        measured=_measured(row),
        concurrency=row.positive("concurrency"),
        engine=row.text("engine"),
        precision=_precision(row),
        year=row.year("date"),
        file=str(row.path),
        source=row.text("source"),
    )
    if excess := excess_in_flight(run):
        raise InputError(
            f"{row.path}: row {row.place}: {excess}", hint="Check the rate, tpot_p50_ms (ms) and concurrency."
        )
    return run


def _precision(row: PointRow) -> Precision:
    """Bytes of the weights' format; `fp4` of a model with latent attention is that of its experts."""
    text = row.text("precision")
    in_parts = text.lower().endswith("fp4") and row.text("model").lower().startswith(_MLA_FAMILIES)
    precision = row.precision("precision", f"{text} experts" if in_parts else text)
    return replace(precision, mtp_tokens=MTP_TOKENS) if row.flag("mtp") else precision


def _pools(row: PointRow) -> tuple[Pool | None, Pool]:
    """The pools of prefill and decode; in an aggregated row there is one, told twice."""
    if not row.flag("disaggregated"):
        for column in _POOL_COLUMNS:
            if row.text(f"prefill_{column}") != row.text(f"decode_{column}"):
                raise row.fault(f"prefill_{column}", f"must be as decode_{column} in a row that is not disaggregated")
        return None, _aggregated_pool(row)
    if row.text("prefill_workers") == row.text("decode_workers") == "0":
        return _untold_pool(row, "prefill"), _untold_pool(row, "decode")
    return _pool(row, "prefill"), _pool(row, "decode")


def _aggregated_pool(row: PointRow) -> Pool:
    """One worker. Sources count its GPUs as tp, or as tp x ep; its rates are per tp GPUs."""
    tp, ep = row.count("decode_tp"), row.count("decode_ep")
    row.count("decode_gpus")
    dp = tp if row.flag("decode_dp_attention") else 1
    return Pool(tp=tp // dp, dp=dp, ep=ep, workers=0 if tp % ep else 1)


def _pool(row: PointRow, phase: str) -> Pool:
    tp, ep, gpus = (row.count(f"{phase}_{column}") for column in ("tp", "ep", "gpus"))
    workers = row.whole(f"{phase}_workers") or 1
    worker_gpus = gpus // workers
    unstated = tp == ep == 1
    if gpus % workers or worker_gpus % ep or not (unstated or worker_gpus in (tp, tp * ep)):
        return _untold_pool(row, phase)
    dp = worker_gpus if row.flag(f"{phase}_dp_attention") else 1
    return Pool(tp=worker_gpus // dp, dp=dp, ep=worker_gpus if unstated else ep, workers=workers)


def _untold_pool(row: PointRow, phase: str) -> Pool:
    """The degrees as they stand, and no workers: they do not make up the pool's GPUs."""
    row.count(f"{phase}_gpus")
    row.flag(f"{phase}_dp_attention")
    return Pool(tp=row.count(f"{phase}_tp"), ep=row.count(f"{phase}_ep"), workers=0)


def _measured(row: PointRow) -> tuple[tuple[Metric, float], ...]:
    """What cells give; a rate at least."""
    rates = [(metric, row.positive(column)) for column, metric in _RATES.items() if row.text(column)]
    if not rates:
        raise row.fault("output_tokens_per_s_per_gpu", "or input_tokens_per_s_per_gpu must be given")
    times = [(metric, row.positive(f"{name}_p50_ms")) for name, metric in _TIMES.items() if row.text(f"{name}_p50_ms")]
    for name, metric in _TIMES.items():
        highest = row.positive_or_none(f"{name}_p99_ms")
        if highest is not None and highest < dict(times).get(metric, 0):
            raise row.fault(f"{name}_p99_ms", f"must be at least {name}_p50_ms")
    return (*rates, *times)
