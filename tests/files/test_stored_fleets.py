"""Folders of fleets: what is written is read, what was edited is refused, and the document has every figure."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_fleets import small_fleet, small_stored

from planner.domain.fleets import StoredFleet
from planner.errors import InputError
from planner.files import encode_plan, load_run
from planner.files.plan.digests import sealed_text
from planner.files.plan.fleet_document import (
    fleet_document,
    fleet_text,
    holds_fleet,
    load_fleet_plans,
    load_fleet_run,
    plans_of,
)


def write(folder: Path, fleet: StoredFleet) -> Path:
    plans = plans_of(small_fleet())
    for part in fleet.deployments:
        (folder / part.folder).mkdir(parents=True)
        (folder / part.folder / "plan.json").write_bytes(encode_plan(plans[part.name]))
    (folder / "fleet.json").write_bytes(fleet_text(fleet))
    return folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "fleet", small_stored())
    fleet = load_fleet_run(folder)
    assert fleet == small_stored() == load_fleet_run(folder / "fleet.json")
    assert holds_fleet(folder)
    assert not holds_fleet(tmp_path)
    plans = load_fleet_plans(folder, fleet)
    assert {name: encode_plan(plan) for name, plan in plans.items()} == {
        name: encode_plan(plan) for name, plan in plans_of(small_fleet()).items()
    }


def test_its_figures_follow_from_its_plans() -> None:
    plan, fleet = small_fleet(), small_stored()
    assert (fleet.value, fleet.bound, fleet.gap) == (plan.value, plan.bound, plan.gap)
    assert [part.name for part in fleet.deployments if not part.batch] == ["chat", "oss"]
    for part, planned in zip(fleet.deployments, plan.plans, strict=True):
        assert part.promise_rps == planned.plan.throughput_rps * planned.plan.scenario.routing.margin
    had = {gpu: sum(dict(part.gpus).get(gpu, 0) for part in fleet.deployments) for gpu, _ in fleet.inventory}
    assert {gpu: count + dict(fleet.idle).get(gpu, 0) for gpu, count in had.items()} == dict(fleet.inventory)
    assert sum(part.usd_per_hour for part in fleet.deployments if not part.batch) == fleet.rent_usd_per_hour
    assert sum(row.rent_usd_per_hour or 0.0 for row in fleet.services) == pytest.approx(fleet.rent_usd_per_hour)


def test_names_of_deployments_differ() -> None:
    plan = small_fleet()
    twice = replace(plan, parts=(plan.parts[0], replace(plan.parts[1], deployment=plan.parts[0].deployment)))
    assert list(plans_of(twice))[:2] == ["chat", "chat-2"]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("value", 99.0, "value"),
        ("idle", {"H20": 8}, "idle"),
        ("note", "proven", "note"),
    ],
)
def test_what_was_edited_is_refused(tmp_path: Path, key: str, value: object, named: str) -> None:
    folder = write(tmp_path / "fleet", small_stored())
    document = json.loads((folder / "fleet.json").read_text())
    (folder / "fleet.json").write_text(json.dumps({**document, key: value}))
    with pytest.raises(InputError, match=named) as refused:
        load_fleet_run(folder)
    assert "edited" in refused.value.message
    assert "Plan the fleet again" in refused.value.hint


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("aim", "largest", "aim"),
        ("schema_version", 2, "schema_version"),
        ("more", 1, "more"),
    ],
)
def test_what_is_no_fleet_is_refused(tmp_path: Path, key: str, value: object, named: str) -> None:
    document = fleet_document(small_stored()) | {key: value}
    (tmp_path / "fleet.json").write_bytes(sealed_text(document))
    with pytest.raises(InputError, match=named):
        load_fleet_run(tmp_path)


def test_a_folder_outside_is_refused(tmp_path: Path) -> None:
    fleet = small_stored()
    strange = replace(fleet.deployments[0], folder="../elsewhere")
    (tmp_path / "fleet.json").write_bytes(fleet_text(replace(fleet, deployments=(strange,))))
    with pytest.raises(InputError, match="folder must be services/"):
        load_fleet_run(tmp_path)


def test_another_plan_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "fleet", small_stored())
    (folder / "services/oss/plan.json").write_bytes((folder / "services/chat/plan.json").read_bytes())
    with pytest.raises(InputError, match=r"services/oss: must be the plan that the fleet was made of"):
        load_fleet_plans(folder, load_fleet_run(folder))


def test_a_fleet_is_no_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "fleet", small_stored())
    with pytest.raises(InputError, match="is that of a fleet") as refused:
        load_run(folder)
    assert str(folder / "services" / "chat") in refused.value.hint
