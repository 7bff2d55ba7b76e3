"""Shallowsim's own outputs, and the columns' names here."""

from io import StringIO

import pandas as pd
from reference_data import reference_text

PREFILL_COLUMNS = {
    "mla_ms": "dense_attention_ms",
    "tp_mla_ms": "attention_ms",
    "dense_mlp_ms": "dense_ms",
    "shared_ms": "shared_ms",
    "routed_ms": "routed_ms",
    "combine_ms": "combine_ms",
    "dispatch_ms": "dispatch_ms",
    "compute_ms": "compute_ms",
    "comm_ms": "comm_ms",
    "total_ms": "total_ms",
}
DECODE_COLUMNS = {
    "dense_mla_ms": "dense_attention_ms",
    "sparse_mla_ms": "attention_ms",
    "dense_mlp_ms": "dense_ms",
    "shared_ms": "shared_ms",
    "routed_ms": "routed_ms",
    "combine_ms": "combine_ms",
    "dispatch_ms": "dispatch_ms",
    "tpot_ms": "total_ms",
    "tpot_overlapped_ms": "overlapped_ms",
}


def read(table: str) -> pd.DataFrame:
    """One table: prefill, decode or max_batch."""
    return pd.read_csv(StringIO(reference_text(f"shallowsim/shallowsim_{table}.csv")))
