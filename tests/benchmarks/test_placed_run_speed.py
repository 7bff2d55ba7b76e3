"""CPU-seconds of `planner place` from end to end, and how large what it writes is, against the cluster's size."""

import json
import sys
import time
from pathlib import Path

import pytest
import yaml

from planner.cli.app import build
from planner.files import write_cluster
from planner.placement import synthesize

pytestmark = pytest.mark.bench

SCENARIO = {
    "name": "wide",
    "model": "deepseek-v3",
    "workload": "azure-code-2023",
    "engine": {"name": "vllm", "version": "0.33.0"},
    "routing": {"form": "table"},
}
"""Both types serve, each in one phase: as many islands as nodes."""
ISLANDS = {"few": 40, "many": 1_000}
MOST_OF_AN_OBJECT = 2**20


def run(*words: object) -> float:
    """CPU-seconds of a command in this process."""
    start = time.process_time()
    build()([str(word) for word in words], standalone_mode=False)
    return time.process_time() - start


def planned(folder: Path, islands: int) -> Path:
    """A run of so many islands of eight GPUs."""
    scenario = {
        **SCENARIO,
        "inventory": {"H200": 4 * islands, "H20": 4 * islands},
        "prices_usd_per_gpu_hour": {"H200": 4, "H20": 1},
        "search": {"sizes": [8], "iterations": 2, "method": "exact", "min_island_size": 8},
    }
    (folder / f"{islands}.yaml").write_text(yaml.safe_dump(scenario))
    run("plan", folder / f"{islands}.yaml", "--out", folder / f"run-{islands}", "--quiet")
    return folder / f"run-{islands}"


def clusters(folder: Path, nodes: int) -> Path:
    path = folder / f"c{nodes}.yaml"
    write_cluster(synthesize(nodes, 1, 0.5), path)
    return path


def placed(folder: Path, islands: int, sizes: tuple[int, ...]) -> list[float]:
    """CPU-seconds of placing one run on clusters of these sizes, everything loaded before."""
    saved, taken = planned(folder, islands), []
    for nodes in sizes:
        cluster, out = clusters(folder, nodes), folder / f"placed-{islands}-{nodes}"
        taken.append(run("place", saved, "--cluster", cluster, "--out", out))
        plan, stored = (out / "plan.json").stat().st_size, (out / "cluster.json.gz").stat().st_size
        largest = max(
            len(json.dumps(document))
            for path in (out / "manifests").glob("*.yaml")
            for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)  # a safe loader
        )
        sys.stderr.write(
            f"\nplanner place, {islands} islands on {nodes:,} nodes: {taken[-1]:.1f} CPU-s, cluster "
            f"{cluster.stat().st_size / 1e6:.1f} MB, plan.json {plan / 1e6:.2f} MB, "
            f"cluster.json.gz {stored / 1e6:.2f} MB, largest object {largest / 1e3:.0f} kB\n"
        )
        assert largest < MOST_OF_AN_OBJECT
        assert stored < cluster.stat().st_size / 8
    return taken


@pytest.mark.parametrize(
    ("islands", "sizes"),
    [
        (ISLANDS["few"], (1_000, 4_000)),
        pytest.param(ISLANDS["many"], (20_000, 40_000), marks=pytest.mark.long),
    ],
)
def test_placing_a_run_grows_no_faster_than_the_cluster(islands: int, sizes: tuple[int, ...], tmp_path: Path) -> None:
    placed(tmp_path, islands, sizes[:1])  # what is loaded once
    folder = tmp_path / "measured"
    folder.mkdir()
    small, large = placed(folder, islands, sizes)
    assert large <= 1.25 * small * sizes[1] / sizes[0]
    plans = [(folder / f"placed-{islands}-{nodes}" / "plan.json").stat().st_size for nodes in sizes]
    assert plans[1] < 1.1 * plans[0]  # however large the cluster
