"""Tables of points written for a test."""

from collections.abc import Callable
from pathlib import Path

import pytest

PUBLISHED = {
    **{"gpu": "H200", "model": "llama-3.1-70b", "phase_or_metric": "throughput"},
    **{"tp": "2", "dp": "1", "ep": "1", "gpus": "2", "precision": "FP8", "batch": "", "isl": "1000", "osl": "1000"},
    **{"measured": "8000", "unit": "output tok/s of all GPUs", "source": "vLLM 0.10.0"},
}
SERVING = {
    **{"gpu": "H200", "engine": "dynamo-sglang", "model": "deepseek-r1", "precision": "fp8", "mtp": "False"},
    **{"disaggregated": "True", "isl": "1024", "osl": "2000", "concurrency": "512"},
    **{"prefill_tp": "8", "prefill_ep": "1", "prefill_dp_attention": "False", "prefill_workers": "2"},
    **{"prefill_gpus": "16", "decode_tp": "16", "decode_ep": "16", "decode_dp_attention": "True"},
    **{"decode_workers": "1", "decode_gpus": "16", "input_tokens_per_s_per_gpu": "900"},
    **{"output_tokens_per_s_per_gpu": "1200", "ttft_p50_ms": "800", "ttft_p99_ms": "2000", "tpot_p50_ms": "25"},
    **{"tpot_p99_ms": "30", "watts_per_gpu": "", "date": "2026-05-01"},
}


def csv_text(rows: list[dict[str, str]]) -> str:
    """A table of these rows."""
    lines = [",".join(rows[0]), *(",".join(f'"{cell}"' for cell in row.values()) for row in rows)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def published(tmp_path: Path) -> Callable[..., Path]:
    """A file of published points: each row as changed from a sound one."""

    def write(*changes: dict[str, str]) -> Path:
        path = tmp_path / "published.csv"
        path.write_text(csv_text([PUBLISHED | change for change in changes or ({},)]), encoding="utf-8")
        return path

    return write


@pytest.fixture
def serving(tmp_path: Path) -> Callable[..., Path]:
    """A file of runs under load: each row as changed from a sound one."""

    def write(*changes: dict[str, str]) -> Path:
        path = tmp_path / "serving.csv"
        path.write_text(csv_text([SERVING | change for change in changes or ({},)]), encoding="utf-8")
        return path

    return write
