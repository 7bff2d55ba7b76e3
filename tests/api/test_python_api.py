"""The planner from Python, as a notebook uses it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from matplotlib.figure import Figure

import planner
from planner.domain import Scenario
from planner.report.kit.quantities import Banded

SEARCH = {"method": "random", "iterations": 2, "batch_size": 2, "min_island_size": 12}
QUESTION: dict[str, Any] = {
    "inventory": {"H200": 32, "H20": 32},
    "workload": "normal-500-2000",
    "model": "deepseek-v3",
    "ranges": {"width": 2048},
    "serving": "split",
    "search": SEARCH,
}


@pytest.fixture(scope="module")
def plan() -> planner.PlannedDeployment:
    return planner.plan(**QUESTION, seed=0)


TABLE: dict[str, Any] = {"routing": {"form": "table"}}


@pytest.fixture(scope="module")
def table_plan() -> planner.PlannedDeployment:
    """Every range has shares of its own."""
    return planner.plan(**QUESTION, **TABLE, seed=0)


@pytest.fixture(scope="module")
def even_plan() -> planner.PlannedDeployment:
    """Islands of 16 or 32 GPUs, which every engine can run."""
    return planner.plan(**{**QUESTION, **TABLE, "search": {**SEARCH, "min_island_size": 16}}, seed=0)


def test_figures_of_a_plan(plan: planner.PlannedDeployment) -> None:
    assert plan.throughput_rps == min(plan.record.prefill_rps, plan.record.decode_rps) > 0
    assert plan.price_usd_per_hour == 32 * 4 + 32 * 1
    assert "160 USD/hour" in repr(plan)
    assert plan.rate_band_rps is not None
    low, high = plan.rate_band_rps
    assert low < high
    assert f"about {Banded(plan.throughput_rps, low, high)} requests/s" in repr(plan)
    assert plan.probability_better(plan) == 0.5


@pytest.mark.parametrize(
    ("form", "parts"), [("plan", {(0, 8192)}), ("table_plan", {(0, 2048), (2048, 4096), (4096, 6144), (6144, 8192)})]
)
def test_tables_are_data_frames(request: pytest.FixtureRequest, form: str, parts: set[tuple[int, int]]) -> None:
    plan: planner.PlannedDeployment = request.getfixturevalue(form)
    islands, routing, history = plan.islands, plan.routing, plan.history
    assert all(isinstance(frame, pd.DataFrame) for frame in (islands, routing, history))
    serving = islands.dropna(subset=["phase"])
    assert (serving["tp"] * serving["dp"] * serving["replicas"] == serving["size"]).all()
    assert set(serving["phase"]) == {"prefill", "decode"}
    assert islands.groupby("gpu")["size"].sum().max() <= 32
    shares = routing.groupby(["phase", "range_start"])["share"].sum()
    assert shares.to_numpy() == pytest.approx(1.0)
    assert set(zip(routing["range_start"], routing["range_end"], strict=True)) == parts
    assert len(shares) == 2 * len(parts)
    served = routing.groupby("phase")["rate_rps"].sum()
    assert served.to_numpy() == pytest.approx(plan.throughput_rps)
    assert len(history) == 4
    assert history["throughput_rps"].max() == pytest.approx(plan.throughput_rps)
    assert plan.islands is islands


def test_a_layout_that_serves_nothing_says_why() -> None:
    made = planner.plan(
        **{**QUESTION, **TABLE, "search": {**SEARCH, "iterations": 6, "batch_size": 4, "min_island_size": 2}}
    )
    failed = made.history[made.history["throughput_rps"] == 0]
    assert {"cannot be parted", "no island can"} == {
        words for words in ("cannot be parted", "no island can") if failed["error"].str.contains(words).any()
    }
    assert (failed["error"] != "").all()
    assert (made.history["error"] != "").sum() == len(failed)


@pytest.mark.parametrize(
    ("form", "headings"),
    [("plan", ("## Inventory", "## How it was found")), ("table_plan", ("## What to deploy", "## Routing"))],
)
def test_the_summary_is_markdown(request: pytest.FixtureRequest, form: str, headings: tuple[str, ...]) -> None:
    plan: planner.PlannedDeployment = request.getfixturevalue(form)
    text = plan.summary()
    assert text.startswith("# Plan: plan\n")
    assert all(heading in text for heading in headings)


@pytest.mark.parametrize("name", ["search", "routing", "throughput", "mix", "islands"])
def test_figures_are_figures(plan: planner.PlannedDeployment, name: str) -> None:
    figure = plan.figure(name)
    assert isinstance(figure, Figure)
    assert figure.axes


def test_no_other_figure(plan: planner.PlannedDeployment) -> None:
    with pytest.raises(planner.InputError, match="'pie'"):
        plan.figure("pie")


def test_save_and_load(plan: planner.PlannedDeployment, tmp_path: Path) -> None:
    folder = plan.save(tmp_path / "run")
    assert folder == tmp_path / "run"
    for path in (folder, str(folder), folder / "plan.json"):
        assert planner.load_plan(path).record == plan.record
    assert planner.load_plan(folder).summary() == plan.summary()
    with pytest.raises(planner.InputError, match="already holds"):
        plan.save(str(folder))
    plan.save(folder, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_export(even_plan: planner.PlannedDeployment, tmp_path: Path, engine: str) -> None:
    folder = even_plan.export(tmp_path / "m", target="lws", engine=engine)
    kinds = [d["kind"] for path in folder.glob("*.yaml") for d in yaml.safe_load_all(path.read_text()) if d]
    assert kinds.count("LeaderWorkerSet") == len(even_plan.islands.dropna(subset=["phase"]))
    with pytest.raises(planner.InputError, match="already holds"):
        even_plan.export(folder)


def test_no_other_target_or_engine(plan: planner.PlannedDeployment, tmp_path: Path) -> None:
    with pytest.raises(planner.InputError, match="'helm'"):
        plan.export(tmp_path / "m", target="helm")
    with pytest.raises(planner.InputError, match="'tgi'"):
        plan.export(tmp_path / "m", engine="tgi")
    assert list(tmp_path.iterdir()) == []


def test_the_seed_decides(table_plan: planner.PlannedDeployment) -> None:
    assert planner.plan(**QUESTION, **TABLE, seed=0).record == table_plan.record
    seeded = {**QUESTION, **TABLE, "search": {**SEARCH, "seed": 1}}
    assert planner.plan(**seeded).record.search != table_plan.record.search
    assert planner.plan(**seeded, seed=0).record.search == table_plan.record.search
    assert "seed" not in SEARCH


def test_progress_is_told() -> None:
    heard: list[tuple[int, int, float]] = []
    made = planner.plan(**QUESTION, **TABLE, progress=lambda done, total, best: heard.append((done, total, best)))
    assert [(done, total) for done, total, _ in heard] == [(2, 4), (4, 4)]
    assert heard[-1][2] == made.throughput_rps


def test_a_trace_and_documents_in_place_of_names(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("time,input_tokens,output_tokens\n" + "".join(f"{i},{100 + i},7\n" for i in range(50)))
    made = planner.plan(**{**QUESTION, **TABLE, "workload": trace, "name": "own"})
    document = json.loads(json.dumps(planner.files.plan.plan_document.plan_document(made.record)))["scenario"]
    again = planner.plan(**{**QUESTION, **TABLE, "workload": document["workload"], "name": "own"})
    assert isinstance(document["workload"], dict)
    assert again.record.scenario.workload == made.record.scenario.workload
    assert again.record.routing == made.record.routing


def test_a_scenario_file(table_plan: planner.PlannedDeployment, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({"name": "plan", **QUESTION, **TABLE}))
    made = planner.plan_scenario(path)
    assert made.record.search == table_plan.record.search
    assert made.record.islands == table_plan.record.islands

    def with_seed_3(scenario: Scenario) -> Scenario:
        return replace(scenario, search=replace(scenario.search, seed=3))

    assert planner.plan_scenario(str(path), change=with_seed_3).record.provenance.seed == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inventory": {"H2OO": 8}}, "inventory.H2OO is not a known GPU type"),
        ({"inventory": {"H200": 2.5}}, "inventory.H200 must be a whole number"),
        ({"inventory": {}}, "inventory must hold at least one GPU type"),
        ({"inventory": None}, "inventory must be a mapping"),
        ({"inventory": "H200"}, "inventory: must be pairs such as"),
        ({"inventory": [("H200", 8)]}, "inventory must be a mapping"),
        ({"inventory": {8: "H200"}}, "inventory"),
        ({"workload": "nope"}, "workload: There is no workload 'nope'"),
        ({"workload": None}, "workload must be a text"),
        ({"workload": Path("gone.csv")}, "gone.csv: there is no such file"),
        ({"workload": object()}, "must hold only texts, numbers, lists and mappings"),
        ({"model": "gpt-2"}, "model: There is no model 'gpt-2'"),
        ({"model": 3}, "model must be a text"),
        ({"search": "fast"}, "search must be a mapping"),
        ({"search": {"iterations": 0}}, "search.iterations must be a whole number of at least 1"),
        ({"serach": {}}, "serach is not a known key"),
        ({"seed": -1}, "search.seed must be a whole number"),
        ({"seed": "x"}, "search.seed must be a whole number"),
        ({"name": "a b"}, "name must be a name"),
        ({"ranges": {"width": 0}}, "ranges.width"),
        ({"cost": {"mode": "exact"}}, "cost.mode must be one of default, reference"),
        ({"prices_usd_per_gpu_hour": {"H200": -1}}, "prices_usd_per_gpu_hour.H200"),
    ],
)
def test_bad_arguments(change: dict[str, Any], words: str) -> None:
    with pytest.raises(planner.InputError) as caught:
        planner.plan(**{**QUESTION, **change})
    assert caught.value.message.startswith("planner.plan(...): ")
    assert words in caught.value.message
    assert caught.value.hint


def test_too_few_gpus_are_infeasible() -> None:
    few = {**QUESTION, "inventory": {"H200": 2}, "search": {**SEARCH, "min_island_size": 1}}
    with pytest.raises(planner.InfeasibleError, match=r"H200 \(the inventory has 2\): at least 6 to prefill"):
        planner.plan(**{**few, **TABLE})
    with pytest.raises(planner.InfeasibleError, match=r"H200 \(the inventory has 2\) prefill, decode: .* at least 8"):
        planner.plan(**few)


def test_missing_files() -> None:
    with pytest.raises(planner.InputError, match="no such file"):
        planner.plan_scenario("gone.yaml")
    with pytest.raises(planner.InputError, match="cannot be read"):
        planner.load_plan("gone")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plam'"):
        _ = planner.plam
