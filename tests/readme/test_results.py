"""The README's figures, planned anew: its result table and its sample output."""

import re
from functools import cache
from pathlib import Path

import pytest

from planner.files import load_scenario, shipped_scenarios
from planner.pipeline import plan
from planner.workload import summarize

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
# the last digit of a kernel's arithmetic differs between processors, and a search may then take another path
NEAR = 0.03
MIXED, UNIFORM = 0, 1
CODE, CONVERSATION = 0, 1


@cache
def table() -> list[list[float]]:
    """Requests/s as printed: [mixed, uniform, ratio][code, conversation]."""
    body = TEXT[TEXT.index("<!-- results -->") :]
    rows = re.findall(r"^\| \**[m1][^|]*\| \**([\d.]+)\**[^|]*\| \**([\d.]+)\**", body, re.MULTILINE)
    return [[float(cell) for cell in row] for row in rows]


def test_the_ratios_follow_from_the_rates() -> None:
    mixed, uniform, ratio = table()
    assert ratio == [round(a / b, 2) for a, b in zip(mixed, uniform, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "row", "column"),
    [
        ("azure-code-512usd-reference", MIXED, CODE),
        ("azure-conv-512usd-reference", MIXED, CONVERSATION),
        ("azure-code-128xH200-reference", UNIFORM, CODE),
        ("azure-conv-128xH200-reference", UNIFORM, CONVERSATION),
    ],
)
def test_the_result_table_is_reached(scenario: str, row: int, column: int) -> None:
    found = plan(load_scenario(shipped_scenarios()[scenario], summarize)).throughput_rps
    assert found == pytest.approx(table()[row][column], rel=NEAR)


@pytest.mark.slow
def test_the_sample_output_is_reached() -> None:
    printed = re.search(r"GPUs serve ([\d.]+) requests/s", TEXT)
    assert printed is not None
    found = plan(load_scenario(shipped_scenarios()["azure-code-512usd"], summarize))
    assert found.throughput_rps == pytest.approx(float(printed[1]), rel=NEAR)
