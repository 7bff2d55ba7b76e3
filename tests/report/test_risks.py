"""What must be read before a plan is trusted: single points of failure, bursts, what was never measured, odds below
even, estimated prices."""

from dataclasses import replace

import pytest
from bucketed_plans import bucketed
from hand_made_plan import build_plan

from planner import files
from planner.domain import PHASES, Band, InventoryItem, ObjectiveKind, ObjectiveSettings, Plan, Relation
from planner.domain.efficiency import Origin, RateBand
from planner.domain.plan import Estimate
from planner.domain.serving.server import NodeLoss
from planner.domain.watching import WatchLog, WatchSettings, WatchTally
from planner.report import plan_page, summary
from planner.report.plan.answer import verdict
from planner.report.plan.notes import carried, carried_odds, risks
from planner.report.replanning.watch_page import watch_page


@pytest.fixture
def plan() -> Plan:
    return bucketed(build_plan())


def losing(plan: Plan, share: float, *, servers: int | None = None) -> Plan:
    pool = plan.buckets.pools[0]
    loss = NodeLoss(island=pool.island, nodes=1, servers=servers or pool.count, rate_rps=share * plan.throughput_rps)
    return replace(plan, buckets=replace(plan.buckets, losses=(loss,)))


def of(plan: Plan, word: str) -> list[str]:
    return [text for text in risks(plan) if word in text]


def test_a_node_whose_loss_leaves_little_is_named(plan: Plan) -> None:
    (text,) = of(losing(plan, 0.01), "Single point of failure")
    assert "leaves 1 % of the capacity" in text
    assert plan.buckets.pools[0].island.replace("_", r"\_") in text
    assert "leaves nothing" in of(losing(plan, 0.0), "Single point of failure")[0]
    assert of(losing(plan, 0.49), "Single point of failure")
    assert not of(losing(plan, 0.5), "Single point of failure")


def test_bursts_are_told_where_they_bind_or_are_not_known(plan: Plan) -> None:
    buckets = plan.buckets
    bound = replace(plan, buckets=replace(buckets, burst_rps=0.4 * buckets.promise_rps))
    assert "(40 %)" in of(bound, "Bursts")[0]
    assert not of(replace(plan, buckets=replace(buckets, burst_rps=buckets.promise_rps)), "Bursts")
    assert "not known" in of(replace(plan, buckets=replace(buckets, burst_rps=None)), "Bursts")[0]


@pytest.mark.parametrize(("low", "high", "below"), [(0.5, 1.2, True), (0.8, 1.2, False), (0.9, 0.901, False)])
def test_odds_below_even_are_told(plan: Plan, low: float, high: float, below: bool) -> None:
    """Against draws: of 0.9 of the capacity, with a log-normal rate between these P10 and P90."""
    assert plan.buckets is not None
    rate = plan.throughput_rps
    banded = replace(plan, rate_band=RateBand(low_rps=low * rate, high_rps=high * rate))
    banded = replace(banded, buckets=replace(plan.buckets, promise_rps=0.9 * rate))
    odds = carried_odds(banded)
    assert odds is not None
    middle = (low * high) ** 0.5
    assert (odds < 0.5) == (middle < 0.9) == below
    assert bool(of(banded, "below even odds")) == below
    if below:
        assert 0.1 < odds < 0.5  # P10 lies below the promise, P90 above it


def test_estimated_prices_are_told_where_money_counts(plan: Plan) -> None:
    spec = files.load_gpu_spec("H20-3E")
    guessed = InventoryItem(gpu=spec, count=8, price_usd_per_gpu_hour=spec.price.usd_per_hour)
    inventory = replace(plan.scenario.inventory, items=(*plan.scenario.inventory.items, guessed))
    money = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=96.0)
    bought = replace(plan, scenario=replace(plan.scenario, inventory=inventory, objective=money))
    assert "help to decide the answer**: estimates for H20-3E (1.47 USD/hour)" in of(bought, "publishes")[0]
    own = replace(inventory, items=(*inventory.items[:-1], replace(guessed, price_usd_per_gpu_hour=2.0)))
    assert not of(replace(bought, scenario=replace(bought.scenario, inventory=own)), "publishes")


@pytest.mark.parametrize(
    ("relation", "name", "words"),
    [
        (Relation.OWN, "glm-5-fp8", ""),
        (Relation.SAME, "glm-5-fp8", ""),
        (None, "glm-5-fp8", ""),
        (Relation.GPU, "glm-5-fp8", "no measurement of this model on this GPU type (H20)"),
        (Relation.MODEL, "deepseek-v3", "no measurement of this model (H20)"),
        (Relation.FORMULAS, "deepseek-v3", "no measurement of this model or of its like on such GPUs (H20)"),
        (
            *(Relation.FORMULAS, "nemotron-3-super-fp8"),
            "no measurement of this model or of its like on such GPUs (H20); no measured run has such layers: "
            "Mamba2, 128 heads, state 64 x 128; 22 of 512 experts of 2,688 without gate, 1 shared of 5,376, latent "
            "1,024",
        ),
    ],
)
def test_what_was_never_measured_stands_at_the_head(
    plan: Plan, relation: Relation | None, name: str, words: str
) -> None:
    """In both phases, told once."""
    band = Band(low=0.8, high=1.2, relation=relation)
    estimates = tuple(
        Estimate(gpu="H20", phase=phase, origin=Origin.CARRIED, source="made up", band=band) for phase in PHASES
    )
    rates = replace(plan.provenance, estimates=estimates)
    estimated = replace(plan, scenario=replace(plan.scenario, model=files.load_model(name)), provenance=rates)
    assert carried(estimated) == words
    assert len(of(estimated, "Carried over")) == bool(words)
    assert (f"**Carried over: {words}.**" in verdict(estimated)) == bool(words)


def test_the_page_and_the_summary_begin_with_them(plan: Plan) -> None:
    risky = losing(plan, 0.01)
    page = plan_page(risky)
    assert page.sections[0].title == "Read before you trust it"
    assert "Single point of failure" in page.sections[0].blocks[0].markdown
    assert "Single point of failure" in summary(risky)


@pytest.mark.parametrize(("unserved", "says"), [(0.0, "Every need was met."), (0.0698, "6.980% of the requests")])
def test_a_watch_says_the_same_above_and_below(unserved: float, says: str) -> None:
    tally = WatchTally(
        **{"hours": 1.0, "usd": 8.0, "change_usd": 0.0, "gpus_touched": 0, "changes": (), "most_in_a_day": 0},
        **{"bound_a_day": 18, "short_hours": 4 * unserved, "unserved": unserved, "static_usd": 8.0},
        **{"hindsight_usd": 8.0, "free_usd": 8.0},
    )
    page = watch_page(WatchLog(name="w", iso=False, settings=WatchSettings(), windows=(), tally=tally))
    (told,) = next(section.blocks for section in page.sections if section.name == "refused")
    assert says in told.markdown
    assert ("Every need was met" in told.markdown) == ("(0.000%" in page.verdict)
