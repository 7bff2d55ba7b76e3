"""Which measured tables make which operation: file, columns that name a shape, columns that are sizes, sizes kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

Frame = pd.DataFrame
_M = (
    *(1, 2, 4, 8, 12, 16, 17, 32, 33, 48, 64, 65, 80, 96, 112, 128, 129, 160, 192, 224, 256, 257, 512, 513),
    *(768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 8192, 16384, 32768),
)
_CONTEXT = (2, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_ATTENTION = {"head_dim": "head_dim", "window": "window_size", "kv_dtype": "kv_cache_dtype"}
_HEADS = {"heads": "num_heads"}
_GROUPED = {"heads": "num_heads", "kv_heads": "num_key_value_heads"}
_EXPERTS = {"hidden": "hidden_size", "topk": "topk", "experts": "num_experts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One file name and what its rows say. `shape`, `sizes`: our names -> its columns. `fixed`: columns of ours with
    one value for the whole file. `prepare`: rows as they are counted, `latency` in ms; of rows alike the fastest
    counts, as engines choose it, and where `part` tells kernels apart that follow each other, the sum of all parts."""

    file: str
    shape: Mapping[str, str]
    sizes: Mapping[str, str]
    fixed: Mapping[str, str | int]
    prepare: Callable[[Frame], Frame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation of ours, from one table or several of the same columns. `sizes_kept`: sizes kept, by size."""

    name: str
    tables: tuple[Table, ...]
    sizes_kept: Mapping[str, tuple[int, ...]]
    monotone: tuple[str, ...]


def _as_is(rows: Frame) -> Frame:
    return rows


def _windowed(rows: Frame) -> Frame:
    """Older tables know no window: theirs is 0, which is none."""
    return rows.assign(window_size=rows.get("window_size", 0))


def _one_after_another(rows: Frame) -> Frame:
    """Kernels that follow each other, told apart by their name."""
    return rows.assign(part=rows["op_name"])


def _convolved(rows: Frame) -> Frame:
    """A convolution and then the fastest of the recurrences that an engine may choose."""
    rows = rows[rows["phase"].isin(["context", "generation"])]
    return rows.assign(part=rows["kernel_source"].str.contains("conv1d"))


def _from_start(rows: Frame) -> Frame:
    """Prompts without what was cached before them; layers that reuse another's index are no layer of their own."""
    rows = rows[rows["step"] == 0]
    return rows[~rows["kernel_source"].str.contains("skip_indexer")]


def _in_context(rows: Frame) -> Frame:
    """`context`: tokens that a new one attends to, itself among them; one above a power of two counts as that power,
    since some tables count from 0 and some from 1."""
    context = _windowed(rows)["step"] + rows["isl"]
    above = (context > 2) & (((context - 1) & (context - 2)) == 0)
    rows = _windowed(rows).assign(context=context - above)
    return rows[~rows["kernel_source"].str.contains("skip_indexer")]


def _graphed(rows: Frame) -> Frame:
    """`bytes` of a message of 16-bit elements, and whether the kernel was captured in a graph."""
    graph = rows["backend"].str.contains("graph") if "backend" in rows else pd.Series(True, rows.index)
    return rows.assign(bytes=2 * rows["message_size"], mode=graph.map({True: "graph", False: "eager"}))


def _collective(rows: Frame) -> Frame:
    return rows[rows["nccl_dtype"] == "half"].assign(bytes=2 * rows["message_size"])


def _in_ms(rows: Frame) -> Frame:
    """Dispatch or combine of one rank, whose times stand in microseconds."""
    mode = rows["comm_backend"].str.contains("_ll").map({True: "low_latency", False: "normal"})
    return rows.assign(latency=rows["latency"] / 1000, mode=mode)


def _deepep(mode: str) -> Callable[[Frame], Frame]:
    """DeepEP's own benchmark: dispatch and combine in one row, the fastest number of SMs counts; nodes of 8 GPUs."""
    parts = ("avg_t_us",) if mode == "low_latency" else ("transmit_us", "notify_us")

    def prepare(rows: Frame) -> Frame:
        rows = rows.assign(mode=mode, ep_size=8 * rows["node_num"])
        both = [
            rows.assign(phase=phase, latency=sum(rows[f"{phase}_{part}"] for part in parts) / 1000)
            for phase in ("dispatch", "combine")
        ]
        return pd.concat(both)

    return prepare


def _table(
    file: str,
    shape: Mapping[str, str],
    sizes: Mapping[str, str],
    prepare: Callable[[Frame], Frame] = _as_is,
    **fixed: Any,
) -> Table:
    return Table(file=file, shape=shape, sizes=sizes, fixed=fixed, prepare=prepare)


def _modules(phase: str, sizes: Mapping[str, str], prepare: Callable[[Frame], Frame]) -> tuple[Table, ...]:
    """Attention with its projections, by kind of layer."""
    files = {"mla": "mla", "dsa": "dsa", "csa": "dsv4_csa", "hca": "dsv4_hca", "msa": "msa"}
    shape = {"model": "model", "dtype": "gemm_type", "kv_dtype": "kv_cache_dtype", **_HEADS}
    return tuple(_table(f"{file}_{phase}_module", shape, sizes, prepare, kind=kind) for kind, file in files.items())


_PROMPTS = {"batch": "batch_size", "isl": "isl"}
_STEPS = {"batch": "batch_size", "context": "context"}
_A2A = {"mode": "mode", "phase": "phase", "ep": "ep_size", "hidden": "hidden_size", "experts": "num_experts"}
_LINEAR = {"phase": "phase", "heads": "num_v_heads", "key_heads": "num_k_heads", "head_dim": "head_v_dim"}
_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192, 16384)
_EXPERT_SHAPE = {
    **{"dtype": "moe_dtype", **_EXPERTS, "inter": "inter_size"},
    **{"moe_tp": "moe_tp_size", "moe_ep": "moe_ep_size", "distribution": "distribution"},
}


def _op(name: str, *tables: Table, monotone: tuple[str, ...], **sizes_kept: tuple[int, ...]) -> Operation:
    return Operation(name=name, tables=tables, sizes_kept=sizes_kept, monotone=monotone)


OPERATIONS = (
    _op(
        "gemm",
        _table("gemm", {"dtype": "gemm_dtype"}, {"m": "m", "n": "n", "k": "k"}),
        monotone=("m",),
        m=_M,
    ),
    _op(
        "context_attention",
        _table("context_attention", {**_ATTENTION, **_GROUPED}, _PROMPTS, _windowed),
        monotone=("batch", "isl"),
    ),
    _op(
        "generation_attention",
        _table("generation_attention", {**_ATTENTION, **_GROUPED}, _STEPS, _in_context),
        monotone=("batch", "context"),
        context=_CONTEXT,
    ),
    _op(
        "context_mla",
        _table("context_mla", {"kv_dtype": "kv_cache_dtype", **_HEADS}, _PROMPTS),
        monotone=("batch", "isl"),
    ),
    _op(
        "generation_mla",
        _table("generation_mla", {"kv_dtype": "kv_cache_dtype", **_HEADS}, _STEPS, _in_context),
        monotone=("batch", "context"),
        context=_CONTEXT,
    ),
    _op("context_module", *_modules("context", _PROMPTS, _from_start), monotone=("batch", "isl")),
    _op(
        "generation_module",
        *_modules("generation", _STEPS, _in_context),
        monotone=("batch", "context"),
        context=_CONTEXT,
    ),
    _op("moe", _table("moe", _EXPERT_SHAPE, {"tokens": "num_tokens"}), monotone=("tokens",), tokens=_TOKENS),
    _op(
        "linear_attention",
        _table("gdn", _LINEAR, {"batch": "batch_size", "length": "seq_len"}, _convolved, kind="gdn"),
        _table("kda", _LINEAR, {"batch": "batch_size", "length": "seq_len"}, _convolved, kind="kda"),
        monotone=("batch", "length"),
    ),
    _op(
        "mla_bmm",
        _table("mla_bmm", {"dtype": "bmm_dtype", **_HEADS}, {"tokens": "num_tokens"}, _one_after_another),
        monotone=("tokens",),
    ),
    _op(
        "hyper_connection",
        _table("mhc_module", {"hidden": "hidden_size"}, {"tokens": "num_tokens"}, _one_after_another),
        monotone=("tokens",),
    ),
    _op(
        "quantize",
        _table("computescale", {}, {"m": "m", "k": "k"}, work="scale"),
        _table("scale_matrix", {}, {"m": "m", "k": "k"}, work="apply"),
        monotone=("m", "k"),
        m=_M,
    ),
    _op(
        "all_reduce",
        _table("custom_allreduce", {"mode": "mode", "gpus": "num_gpus"}, {"bytes": "bytes"}, _graphed),
        monotone=("bytes",),
    ),
    _op(
        "collective",
        _table("nccl", {"collective": "op_name", "gpus": "num_gpus"}, {"bytes": "bytes"}, _collective),
        monotone=("bytes",),
    ),
    _op(
        "expert_exchange",
        _table("moe_a2a", {**_A2A, "topk": "topk"}, {"tokens": "num_tokens"}, _in_ms),
        _table("wideep_deepep_ll", {**_A2A, "topk": "num_topk"}, {"tokens": "num_token"}, _deepep("low_latency")),
        _table("wideep_deepep_normal", {**_A2A, "topk": "num_topk"}, {"tokens": "num_token"}, _deepep("normal")),
        monotone=("tokens",),
    ),
)
