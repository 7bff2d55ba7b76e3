"""Scenarios of several services: what is read of them, and how every mistake is told."""

from pathlib import Path
from typing import Any

import pytest

from planner.domain.fleets import FleetAim, FleetScenario
from planner.errors import FaultyKeyError, InputError
from planner.files.scenario.fleets import fleet_from_document, load_fleet
from planner.workload import summarize

MODEL, WORKLOAD = "qwen3-30b-a3b-fp8", "azure-conv-2023"
FP8, FP4 = "qwen3-235b-a22b-fp8", "qwen3-235b-a22b-nvfp4"
NODES = {
    "name": "nodes",
    "shapes": {
        "s0": {
            "gpu": "H20",
            "gpu_indices": "0-7",
            "gpu_numa": [0] * 8,
            "numa_nodes": [{"id": 0, "socket": 0, "cores": "0-95"}],
            "cpus": 96,
            "memory_gb": 1000,
        }
    },
    "nodes": [{"name": f"n{k}", "shape": "s0", "asw": "a"} for k in range(2)],
}
BATCH = {"name": "night", "model": MODEL, "workload": WORKLOAD, "batch": {}}


def service(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "model": MODEL, "workload": WORKLOAD, "demand": 3, **more}


def read(*services: dict[str, Any], **top: object) -> FleetScenario:
    document = {"name": "firm", "inventory": {"H20": 16}, "services": list(services), **top}
    return fleet_from_document(document, origin="firm.yaml", base=Path(), summarize=summarize)


def checkpoints(**quality: object) -> dict[str, Any]:
    return service("a", model={"checkpoints": [FP8, FP4], **quality})


@pytest.mark.parametrize(
    ("services", "top", "message", "hint"),
    [
        ([service("a"), service("a")], {}, "services must have different names, got a twice", "Rename one."),
        (
            [service("a", shares="b"), service("b", shares="a")],
            {},
            "services a: shares: must name a service that shares nobody's pools itself, b shares those of a",
            "Let both share the pools of one of them.",
        ),
        (
            [service("a", shares="c"), service("b")],
            {},
            "services a: shares: must name another service with a demand, got c",
            "The services are b.",
        ),
        (
            [service("a", shares="a"), service("b")],
            {},
            "services a: shares: must name another service with a demand, got a",
            "The services are b.",
        ),
        (
            [service("a", shares="night"), BATCH],
            {},
            "services a: shares: must name another service with a demand, got night",
            "The services are night.",
        ),
        (
            [service("a", model={"checkpoints": [MODEL, "gpt-oss-20b"]})],
            {},
            f"services[0].model must have checkpoints of one model, got {MODEL} and gpt-oss-20b",
            "Make a service of each.",
        ),
        (
            [service("a", model={"checkpoints": [MODEL, MODEL]})],
            {},
            "services[0].model.checkpoints must be 1 to 6 different ones",
            "Name each once.",
        ),
        (
            [checkpoints(quality={FP8: 0.8, FP4: 0.7}, floor=0.9)],
            {},
            f"services[0].model.floor must admit a checkpoint, got 0.9; the best is {FP8} with 0.8",
            "Lower it to 0.8, or add a better checkpoint.",
        ),
        (
            [checkpoints(quality={FP8: 0.8}, floor=0.7)],
            {},
            f"services[0].model.quality.{FP4} must have a score where there is a floor",
            f"Measure it, or leave {FP4} out.",
        ),
        (
            [service("a"), {**BATCH, "slo": {"ttft_ms": 100}}],
            {},
            "services[1].batch must have no levels (slo): work that waits has none",
            "Leave out slo; where it stands at the top, write `slo: {}` in the batch.",
        ),
        (
            [service("a"), {**BATCH, "demand": 5}],
            {},
            "services[1].demand must be left out of a batch, which takes what others leave",
            "Leave it out.",
        ),
        ([BATCH], {}, "services must have one with a demand, got batches alone", "Plan one of them by itself."),
        ([], {}, "services must be 1 to 64, got 0", "Begin with `- name: chat`."),
        (
            [service("a")],
            {"cluster": "nodes.yaml"},
            "cluster must be left out where objective.judged is formula",
            "Set objective.judged to placed, or plan the fleet and then place each run by itself.",
        ),
        (
            [service("a")],
            {"network": {}},
            "network must be left out where there are services",
            "Plan the fleet, then place each run by itself.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "placed"}},
            "cluster must be given where objective.judged is placed, is missing",
            "Add the path of a cluster file, or set objective.judged to formula.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "replayed", "kind": "target"}},
            "objective.judged must be formula where objective.kind is target: only multiple and weighted are searched "
            "for, got replayed",
            "Set objective.kind to multiple or weighted, or leave out judged.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "simulated"}},
            "objective.judged must be one of formula, placed, replayed, got 'simulated' (str)",
            "",
        ),
        (
            [service("a")],
            {"objective": {"rounds": 3}},
            "objective.rounds must be left out where objective.judged is formula: it goes with placed or replayed",
            "Set objective.judged to placed or replayed, or leave it out.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "placed", "requests": 3000}},
            "objective.requests must be left out where objective.judged is placed: it goes with replayed",
            "Set objective.judged to replayed, or leave it out.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "replayed", "divisions": 1}},
            "objective.divisions must be a whole number of at least 2 and at most 1000, got 1",
            "",
        ),
        (
            [service("a", slo={"ttft_ms": 1000})],
            {"objective": {"judged": "replayed", "arrivals": "trace"}},
            "objective.arrivals must be poisson or gamma: requests are drawn from lengths, which say nothing of when "
            "they came, got trace",
            "Choose one of them.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "replayed"}},
            "services: a: slo must hold a bound where objective.judged is replayed: its rate is the highest that holds "
            "it; it has none",
            "Add slo.ttft_ms or slo.tpot_ms, or set objective.judged to formula.",
        ),
        (
            [service("a", slo={"ttft_ms": 1000}, survive={"share": 0.5})],
            {"objective": {"judged": "replayed"}},
            "services: a: survive.share must be 0 where objective.judged is replayed: replays lose no nodes, got 0.5",
            "Leave out survive, or set objective.judged to formula.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "placed"}, "cluster": NODES, "share_nodes": True},
            "share_nodes must be false where objective.judged is placed: each deployment chooses nodes that no other "
            "has, got true",
            "Leave it out, or set objective.judged to formula.",
        ),
        (
            [service("a")],
            {"objective": {"judged": "placed"}, "cluster": NODES, "placement": {"lost_gpu_hour_rps": 2}},
            "placement.lost_gpu_hour_rps must be 0 where there are services: lost work has no demand, got 2",
            "Limit placement.most_lost_gpu_hours instead.",
        ),
        (
            [service("a", cost={"mode": "reference"})],
            {"objective": {"judged": "placed"}, "cluster": NODES},
            "services: a: cost.mode must be default where cluster is given: nothing else tells placed islands from "
            "compact ones, got reference",
            "Set cost.mode to default, or leave out cluster.",
        ),
        (
            [service("a", inventory={"H20": 8})],
            {},
            "services[0].inventory must stand once, for all services",
            "Write it at the top of the file.",
        ),
        (
            [service("a", demand={"share": 2})],
            {},
            "services[0].demand.share must be a number of more than 0 and at most 1",
            "",
        ),
        ([service("a", demand=0)], {}, "services[0].demand must be a number of more than 0", ""),
    ],
)
def test_a_mistake_names_its_place_and_what_to_do(
    services: list[dict[str, Any]], top: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as bad:
        read(*services, **top)
    assert f"firm.yaml: {message}" in str(bad.value)
    assert hint in str(bad.value.hint)


def test_a_workload_without_a_rate_needs_a_demand() -> None:
    bell = {"kind": "normal", "mean": 500, "standard_deviation": 100, "low": 1, "high": 999}
    workload = {"name": "n", **bell, "mean_output_tokens": 90, "max_output_tokens": 200}
    asked = service("a", workload=workload)
    del asked["demand"]
    with pytest.raises(FaultyKeyError) as bad:
        read(asked)
    assert "services[0].demand must be given: the workload has no rate of its own" in str(bad.value)
    assert bad.value.hint == "Write `demand: 20`, requests/s."


def test_levels_at_the_top_are_taken_off_a_batch() -> None:
    fleet = read(service("a"), {**BATCH, "slo": {}}, slo={"ttft_ms": 100})
    assert fleet.service("a").scenarios[0].slo.ttft_ms == 100
    assert not fleet.service("night").scenarios[0].slo.bounds_anything


def test_what_stands_at_the_top_is_for_all_services_and_theirs_goes_first() -> None:
    rows = [{"name": "a", "demand": 1}, {"name": "b", "demand": 2, "slo": {"tpot_ms": 30}, "weight": 2, "priority": 3}]
    fleet = read(*rows, model=MODEL, workload=WORKLOAD, slo={"tpot_ms": 50}, objective={"kind": "weighted"})
    assert [s.scenarios[0].slo.tpot_ms for s in fleet.services] == [50, 30]
    assert [(s.demand_rps, s.weight, s.priority) for s in fleet.services] == [(1, 1, 1), (2, 2, 3)]
    assert fleet.objective.kind is FleetAim.WEIGHTED
    assert [s.scenarios[0].name for s in fleet.services] == ["a", "b"]


def test_demands_are_numbers_shares_curves_and_the_workloads_own(tmp_path: Path) -> None:
    curve = tmp_path / "rates.csv"
    curve.write_text("time,rate_rps\n2026-01-01T00:00:00,4\n2026-01-01T01:00:00,9\n2026-01-01T02:00:00,5\n")
    own = service("own")
    del own["demand"]
    fleet = read(
        service("number", demand=7),
        service("share", demand={"share": 0.3}),
        service("curve", demand={"rates": str(curve), "times": 1.2}),
        own,
        objective={"demand_rps": 50},
    )
    rate = fleet.services[3].scenarios[0].workload.arrival_rps
    assert [s.demand_rps for s in fleet.services] == pytest.approx([7, 15, 1.2 * 9, rate])


def test_checkpoints_below_the_floor_are_left_out() -> None:
    fleet = read(checkpoints(quality={FP8: 0.8, FP4: 0.7}, floor=0.75))
    assert [scenario.model.name for scenario in fleet.services[0].scenarios] == [FP8]
    both = read(checkpoints(quality={FP8: 0.8, FP4: 0.75}, floor=0.75))
    assert [(s.name, s.model.name) for s in both.services[0].scenarios] == [("a", FP8), ("a-2", FP4)]


def test_a_file_of_one_service_is_no_fleet(tmp_path: Path) -> None:
    plain = f"name: a\ninventory: {{H20: 16}}\nworkload: {WORKLOAD}\n"
    (tmp_path / "one.yaml").write_text(plain + f"model: {MODEL}\n")
    (tmp_path / "two.yaml").write_text(plain + f"model: {{checkpoints: [{FP8}, {FP4}]}}\n")
    assert load_fleet(tmp_path / "one.yaml", summarize) is None
    fleet = load_fleet(tmp_path / "two.yaml", summarize)
    assert fleet is not None
    assert [len(s.scenarios) for s in fleet.services] == [2]
