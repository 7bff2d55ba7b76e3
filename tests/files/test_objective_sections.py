"""The objective section with several goals: what is read, what is refused and how, and the way back."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from planner.domain import CurrentIsland, Goal, ObjectiveKind, ObjectiveSettings, Phase, Pick, Scenario
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
Write = Callable[[str, str], Path]
Fields = dict[str, Any]

SEARCH = {"method": "random"}
TWO = {"kind": "pareto", "goals": ["rate", "price"]}
RUNNING = [
    {"gpu": "H20", "size": 8, "phase": "decode", "count": 2},
    {"gpu": "A100", "size": 4, "phase": "prefill"},
]
ALL = {
    "kind": "pareto",
    "goals": ["headroom", "changes", "watts", "rate", "price"],
    "pick": "within",
    "within": 0.2,
    "demand_rps": 12.5,
    "current": RUNNING,
}


def asked(document: Fields, objective: Fields, **changes: Any) -> Fields:
    return {**document, "search": SEARCH, "slo": {"ttft_ms": 2000}, "objective": objective, **changes}


def test_two_goals_take_the_defaults(read: Read, document: Fields) -> None:
    found = read(asked(document, TWO)).objective
    assert found == ObjectiveSettings(kind=ObjectiveKind.PARETO, goals=(Goal.RATE, Goal.PRICE), pick=Pick.KNEE)


def test_everything_is_read_in_the_order_given(read: Read, document: Fields) -> None:
    found = read(asked(document, ALL)).objective
    assert [goal.value for goal in found.goals] == ALL["goals"]
    assert (found.pick, found.within, found.demand_rps) == (Pick.WITHIN, 0.2, 12.5)
    assert found.current == (
        CurrentIsland(gpu="H20", size=8, phase=Phase.DECODE, count=2),
        CurrentIsland(gpu="A100", size=4, phase=Phase.PREFILL, count=1),
    )


@pytest.mark.parametrize(
    "section",
    [
        {},
        TWO,
        ALL,
        {**TWO, "pick": "within"},
        {"kind": "pareto", "goals": ["rate", "changes"], "current": []},
        {"kind": "pareto", "goals": ["rate", "headroom"], "demand_rps": 3},
    ],
)
def test_what_is_written_is_read_back(read: Read, document: Fields, section: Fields) -> None:
    scenario = read(asked(document, section))
    written = scenario_document(scenario)
    assert read(written).objective == scenario.objective
    assert scenario_document(read(written)) == written


def run_of(*islands: tuple[str, int, str]) -> str:
    rows = [
        {"id": f"{gpu}-{k}", "gpu": gpu, "size": size, "phase": phase} for k, (gpu, size, phase) in enumerate(islands)
    ]
    return json.dumps({"islands": rows, "idle_islands": [{"id": "spare", "gpu": "H20", "size": 2}]})


@pytest.mark.parametrize("named", ["old", "old/plan.json"])
def test_what_runs_is_read_from_a_run(read: Read, document: Fields, write: Write, tmp_path: Path, named: str) -> None:
    (tmp_path / "old").mkdir()
    text = run_of(("H20", 8, "decode"), ("H200", 4, "prefill"), ("H20", 8, "decode"), ("H20", 8, "prefill"))
    write("old/plan.json", text)
    scenario = read(asked(document, {"kind": "pareto", "goals": ["rate", "changes"], "current": named}))
    assert scenario.objective.current == (
        CurrentIsland(gpu="H20", size=8, phase=Phase.DECODE, count=2),
        CurrentIsland(gpu="H20", size=8, phase=Phase.PREFILL, count=1),
        CurrentIsland(gpu="H200", size=4, phase=Phase.PREFILL, count=1),
    )
    assert ("plan.json", hashlib.sha256(text.encode()).hexdigest()) in [(i.name, i.sha256) for i in scenario.inputs]
    written = cast(Fields, scenario_document(scenario)["objective"])
    assert read(asked(document, written)).objective == scenario.objective


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"goals": ["rate"]}, ("objective.goals", "two different goals")),
        ({"goals": ["rate", "rate"]}, ("objective.goals", "two different goals")),
        ({"goals": []}, ("objective.goals", "two different goals")),
        ({"goals": ["price", "watts"]}, ("objective.goals", "rate among them")),
        ({"goals": ["rate", "prize"]}, ("objective.goals", "rate, price, watts, headroom, changes", "'prize'")),
        ({"goals": "rate"}, ("objective.goals", "list of texts", "'rate'")),
        ({"goals": None}, ("objective.goals", "list of texts")),
        ({"pick": "best"}, ("objective.pick", "knee, within", "'best'")),
        ({"within": 0.1}, ("objective.within", "pick is within")),
        ({"pick": "within", "within": 1}, ("objective.within", "less than 1")),
        ({"pick": "within", "within": -0.1}, ("objective.within", "at least 0")),
        ({"demand_rps": 5}, ("objective.demand_rps", "headroom")),
        ({"current": RUNNING}, ("objective.current", "changes")),
        ({"goals": ["rate", "headroom"], "demand_rps": 0}, ("objective.demand_rps", "more than 0")),
        ({"goals": ["rate", "headroom"]}, ("objective.demand_rps", "normal-500-2000", "no arrival rate")),
        ({"goals": ["rate", "changes"]}, ("objective.current", "missing")),
        ({"goals": ["rate", "changes"], "current": 5}, ("objective.current", "a text", "5")),
        ({"goals": ["rate", "changes"], "current": "runs/none"}, ("objective.current", "no such file")),
        ({"goals": ["rate", "changes"], "current": ["H20"]}, ("objective.current", "list of mappings")),
        (
            {"goals": ["rate", "changes"], "current": [{"gpu": "H20", "size": 0, "phase": "decode"}]},
            ("objective.current[0].size", "at least 1"),
        ),
        (
            {"goals": ["rate", "changes"], "current": [{"gpu": "H20", "size": 8, "phase": "idle"}]},
            ("objective.current[0].phase", "prefill, decode"),
        ),
        (
            {"goals": ["rate", "changes"], "current": [{"gpu": "H20", "size": 8, "phase": "decode", "of": 1}]},
            ("objective.current[0].of", "not a known key"),
        ),
        ({"target_rps": 5}, ("objective.target_rps", "kind is pareto")),
        ({"kind": "rate"}, ("objective.goals", "kind is rate")),
        ({"goal": "rate"}, ("objective.goal", "not a known key")),
    ],
)
def test_what_cannot_be_is_refused(
    read: Read, refused: Refused, document: Fields, changes: Fields, words: tuple[str, ...]
) -> None:
    refused(lambda: read(asked(document, {**TWO, **changes})), *words)


def test_a_run_that_is_none_is_refused(read: Read, refused: Refused, document: Fields, write: Write) -> None:
    objective = {"kind": "pareto", "goals": ["rate", "changes"], "current": "other.json"}
    write("other.json", "{}")
    refused(lambda: read(asked(document, objective)), "objective.current", "other.json", "islands")
    write("other.json", '{"islands": [{"gpu": "H20", "size": 8}]}')
    refused(lambda: read(asked(document, objective)), "objective.current", "islands[0].phase")


def test_goals_need_what_they_are_measured_by(read: Read, refused: Refused, document: Fields) -> None:
    headroom = {"kind": "pareto", "goals": ["rate", "headroom"], "demand_rps": 3}
    refused(lambda: read(asked(document, headroom, slo={})), "slo", "headroom", hint="slo.ttft_ms")
    free = {"prices_usd_per_gpu_hour": {"H200": 0, "H20": 0}}
    refused(lambda: read(asked(document, TWO, **free)), "prices_usd_per_gpu_hour", "price is among")
    assert read(asked(document, TWO, prices_usd_per_gpu_hour={"H200": 0, "H20": 1}))


def test_a_workload_with_a_clock_has_its_own_demand(read: Read, document: Fields) -> None:
    objective = {"kind": "pareto", "goals": ["rate", "headroom"]}
    scenario = read(asked({**document, "workload": "azure-code-2023"}, objective))
    assert scenario.objective.demand_rps == 0
    assert scenario.workload.arrival_rps


def test_several_goals_are_searched_not_solved(read: Read, refused: Refused, document: Fields) -> None:
    refused(lambda: read(asked(document, TWO, search={"method": "exact"})), "search.method", "pareto", "exact")
    for method in ("divider", "direct", "random"):
        assert read(asked(document, TWO, search={"method": method}))
