"""What stands first of a plan: promise and warnings, what it does at capacity, how near the best, of which question."""

from collections.abc import Iterator

from planner.domain import CostMode, Phase, Plan, Scenario
from planner.domain.serving.promise import ReplayedChoice, ReplayedRates
from planner.report.buckets.headline import promise_text
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import LEFT_OUT, banded_rate, counted, money, percent, rate, significant, whole
from planner.report.kit.tree import Block, paragraphs
from planner.report.plan.certificate import certificate_text
from planner.report.plan.notes import carried

BALANCED = 0.01
"""Phases whose rates differ by less than this share count as balanced."""


def verdict(plan: Plan) -> str:
    """What the plan promises, at which times, and what a loss leaves; warnings stand before."""
    if plan.throughput_rps <= 0:
        return headline(plan)
    return " ".join([*_warnings(plan), promise_text(plan)])


def answer(plan: Plan) -> tuple[Block, ...]:
    """What it does at capacity, how near that is to the best, what replays say, and of which question it is."""
    network = f"network: {escaped(plan.network_bottleneck)} is the bottleneck." if plan.network_bottleneck else ""
    served = headline(plan) if plan.throughput_rps > 0 else ""
    return paragraphs(served, network, *certificate_text(plan), replayed_text(plan), question(plan.scenario))


def _warnings(plan: Plan) -> Iterator[str]:
    if plan.scenario.cost.mode is CostMode.REFERENCE:
        yield (
            "**Reference mode: the published simulator's rates, not physical ones; do not buy or size hardware by "
            "them.** Known defects are included: memory is not checked in prefill, and a device may be credited with "
            "another's efficiency."
        )
    if plan.provenance.unverified:
        yield (
            "**Unverified.** The plan was saved by a version whose plan.json has no digests: rates, degrees and prices "
            "agree with each other, but whether its bounds, sensitivity and trials are as they were written cannot be "
            "told. Plan again for a certificate that can."
        )
    if plan.search.interrupted:
        yield "**The search was interrupted: this is the best so far.**"
    if unmeasured := carried(plan):
        yield f"**Carried over: {escaped(unmeasured)}.**"


def replayed_text(plan: Plan) -> str:
    """The replayed rate, on what it was found and tested, and what it is better than; empty without replays."""
    replayed = plan.outlook.replayed
    if replayed is None:
        return ""
    own_rate = replayed.plan
    return (
        f"**Replayed, the plan holds the levels up to {_rate_words(own_rate)}**, behind `{plan.scenario.router.name}` "
        f"({escaped(replayed.arrivals)}; {_streams(replayed)}). {_rivals(plan, replayed)} Promise, capacity and bounds "
        "are of the model of queues."
    )


def _rate_words(rates: ReplayedRates) -> str:
    if rates.fresh_rps is None:
        return f"{significant(rates.search_rps)} requests/s on the search's seeds, and was not held against fresh ones"
    return f"{significant(rates.fresh_rps)} requests/s on fresh seeds, {significant(rates.search_rps)} on the search's"


def _streams(replayed: ReplayedChoice) -> str:
    return (
        f"{len(replayed.search_seeds)} seeds of {whole(replayed.requests)} requests in the search, "
        f"{len(replayed.fresh_seeds)} fresh ones of {whole(replayed.fresh_requests)}"
    )


def _rivals(plan: Plan, replayed: ReplayedChoice) -> str:
    """The pools that were solved for, and the best of the others."""
    share = f"{100 * plan.scenario.simplicity:g} %"
    tried = f"of {counted(replayed.replayed, 'candidate')} that were replayed"
    if replayed.candidate is None:
        return f"It is the pools that were solved for: none {tried} was better by more than {share}."
    if replayed.chosen:
        return f"The pools that were solved for: {_rate_words(replayed.solved)}."
    return (
        f"It is the pools that were solved for: the best {tried} is not better by more than {share}: "
        f"{_rate_words(replayed.candidate)}."
    )


def headline(plan: Plan) -> str:
    """What it does at capacity in one sentence, or that it serves nothing."""
    gpus = sum(plan.fleet.values())
    if plan.throughput_rps <= 0:
        return (
            f"**The {gpus} GPUs serve no request of this workload** as a whole: some range has no island "
            f"in one phase. The fleet costs {money(plan.price_usd_per_hour)} USD/hour."
        )
    served, tokens, output = _served(plan)
    return (
        f"**At capacity they serve {served}: {tokens} tokens/s in and out, "
        f"{output} of them output, {_price(plan)}; {_bottleneck(plan)}."
    )


def _served(plan: Plan) -> tuple[str, str, str]:
    """The rate, all tokens/s and output tokens/s, with as many digits as the rate's band allows."""
    banded = banded_rate(plan)
    if banded is None:
        tokens, output = significant(plan.tokens_per_s), significant(plan.output_tokens_per_s)
        return f"{rate(plan.throughput_rps)} requests/s**", tokens, output
    served = f"about {banded.figure} requests/s** ({banded.range}: {LEFT_OUT})"
    return served, banded.figure_like(plan.tokens_per_s), banded.figure_like(plan.output_tokens_per_s)


def _price(plan: Plan) -> str:
    if plan.price_usd_per_hour <= 0:
        return "at no stated price"
    rent = f"for {money(plan.price_usd_per_hour)} USD/hour"
    if unpriced := [escaped(gpu) for gpu in plan.scenario.inventory.without_price if plan.fleet[gpu]]:
        return f"{rent} without {', '.join(unpriced)}, for which no price is given"
    banded = banded_rate(plan)
    per_million = plan.price_usd_per_million_tokens
    if banded is None:
        each = f"{money(per_million)} USD per million tokens"
    else:
        price = banded.dividing(per_million * plan.throughput_rps)
        each = f"about {price.figure} USD per million tokens ({price.range})"
    return f"{rent} or {each}"


def _bottleneck(plan: Plan) -> str:
    slow, fast = sorted((plan.prefill_rps, plan.decode_rps))
    headroom = fast / slow - 1
    if headroom < BALANCED and plan.network_bottleneck:
        return "**the network is the bottleneck**"
    if headroom < BALANCED:
        return f"prefill and decode are balanced to within {percent(BALANCED)}"
    narrow, wide = Phase.PREFILL, Phase.DECODE
    if plan.decode_rps < plan.prefill_rps:
        narrow, wide = wide, narrow
    banded = banded_rate(plan)
    spare = f"{100 * headroom:.0f} % headroom ({banded.rounded(fast) if banded else rate(fast)} requests/s)"
    return f"**{narrow} is the bottleneck**, {wide} has {spare}"


def question(scenario: Scenario) -> str:
    """Of which model and workload it is."""
    model, workload = scenario.model, scenario.workload
    text = (
        f"Model {escaped(model.name)} ({whole(model.weights_gb)} GB of weights); "
        f"workload {escaped(workload.name)}: {significant(workload.mean_input_tokens)} tokens in and "
        f"{significant(workload.mean_output_tokens)} out on average"
    )
    if workload.arrival_rps is not None:
        text += f", arriving at {rate(workload.arrival_rps)} requests/s"
    return text + "."
