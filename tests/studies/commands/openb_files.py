"""A small made-up trace in the form of openb: nodes of five kinds, enough for every percent to be met, and pods."""

import csv
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
KINDS = (("T4", 2, 104), ("G2", 8, 96), ("P100", 2, 16), ("V100M16", 4, 32), ("", 0, 32))
ASKS = ((0, 0), (1, 1000), (1, 500), (1, 470), (1, 200), (1, 810), (2, 1000), (4, 1000), (8, 1000))


def write_rows(path: str, rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """A CSV file with the columns of the first row, or these."""
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """A CSV file's rows by column."""
    return list(csv.DictReader(Path(path).read_text(encoding="utf-8").splitlines()))


def trace_nodes(count: int = 100) -> list[dict[str, object]]:
    """Rows of nodes, every kind equally often."""
    found = []
    for k in range(count):
        model, gpus, cpus = KINDS[k % len(KINDS)]
        values = (f"n{k:02}", cpus * 1000, cpus * 4096, gpus, model)
        found.append(dict(zip(NODE_COLUMNS, values, strict=True)))
    return found


def trace_pods(count: int = 180, seed: int = 0) -> list[dict[str, object]]:
    """Rows of pods; some allow only a model or two."""
    draw = random.Random(seed)
    found = []
    for k in range(count):
        gpus, milli = ASKS[k % len(ASKS)]
        spec = draw.choice(("", "", "T4", "G2|V100M16")) if gpus == 1 else ""
        values = (f"p{k:03}", draw.choice((500, 3152, 4000, 8000, 12000)), 4096, gpus, milli, spec)
        found.append(dict(zip(POD_COLUMNS, values, strict=True)))
    return found
