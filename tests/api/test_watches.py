"""`planner.watch(...)` and `planner.load_watch(...)`: feeds followed from Python, a node that is lost among them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from five_nodes import CLUSTER

import planner
from planner.domain.watching import Cause, WatchStep
from planner.files.cluster.clusters import write_cluster

SCENARIO = {
    "name": "five-nodes",
    "model": "deepseek-v3",
    "workload": "normal-500-2000",
    "inventory": {"H200": 40},
    "prices_usd_per_gpu_hour": {"H200": 4.0},
    "ranges": {"width": 4096},
    "cluster": "five.yaml",
}
LOADS = "time,requests_per_s\n0,6\n1200,6\n"
LOST = "time,node,lost\n0,n-0,0\n600,n-0,1\n900,n-9,1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a watch has gone through five observations, the first two in a call of their own."""
    place = tmp_path_factory.mktemp("watched")
    write_cluster(CLUSTER, place / "five.yaml")
    (place / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    (place / "load.csv").write_text(LOADS)
    (place / "lost.csv").write_text(LOST)
    assert [step.decision.cause for step in steps_of(place, ticks=2)] == [Cause.START, None]
    assert [step.decision.cause for step in steps_of(place)] == [Cause.LOST, None, None]
    return place


def steps_of(place: Path, ticks: int | None = None) -> list[WatchStep]:
    feeds = [place / "load.csv", place / "lost.csv"]
    return list(
        planner.watch(place / "scenario.yaml", feeds, place / "out", simulate=True, every_s=300, ticks=ticks, give_up=0)
    )


def test_a_lost_node_is_left(folder: Path) -> None:
    watched = planner.load_watch(folder / "out")
    before, after = watched.plan_at(1).record, watched.plan_at(2).record
    assert "n-0" in {part.node for part in before.placement.parts}
    assert "n-0" not in {part.node for part in after.placement.parts}
    assert [step.observation.lost_nodes for step in watched.steps] == [(), (), ("n-0",), ("n-0",), ("n-0",)]
    assert [dict(step.observation.available)["H200"] for step in watched.steps] == [40, 40, 32, 32, 32]
    assert ["n-9" in "".join(step.observation.notes) for step in watched.steps] == [False, False, False, True, False]
    assert watched.plan.record == after


def test_a_watch_at_hand_is_what_the_log_says(folder: Path) -> None:
    """The smallest plan has one server of eight H200 for both phases: 32 USD an hour for five times five minutes."""
    watched = planner.load_watch(folder / "out")
    frame = watched.frame()
    assert list(frame["time"]) == [0, 300, 600, 900, 1200]
    assert list(frame["plan"]) == [1, 1, 2, 2, 2]
    assert list(frame["usd_per_hour"]) == [32.0] * 5
    assert frame["usd"].sum() == pytest.approx(watched.usd)
    assert watched.usd == pytest.approx(32 * 25 / 60 + watched.tally.change_usd)
    assert frame["gpus_touched"].sum() == watched.gpus_touched > 0
    assert list(watched.changes["cause"]) == ["start", "lost"]
    assert watched.summary().startswith("# Watch of five")
    assert "1 change, " in repr(watched)
    assert "n-0 lost" in watched._repr_html_()


def test_figures_show_what_the_frame_has(folder: Path) -> None:
    watched = planner.load_watch(folder / "out")
    assert watched.figures == ("watch", "gpus")
    above, below = watched.figure().axes
    load, promise = above.lines
    assert list(load.get_ydata()) == [6.0] * 6  # a step each, and the end of the last
    assert list(load.get_xdata()) == [0, 300, 600, 900, 1200, 1500]
    promises = list(watched.frame()["promise_rps"])
    assert list(promise.get_ydata()) == [*promises, promises[-1]]
    assert above.get_legend_handles_labels()[1] == ["load", "promise in force", "change: start", "change: lost"]
    assert list(below.lines[0].get_ydata()) == [32.0] * 6
    (gpus,) = watched.figure("gpus").axes
    assert list(gpus.lines[0].get_ydata()) == [8.0] * 6
    with pytest.raises(planner.InputError, match="must be one of watch, gpus"):
        watched.figure("load")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every_s": 0}, "every: must be a time"),
        ({"ticks": 0}, "ticks: must be at least 1"),
        ({"simulate": True, "stale_s": 60}, "stale: is of feeds as they are now"),
        ({"give_up": 1.5}, "give_up"),
        ({"flaps": 3}, "flaps"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(planner.InputError, match=words):
        next(planner.watch(folder / "scenario.yaml", folder / "load.csv", folder / "other", **options))
    assert not (folder / "other").exists()


def test_a_folder_of_no_watch_is_refused(folder: Path) -> None:
    with pytest.raises(planner.InputError, match="holds no watch"):
        planner.load_watch(folder)
    with pytest.raises(planner.InputError, match="0009"):
        planner.load_watch(folder / "out").plan_at(9)
