"""Several services on one inventory from Python."""

from pathlib import Path

import pytest
from small_fleets import FLEET, small_fleet

import planner
from planner.api.fleets import PlannedFleet

SERVICES = (
    {"name": "chat", "model": "qwen3-30b-a3b-fp8", "demand": 20},
    {"name": "oss", "model": planner.model("gpt-oss-20b"), "demand": 20, "tpot": "40ms"},
)


def at_hand() -> PlannedFleet:
    return PlannedFleet(small_fleet())


def test_services_of_a_call_are_a_fleet() -> None:
    fleet = planner.plan(
        services=SERVICES,
        inventory="H200=8,H20=8",
        workload=planner.workload("azure-conv-2023"),
        ttft="1s",
        seed=5,
        progress=False,
    )
    assert isinstance(fleet, planner.PlannedFleet)
    assert fleet.value == pytest.approx(min(rps / 20 for rps in fleet.promised_rps.values()))
    assert fleet.value <= fleet.bound
    assert set(fleet.plans) == {"chat", "oss"}
    levels = {name: plan.scenario.slo for name, plan in fleet.plans.items()}
    assert (levels["chat"].tpot_ms, levels["oss"].tpot_ms, levels["oss"].ttft_ms) == (None, 40, 1000)
    assert {plan.scenario.search.seed for plan in fleet.plans.values()} == {5}


def test_what_is_at_hand_of_it() -> None:
    fleet = at_hand()
    assert fleet.unit == "times the demands"
    assert fleet.gap == pytest.approx((fleet.bound - fleet.value) / fleet.bound)
    assert list(fleet.frame["service"]) == ["chat", "oss"]
    assert list(fleet.nodes["gpu"]) == ["H20", "H200"]
    assert fleet.idle == {}
    assert fleet.price_usd_per_hour == 80
    assert list(fleet.batches["service"]) == ["nightly"]
    assert fleet.plans["chat"].promise_rps == pytest.approx(fleet.promised_rps["chat"])
    assert "chat, oss" in repr(fleet)
    assert "its demand, all at once" in fleet._repr_html_()
    assert fleet.summary().startswith("# Fleet company")


def test_a_fleet_is_saved_and_loaded(tmp_path: Path) -> None:
    fleet = at_hand()
    folder = fleet.save(tmp_path / "company")
    again = planner.load(folder)
    assert isinstance(again, planner.PlannedFleet)
    assert again.record == fleet.record
    assert planner.load(folder / "services" / "oss").promise_rps == fleet.promised_rps["oss"]
    with pytest.raises(planner.InputError, match="already holds a result"):
        fleet.save(folder)


def test_files_of_fleets(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    with pytest.raises(planner.InputError, match="of one service, got a fleet"):
        planner.plan_scenario(file)
    with pytest.raises(planner.InputError, match=r"services: must be there.*plan_scenario"):
        planner.plan_fleet("quickstart")
    with pytest.raises(planner.InfeasibleError, match="cannot be met together"):
        planner.plan_fleet(
            file, settings={"objective": {"kind": "target"}, "services.chat.demand": 900}, progress=False
        )


@pytest.mark.parametrize(
    ("services", "words"),
    [
        ("chat", "must be a list of services, got str"),
        (["chat"], r"services\[0\]: must be a mapping, got str"),
        ([{"name": "chat", "model": ["a", "b"]}], r"services\[0\]: model must be one model, got 2"),
        ([], "services must be 1 to 64, got 0"),
    ],
)
def test_what_are_no_services(services: object, words: str) -> None:
    with pytest.raises(planner.InputError, match=words):
        planner.plan(services=services, inventory={"H20": 8}, workload="azure-conv-2023")  # type: ignore[call-overload]


def test_several_models_are_led_to_services() -> None:
    with pytest.raises(planner.InputError, match=r"must be one model, got 2\. Several on one inventory: services="):
        planner.plan(model=["a", "b"], inventory={"H20": 8}, workload="azure-conv-2023")  # type: ignore[call-overload]
    with pytest.raises(planner.InputError, match="workload must be a text"):
        planner.plan(model="gpt-oss-20b", inventory={"H20": 8})  # type: ignore[call-overload]


def test_a_fleet_is_exported_and_replayed(tmp_path: Path) -> None:
    """All of it at once: a folder a deployment, one front, and the levels of every service at its promise."""
    small = at_hand()
    small.save(tmp_path / "company")
    fleet = planner.load(tmp_path / "company")
    assert isinstance(fleet, PlannedFleet)
    assert fleet.replay(requests=2000, seeds=1).equals(small.replay(requests=2000, seeds=1))
    assert set(fleet.replay(requests=2000, seeds=1)["Levels"]) == {"hold"}
    folder = fleet.export(tmp_path / "manifests", target="lws")
    assert {path.name for path in folder.iterdir()} == {"chat", "oss", "fleet"}
