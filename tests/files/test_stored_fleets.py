"""Folders of fleets: what is written is read, what was edited is refused, and the document has every figure."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_fleets import curved_fleet, small_fleet

from planner.domain.fleets import FleetPlan
from planner.errors import InputError
from planner.files import encode_plan, load_run
from planner.files.plan.digests import sealed_text
from planner.files.plan.fleet_document import fleet_document, fleet_text, folder_of, holds_fleet, load_fleet_run


def write(folder: Path, plan: FleetPlan) -> Path:
    for part in plan.plans:
        (folder / folder_of(part)).mkdir(parents=True)
        (folder / folder_of(part) / "plan.json").write_bytes(encode_plan(part.plan))
    (folder / "fleet.json").write_bytes(fleet_text(plan))
    return folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    planned = curved_fleet()
    folder = write(tmp_path / "fleet", planned)
    fleet = load_fleet_run(folder)
    assert fleet_text(fleet) == fleet_text(planned) == fleet_text(load_fleet_run(folder / "fleet.json"))
    assert holds_fleet(folder)
    assert not holds_fleet(tmp_path)
    assert [encode_plan(part.plan) for part in fleet.plans] == [encode_plan(part.plan) for part in planned.plans]


def test_its_question_is_the_one_that_was_asked(tmp_path: Path) -> None:
    planned = curved_fleet()
    fleet = load_fleet_run(write(tmp_path / "fleet", planned)).fleet
    assert (fleet.inventory, fleet.objective, fleet.share_nodes) == (
        planned.fleet.inventory,
        planned.fleet.objective,
        planned.fleet.share_nodes,
    )
    for read, asked_for in zip(fleet.services, planned.fleet.services, strict=True):
        assert replace(read, scenarios=()) == replace(asked_for, scenarios=())
        for scenario, posed in zip(read.scenarios, asked_for.scenarios, strict=True):
            assert (scenario.model, scenario.slo, scenario.objective) == (posed.model, posed.slo, posed.objective)
            assert (scenario.workload, scenario.inputs) == (posed.workload, posed.inputs)


def test_its_figures_follow_from_its_plans() -> None:
    plan, document = small_fleet(), fleet_document(small_fleet())
    assert (document["value"], document["bound"], document["gap"]) == (plan.value, plan.bound, plan.gap)
    rows = document["deployments"]
    assert [part["name"] for part in rows if not part["batch"]] == ["chat", "oss"]
    for row, planned in zip(rows, plan.plans, strict=True):
        assert row["promise_rps"] == planned.plan.throughput_rps * planned.plan.scenario.routing.margin
    had = {gpu: sum(row["gpus"].get(gpu, 0) for row in rows) for gpu in document["inventory"]}
    assert {gpu: count + document["idle"].get(gpu, 0) for gpu, count in had.items()} == document["inventory"]
    assert sum(row["usd_per_hour"] for row in rows if not row["batch"]) == document["rent_usd_per_hour"]
    parts = sum(row["rent_usd_per_hour"] for row in document["services"])
    assert parts == pytest.approx(document["rent_usd_per_hour"])


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("value", 99.0, "value"),
        ("idle", {"H20": 8}, "idle"),
        ("note", "proven", "note"),
    ],
)
def test_what_was_edited_is_refused(tmp_path: Path, key: str, value: object, named: str) -> None:
    folder = write(tmp_path / "fleet", small_fleet())
    document = json.loads((folder / "fleet.json").read_text())
    (folder / "fleet.json").write_text(json.dumps({**document, key: value}))
    with pytest.raises(InputError, match=named) as refused:
        load_fleet_run(folder)
    assert "edited" in refused.value.message
    assert "Plan the fleet again" in refused.value.hint


def changed(document: Any, path: str, value: object) -> None:
    *places, key = path.split(".")
    for place in places:
        document = document[int(place) if place.isdigit() else place]
    document[key] = value


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("schema_version", 1, "schema_version"),
        ("more", 1, "more"),
        ("aim", "largest", "aim"),
        ("gap", 0.9, "gap"),
        ("rent_usd_per_hour", 1.0, "rent_usd_per_hour"),
        ("inventory.H20", 8, "inventory"),
        ("deployments.0.promise_rps", 1e6, "promise_rps"),
        ("deployments.0.folder", "../elsewhere", "folder"),
        ("deployments.0.name", "../elsewhere", "name"),
        ("deployments.0.gpus", {"H300": 8}, "H300"),
        ("deployments.0.serves", {"mail": 1}, "mail"),
        ("services", [], "services must be of chat, oss, got none"),
        ("batches", [], "batches must be of nightly, got none"),
        ("batches.0.deployment", "mail", "deployment"),
        ("question.objective.kind", "largest", "kind"),
        ("question.services.0.scenarios", [], "scenarios"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, path: str, value: object, named: str) -> None:
    folder = write(tmp_path / "fleet", small_fleet())
    document = fleet_document(small_fleet())
    changed(document, path, value)
    (folder / "fleet.json").write_bytes(sealed_text(document))
    with pytest.raises(InputError, match=named):
        load_fleet_run(folder)


@pytest.mark.parametrize("key", ["gap", "question", "deployments", "inventory"])
def test_what_lacks_a_key_is_refused(tmp_path: Path, key: str) -> None:
    folder = write(tmp_path / "fleet", small_fleet())
    document = fleet_document(small_fleet())
    del document[key]
    (folder / "fleet.json").write_bytes(sealed_text(document))
    with pytest.raises(InputError, match=key):
        load_fleet_run(folder)


def swapped(folder: Path) -> None:
    (folder / "services/oss/plan.json").write_bytes((folder / "services/chat/plan.json").read_bytes())


def removed(folder: Path) -> None:
    (folder / "services/oss/plan.json").unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [(swapped, "services/oss: must be the plan that the fleet was made of"), (removed, "services/oss")],
)
def test_another_plan_or_none_is_refused(tmp_path: Path, change: Callable[[Path], None], words: str) -> None:
    folder = write(tmp_path / "fleet", small_fleet())
    change(folder)
    with pytest.raises(InputError, match=words):
        load_fleet_run(folder)


def test_a_fleet_is_no_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "fleet", small_fleet())
    with pytest.raises(InputError, match="is that of a fleet") as refused:
        load_run(folder)
    assert str(folder / "services" / "chat") in refused.value.hint
