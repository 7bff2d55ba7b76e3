"""The section `placement` of plan.json: there and back, and what contradicts the plan or its cluster."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from edited_documents import of_before_digests, resealed
from placed_plans import CLUSTER, placed_by_hand

from planner.domain import Plan
from planner.errors import InputError
from planner.files import encode_plan, load_run

Document = dict[str, Any]


@pytest.fixture
def placed(plan: Plan) -> Plan:
    return placed_by_hand(plan)


def _load(folder: Path, document: object) -> Plan:
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return load_run(path)


def test_plans_on_no_nodes_have_no_such_section(plan: Plan) -> None:
    assert "placement" not in json.loads(encode_plan(plan))


def test_loading_gives_back_the_placement_and_the_cluster(placed: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(placed))
    loaded = load_run(tmp_path / "plan.json")
    assert loaded == placed
    assert encode_plan(loaded) == encode_plan(placed)


def test_without_its_cluster_a_placement_is_read_all_the_same(placed: Plan, tmp_path: Path) -> None:
    bare = replace(placed, scenario=replace(placed.scenario, cluster=None))
    (tmp_path / "plan.json").write_bytes(encode_plan(bare))
    assert load_run(tmp_path / "plan.json") == bare


def test_plans_of_before_do_not_tell_who_waits(placed: Plan, tmp_path: Path) -> None:
    document = json.loads(encode_plan(placed))
    assert document["placement_report"]["sites"][0].pop("waits_for") == [1, 2]
    loaded = _load(tmp_path, of_before_digests(document))
    assert loaded.placement.sites[0].waits_for is None
    again = json.loads(encode_plan(loaded))
    assert again["provenance"].pop("unverified") is True
    assert of_before_digests(again) == of_before_digests(document)


def test_rows_and_lines(placed: Plan) -> None:
    """One line a part, and one a node of a long cluster."""
    text = encode_plan(placed).decode()
    assert placed.placement is not None
    rows = json.loads(text)["placement"]
    keys = {"island", "replica", "node", "gpu_indices", "numa_nodes", "asw", "tp", "cores", "nics"}
    assert all(set(row) == keys for row in rows)
    assert rows[0]["cores"] == "0-7,63"
    assert sum('"numa_nodes": [' in line and '"replica"' in line for line in text.splitlines()) == len(
        placed.placement.parts
    )
    assert sum('"shape":' in line for line in text.splitlines()) == len(CLUSTER.nodes)


def _set(*place: str | int, value: object) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        target: Any = document["placement" if isinstance(place[0], int) else "placement_report"]
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value

    return edit


def _twice(document: Document) -> None:
    document["placement"].append(document["placement"][0])


BROKEN = [
    (_set(0, "island", value="nobody"), ("placement.0.island", "'nobody'")),
    (_set("sites", 0, "island", value="nobody"), ("placement_report.sites.0.island", "'nobody'")),
    (_set("victims", 0, "island", value="nobody"), ("placement_report.victims.0.island", "'nobody'")),
    (_set("victims", 0, "order", value=2), ("placement_report.victims", "order must count from 1 to 2", "[2, 2]")),
    (_set("evictions", "victims", value=3), ("placement_report.evictions.victims", "must be 2", "got 3")),
    (_set("evictions", "gpus", value=1), ("placement_report.evictions.gpus", "must be 2")),
    (_set("evictions", "unknown_lost_work", value=0), ("placement_report.evictions.unknown_lost_work", "must be 1")),
    (_set("evictions", "lost_gpu_hours", value=2.0), ("placement_report.evictions.lost_gpu_hours", "must be 0.25")),
    (_set("victims", 0, "pod", value="default/x"), ("placement_report.victims.0.pod", "'default/x'")),
    (_set("sites", 0, "waits_for", value=[1]), ("placement_report.sites.0.waits_for", "2 is not among them")),
    (_set("sites", 0, "waits_for", value=[2, 1]), ("placement_report.sites.0.waits_for", "must ascend", "[2, 1]")),
    (_set("sites", 0, "waits_for", value=[1, 2, 3]), ("placement_report.sites.0.waits_for", "victims on nodes", "3")),
    (_set("sites", 0, "waits_for", value=[0]), ("placement_report.sites.0.waits_for",)),
    (_set("victims", 0, "node", value="h200-5"), ("placement_report.sites.0.waits_for", "victims on nodes", "1")),
    (lambda d: d["placement"].pop(0), ("placement: must hold all",)),
    (_twice, ("placement: must hold all",)),
    (
        lambda d: d["placement_report"]["shortfalls"][0].update(island=d["placement"][0]["island"]),
        ("placement_report.shortfalls", "is placed"),
    ),
    (_set(0, "tp", value=16), ("placement.0.gpu_indices", "groups of 16")),
    (_set(0, "cores", value="7-3"), ("placement.0.cores", "7-3")),
    (_set(0, "node", value="h200-99"), ("placement.0.node", "node of the cluster", "'h200-99'")),
    (_set(0, "node", value="h20-23"), ("placement.0", "h20-23")),
    (_set(0, "asw", value="asw-9"), ("placement.0.asw", "'asw-0'", "'asw-9'")),
    (_set(0, "numa_nodes", value=[2]), ("placement.0.numa_nodes", "[2]")),
    (_set(0, "gpu_indices", 0, value=9), ("placement.0.gpu_indices", "must exist", "9")),
    (_set("cluster", value="nine"), ("placement_report.cluster", "'eight'", "'nine'")),
    (_set("score", value=3), ("placement_report.score",)),
    (_set("sites", 0, "worst", value="near"), ("placement_report.sites.0.worst",)),
    (_set(0, "gpu_indices", value=[]), ("placement.0.gpu_indices",)),
    (_set(0, "rack", value=1), ("placement.0", "rack")),
    (_set("before", "idle", value=-1), ("placement_report.before.idle",)),
    (lambda d: d["placement_report"].pop("after"), ("placement_report", "after")),
]


@pytest.mark.parametrize(("edit", "words"), BROKEN)
def test_contradictions_are_named(
    edit: Callable[[Document], None], words: tuple[str, ...], placed: Plan, tmp_path: Path
) -> None:
    document = json.loads(encode_plan(placed))
    edit(document)
    with pytest.raises(InputError) as caught:
        _load(tmp_path, resealed(document))
    assert not [word for word in words if word not in caught.value.message], caught.value.message


def test_a_gpu_given_twice(placed: Plan, tmp_path: Path) -> None:
    """A part's GPU moved onto that of another part of the same island, so that the counts still agree."""
    document = json.loads(encode_plan(placed))
    parts = document["placement"]
    first = next(at for at, row in enumerate(parts) if sum(r["island"] == row["island"] for r in parts) > 1)
    parts[first + 1].update({key: parts[first][key] for key in ("node", "asw", "numa_nodes")})
    with pytest.raises(InputError, match="must be given once"):
        _load(tmp_path, resealed(document))
