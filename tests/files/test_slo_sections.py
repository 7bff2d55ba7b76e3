"""The slo section: what is read, what is refused and how, and the way back."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from planner.domain import RangeSlo, Scenario, SloScope, SloSettings
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
Fields = dict[str, Any]


def slo_of(read: Read, document: Fields, section: Fields) -> SloSettings:
    return read({**document, "slo": section}).slo


def test_nothing_is_bounded_unless_asked_for(read: Read, document: Fields) -> None:
    assert read(document).slo == SloSettings()
    assert not read(document).slo.bounds_anything


def test_bounds_and_ranges_are_read(read: Read, document: Fields) -> None:
    found = slo_of(
        read,
        document,
        {"ttft_ms": 2000, "percentile": 99, "ranges": [{"from": 4096, "ttft_ms": 5000}, {"to": 256, "tpot_ms": 25.5}]},
    )
    assert (found.ttft_ms, found.tpot_ms, found.percentile) == (2000, None, 99)
    assert found.bounds(100) == (2000, 25.5)
    assert found.bounds(256) == (2000, None)
    assert found.bounds(4096) == (5000, None)
    assert found.ranges[1] == RangeSlo(start=0, end=256, tpot_ms=25.5)


def test_a_bound_grows_with_the_prompt(read: Read, document: Fields) -> None:
    section = {"ttft_ms": 1000, "ttft_ms_per_1k_tokens": 500, "ranges": [{"from": 4000, "ttft_ms": 3000}]}
    slo = slo_of(read, document, section)
    assert (slo.bounds(0), slo.bounds(2000), slo.bounds(4000)) == ((1000, None), (2000, None), (5000, None))
    assert slo.scope is SloScope.EVERY_BUCKET


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"tpot_ms": 40},
        {"ttft_ms": 900.5, "tpot_ms": 40, "percentile": 99.9},
        {"ranges": [{"from": 10, "to": 20, "ttft_ms": 3}], "percentile": 50},
        {"ttft_ms": 900, "ttft_ms_per_1k_tokens": 250.5, "percentile": 99, "scope": "overall"},
        {"ranges": [{"ttft_ms": 3}], "ttft_ms_per_1k_tokens": 1},
    ],
)
def test_what_is_written_is_read_back(read: Read, document: Fields, section: Fields) -> None:
    scenario = read({**document, "slo": section})
    written = cast(Fields, scenario_document(scenario)["slo"])
    assert slo_of(read, document, written) == scenario.slo


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"ttft_ms": 0}, ("slo.ttft_ms", "got 0")),
        ({"tpot_ms": -5}, ("slo.tpot_ms", "got -5")),
        ({"tpot_ms": "fast"}, ("slo.tpot_ms", "number", "fast")),
        ({"tpot_ms": 40, "percentile": 100}, ("slo.percentile", "100")),
        ({"tpot_ms": 40, "percentile": 0}, ("slo.percentile", "0")),
        ({"percentile": 99}, ("slo.percentile", "bound")),
        ({"tpot": 40}, ("slo.tpot", "not a known key")),
        ({"tpot_ms": 40, "ttft_ms_per_1k_tokens": 5}, ("slo.ttft_ms_per_1k_tokens", "a bound on TTFT", "got 5")),
        ({"ttft_ms": 40, "ttft_ms_per_1k_tokens": -1}, ("slo.ttft_ms_per_1k_tokens", "at least 0", "got -1")),
        ({"ttft_ms": 40, "scope": "bucket"}, ("slo.scope", "one of overall, every_bucket", "'bucket'")),
        ({"ranges": [{"from": 10, "to": 10, "tpot_ms": 3}]}, ("to", "10")),
        ({"ranges": [{"from": 10, "to": 20}]}, ("ttft_ms", "tpot_ms", "slo.ranges")),
        ({"ranges": [{"from": 10, "until": 20, "tpot_ms": 3}]}, ("until", "not a known key")),
    ],
)
def test_what_cannot_be_is_refused(
    read: Read, refused: Refused, document: Fields, section: Fields, words: tuple[str, ...]
) -> None:
    refused(lambda: slo_of(read, document, section), *words)


@pytest.mark.parametrize(("percentile", "meant"), [(0.99, "99"), (0.5, "50"), (0.999, "99.9")])
def test_a_share_for_a_percentile_is_asked_about(
    read: Read, document: Fields, refused: Refused, percentile: float, meant: str
) -> None:
    slo = {"ttft_ms": 2000, "percentile": percentile}
    refused(
        lambda: slo_of(read, document, slo), "slo.percentile must be in percent", str(percentile), hint=f"mean {meant}?"
    )
    assert slo_of(read, document, slo | {"percentile": float(meant)}).percentile == float(meant)
