"""What formulas say that unlike servers hold behind a router, against the replay of its layers, request by request."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from router_rules import LARGE, RULES, SMALL, measured

from planner.domain import BucketPool, LoadPoint, Phase, RouterBehaviour, Scenario
from planner.domain.arrivals import ReplaySettings
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.replay.pooled import Ladder, PooledReplay
from planner.files import scenario_from_document
from planner.proposing.feasibility import posed
from planner.replay import Promise, simulate
from planner.workload import summarize

Fleet = tuple[Mapping[str, Any], Sequence[BucketPool]]
SMALL_RULES = (
    "llm-d over ranks",
    "HAProxy over ranks",
    "HAProxy over servers, ranks in turn",
    "llm-d over servers",
    "two of all servers, blind",
)


class Routed:
    """The pools of a fleet behind a router: priced, and replayed."""

    def __init__(self, fleet: Fleet, router: RouterBehaviour) -> None:
        document, pools = fleet
        scenario = scenario_from_document(dict(document), origin="a test", base=Path(), summarize=summarize)
        self.router, self.question = router, posed(scenario)
        with self.priced_for_it():
            self.service = BucketService(self.question)
            self.priced: PricedPools = self.service.priced(replace(pool, share=1.0) for pool in pools)

    @contextmanager
    def priced_for_it(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scenario, "router", property(lambda _: self.router))
            yield

    def replayed(self, requests: int, seeds: Sequence[int]) -> Any:
        """Whether a rate seems to hold the levels, and the shares of its requests by pool."""
        replay = PooledReplay(self.question)
        fleet = replay.fleet(self.priced.pools)
        scenario = self.question.scenario
        promise = Promise(plan="", trace="", arrivals="", promise_rps=1.0, capacity_rps=1.0, slo=scenario.slo)
        settings = ReplaySettings(
            router=self.router, length_spread=self.router.length_spread, seeds=tuple(seeds), requests=requests
        )

        def at(rate_rps: float) -> Any:
            return simulate(fleet, promise, settings, rate_rps, lambda r, seed: replay._requests(r, seed, requests))

        return at


@pytest.mark.parametrize("rule", SMALL_RULES)
def test_a_fleet_holds_what_it_is_said_to(rule: str) -> None:
    """Nine tenths of the formula's rate hold, and an eighth more than it does not."""
    routed = Routed(SMALL, RULES[rule])
    at = routed.replayed(requests=6000, seeds=(0, 1))
    rate = routed.priced.prefill_rps
    below, above = at(0.9 * rate), at(1.125 * rate)
    assert below.seems_to_hold
    assert not above.seems_to_hold


@pytest.mark.parametrize("rule", ["llm-d over servers", "HAProxy over servers, ranks in turn"])
def test_pools_get_the_shares_that_counts_give_them(rule: str) -> None:
    """Not those of their speeds: to a router that is blind H20 is as good as the others, and gets too much."""
    routed = Routed(SMALL, RULES[rule])
    result = routed.replayed(requests=6000, seeds=(0,))(0.9 * routed.priced.prefill_rps)
    taken = {use.island: use.requests / result.total.requests for use in result.islands}
    for pool in routed.priced.pools:
        if pool.phase is Phase.PREFILL:
            assert pool.share == pytest.approx(taken[pool.island], rel=0.12)


def test_late_shares_at_capacity_are_those_that_may_be_late() -> None:
    """The latencies of a plan and the rate that it is said to hold come from the same queues."""
    for rule in SMALL_RULES:
        routed = Routed(SMALL, RULES[rule])
        with routed.priced_for_it():
            (row,) = (
                row
                for row in routed.service.latencies(routed.priced.pools, {LoadPoint.CAPACITY: routed.priced.rate_rps})
                if row.phase is Phase.PREFILL
            )
        assert row.kept_share == pytest.approx(0.99, abs=0.006), rule


def test_the_more_a_router_knows_the_more_it_holds() -> None:
    """Tokens of ranks, requests of ranks, of servers, of servers whatever their speed; never more than least work."""
    held = {name: Routed(SMALL, RULES[name]).priced.prefill_rps for name in RULES}
    order = [
        "llm-d over ranks",
        "HAProxy over ranks",
        "HAProxy over servers, ranks in turn",
        "fewest requests of servers, blind",
    ]
    assert [held[name] for name in order] == sorted((held[name] for name in order), reverse=True)
    assert max(held.values()) <= held["least work"] * 1.005


def test_one_kind_of_server_gets_the_same_by_counts_as_by_speed() -> None:
    """Where all servers are alike, who parts requests evenly and who counts what it sent price their shares alike."""
    document, pools = SMALL
    alike = (document, (pools[1], pools[3]))
    for rule in ("llm-d over ranks", "HAProxy over ranks"):
        priced = Routed(alike, RULES[rule]).priced
        assert [pool.share for pool in priced.pools] == [pytest.approx(1.0)] * 2
    by_tokens, least = (Routed(alike, router).priced for router in (RULES["llm-d over ranks"], RULES["least work"]))
    assert by_tokens.prefill_rps == pytest.approx(least.prefill_rps, rel=0.01)


@pytest.mark.parametrize("fleet", ["large", "small"])
def test_formulas_are_as_near_to_replays_as_the_guide_says(fleet: str) -> None:
    """Every rule within 10 %, all but one within 7 %; of draws, whose queues are as long as their luck is bad, 15 %."""
    pools = {"large": LARGE, "small": SMALL}[fleet]
    errors = {
        rule: abs(Routed(pools, RULES[rule]).priced.prefill_rps / held - 1)
        for (of, rule), held in measured().items()
        if of == fleet and rule in RULES
    }
    assert errors.pop("drawn by weight") <= 0.15
    assert len(errors) > 10
    assert max(errors.values()) <= 0.1, errors
    assert sum(error > 0.07 for error in errors.values()) <= 1, errors


GUIDE = {
    "tokens in flight of ranks, blind to speed (llm-d, Dynamo)": "llm-d over ranks",
    "bytes of prompts for a rank's speed, two copies (HAProxy)": ("HAProxy over ranks by bytes"),
    "pools by weight, tokens in flight of ranks": "pools by weight, then tokens of ranks",
    "requests for a rank's speed, two copies (HAProxy with `router_counts: requests`)": "HAProxy over ranks",
    "requests for a server's speed, two copies, ranks in turn": "HAProxy over servers, ranks in turn",
    "pools by weight, the better of two servers (vllm-router behind HAProxy)": (
        "HAProxy over pools, two of a pool's servers"
    ),
    "tokens in flight of servers, blind to speed": "llm-d over servers",
    "requests of servers, blind to speed (AIBrix)": "fewest requests of servers, blind",
    "the better of two servers, blind to speed (vllm-router over all of them)": "two of all servers, blind",
}


def test_the_guide_says_what_was_measured() -> None:
    """Of all fleets, over what least work holds of them."""
    text = (Path(__file__).parents[2] / "planner/cli/docs/guides/replay.md").read_text(encoding="utf-8")
    rates = measured()
    fleets = {fleet for fleet, _ in rates}
    for words, rule in GUIDE.items():
        shares = [rates[f, rule] / rates[f, "least work"] for f in fleets if (f, rule) in rates]
        assert f"| {words} | {min(shares):.2f} to {max(shares):.2f} |" in text


OPERATIONS = (
    ("one picker of llm-d, clients that stream", "llm-d over ranks"),
    ("two pickers, which count apart", "llm-d over ranks, two pickers"),
    ("clients that do not stream: tokens count to the end of the answer", "llm-d over ranks, answers in one piece"),
    ("counts from metrics one second old in place of its own", "llm-d over ranks, counts a second old"),
    ("HAProxy by requests, one copy", "HAProxy over ranks, one copy"),
    ("the same, two copies", "HAProxy over ranks"),
    ("HAProxy by bytes, one copy", "HAProxy over ranks by bytes, one copy"),
    ("the same, two copies", "HAProxy over ranks by bytes"),
)


def test_the_guide_says_what_clients_and_operations_cost() -> None:
    text = (Path(__file__).parents[2] / "planner/cli/docs/guides/replay.md").read_text(encoding="utf-8")
    rates = measured()
    lines = [f"| {words} | {rates['large', rule] / rates['large', 'least work']:.2f} |" for words, rule in OPERATIONS]
    assert "\n".join(lines) in text


@pytest.mark.study
@pytest.mark.parametrize("fleet", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("rule", list(RULES))
def test_replays_hold_what_was_measured(fleet: Fleet, rule: str) -> None:
    routed = Routed(fleet, RULES[rule])
    at = routed.replayed(requests=12_000, seeds=(0, 1))
    rate = routed.priced.prefill_rps
    held = Ladder(base_rps=rate).highest(lambda rate_rps: at(rate_rps).seems_to_hold, rate)
    assert measured()[fleet[0]["name"], rule] == pytest.approx(held, rel=0.03)
