"""The search section: what each key takes, what contradicts, and the way back."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.domain import (
    Candidates,
    Encoding,
    IslandClass,
    Layout,
    Scenario,
    SearchMethod,
    SearchSettings,
    Surrogate,
    WarmStart,
)
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[dict[str, Any]], Scenario]
TWO_ROWS = [["H200", 8, 1], ["H20", 4, 2]]


@pytest.fixture
def document(document: dict[str, Any]) -> dict[str, Any]:
    """For a table, whose searches know islands of all sizes; what follows from buckets is told with their routing."""
    return document | {"routing": {"form": "table"}}


def settings(read: Read, document: dict[str, Any], **search: Any) -> SearchSettings:
    """The settings of a search section, which survive the way back."""
    found = read(document | {"search": search})
    again = read(json.loads(json.dumps(scenario_document(found))))
    assert again.search == found.search
    assert set(scenario_document(found)["search"]) == set(scenario_document(read(document))["search"])  # type: ignore[call-overload]
    return found.search


def layout(*rows: tuple[str, int, int]) -> Layout:
    """A layout of (GPU, size, count)."""
    return Layout(counts=tuple(sorted((IslandClass(gpu=gpu, size=size), count) for gpu, size, count in rows)))


def run_folder(at: Path, *trials: tuple[list[list[Any]], float], whole: bool = True) -> Path:
    """What an earlier run left: trials are all that counts."""
    at.mkdir(parents=True)
    rows = [{"index": k, "layout": one, "throughput_rps": rate} for k, (one, rate) in enumerate(trials)]
    text = json.dumps({"search": {"trials": rows}})
    (at / "plan.json").write_text(text if whole else text[:-3])
    return at


def test_what_is_left_out_takes_its_default(read: Read, document: dict[str, Any]) -> None:
    assert settings(read, document) == SearchSettings()


def test_every_key_is_read(read: Read, document: dict[str, Any]) -> None:
    found = settings(
        read,
        document,
        method="genetic",
        encoding="direct",
        surrogate="saasbo_map",
        candidates="acquisition",
        skew=[-2, 5.5],
        warm_start=["relaxation", "exact", TWO_ROWS],
        failure_limit=0.25,
        timings=False,
    )
    assert found == SearchSettings(
        method=SearchMethod.GENETIC,
        encoding=Encoding.DIRECT,
        surrogate=Surrogate.SAASBO_MAP,
        candidates=Candidates.ACQUISITION,
        skew=5.5,
        least_skew=-2.0,
        warm_start=(WarmStart.RELAXATION, WarmStart.EXACT),
        earlier=(layout(("H200", 8, 1), ("H20", 4, 2)),),
        failure_limit=0.25,
        timings=False,
    )


@pytest.mark.parametrize("method", SearchMethod)
@pytest.mark.parametrize("encoding", [Encoding.DIVIDER, Encoding.DIRECT])
def test_an_encoding_goes_with_every_method_but_the_other_encoding(
    read: Read, document: dict[str, Any], refused: Refused, method: SearchMethod, encoding: Encoding
) -> None:
    if method.row.encoding is not None and method.value != encoding.value:
        refused(
            lambda: settings(read, document, method=method.value, encoding=encoding.value),
            "search.encoding", method.value, f"'{encoding.value}'", hint="Leave it out",
        )  # fmt: skip
        return
    assert settings(read, document, method=method.value, encoding=encoding.value).encoded is encoding


@pytest.mark.parametrize(
    ("skew", "skews"),
    [
        (5.0, (-5, 5)),
        ([-2, 5], (-2, 5)),
        ([-3, 3], (-3, 3)),
        ([1, 2], (1, 2)),
        ([-4, -1], (-4, -1)),
        ([0, 20], (0, 20)),
    ],
)
def test_a_range_of_skews(read: Read, document: dict[str, Any], skew: object, skews: tuple[float, float]) -> None:
    assert settings(read, document, skew=skew).skews == skews


@pytest.mark.parametrize(
    ("search", "words", "hint"),
    [
        ({"skew": [5, -2]}, ("search.skew", "ascending", "got [5, -2]"), "Write [-2, 5]."),
        ({"skew": [2, 2]}, ("search.skew", "ascending", "got [2, 2]"), "Widen"),
        ({"skew": [1]}, ("search.skew", "a list of the least and the largest", "a list of 1"), ""),
        ({"skew": [-21, 5]}, ("search.skew.least", "at least -20", "-21"), ""),
        ({"skew": [-2, "x"]}, ("search.skew.largest", "a number", "'x'"), ""),
        ({"skew": [-2, float("nan")]}, ("search.skew.largest", "finite"), ""),
        ({"skew": -5}, ("search.skew", "more than 0"), ""),
        ({"iterations": 0}, ("search.iterations", "at least 1", "got 0"), ""),
        ({"encoding": "slots"}, ("search.encoding", "divider, direct", "'slots'"), ""),
        ({"failure_limit": 1.1}, ("search.failure_limit", "at most 1"), ""),
        ({"failure_limit": -0.1}, ("search.failure_limit", "at least 0"), ""),
        ({"timings": 1}, ("search.timings", "true or false"), ""),
        ({"warm_start": "exact"}, ("search.warm_start", "a list of exact, relaxation and paths"), ""),
        ({"warm_start": [3]}, ("search.warm_start[0]", "a text", "3 (int)"), ""),
        ({"warm_start": ["nowhere"]}, ("search.warm_start[0]", "no such file"), ""),
        ({"warm_start": ["exact", [["H200", 8]]]}, ("search.warm_start[1]", "[GPU, size, count]"), ""),
        ({"warm_start": [[["H200", 0, 1]]]}, ("search.warm_start[0]", "at least 1"), ""),
        ({"warm_start": [[["H200", 8, 3]]]}, ("search.warm_start[0]", "a layout of the inventory"), ""),
        ({"warm_start": [[["B300", 8, 1]]]}, ("search.warm_start[0]", "a layout of the inventory"), ""),
        ({"warm_start": [[["H200", 1, 3]]]}, ("search.warm_start[0]", "search.min_island_size"), ""),
        ({"warm_start": ["exact"], "method": "exact"}, ("search.warm_start", "where search.method is exact"), ""),
        (
            {"method": "direct", "slots": 1, "min_island_size": 9},
            ("search.slots", "at least 2", "search.min_island_size (9)", "H200", "got 1"),
            "at most 8",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(
    read: Read, document: dict[str, Any], refused: Refused, search: dict[str, Any], words: tuple[str, ...], hint: str
) -> None:
    document["inventory"]["H200"] = 18
    refused(lambda: read(document | {"search": search}), *words, hint=hint)


def test_one_slot_is_enough_where_two_types_form_islands(read: Read, document: dict[str, Any]) -> None:
    assert settings(read, document, method="direct", slots=1).slots == 1
    assert settings(read, document, method="exact", slots=1, min_island_size=9).slots == 1


def test_the_best_layouts_of_an_earlier_run_that_fit(read: Read, document: dict[str, Any], tmp_path: Path) -> None:
    run_folder(
        tmp_path / "runs" / "old",
        ([["H200", 8, 1], ["H20", 4, 1]], 3.0),
        ([["H200", 8, 2]], 5.0),
        ([["H200", 16, 2]], 99.0),  # more than there are
        ([["H100", 8, 1]], 98.0),  # of another type
        ([["H200", 1, 8]], 97.0),  # smaller than min_island_size
        ([["H200", 8, 2]], 6.0),  # once more
        ([["H20", 8, 1]], 0.0),  # serves nothing
        ([["H20", 4, 2], ["H200", 4, 1], ["H200", 4, 1]], 4.0),
    )
    best = [layout(("H200", 8, 2)), layout(("H20", 4, 2), ("H200", 4, 2)), layout(("H200", 8, 1), ("H20", 4, 1))]
    for path in ("runs/old", "runs/old/plan.json", str(tmp_path / "runs" / "old")):
        found = settings(read, document, warm_start=["exact", path])
        assert found.earlier == tuple(best)
        assert found.warm_start == (WarmStart.EXACT,)
    assert settings(read, document, warm_start=["runs/old"], batch_size=2).earlier == tuple(best[:2])


def test_an_earlier_run_is_an_input_of_the_scenario(read: Read, document: dict[str, Any], tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "old", (TWO_ROWS, 1.0))
    found = read(document | {"search": {"warm_start": ["old"]}})
    digest = hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest()
    assert ("plan.json", digest) in [(one.name, one.sha256) for one in found.inputs]


@pytest.mark.parametrize(
    ("trials", "whole", "words"),
    [
        (
            [([["B300", 8, 1]], 5.0)],
            True,
            ("search.warm_start[0]", "plan.json", "this inventory can form", "none of 1"),
        ),
        ([(TWO_ROWS, 0.0)], True, ("search.warm_start[0]", "serves its workload")),
        ([], True, ("search.warm_start[0]", "none of 0")),
        ([([["H200", "8", 1]], 5.0)], True, ("search.warm_start[0]", "search.trials[0].layout", "[GPU, size, count]")),
        ([(TWO_ROWS, "fast")], True, ("search.warm_start[0]", "throughput_rps", "a number")),
        ([(TWO_ROWS, 1.0)], False, ("search.warm_start[0]", "not readable JSON")),
    ],
)
def test_an_earlier_run_that_helps_nothing_is_refused(
    read: Read,
    document: dict[str, Any],
    refused: Refused,
    tmp_path: Path,
    trials: list[tuple[list[list[Any]], Any]],
    whole: bool,
    words: tuple[str, ...],
) -> None:
    run_folder(tmp_path / "old", *trials, whole=whole)
    refused(lambda: read(document | {"search": {"warm_start": ["old"]}}), *words)


def test_objectives_that_rent_go_with_auto(read: Read, document: dict[str, Any], refused: Refused) -> None:
    rents = document | {"objective": {"kind": "budget", "budget_usd_per_hour": 40}}
    assert read(rents | {"search": {"method": "auto"}}).search.method is SearchMethod.AUTO
    refused(lambda: read(rents | {"search": {"method": "genetic"}}), "search.method", hint="auto")


def test_settings_made_in_python_are_written_and_read_too(read: Read, document: dict[str, Any]) -> None:
    scenario = read(document)
    made = replace(
        SearchSettings(), method=SearchMethod.DIRECT, earlier=(layout(("H200", 4, 3)), layout(("H20", 8, 1)))
    )
    written = scenario_document(replace(scenario, search=made))
    assert read(json.loads(json.dumps(written))).search == made
