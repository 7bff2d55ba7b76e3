"""`plan.replan(...)`: the change at hand, its frames, figures and run folder."""

from pathlib import Path

import pytest

import planner
from planner.api.changes import ChangedDeployment
from planner.errors import InputError
from planner.files import load_run

FLEET = {"H200": 32, "H20": 32}


@pytest.fixture(scope="module")
def changed() -> ChangedDeployment[planner.PlannedDeployment]:
    plan = planner.plan(
        inventory=FLEET,
        workload="normal-500-2000",
        ranges={"width": 2048},
        search={"method": "random", "iterations": 2, "batch_size": 2, "min_island_size": 12},
        progress=False,
    )
    return plan.replan(inventory={"H200": 32, "H20": 16}, least_share=0.5)


def test_a_change_has_plan_frames_and_a_verdict(changed: ChangedDeployment[planner.PlannedDeployment]) -> None:
    assert changed.plan.scenario.inventory.item("H20").count == 16
    assert changed.holds is True
    assert 0 < changed.running_on_share <= 1
    assert changed.reached_share >= 0.5 * min(
        1.0, changed.record.roll_out.new_rps / changed.record.roll_out.current_rps
    )
    assert changed.servers["servers"].sum() == changed.record.change.servers_before  # nothing starts
    assert list(changed.steps["step"]) == list(range(1, len(changed.steps) + 1))
    assert changed.frontier["chosen"].sum() == 1
    assert "of the servers run on" in repr(changed)
    assert "Change of plan" in changed._repr_html_()
    assert changed.summary().startswith("# Change of plan\n")


def test_its_figures_are_drawn_by_name(changed: ChangedDeployment[planner.PlannedDeployment]) -> None:
    for name in changed.figures:
        assert changed.figure(name).axes
    with pytest.raises(InputError, match="must be one of rollout, frontier"):
        changed.figure("routing")


def test_it_is_saved_as_a_run(changed: ChangedDeployment[planner.PlannedDeployment], tmp_path: Path) -> None:
    folder = changed.save(tmp_path / "new")
    assert load_run(folder).throughput_rps == changed.plan.throughput_rps
    assert len(list((folder / "steps").iterdir())) == len(changed.steps)
    with pytest.raises(InputError, match="already holds"):
        changed.save(folder)


@pytest.mark.parametrize(
    "wrong", [{"keep": 1.5}, {"most_gpus": -1}, {"drain_s": -1.0}, {"lost": ["H20"]}, {"stop_s": 1}]
)
def test_what_cannot_be_is_refused(
    changed: ChangedDeployment[planner.PlannedDeployment], wrong: dict[str, object]
) -> None:
    with pytest.raises(InputError):
        changed.plan.replan(**wrong)


def test_copies_that_cannot_join_another_island_count_as_touched() -> None:
    """Of plans that serve as much for the same rent the one is taken that leaves all where it is."""
    plan = planner.plan(
        inventory={"H20": 16},
        workload="normal-500-2000",
        model="gpt-oss-120b",
        slo={"ttft_ms": 2000, "tpot_ms": 40, "percentile": 99},
        ranges={"width": 4096},
        serving="split",
        engine={"name": "vllm", "version": "0.33.0"},
        objective={"kind": "target", "target_rps": 5},
        progress=False,
    )
    fewer = plan.replan(settings={"objective.target_rps": 4}, horizon_hours=1, replay=False)
    (chosen,) = fewer.frontier[fewer.frontier["chosen"]].to_dict("records")
    assert (fewer.gpus_touched, chosen["gpus_touched"], chosen["value"]) == (0, 0, 3.0)
    assert "| USD/hour |" in fewer.summary()

    lost = plan.replan(lost=["H20=14"], settings={"objective.target_rps": 1}, replay=False)
    assert "- lost: 1 server of h20-2g-prefill-1; of a GPU type idle ones count first" in lost.summary()
    assert f"The new plan: **The {sum(lost.record.plan.fleet.values())} GPUs promise" in lost.summary()
