"""`planner routers` and `planner replay --router`: what each router makes of a plan's promise, and who cannot do it."""

from pathlib import Path

import pytest
import yaml
from command_line import TINY, Command

from planner.export import ROUTERS


def test_every_router_of_the_engine_is_priced_or_refuses(planner: Command, run: Path) -> None:
    answer = planner("routers", run, "--replan", "--json")
    assert answer.status == 0, answer.err
    first, *others = answer.json
    assert (first["router"], first["chooses"], first["misrouted"]) == (
        "the plan's",
        "rank: least bytes for its speed",
        0.0,
    )
    assert {row["router"] for row in others} == {name for name, router in ROUTERS.items() if "vllm" in router.engines}
    for row in others:
        assert (row["refusal"] is None) == (row["within_levels"] is not None)
        assert row["refusal"] is not None or row["within_levels"] <= first["within_levels"] + 0.01
        assert (row["refusal"] is None) == (row["planned_rps"] is not None)
        assert not row["planned_rps"] or row["planned_rps"] <= 1.01 * first["planned_rps"]
    assert first["planned_rps"] == pytest.approx(first["rate_rps"])
    answer = planner("replay", run, "--router", "haproxy", "--trace", "lengths", "--requests", "500", "--json")
    assert answer.status == 0, answer.err
    assert answer.json["router"] == "haproxy"


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--router", "nobody"), "router: must be one of"),
        (("--length-spread", "2"), "length_spread: must be from 0 to 1"),
    ],
)
def test_bad_words_are_refused(planner: Command, run: Path, words: tuple[str, ...], rule: str) -> None:
    answer = planner("replay", run, "--trace", "lengths", *words)
    assert (answer.status, answer.out) == (2, "")
    assert rule in answer.err


def test_routers_are_held_against_the_promise_of_a_table_too(planner: Command) -> None:
    Path("table.yaml").write_text(yaml.safe_dump({**yaml.safe_load(TINY), "routing": {"form": "table"}}))
    assert planner("plan", "table.yaml", "--out", "run", "--quiet").status == 0
    answer = planner("routers", "run")
    assert answer.status == 0
    assert "the plan's" in answer.out
