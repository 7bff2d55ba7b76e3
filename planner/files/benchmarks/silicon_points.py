"""Serving points as aiconfigurator-core lists them (`systems/silicon_sample.csv`): a closed loop a row, in any mode.

The rate follows from Little's law: `silicon_concurrency` requests over TTFT plus answer x TPOT. Rows that come from
InferenceX (`db-dump`, or a dated `source_file`) tell the longest lengths, as those of `serving_points.py`.
Their degrees came through several conversions. What decides is rows of one measurement or configuration (held in
tests/files/benchmarks/test_silicon_points.py):

- `batch_size` times `attention_dp_size`, as both are written, is the concurrency.
- tp 64 or dp 64 with experts 8 x 8 is tp 8 or dp 8 with ep 8 in another export: the square of the GPUs.
- tp 4, dp 4, ep 16 is as fast as tp 4, ep 4, at every concurrency: it is that, without attention groups.
- Where `attention_dp_size` is empty, experts on more GPUs than tp say it.

Drafts: InferenceX measures DeepSeek with and without, which rows do not tell. Against our own rows of it, those of the
database are all without; in exports drafts were on on three days of TensorRT-LLM, on two of SGLang they may have been.

What nothing can be concluded from has a `doubt`, as has every further copy of a measurement.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from pathlib import Path

from planner.domain import BenchmarkRun, Load, Metric, Pool, Precision
from planner.files.benchmarks.conditions import plain_model_name
from planner.files.benchmarks.published_points import PointRow, read_points
from planner.files.benchmarks.serving_points import MEAN_OF_LONGEST, MTP_TOKENS
from planner.units import MS_PER_S

_POOL = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
SILICON_COLUMNS = (
    *("silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode", "isl", "osl"),
    *("batch_size", "pp_size", *_POOL, *(f"{side}_{column}" for side in ("prefill", "decode") for column in _POOL)),
    *("prefill_num_workers", "decode_num_workers", "silicon_ttft_ms", "silicon_tpot_ms"),
)
_GPUS: Mapping[str, str] = {
    **{"b200_sxm": "DGX-B200", "b300_sxm": "DGX-B300", "h100_sxm": "H100", "h200_sxm": "H200"},
    **{"gb200": "GB200-NVL72", "gb300": "GB300-NVL72", "a100_sxm": "A100", "l40s": "L40S"},
}
# bytes of weights, of experts, of the cache
_BYTES: Mapping[str, tuple[float, float, float]] = {
    "fp8": (1.0, 1.0, 1.0),
    "fp4": (2.0, 0.5625, 1.0),  # NVIDIA's checkpoints of MoE models keep attention in 16 bits (exclude_modules)
    "int4": (2.0, 0.5625, 2.0),
    "bf16": (2.0, 2.0, 2.0),
}
_FP4_OF = {  # what others have
    "deepseek": (1.0, 0.5625, 1.0),  # as `serving_points.py`
    "gpt-oss": (2.0, 0.53125, 1.0),
    "llama": (0.5625, 0.5625, 1.0),
    "qwen3-32b": (0.5625, 0.5625, 1.0),
}
_DRAFTING_DAYS = {("trtllm", "2026-01-14"), ("trtllm", "2026-02-05"), ("trtllm", "2026-02-06")}
_MIXED_DAYS = {
    ("deepseek-r1", "sglang", "b200_sxm", "fp8", "2026-03-25"),
    ("qwen3.5-397b-a17b", "sglang", "b300_sxm", "fp8", "2026-04-03"),
}


def read_silicon_points(path: Path) -> tuple[BenchmarkRun, ...]:
    """The runs of a file, packed or not. InputError names file, rows, columns and rules."""
    return _once(read_points(path, SILICON_COLUMNS, _run))


def _once(runs: tuple[BenchmarkRun, ...]) -> tuple[BenchmarkRun, ...]:
    """Copies of a measurement are in doubt: all but the first of those that can be used."""
    first: dict[tuple[object, ...], int] = {}
    for run in runs:
        if not run.doubt:
            first.setdefault(_measurement(run), run.row)
    rows = [first.get(_measurement(run), run.row) for run in runs]
    return tuple(
        run if row == run.row or run.doubt else replace(run, doubt=f"it is the measurement of row {row}.")
        for run, row in zip(runs, rows, strict=True)
    )


def _measurement(run: BenchmarkRun) -> tuple[object, ...]:
    """What copies have in common; some were rounded."""
    measured = dict(run.measured)
    lengths = (run.input_tokens, run.output_tokens, run.concurrency)
    return (run.gpu, run.engine, *lengths, round(measured[Metric.TTFT], 1), round(measured[Metric.TPOT], 2))


def _run(row: PointRow) -> BenchmarkRun:
    split = row.name("mode") != "agg"
    prefill, decode = (_pool(row, "prefill_"), _pool(row, "decode_")) if split else (None, _pool(row, ""))
    of_longest = MEAN_OF_LONGEST if _of_inferencex(row) else 1.0
    prompt, answer = row.count("isl") * of_longest, row.count("osl") * of_longest
    concurrency = _concurrency(row) or row.positive_or_none("batch_size") or 1.0
    ttft, tpot = row.positive("silicon_ttft_ms"), row.positive("silicon_tpot_ms")
    requests_per_s = concurrency / (ttft + answer * tpot) * MS_PER_S
    rates = [(Metric.OUTPUT_RATE, requests_per_s * answer / max(decode.gpus, 1))]
    if prefill is not None:
        rates.append((Metric.INPUT_RATE, requests_per_s * prompt / max(prefill.gpus, 1)))
    day = _word(row, "measured", r"20\d\d-\d\d-\d\d")
    return BenchmarkRun(
        row=row.place,
        gpu=_GPUS.get(row.name("system"), row.name("system")),
        model=_model(row),
        load=Load.CLOSED_LOOP,
        prefill=prefill,
        decode=decode,
        input_tokens=prompt,
        output_tokens=answer,
        measured=(*rates, (Metric.TTFT, ttft), (Metric.TPOT, tpot)),
        concurrency=concurrency,
        engine=row.name("backend"),
        engine_version=row.text("backend_version"),
        precision=_precision(row, day),
        year=int(day[:4]) if day else None,
        file=str(row.path),
        doubt=_doubt(row, day, decode),
    )


def _word(row: PointRow, name: str, form: str) -> str:
    """One of the `name=value` words of a row's source; empty where there is none of that form."""
    word = re.search(rf"\b{name}=({form})(?!\d)", row.text("silicon_data_source"))
    return word[1] if word else ""


def _of_inferencex(row: PointRow) -> bool:
    return _of_database(row) or bool(re.match(r"source_file=20\d\d-", row.text("silicon_data_source")))


def _of_database(row: PointRow) -> bool:
    return row.text("silicon_data_source").startswith("db-dump")


def _concurrency(row: PointRow) -> float | None:
    return float(_word(row, "silicon_concurrency", r"[1-9]\d{0,8}") or 0) or None


def _model(row: PointRow) -> str:
    name = plain_model_name(row.name("model_path"))
    # The 4-bit integers of the first checkpoint are unpacked, which a format of bytes alone does not say.
    return f"{name}-nvfp4" if name.startswith("kimi") and row.text("precision") == "fp4" else name


def _precision(row: PointRow, day: str) -> Precision:
    text, name = row.text("precision") or "bf16", _model(row)
    if text not in _BYTES:
        raise row.fault("precision", f"must be one of {', '.join(_BYTES)}, or empty")
    fp4 = text == "fp4" or name.startswith("gpt-oss")  # which has one format, whatever a row says
    sizes = next((own for start, own in _FP4_OF.items() if fp4 and name.startswith(start)), _BYTES[text])
    drafted = MTP_TOKENS if name.startswith("deepseek") and _drafting(row, day) else 0
    return Precision(weight_bytes=sizes[0], expert_bytes=sizes[1], kv_bytes=sizes[2], mtp_tokens=drafted, text=text)


def _drafting(row: PointRow, day: str) -> bool:
    return not _of_database(row) and (row.text("backend"), day) in _DRAFTING_DAYS


def _pool(row: PointRow, side: str) -> Pool:
    """Equal workers; 0 where a split row does not say how many."""
    tp = row.count(f"{side}tp_size")
    dp, moe_tp, moe_ep = (row.whole(f"{side}{column}", default=0) or 1 for column in _POOL[1:])
    gpus = tp * dp
    n = isqrt(gpus)
    squared = n > 1 and n * n == gpus and (moe_tp == moe_ep == n or tp == dp == n)
    if squared and _of_inferencex(row):
        tp, dp, moe_ep = (1, n, n) if tp == 1 else (n, 1, n)
    elif moe_tp * moe_ep > gpus:
        dp = moe_tp * moe_ep // tp
    return Pool(tp=tp, dp=dp, ep=moe_ep, workers=row.whole(f"{side}num_workers", default=0) if side else 1)


def _doubt(row: PointRow, day: str, decode: Pool) -> str:
    """Why nothing may be concluded from a row; empty where nothing speaks against it."""
    is_split, concurrency = row.text("mode") != "agg", _concurrency(row)
    in_batches = (row.positive_or_none("batch_size") or concurrency or 0.0) * (
        row.whole("attention_dp_size", default=1) or 1
    )
    doubts = {
        "it does not tell how many workers its pools have.": not decode.workers,
        "it does not tell its concurrency.": concurrency is None,
        "its batch size and concurrency do not agree.": not is_split and concurrency != in_batches,
        "its degrees look like those of a pool of split serving.": not is_split and row.text("system").startswith("gb"),
        "its pipeline stages are not predicted.": row.whole("pp_size", default=1) > 1,
        "it does not tell whether drafts were on.": _drafts_are_untold(row, day),
    }
    return next((doubt for doubt, holds in doubts.items() if holds), "")


def _drafts_are_untold(row: PointRow, day: str) -> bool:
    if not _of_inferencex(row):
        return _model(row).startswith("deepseek")
    where = (_model(row), row.text("backend"), row.text("system"), row.text("precision"), day)
    return where in _MIXED_DAYS and not _of_database(row)
