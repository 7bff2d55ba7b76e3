"""Plans of buckets measured: rates, gaps, sizes and CPU-seconds, against tables of islands of any size.

    python tests/pipeline/bucket_measurements.py [fleets] [tables] [types] [MOONCAKE.jsonl.gz]

prints a row a case as it is done. `types`: four GPU types with two and three buckets. Mooncake's trace
(conversation_trace.jsonl of its repository, gzipped or plain) is converted to CSV first.
"""

import csv
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from planner.domain import Plan
from planner.errors import PlannerError
from planner.files import scenario_from_document
from planner.pipeline import plan
from planner.workload import summarize

FLEETS = ({"H200": 64, "H800": 64, "H20": 128}, {"H200": 32, "H800": 128, "H20": 128}, {"H200": 128})
FOUR_TYPES = {"H200": 64, "H800": 64, "H20": 128, "H100": 64}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
PATIENT = {"ttft_ms": 60_000, "tpot_ms": 60, "percentile": 99}
TABLE = {"routing": {"form": "table"}, "search": {"method": "exact", "sizes": "all", "work_limit": 60}}
HEADER = ("workload", "fleet", "levels", "engine", "form", "rate", "gap", "gap to any", "kinds", "buckets", "CPU-s")


def measured(**document: Any) -> tuple[Plan | None, float]:
    """The plan of a scenario (None: infeasible), and its CPU-seconds."""
    start = time.process_time()
    scenario = scenario_from_document(
        {"name": "measured", "model": "deepseek-v3", **document}, origin="measured", base=Path(), summarize=summarize
    )
    try:
        return plan(scenario), time.process_time() - start
    except PlannerError as error:
        sys.stdout.write(f"{error.message}\n")
        return None, time.process_time() - start


def row(document: Mapping[str, Any], engine: str, form: str) -> str:
    """One case as a line of the table."""
    planned, seconds = measured(**document)
    workload = str(document["workload"]).rsplit("/", maxsplit=1)[-1].removesuffix(".csv")
    fleet = "+".join(f"{count} {gpu}" for gpu, count in document["inventory"].items())
    case = [workload, fleet, "levels" if "slo" in document else "none", engine, form]
    return " | ".join([*case, *_figures(planned), f"{seconds:.1f}"])


def _figures(planned: Plan | None) -> list[str]:
    if planned is None or planned.certificate is None:
        return ["-"] * 5
    certificate = planned.certificate
    figures = [planned.throughput_rps, 100 * certificate.objective_gap, 100 * (certificate.gap or 0.0)]
    words = [f"{figures[0]:.1f}", f"{figures[1]:.2f} %", f"{figures[2]:.2f} %"]
    if planned.buckets is None:
        return [*words, str(len(planned.islands)), "-"]
    pools = planned.buckets.pools
    kinds = len({(pool.gpu, pool.server) for pool in pools})
    starts = [len({pool.start for pool in pools if pool.phase == phase}) for phase in ("prefill", "decode")]
    return [*words, str(kinds), "{} + {}".format(*starts)]


def _cases() -> Iterator[dict[str, Any]]:
    """Both Azure traces on three fleets, with levels and without."""
    for workload in ("azure-code-2023", "azure-conv-2023"):
        for inventory in FLEETS:
            for slo in (LEVELS, None):
                yield {"workload": workload, "inventory": inventory} | ({"slo": slo} if slo else {})


def fleets() -> Iterator[str]:
    """Pools behind buckets, for both engines, and the best of them for one."""
    for case in _cases():
        for engine in ("vllm", "sglang"):
            yield row({**case, "engine": {"name": engine}}, engine, "buckets")
        yield row({**case, "simplicity": 0}, "vllm", "buckets, simplicity 0")


def tables() -> Iterator[str]:
    """Islands of any size with shares for every range."""
    for case in _cases():
        yield row({**case, **TABLE}, "", "table, all sizes")


def types() -> Iterator[str]:
    """Four GPU types to half a percent, two buckets and three."""
    for workload in ("azure-code-2023", "azure-conv-2023"):
        for most in (2, 3):
            case = {"workload": workload, "inventory": FOUR_TYPES, "slo": LEVELS}
            settings = {"routing": {"most": most}, "assignment": {"gap": 0.005}, "simplicity": 0}
            yield row({**case, **settings}, "vllm", f"most {most}")


def mooncake(trace: Path) -> Iterator[str]:
    """One, two and three buckets where prompts are up to 120,000 tokens long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mooncake.csv"
        _convert(trace, path)
        for scope, ttft_ms, most in product(("overall", "every_bucket"), (60_000, 30_000, 20_000), (1, 2, 3)):
            slo = {**PATIENT, "ttft_ms": ttft_ms, "scope": scope}
            case = {"workload": str(path), "inventory": FLEETS[0], "slo": slo, "ranges": {"cells": 40}}
            words = f"most {most}, {ttft_ms // 1000} s, {scope}"
            yield row({**case, "routing": {"most": most}, "simplicity": 0}, "vllm", words)


def _convert(trace: Path, path: Path) -> None:
    """Mooncake's lines (times in ms) as a CSV of requests."""
    with (
        gzip.open(trace, "rt") if trace.suffix == ".gz" else trace.open() as lines,
        path.open("w", newline="") as target,
    ):
        writer = csv.writer(target)
        writer.writerow(["arrival_s", "input_tokens", "output_tokens"])
        for line in lines:
            request = json.loads(line)
            writer.writerow([request["timestamp"] / 1000, request["input_length"], max(1, request["output_length"])])


def main(arguments: list[str]) -> None:
    """Print what was asked for."""
    sys.stdout.write(" | ".join(HEADER) + "\n")
    for part in arguments:
        named = {"fleets": fleets, "tables": tables, "types": types}
        rows = named[part]() if part in named else mooncake(Path(part))
        for line in rows:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or ["fleets"])
