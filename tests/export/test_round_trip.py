"""Manifests read back are the plan that made them: every target, engine and plan that the registry knows."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
import yaml
from contract_plans import planned, single_node_plan
from export_plans import gpu, island, plan_of, route
from hypothesis import event, given, settings
from hypothesis import strategies as st
from quick_yaml import load_document, load_documents
from test_target_contract import PAIRS, SERVING, each_case, rendered

from planner.domain import PHASES, DeployedPlan, ParallelConfig, Plan, PlannedIsland
from planner.errors import InputError
from planner.export import ENGINES, ExportOptions, read_plan, render, summarize_plan

TELLING = [pair for pair in PAIRS if pair not in SERVING]


@each_case(SERVING)
def test_manifests_read_back_to_their_plan(target: str, engine: str, plan: str) -> None:
    made = planned(plan, engine)
    found = read_plan(rendered(target, engine, plan))
    assert found == summarize_plan(made, engine=engine, target=target)
    assert len(found.islands) == sum(i.phase is not None for i in made.islands)
    assert len(found.routes) == len(made.routing)


@pytest.mark.parametrize(("target", "engine"), TELLING)
def test_objects_that_tell_of_the_fleet_are_no_plan(target: str, engine: str) -> None:
    with pytest.raises(InputError, match="there: must hold a workload of an island, holds none"):
        read_plan(render(single_node_plan(), target=target, engine=engine), "there")


def relaid(files: Mapping[str, str]) -> dict[str, str]:
    """The same objects as another tool would write them: comments gone, keys sorted, all in one file."""
    documents = [d for name, text in files.items() if name.endswith(".yaml") for d in load_documents(text)]
    return {"all.yml": yaml.safe_dump_all(documents[::-1], sort_keys=True)}


@pytest.mark.parametrize("target", ["lws", "kubernetes"])
def test_layout_order_and_comments_mean_nothing(target: str) -> None:
    files = render(single_node_plan(), target=target)
    assert read_plan(relaid(files)) == read_plan(files)


def edited(change: Mapping[str, object]) -> dict[str, str]:
    """The kubernetes manifests of three islands, H20-1 changed by hand."""
    files = render(single_node_plan(), target="kubernetes")
    documents = list(load_documents(files["03-h20-1.yaml"]))
    workload = documents[0]
    for path, value in change.items():
        keys, place = path.split("|"), workload
        for key in keys[:-1]:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(keys[-1]) if isinstance(place, list) else keys[-1]] = value
    return {**files, "03-h20-1.yaml": yaml.safe_dump_all(documents)}


def test_an_edit_that_adds_up_is_read() -> None:
    before = read_plan(edited({}))
    note = "metadata|annotations|planner/"
    batch = {f"{note}batch-size": "4", "spec|template|spec|containers|0|args|3": "--max-num-seqs=4"}
    after = read_plan(edited({**batch, f"{note}utilisation": "0.5"}))
    was = {i.id: i for i in before.islands}
    now = {i.id: i for i in after.islands}
    assert now.pop("H20-1") == replace(was.pop("H20-1"), batch_size=4, utilisation=0.5)
    assert now == was
    assert (after.routes, after.gpus) == (before.routes, before.gpus)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spec|replicas": 2}, "03-h20-1.yaml, Deployment single-nodes-h20-1, spec.replicas: must be the 1 replicas"),
        ({"spec|replicaCount": 2}, "03-h20-1.yaml, Deployment single-nodes-h20-1, spec: must follow the schema"),
        ({"metadata|annotations|planner/tp": "4"}, "metadata.annotations.planner/: must tell the island of a plan"),
        ({"metadata|annotations|planner/rate-rps": "nan"}, "must tell the island of a plan, got planner/rate-rps"),
        (
            {"metadata|annotations|planner/tp": "-8", "metadata|annotations|planner/dp": "-1"},
            "must be at least 1",
        ),
        ({"metadata|annotations|planner/island-id": "H20-0"}, "metadata.labels.planner/island: must name a serving"),
        ({"metadata|annotations|planner/model": "other"}, "metadata.annotations.planner/model: must be 'deepseek-v3'"),
        ({"metadata|annotations|planner/target": "lws"}, "metadata.annotations.planner/target: must be 'kubernetes'"),
    ],
)
def test_an_edit_that_does_not_is_told_with_its_field(change: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as refused:
        read_plan(edited(change), "mine")
    assert told in str(refused.value)
    assert refused.value.exit_status == 2
    assert refused.value.hint


def test_ranges_that_overlap_are_told() -> None:
    files = render(single_node_plan(), target="script")
    table = json.loads(files["routing.json"])
    for row in table["routes"]:
        row["range_end"] = row["range_end"] + (1 if row["range_start"] == 0 else 0)
    with pytest.raises(InputError, match=r"routes prefill 2048-6094: must not overlap 0-2048"):
        read_plan({**files, "routing.json": json.dumps(table)})


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("services", 0, "service"), [1], "must follow the schema|must be rows with the names"),
        (("services", 0), {"service": "x", "phase": "prefill"}, "must follow the schema|must be rows with the names"),
        (("services", 0), 7, "must follow the schema|must be rows with the names"),
        (("plan", "inventory"), {"H20": "many"}, "must follow the schema|whole numbers of GPUs"),
        (("plan", "inventory"), [3], "must follow the schema|whole numbers of GPUs"),
        (("routes", 0, "share"), float("nan"), "a number must be finite"),
        (("routes", 0, "share"), -0.5, "share must lie in 0..1"),
        (("routes", 0, "range_start"), float("inf"), "a number must be finite"),
        (("routes", 0, "service"), "nobody", "must name a Service of an island"),
        (("routes",), [], "must route a range"),
    ],
)
@pytest.mark.parametrize("target", ["script", "kubernetes"])
def test_a_table_that_is_none_is_told(target: str, path: tuple[str | int, ...], value: object, told: str) -> None:
    files = render(single_node_plan(), target=target)
    config = None if target == "script" else load_document(files["routing.yaml"])
    table = json.loads(files["routing.json"] if config is None else config["data"]["routing.json"])
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if config is None:
        files["routing.json"] = json.dumps(table)
    else:
        config["data"]["routing.json"] = json.dumps(table)
        files["routing.yaml"] = yaml.safe_dump(config)
    with pytest.raises(InputError, match=told) as refused:
        read_plan(files)
    assert "routing." in refused.value.message


def test_two_plans_in_one_folder_are_told() -> None:
    by_server = ExportOptions(ranks="server")
    one = render(single_node_plan(), target="script", options=by_server)
    other = render(single_node_plan(), target="kubernetes", options=by_server)
    mixed = {**one, "02-h20-0.yaml": other["02-h20-0.yaml"]}
    mixed.pop("02-h20-0.sh")
    with pytest.raises(InputError, match=r"02-h20-0.yaml, Deployment .*planner/target: must be 'script' as in 01-"):
        read_plan(mixed)


def test_no_files_are_no_plan() -> None:
    with pytest.raises(InputError):
        read_plan({})


NAMES = st.text(alphabet="abcXYZ019 -._:#'\"$é", min_size=1, max_size=12)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Up to six islands of a node or less with odd figures and names, shares that are no round numbers."""
    islands: list[PlannedIsland] = []
    for phase in PHASES:
        for number in range(draw(st.integers(1, 3))):
            parallel = ParallelConfig(tp=draw(st.sampled_from([1, 2, 4, 8])), dp=1, replicas=draw(st.integers(1, 4)))
            one = island(f"{draw(NAMES)}{phase}{number}", draw(st.sampled_from(["H20", "H200"])), phase, parallel)
            figures = {key: draw(st.floats(0.0, 1e9)) for key in ("rate_rps", "utilisation", "price_usd_per_hour")}
            islands.append(replace(one, batch_size=draw(st.integers(1, 4096)), **figures))
    rows = []
    for phase in PHASES:
        serving = [i.id for i in islands if i.phase is phase]
        for start in (0, 100):
            weights = [draw(st.floats(0.01, 1.0)) for _ in serving]
            rows += [
                route(name, phase, start, w / sum(weights), width=100) for name, w in zip(serving, weights, strict=True)
            ]
    return plan_of(tuple(islands), gpus=(gpu("H20"), gpu("H200")), name=f"p{draw(NAMES)}", routing=tuple(rows))


@pytest.mark.parametrize("target", ["lws", "kubernetes", "script"])
@settings(max_examples=15, deadline=None)
@given(plan=plans(), engine=st.sampled_from(sorted(ENGINES)))
def test_random_plans_read_back_to_the_last_digit(target: str, plan: Plan, engine: str) -> None:
    try:
        files = render(plan, target=target, engine=engine)
    except InputError as error:
        event(error.message)
        if "Island ids" in error.message or "Object name" in error.message:
            return  # two ids differ in signs alone, or are too long together with the plan's name
        raise
    found: DeployedPlan = read_plan(files)
    assert found == summarize_plan(plan, engine=engine, target=target)
