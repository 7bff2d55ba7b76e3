"""Operations measured on a GPU: what they are and how they are compared; where there is a GPU, their times."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import measure_operations
import numpy as np
import pytest
from measure_operations import Operation, built, compared, operations, table, visited

from planner.files import load_gpu_spec

SMALL = {
    "gemm": Operation(kind="gemm", rows=3, columns=8, depth=16),
    "experts": Operation(kind="experts", rows=1, model="qwen3-30b-a3b"),
    "attention": Operation(kind="attention", rows=2, depth=5),
    "copy": Operation(kind="copy", rows=64),
}
H200 = load_gpu_spec("H200")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Measured kernels that say what they were asked; those of experts have no answer."""

    asked: list

    def gemm(self, *sizes: object) -> SimpleNamespace:
        self.asked.append(sizes)
        return SimpleNamespace(ms=np.float64(2.0), basis=np.int8(1))

    def moe(self, *sizes: object) -> SimpleNamespace:
        self.asked.append(sizes)
        return SimpleNamespace(ms=np.float64(np.nan), basis=np.int8(3))

    def generation_attention(self, *sizes: object) -> SimpleNamespace:
        self.asked.append(sizes)
        return SimpleNamespace(ms=np.float64(4.0), basis=np.int8(0))


def test_all_kinds_are_measured_and_fp8_only_where_there_is_any() -> None:
    listed = operations(fp8=True)
    assert {o.kind for o in listed} == {"gemm", "experts", "attention", "copy"}
    assert [o for o in listed if o.format != "fp8"] == operations(fp8=False)
    assert any(o.format == "fp8" for o in listed)
    assert len({o.label for o in listed}) == len(listed)
    rows = {o.rows for o in listed if o.kind == "experts" and o.model == "gpt-oss-120b"}
    assert visited(Operation(kind="experts", rows=min(rows), model="gpt-oss-120b")) == (4, 1)  # few rows an expert
    assert visited(Operation(kind="experts", rows=max(rows), model="gpt-oss-120b")) == (128, 64)


@pytest.mark.parametrize(
    ("operation", "least"),
    [
        # by hand: bytes over 4 800 GB/s, or FLOPs over 989 and 1 979 TFLOP/s
        (Operation(kind="gemm", rows=1, columns=28672, depth=8192), 2 * 28672 * 8192 / 4800e6),
        (Operation(kind="gemm", rows=8192, columns=8192, depth=8192), 2 * 8192**3 / 989e9),
        (Operation(kind="gemm", rows=8192, columns=8192, depth=8192, format="fp8"), 2 * 8192**3 / 1979e9),
        (Operation(kind="experts", rows=1, model="gpt-oss-120b"), 4 * 3 * 2880 * 2880 * 2 / 4800e6),
        (Operation(kind="attention", rows=16, depth=4096), 16 * 4096 * 8 * 128 * 2 * 2 / 4800e6),
        (Operation(kind="copy", rows=1 << 30), 2 * 2**30 / 4800e6),
    ],
    ids=lambda case: case.label if isinstance(case, Operation) else "",
)
def test_an_operation_is_one_of_one_layer(operation: Operation, least: float) -> None:
    row = compared(operation, H200, None, 1.0)
    assert row.limit_ms == pytest.approx(least, rel=1e-9)
    assert row.limit_ms < row.formula_ms
    assert (row.table_ms, row.basis) == (None, "")


def test_tables_are_asked_for_the_same_operation() -> None:
    lookups: list = []
    rows = {kind: compared(operation, H200, Tables(asked=lookups), 1.0) for kind, operation in SMALL.items()}
    assert lookups == [("bfloat16", 3, 8, 16), ("bfloat16", 1, 2048, 768, 8, 128), (2, 6, 32, 8, 128)]
    answers = {kind: (row.table_ms, row.basis) for kind, row in rows.items()}
    assert answers == {
        "gemm": (2.0, "interpolated"),
        "experts": (None, ""),
        "attention": (4.0, "measured"),
        "copy": (None, ""),
    }


def test_the_table_tells_ratios_and_what_cannot_be() -> None:
    row = compared(SMALL["copy"], H200, None, 1.0)
    slow, odd = replace(row, formula_ms=2.5, limit_ms=0.5, table_ms=0.25), replace(row, measured_ms=0.1, limit_ms=0.2)
    _, first, other = table([slow, odd]).splitlines()
    assert first.split()[-3:] == ["2.50", "0.25", "0.50"]
    assert other.endswith("2.00  beats the data sheet")


def test_what_is_run_is_the_operation() -> None:
    """On the CPU, held against sums written out; experts by their own weights, one after the other."""
    import torch

    torch.manual_seed(0)
    (product,) = built(SMALL["gemm"], "cpu")
    left, right = (cell.cell_contents for cell in product.__closure__)
    assert torch.allclose(product().float(), left.float() @ right.float().T, rtol=0.02, atol=0.05)
    (attend,) = built(SMALL["attention"], "cpu")
    held = dict(zip(attend.__code__.co_freevars, (c.cell_contents for c in attend.__closure__), strict=True))
    query, keys, values = (held[name].float() for name in ("query", "keys", "values"))
    for head in (0, 31):
        scores = torch.softmax(query[1, head] @ keys[1, head // 4].T / 128**0.5, dim=-1)
        assert torch.allclose(attend()[1, head].float(), scores @ values[1, head // 4], rtol=0.02, atol=0.02)
    (experts,) = built(SMALL["experts"], "cpu")
    held = dict(zip(experts.__code__.co_freevars, (c.cell_contents for c in experts.__closure__), strict=True))
    held["tokens"].div_(2048**0.5)  # so that gates are neither open nor shut
    tokens, up, down = (held[name].float() for name in ("tokens", "up", "down"))
    gate, inner = (tokens[5] @ up[5]).split(768, dim=-1)
    expected = (torch.nn.functional.silu(gate) * inner) @ down[5]
    assert torch.nn.functional.cosine_similarity(experts()[5].float(), expected).item() > 0.999
    (copied,) = built(SMALL["copy"], "cpu")
    assert copied().shape == (64,)


def test_without_a_gpu_nothing_is_measured() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here: the test below measures it")
    with pytest.raises(SystemExit, match="sees no GPU"):
        measure_operations.main(["--gpu", "H200"])


def test_no_operation_beats_the_data_sheet() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch sees none")
    names = {"H100 80GB": "H100", "H200": "H200", "B200": "DGX-B200", "A100": "A100", "L40S": "L40S"}
    gpu_names = [name for part, name in names.items() if part in torch.cuda.get_device_name()]
    if not gpu_names:
        pytest.skip(f"needs a GPU whose data sheet is known here, not {torch.cuda.get_device_name()}")
    rows = measure_operations.main(["--gpu", gpu_names[0]])
    assert [row.operation.label for row in rows if row.measured_ms < 0.9 * row.limit_ms] == []
