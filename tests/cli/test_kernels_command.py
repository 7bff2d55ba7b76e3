"""`planner cost kernels`: measured kernels shown, and imported without overwriting."""

from pathlib import Path

import pandas as pd
from command_line import Command

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE


def test_tables_are_imported_and_shown(planner: Command, here: Path) -> None:
    place = here / "data" / "h200_sxm" / "gemm" / "vllm" / "0.24.0"
    place.mkdir(parents=True)
    rows = [{"gemm_dtype": "fp8", "m": m, "n": 64, "k": 64, "latency": m / 100} for m in range(1, 9)]
    pd.DataFrame(rows).to_parquet(place / "gemm_perf.parquet")
    imported = planner("cost", "kernels", "import", here / "data", "--out", here / "own")
    assert imported.status == EXIT_DONE
    assert [path.name for path in (here / "own").iterdir()] == ["H200.vllm.kernels"]
    (shown,) = planner("cost", "kernels", "show", "--from", here / "own", "--json").json
    assert (shown["gpu"], shown["engine"], shown["operations"]["gemm"]["versions"]) == ("H200", "vllm", ["0.24.0"])
    again = planner("cost", "kernels", "import", here / "data", "--out", here / "own")
    assert again.status == EXIT_BAD_INPUT
    assert "--force" in again.err


def test_shipped_tables_say_where_they_are_from(planner: Command) -> None:
    listing = planner("cost", "kernels", "show").out
    for words in ("GB300-NVL72", "trtllm", "aiconfigurator_core-0.12.0", "Apache-2.0"):
        assert words in listing
    of_one = planner("cost", "kernels", "show", "DGX-B200").out
    for words in ("generation_attention", "Left out, since its times are too few, or noise for the most part: msa_"):
        assert words in of_one
    for gpu, rates in (("MI300X", "the formulas'"), ("A10", "those of A100")):
        of_none = planner("cost", "kernels", "show", gpu).out
        assert f"No kernels of {gpu} were measured: rates are {rates}" in " ".join(of_none.split())
