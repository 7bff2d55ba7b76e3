"""Pools that choose how many tokens they draft: against every number by itself, and what becomes of the choice."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import bucketed, require_whole

from planner.domain import Phase, Plan
from planner.errors import InputError
from planner.export import render
from planner.pipeline import plan
from planner.report.plan.notes import notes

FAST = {"tpot_ms": 20}
FLEETS = {
    "split, fast": {"serving": "split", "slo": FAST},
    "aggregated": {"serving": "aggregated"},
    "aggregated, fast": {"serving": "aggregated", "slo": FAST},
}
WIDE = {"ranges": {"width": 1024}}
LLAMA = {"model": "llama-3.1-70b", "serving": "aggregated"}


@cache
def drafting_in(name: str, tokens: int) -> Plan:
    """The fleet whose pools all draft so many."""
    return drafting({"tokens": tokens}, **FLEETS[name])


def drafting(tokens: object, **changes: Any) -> Plan:
    """A small fleet whose pools draft so many tokens; None: nothing is said."""
    said = {} if tokens is None else {"cost": {"speculation": tokens}}
    return plan(bucketed({"H200": 16}, **said, **WIDE, **changes))


@cache
def chosen(name: str) -> Plan:
    """The fleet whose pools choose."""
    return drafting("auto", **FLEETS[name])


def of_decode(made: Plan) -> list[int | None]:
    return [pool.server.drafted for pool in made.outlook.pools if pool.phase is not Phase.PREFILL]


@pytest.mark.parametrize("name", FLEETS)
def test_auto_is_the_best_of_every_number_by_itself(name: str) -> None:
    each = [drafting_in(name, tokens).throughput_rps for tokens in range(4)]
    assert chosen(name).throughput_rps == pytest.approx(max(each), rel=1e-4)
    assert max(each) > 1.01 * each[0]


def test_the_numbers_differ_by_what_is_asked() -> None:
    """Few tokens where batches are large, more where they must be small."""
    assert [of_decode(chosen(name)) for name in FLEETS] == [[3], [1], [3]]


@pytest.mark.parametrize("tokens", ["none", {"tokens": 0}])
def test_no_tokens_are_what_nothing_said_is(tokens: object) -> None:
    said, unsaid = drafting(tokens, **FLEETS["aggregated"]), drafting(None, **FLEETS["aggregated"])
    assert said.outlook.pools == unsaid.outlook.pools
    assert said.outlook.drafts == unsaid.outlook.drafts == ()


def test_the_old_keys_are_short_for_one_chance_everywhere() -> None:
    short = plan(bucketed({"H200": 16}, cost={"mtp_tokens": 2, "mtp_acceptance": 0.7}, **WIDE, **FLEETS["aggregated"]))
    full = drafting({"tokens": 2, "acceptance": [0.7, 0.7]}, **FLEETS["aggregated"])
    assert short.outlook.pools == full.outlook.pools
    assert short.outlook.drafts == full.outlook.drafts


def test_a_plan_says_what_drafts_bring_and_is_read_back(tmp_path: Path) -> None:
    made = chosen("split, fast")
    require_whole(made, tmp_path)
    (row,) = made.outlook.drafts
    assert (row.tokens, row.carried_over) == (3, False)
    assert row.tokens_per_pass == pytest.approx(2.44)
    assert 1.4 < row.gain < 2.44  # at its batch; every token accepted for nothing would bring 2.44


def test_of_handed_over_caches_all_or_none_hold_what_drafts() -> None:
    """Short prompts are under a bound that drafts alone keep; what decodes the others would be better off without, and
    drafts as little as it can."""
    levels = {"ranges": [{"from": 0, "to": 1024, "tpot_ms": 14}]}
    two_buckets = {"workload": "azure-conv-2023", "simplicity": 0, "serving": "split"}
    routing = {"most": 2, "policy": "least_work"}
    made = plan(bucketed({"H200": 64}, cost={"speculation": "auto"}, slo=levels, routing=routing, **two_buckets))
    decode = {pool.start: pool.server.drafted for pool in made.outlook.pools if pool.phase is Phase.DECODE}
    assert decode == {0: 3, 1024: 1}


def words(files: Any) -> list[str]:
    return [line for text in files.values() for line in text.splitlines() if "specul" in line]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("method", ["mtp", "eagle"])
def test_command_lines_say_what_was_chosen(engine: str, method: str, tmp_path: Path) -> None:
    """Prefill drafts as decode does, whose caches hold the draft's."""
    draft = {"method": "eagle", "tokens": "auto", "draft": "mine/draft"} if method == "eagle" else "auto"
    own = LLAMA if method == "eagle" else FLEETS["split, fast"]
    made = drafting(draft, **{**own, "slo": FAST}, engine={"name": engine})
    tokens = {pool.server.drafted for pool in made.outlook.pools if pool.phase is not Phase.PREFILL}
    (most,) = tokens
    told = " ".join(notes(made))
    assert f"{most} token" in told
    assert ("carried over" in told) == (method == "eagle")  # of Llama-3.1-70B nothing was published
    lines = words(render(made, target="lws", engine=engine))
    servers = len(made.outlook.pools)
    if engine == "vllm":
        own_words = {"method": "mtp"} if method == "mtp" else {"method": "eagle3", "model": "mine/draft"}
        config = json.dumps({**own_words, "num_speculative_tokens": most})
        assert sum(config in line for line in lines) == servers
    else:
        assert sum(f"--speculative-num-steps={most}" in line for line in lines) == servers
        own_draft = sum("--speculative-draft-model-path=mine/draft" in line for line in lines)
        assert own_draft == servers * (method == "eagle")


def test_a_pool_that_claims_other_drafts_is_refused(tmp_path: Path) -> None:
    made = chosen("aggregated")
    islands = tuple(replace(island, drafted=3) for island in made.islands)
    with pytest.raises(InputError, match="is not the"):
        require_whole(replace(made, islands=islands), tmp_path)
