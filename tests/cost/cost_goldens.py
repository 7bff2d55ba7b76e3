"""Shallowsim's own outputs: where the full tables are, the rows kept in the tree, and the columns' names here.

Run this file to write the kept rows again: `python tests/cost/cost_goldens.py` (needs the shared folder).
"""

from pathlib import Path

import pandas as pd

KEPT = Path(__file__).parent / "goldens"
SHARED = Path(__file__).parents[3] / "shared" / "goldens"
TABLES = ("prefill", "decode", "max_batch")
ROWS_A_GPU = {"prefill": 2, "decode": 2, "max_batch": 1}

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


def read(folder: Path, table: str) -> pd.DataFrame:
    """One table of a folder."""
    return pd.read_csv(folder / f"shallowsim_{table}.csv")


def pick(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """`count` rows of each GPU, at places that differ from GPU to GPU so that all degrees and lengths come up."""
    chosen: list[int] = []
    for number, (_, group) in enumerate(rows.groupby("gpu", sort=False)):
        chosen += [int(group.index[(37 * number + 101 * k + 53) % len(group)]) for k in range(count)]
    return rows.loc[sorted(chosen)]


def main() -> None:
    """Write the kept rows."""
    KEPT.mkdir(exist_ok=True)
    for table in TABLES:
        kept = pick(read(SHARED, table), ROWS_A_GPU[table])
        kept.to_csv(KEPT / f"shallowsim_{table}.csv", index=False, float_format="%.12g")


if __name__ == "__main__":
    main()
