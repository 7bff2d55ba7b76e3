"""Plans of buckets as plan.json: read back as they were, published alike, and refused where edited."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from edited_documents import resealed

from planner.domain import Plan, RoutingForm
from planner.errors import InputError
from planner.files import encode_plan, load_run, plan_schema, write_run
from planner.pipeline import plan as plan_scenario
from planner.pipeline import recheck
from planner.runs.publication import publish


def test_loading_gives_back_the_plan_with_its_pools(pooled: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(pooled))
    loaded = load_run(tmp_path)
    assert loaded == pooled
    assert loaded.buckets == pooled.buckets is not None
    assert loaded.scenario.routing.form is RoutingForm.BUCKETS
    assert loaded.scenario.survive == pooled.scenario.survive
    assert encode_plan(loaded) == encode_plan(pooled)
    jsonschema.Draft202012Validator(dict(plan_schema())).validate(json.loads(encode_plan(pooled)))


def test_a_whole_run_of_pools_is_loaded_and_published_alike(pooled: Plan, tmp_path: Path) -> None:
    files = publish(pooled).files
    write_run(tmp_path / "run", files)
    assert publish(load_run(tmp_path / "run")).files == files


def test_the_scenario_of_a_plan_of_pools_gives_the_same_bytes(pooled: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(pooled))
    read = load_run(tmp_path).scenario
    assert read == pooled.scenario
    assert encode_plan(plan_scenario(read)) == encode_plan(pooled)


def test_a_plan_of_pools_holds_up_when_it_is_read(pooled: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(pooled))
    assert recheck(load_run(tmp_path), "plan.json") == pooled


EDITS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "servers": (("buckets", "pools", 0, "count"), 999),
    "share": (("buckets", "pools", 0, "share"), 0.123),
    "promise": (("buckets", "promise_rps"), 1e6),
    "island": (("buckets", "pools", 0, "island"), "nobody"),
    "type": (("buckets", "pools", 0, "gpu"), "H100"),
    "rate": (("throughput_rps",), 1e6),
}


@pytest.mark.parametrize("edited", EDITS)
def test_edited_pools_are_refused(pooled: Plan, tmp_path: Path, edited: str) -> None:
    (*path, last), value = EDITS[edited]
    document: Any = json.loads(encode_plan(pooled))
    place = document
    for key in path:
        place = place[key]
    place[last] = value
    (tmp_path / "plan.json").write_text(json.dumps(resealed(document)))
    with pytest.raises(InputError):
        recheck(load_run(tmp_path), "plan.json")


def test_a_plan_of_before_transfers_were_told_is_read(pooled: Plan, tmp_path: Path) -> None:
    document: Any = json.loads(encode_plan(pooled))
    assert set(document["buckets"].pop("transfer")) == {"mean_ms", "longest_ms", "gb_s"}
    (tmp_path / "plan.json").write_text(json.dumps(resealed(document)))
    loaded = recheck(load_run(tmp_path), "plan.json")
    assert loaded.buckets.transfer is None
    assert loaded.throughput_rps == pooled.throughput_rps
