"""Lines as a new user types them, without having read anything: each works, or says what does."""

import json
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import planner

FRAME = pd.DataFrame(
    {
        "time": [0.5 * number for number in range(400)],
        "input_tokens": [500 + (37 * number) % 900 for number in range(400)],
        "output_tokens": [100 + (13 * number) % 200 for number in range(400)],
    }
)
GAPPED = FRAME.assign(input_tokens=FRAME["input_tokens"].where(FRAME.index != 3))
LEVELS: dict[str, Any] = {"ttft": "3s", "tpot": "60ms"}
QUESTION: dict[str, Any] = {"model": "gpt-oss-120b", "workload": FRAME, "progress": False}
FLEETS = {
    "mapping": {"H100": 8},
    "text": "h100=8",
    "frame": pd.DataFrame({"gpu": ["H100"], "count": [8]}),
    "series": pd.Series({"H100": 8}),
}


@pytest.fixture(scope="module")
def answered() -> planner.AnsweredPlan:
    return planner.max(inventory={"H100": 8}, **QUESTION, **LEVELS)


@pytest.fixture(scope="module")
def plan() -> planner.PlannedDeployment:
    return planner.plan(inventory={"H100": 8}, **QUESTION, **LEVELS)


@pytest.fixture(scope="module")
def run(plan: planner.PlannedDeployment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plan.save(tmp_path_factory.mktemp("runs") / "x")


@pytest.mark.parametrize("fleet", ["text", "frame", "series"])
def test_fleets_as_they_are_at_hand(answered: planner.AnsweredPlan, fleet: str) -> None:
    again = planner.max(inventory=FLEETS[fleet], **QUESTION, **LEVELS)
    assert again.fleet == answered.fleet == {"H100": 8}
    assert again.throughput_rps == answered.throughput_rps


def test_levels_as_they_are_typed(answered: planner.AnsweredPlan, plan: planner.PlannedDeployment) -> None:
    written = planner.plan(
        inventory="h100=8", slo={"ttft_ms": 3000, "tpot_ms": 60}, **QUESTION, prices_usd_per_gpu_hour="h100=2.5"
    )
    assert written.scenario.slo == plan.scenario.slo == answered.scenario.slo
    assert written.throughput_rps == plan.throughput_rps
    assert written.price_usd_per_hour == 20.0
    assert planner.plan(inventory="h100=8", percentile=95, **QUESTION, **LEVELS).scenario.slo.percentile == 95


def test_a_run_is_loaded_whatever_it_is(plan: planner.PlannedDeployment, run: Path, tmp_path: Path) -> None:
    for path in (run, str(run), run / "plan.json"):
        assert planner.load(path).record == plan.record
    swept = planner.sweep(
        "quickstart",
        {"inventory.H800": [None], "inventory.H20": [None], "inventory.H200": [8], "workload": ["normal-500-2000"]},
        tmp_path / "s",
        progress=False,
    )
    assert list(planner.load(tmp_path / "s").frame["rate_rps"]) == list(swept.frame["rate_rps"])


@pytest.mark.parametrize(
    "line",
    [
        "plan.pools",
        "plan.pools.query(\"gpu == 'H100'\")",
        "plan.routing",
        "plan.latency",
        "plan.cost.usd_per_hour",
        "plan.figure()",
        "plan.figure('routing')",
        "plan.replay('lengths', rate='0.9x', requests=200, progress=False)",
        "plan.replan(inventory={'H100': 8}, replay=False).plan",
        "plan.replan(inventory='H100=8', replay=False).plan",
        "plan.compare(plan)",
        "plan.compare(run)",
        "str(plan)",
        "plan._repr_html_()",
        "planner.gpus()",
        "planner.models()",
        "planner.workload(FRAME)",
        "planner.workload(FRAME.iloc[:1])",
        "planner.workload(GAPPED, drop=['faulty'])",
    ],
)
def test_lines_that_work(line: str, plan: planner.PlannedDeployment, run: Path) -> None:
    value = eval(line, {"plan": plan, "planner": planner, "run": run, "FRAME": FRAME, "GAPPED": GAPPED})
    assert value is not None
    assert not (isinstance(value, pd.DataFrame) and value.empty)


def test_the_gap_is_a_share(plan: planner.PlannedDeployment) -> None:
    assert plan.gap is not None
    assert 0 <= plan.gap < 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("plan.export('lws')", 'plan.export("manifests", target="lws")'),
        ("plan.figure('rooting')", "Choose one of these names"),
        ("plan.pools.query(\"gpu_type == 'H100'\")", "gpu, servers"),
        ("plan.save(run)", "force"),
        ("planner.plan(inventory='h100=8', percentile=0.95, **QUESTION, **LEVELS)", "Did you mean 95?"),
        ("planner.plan(inventory={'H1000': 8}, **QUESTION)", "Did you mean H100"),
        ("planner.plan(inventory='H1000=8', **QUESTION)", "H100"),
        ("planner.plan(inventory='h100', **QUESTION)", "TYPE=NUMBER"),
        ("planner.plan(inventory='h100=8', **{**QUESTION, 'model': 'gpt-os-120b'})", "Did you mean gpt-oss-120b"),
        ("planner.plan(inventory='h100=8', objektive='rate', **QUESTION)", "Did you mean objective?"),
        ("planner.plan(inventory='h100=8', ttft=3, **QUESTION)", "Write 3ms or 3s."),
        ("planner.plan(inventory='h100=8', slo={'ttft_ms': 3000}, ttft='3s', **QUESTION)", "by ttft, tpot"),
        ("planner.plan(inventory='h100=8', slo={'ttft_ms': 3, 'tpot_ms': 60}, **QUESTION)", "ttft_ms: 3000"),
        ("planner.workload(FRAME.iloc[:0])", "a row a request"),
        ("planner.workload(GAPPED)", "drop=['faulty']"),
        (
            "planner.plan(inventory='h100=8', **{**QUESTION, 'model': ['gpt-oss-120b', 'deepseek-v3']})",
            "each by itself",
        ),
        ("planner.plan(inventory='h100=8', **{**QUESTION, 'workload': 'no-file.csv'})", "Check the path"),
        ("planner.load('runs/x')", "relative to"),
        ("planner.load(run.parent)", "plan.json, fleet.json, schedule.json"),
        ("planner.max(inventory=8, **QUESTION)", '{"H100": 8}'),
    ],
)
def test_lines_that_say_what_works(line: str, says: str, plan: planner.PlannedDeployment, run: Path) -> None:
    names = {
        "plan": plan,
        "planner": planner,
        "run": run,
        "FRAME": FRAME,
        "GAPPED": GAPPED,
        "QUESTION": QUESTION,
        "LEVELS": LEVELS,
    }
    with pytest.raises(planner.InputError) as caught:
        eval(line, names)
    assert says in caught.value.hint


def test_a_run_of_another_version_says_so(run: Path, tmp_path: Path) -> None:
    document = json.loads((run / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(document | {"schema_version": 99}))
    with pytest.raises(planner.InputError, match="schema_version") as caught:
        planner.load(tmp_path)
    assert "plan again" in caught.value.hint


def test_tables_survive_copies_and_pickles(plan: planner.PlannedDeployment) -> None:
    again = pickle.loads(pickle.dumps(plan.pools[["gpu", "servers"]]))
    pd.testing.assert_frame_equal(again, plan.pools[["gpu", "servers"]])
    with pytest.raises(planner.InputError):
        again.query("gpus > 3")
