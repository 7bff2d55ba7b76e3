"""Answers of Prometheus: what a real one said of known series, and what is refused."""

import copy
import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_data import reference_text

from planner.domain.serving.observed import ObservedSeries, Quantity
from planner.errors import InputError
from planner.files import load_answers
from planner.plans.observed.loads import histogram_of

REAL: dict[str, Any] = json.loads(reference_text("prometheus/answers.json"))
PREFILL, DECODE = "h100-2g-prefill-1", "h100-4g-decode-1"
# of the series that Prometheus was given: requests/s, prompt tokens of a request, sequences, their share of the time
RATE, PROMPT, ANSWER, RUNNING, BUSY = 4.0, 1800, 100, 40, 0.75
COMPUTED = 0.75


def written(folder: Path, documents: dict[str, Any]) -> list[Path]:
    paths = []
    for name, document in documents.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(document if isinstance(document, str) else json.dumps(document))
    return paths


def values(series: tuple[ObservedSeries, ...]) -> dict[tuple[Quantity, str], float]:
    return {(item.quantity, item.island): item.value for item in series if item.edge_s is None}


@pytest.mark.parametrize("kind", ["query", "query_range"])
def test_a_real_prometheus_is_understood(kind: str, tmp_path: Path) -> None:
    series = load_answers(written(tmp_path, REAL[kind]))
    by_island = values(series)
    assert {item.quantity for item in series} == {quantity for quantity in Quantity if quantity.is_recorded}
    assert {item.plan for item in series} == {"small"}
    expected = {
        (Quantity.REQUESTS, PREFILL): RATE,
        (Quantity.REQUESTS, DECODE): RATE,
        (Quantity.PROMPT_TOKENS, PREFILL): RATE * PROMPT,
        (Quantity.COMPUTED, PREFILL): RATE * PROMPT * COMPUTED,
        (Quantity.COMPUTED, DECODE): 0,
        (Quantity.GENERATED, DECODE): RATE * ANSWER,
        (Quantity.TTFT_SUM, PREFILL): RATE * 0.55,
        (Quantity.TPOT_SUM, DECODE): RATE * 0.0195,
        (Quantity.RANKS, PREFILL): 2,
        (Quantity.RANKS, DECODE): 1,
        (Quantity.BACKLOG, PREFILL): 1,
        (Quantity.BACKLOG, DECODE): 0,
    }
    assert {key: by_island[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    # gauges are samples: a window may begin and end anywhere in their rhythm of four
    assert by_island[Quantity.RUNNING, DECODE] == pytest.approx(BUSY * RUNNING, rel=0.02)
    assert by_island[Quantity.BUSY, DECODE] == pytest.approx(BUSY, rel=0.02)
    assert {item.samples for item in series} == ({1} if kind == "query" else {4})


def test_quantiles_are_those_of_prometheus(tmp_path: Path) -> None:
    series = load_answers(written(tmp_path, REAL["query"]))
    for key, expected in REAL["ttft_quantiles_s"].items():
        island, q = key.split()
        classes = [
            (item.edge_s, item.value)
            for item in series
            if item.quantity is Quantity.TTFT and item.island == island and item.edge_s is not None
        ]
        quantile = histogram_of(classes, None, key).quantile(float(q))
        assert quantile.value == pytest.approx(expected, rel=1e-12)
        assert quantile.low <= quantile.value <= quantile.high


@given(
    st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 50)), min_size=1, max_size=8, unique_by=lambda row: row[0]),
    st.lists(st.floats(0, 1), min_size=2, max_size=5),
)
def test_quantiles_rise_and_stay_in_their_class(rows: list[tuple[float, float]], shares: list[float]) -> None:
    ordered = sorted(rows)
    below, classes = 0.0, []
    for edge, count in ordered:
        below += count
        classes.append((edge, below))
    histogram = histogram_of([*classes, (math.inf, below + 1)], None, "drawn")
    quantiles = [histogram.quantile(q) for q in sorted(shares)]
    points = [point for point in quantiles if point is not None]
    assert len(points) == len(shares)
    assert all(point.low <= point.value <= point.high for point in points)
    assert all(a.value <= b.value + 1e-9 for a, b in pairwise(points))


def test_no_observations_have_no_quantile() -> None:
    histogram = histogram_of([(1.0, 0.0), (math.inf, 0.0)], 0.0, "empty")
    assert histogram.quantile(0.5) is None
    assert histogram.mean is None


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ([(1.0, 2.0)], r"must have a class up to \+Inf"),
        ([], "has none"),
        ([(1.0, 2.0), (math.inf, 1.0)], "must not fall"),
    ],
)
def test_histograms_that_are_none(classes: list[tuple[float, float]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        histogram_of(classes, None, "TTFT of x")


def _requests() -> dict[str, Any]:
    answer: dict[str, Any] = copy.deepcopy(REAL["query"]["requests"])
    return answer


def _first(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The answer with its first series changed."""
    answer = _requests()
    change(answer["data"]["result"][0])
    return answer


def _without_le() -> dict[str, Any]:
    answer: dict[str, Any] = copy.deepcopy(REAL["query"]["ttft"])
    del answer["data"]["result"][0]["metric"]["le"]
    return answer


def _drop(label: str) -> Callable[[dict[str, Any]], None]:
    return lambda row: row["metric"].pop(label)


def _relabel(label: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda row: row["metric"].update({label: value})


def _value(value: object) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(value=[1.79e9, value])


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": ("planner:requests:rate 4", "is not readable JSON"),
    "half of it": (json.dumps(REAL["query"]["requests"])[:-20], "is not readable JSON"),
    "a list": ("[]", "mapping"),
    "an error of Prometheus": (REAL["error"], "status must be success, got error: invalid parameter"),
    "another status": ({"status": "ok"}, "status must be one of success, error"),
    "no data": ({"status": "success"}, "data must be a mapping"),
    "a scalar": ({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}, "vector, matrix"),
    "nothing recorded": (REAL["empty"], "at least one series"),
    "NaN": (REAL["nan"], "finite numbers as texts"),
    "Inf": (_first(_value("+Inf")), "finite numbers as texts"),
    "below zero": (_first(_value("-1")), "finite numbers as texts"),
    "a number, no text": (_first(_value(4.0)), "finite numbers as texts"),
    "no number": (_first(_value("four")), "finite numbers as texts"),
    "a value alone": (_first(lambda row: row.update(value=["4"])), "time and a value"),
    "a time in words": (_first(lambda row: row.update(value=["now", "4"])), "seconds since 1970"),
    "no value": (_first(lambda row: row.pop("value")), "value must be a list"),
    "no name": (_first(_drop("__name__")), "__name__ must be one of"),
    "another name": (_first(_relabel("__name__", "up")), "__name__ must be one of"),
    "no island": (_first(_drop("planner_island")), "planner_island must be"),
    "no plan": (_first(_drop("planner_plan")), "planner_plan must be"),
    "an island of control characters": (_first(_relabel("planner_island", "a\x1b[31m")), "planner_island must be"),
    "a histogram without le": (_without_le(), "le must be the upper edge"),
    "a share of 2": (
        {**_first(_relabel("__name__", "planner:busy:share"))},
        "0 to 1 for planner:busy:share",
    ),
    "no samples": (
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [{"metric": {"__name__": "planner:requests:rate"}, "values": []}],
            },
        },
        "at least one sample",
    ),
    "samples out of order": (
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [{"metric": {"__name__": "planner:requests:rate"}, "values": [[2, "1"], [1, "1"]]}],
            },
        },
        "order of time",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_answers_are_refused(name: str, tmp_path: Path) -> None:
    document, words = BAD[name]
    with pytest.raises(InputError) as refusal:
        load_answers(written(tmp_path, {"bad": document}))
    assert words in refusal.value.message
    assert "bad.json" in refusal.value.message
    assert refusal.value.hint


def test_answers_given_twice_or_of_other_times_are_refused(tmp_path: Path) -> None:
    twice = written(tmp_path, {"a": _requests(), "b": _requests()})
    with pytest.raises(InputError, match=r"b\.json: planner:requests:rate .* must be given once"):
        load_answers(twice)
    with pytest.raises(InputError, match="at least one file"):
        load_answers([])
    later = copy.deepcopy(REAL["query"]["running"])
    for row in later["data"]["result"]:
        row["value"][0] += 86_400
    with pytest.raises(InputError, match=r"must be of the same time"):
        load_answers(written(tmp_path, {"a": _requests(), "b": later}))
