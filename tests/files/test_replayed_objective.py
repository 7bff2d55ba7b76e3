"""The objective `replayed`: what is read, what it draws requests from, what it does not go with."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from planner.domain import DrawnFrom, ObjectiveKind, Scenario
from planner.domain.arrivals import ArrivalProcess
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
Write = Callable[[str, str], Path]
Fields = dict[str, Any]

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{0.5 * k},{200 + 13 * k},{5 + k}\n" for k in range(60))


def asked(document: Fields, objective: Any = "replayed", **changes: Any) -> Fields:
    return {**document, "slo": {"ttft_ms": 2000}, "objective": objective, **changes}


def test_a_word_takes_the_defaults(read: Read, document: Fields) -> None:
    scenario = read(asked(document))
    objective = scenario.objective
    assert objective.kind is ObjectiveKind.REPLAYED
    assert (objective.arrivals, objective.drawn_from) == (ArrivalProcess.POISSON, DrawnFrom.LENGTHS)
    assert scenario.trace is None


def test_what_is_written_is_read_back(read: Read, document: Fields) -> None:
    section = {"kind": "replayed", "arrivals": "gamma", "requests": 5000, "replays": 3, "demand_rps": 4}
    scenario = read(asked(document, section))
    written = scenario_document(scenario)
    assert cast(Fields, written["objective"]) == {**section, "drawn_from": "lengths"}
    assert read(written).objective == scenario.objective


def test_other_objectives_do_not_write_its_keys(read: Read, document: Fields) -> None:
    written = cast(Fields, scenario_document(read({**document, "objective": "rate"}))["objective"])
    assert not {"arrivals", "drawn_from", "requests", "replays"} & set(written)


def test_a_trace_brings_its_requests(read: Read, document: Fields, write: Write) -> None:
    write("mine.csv", TRACE)
    scenario = read(asked(document, {"kind": "replayed", "arrivals": "trace"}, workload="mine.csv"))
    assert scenario.objective.drawn_from is DrawnFrom.TRACE
    assert len(scenario.trace.input_tokens) == 60
    by_lengths = read(asked(document, {"kind": "replayed", "drawn_from": "lengths"}, workload="mine.csv"))
    assert by_lengths.objective.drawn_from is DrawnFrom.LENGTHS
    assert read(asked(document, "rate", workload="mine.csv")).trace is None


def test_a_run_of_a_trace_is_read_back_without_it(read: Read, document: Fields, write: Write) -> None:
    write("mine.csv", TRACE)
    scenario = read(asked(document, {"kind": "replayed", "arrivals": "trace"}, workload="mine.csv"))
    again = read(scenario_document(scenario))
    assert again.trace is None
    assert again.objective == scenario.objective


@pytest.mark.parametrize(
    ("changes", "words", "hint"),
    [
        ({"routing": {"form": "table"}}, ("routing.form must be buckets", "got table"), "Set routing.form to buckets"),
        ({"cost": {"mode": "reference"}}, ("routing.form must be buckets", "reference"), "objective.kind to rate"),
        ({"slo": {}}, ("slo must hold a bound",), "Add slo.ttft_ms"),
        ({"survive": {"share": 0.5}}, ("survive.share must be 0", "got 0.5"), "Leave out survive"),
        ({"search": {"method": "exact"}}, ("search.method must be auto", "got exact"), "Leave out search.method"),
        ({"search": {"method": "random"}}, ("search.method must be auto", "got random"), "Leave out search.method"),
        ({"objective": {"kind": "replayed", "goals": ["rate", "price"]}}, ("objective.goals",), "Choose one objective"),
        ({"objective": {"kind": "replayed", "target_rps": 5}}, ("objective.target_rps",), "Choose one objective"),
        ({"objective": {"kind": "rate", "arrivals": "gamma"}}, ("objective.arrivals", "kind is rate"), "Choose one"),
        ({"objective": {"kind": "replayed", "arrivals": "trace"}}, ("objective.arrivals",), "Name the trace's file"),
        ({"objective": {"kind": "replayed", "arrivals": "diurnal"}}, ("arrivals must be poisson, gamma or trace",), ""),
        ({"objective": {"kind": "replayed", "requests": 10}}, ("objective.requests", "at least 1000"), ""),
        ({"objective": {"kind": "replayed", "replays": 0}}, ("objective.replays", "at least 1"), ""),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    read: Read, refused: Refused, document: Fields, changes: Fields, words: tuple[str, ...], hint: str
) -> None:
    refused(lambda: read({**asked(document), **changes}), *words, hint=hint)
