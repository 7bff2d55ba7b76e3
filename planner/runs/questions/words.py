"""The answer to a question about money in a few lines, and as a document for programs."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from planner.domain import PHASES, BucketLatency, GpuWorth, LoadPoint, Phase, Plan, ServingForm
from planner.domain.frontier import RivalFleet
from planner.domain.serving.routing import class_of_pools
from planner.report.buckets.headline import given_up_words, late_words, surely
from planner.report.buckets.view import latencies_at
from planner.report.kit.quantities import LEFT_OUT, banded_rate, money, signed_range, significant
from planner.report.plan.certificate import forms_sentence
from planner.report.plan.notes import MEASURE_FIRST, carried
from planner.runs.questions.documents import MoneyAnswer, MoneyQuestion, text_of

MOST_RIVALS = 4
SAME = 5e-4
WIDE = 0.03
"""A gap above it is pointed out: what a further bucket has to be worth, so that no plan is meant to be closer."""

_LABEL = 10


def answer_text(answer: MoneyAnswer) -> str:
    """The answer, a line a figure, ending in a newline."""
    rows = [
        ("rent" if answer.question is not MoneyQuestion.MAX else "fleet", _fleet(answer)),
        ("rate", _rate(answer)),
        ("price", _price(answer)),
        ("levels", _levels(answer.plan)),
        ("proven", _proof(answer)),
        ("form", forms_sentence(answer.plan, partial(_in_unit, answer))),
        ("offered", answer.offered if answer.question is not MoneyQuestion.MAX else ""),
        *(("instead" if n == 0 else "", row) for n, row in enumerate(_rivals(answer))),
        *(("one more" if n == 0 else "", row) for n, row in enumerate(_more(answer))),
        *(("note", note) for note in _notes(answer)),
    ]
    lines = [f"  {label:<{_LABEL}}{text}" for label, text in rows if text]
    unmeasured = carried(answer.plan)
    warning = [f"Carried over: {unmeasured}. {MEASURE_FIRST}"] if unmeasured else []
    return "\n".join([_verdict(answer), *warning, "", *lines, ""])


def _verdict(answer: MoneyAnswer) -> str:
    promise = f"{significant(answer.promise_rps)} requests/s"
    bunched, apart = _bunched(answer), ""
    if bunched:
        promise, apart = f"{bunched} requests/s where they bunch as in the trace", f", {promise} where they do not"
    fleet = _gpus(answer.gpus)
    if answer.question is MoneyQuestion.CHEAPEST:
        less = f" Where they bunch as in the trace, it promises {bunched} requests/s." if bunched else ""
        return f"{answer.amount:g} requests/s cost {money(answer.rent_usd_per_hour)} USD/hour: rent {fleet}.{less}"
    if answer.question is MoneyQuestion.BUY:
        return f"{money(answer.amount)} USD/hour buy {promise}{apart}: rent {fleet}."
    return f"{fleet} promise {promise}{apart}."


def _gpus(gpus: Sequence[tuple[str, int]]) -> str:
    names = [f"{count} {gpu}" for gpu, count in gpus]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _fleet(answer: MoneyAnswer) -> str:
    prices = {item.gpu.name: item for item in answer.scenario.inventory.items}
    unit = ", by whole nodes" if answer.whole_nodes else ""
    rows = [
        f"{count} {gpu} at {money(prices[gpu].price_usd_per_gpu_hour)}"
        if prices[gpu].price_known
        else f"{count} {gpu}, no price known"
        for gpu, count in answer.gpus
    ]
    charge = " USD per GPU and hour" if any(prices[gpu].price_known for gpu, _ in answer.gpus) else ""
    return f"{', '.join(rows)}{charge}{unit}"


def _rate(answer: MoneyAnswer) -> str:
    banded = banded_rate(answer.plan)
    band = f" (about {banded.figure}: {banded.range}, {LEFT_OUT})" if banded else ""
    capacity = f"{significant(answer.plan.throughput_rps)} requests/s at capacity{band}"
    margin, sure = answer.scenario.routing.margin, surely(answer.plan)
    part = f"{margin:g} of {capacity}" if answer.scenario.promise.sure is None else capacity
    return f"{significant(answer.promise_rps)} requests/s promised, {part}{f'; {sure}' if sure else ''}"


def _price(answer: MoneyAnswer) -> str:
    if answer.rent_usd_per_hour <= 0:
        return "no price is known: give --prices"
    unpriced = [gpu for gpu in answer.scenario.inventory.without_price if dict(answer.gpus).get(gpu)]
    if unpriced:
        return f"{money(answer.rent_usd_per_hour)} USD/hour without {', '.join(unpriced)}, so none per token"
    each, banded = answer.price_usd_per_million_tokens, banded_rate(answer.plan)
    million = f"{money(each)} USD per million tokens"
    if banded:
        price = banded.dividing(each * answer.plan.throughput_rps)
        million = f"about {price.figure} USD per million tokens ({price.range})"
    return f"{money(answer.rent_usd_per_hour)} USD/hour; {million} at capacity"


def _levels(plan: Plan) -> str:
    """Both times at the demand, else at the promise, as late as the levels count them; who is given up."""
    load = LoadPoint.DEMAND if plan.scenario.objective.demand_rps else LoadPoint.PROMISE
    rows = {phase: latencies_at(plan, load, phase) for phase in PHASES}
    if not all(rows.values()):
        return ""
    rate = significant(rows[Phase.PREFILL][0].rate_rps)
    times = ", ".join(late_words(plan, load, phase) for phase in PHASES)
    none = "" if plan.outlook.levels_set else "; no levels were asked for: give --ttft and --tpot"
    given_up = given_up_words(plan, load)
    return f"{times} at {rate} requests/s{none}{f'; given up: {given_up}' if given_up else ''}"


def _proof(answer: MoneyAnswer) -> str:
    if answer.bound is None or answer.gap is None:
        return ""
    kind = "layouts"
    if answer.plan.form.row.pooled:
        kind = f"deployable {class_of_pools(answer.scenario.serving_form, answer.plan.outlook.forms)}"
        kind += " behind one bucket a phase" if answer.scenario.routing.most == 1 else ""
    if answer.question is MoneyQuestion.CHEAPEST:
        nodes = " where GPUs are rented singly" if answer.whole_nodes else ""
        beyond = f"no {kind} of this offer do with less than {money(answer.bound)} USD/hour{nodes}"
    else:
        beyond = (
            f"no {kind} of {_offered_as(answer)} serve more than {significant(answer.bound, 4)} requests/s at capacity"
        )
    return f"{beyond}; the gap is {100 * answer.gap:.1f} %"


def _in_unit(answer: MoneyAnswer, value: float) -> str:
    """A value of the question's objective."""
    if answer.question is MoneyQuestion.CHEAPEST:
        return f"{money(value)} USD/hour"
    return f"{significant(value, 4)} requests/s"


def _bunched(answer: MoneyAnswer) -> str:
    """What is promised where requests come as unevenly as in the trace; "" where that is no less, or not known."""
    outlook = answer.plan.outlook
    return significant(outlook.burst_rps) if outlook.bursts_bind and outlook.burst_rps is not None else ""


def _rivals(answer: MoneyAnswer) -> list[str]:
    """The best few others; those that are the same fleet, or need none of what the answer has, are told once."""
    rows, fleets = [], {answer.gpus}
    for rival in answer.rivals:
        if rival.gpus in fleets:
            continue
        fleets.add(rival.gpus)
        rows.append(_rival(answer, rival))
    return rows[:MOST_RIVALS]


def _rival(answer: MoneyAnswer, rival: RivalFleet) -> str:
    rate = f"{significant(rival.rate_rps * answer.scenario.routing.margin)} requests/s"
    if answer.question is MoneyQuestion.CHEAPEST:
        figure, change = (
            f"{money(rival.price_usd_per_hour)} USD/hour",
            rival.price_usd_per_hour / answer.plan.price_usd_per_hour - 1,
        )
    else:
        figure, change = rate, rival.rate_rps / answer.plan.throughput_rps - 1
    more = "the same" if abs(change) < SAME else f"{100 * change:+.1f} %"
    return f"{rival.what}: {_gpus(rival.gpus)}, {figure} ({more})"


def _more(answer: MoneyAnswer) -> list[str]:
    """What one more node of each type at hand would add to the rate."""
    sensitivity = answer.plan.sensitivity
    if sensitivity is None or answer.question is not MoneyQuestion.MAX:
        return []
    rows = sorted(sensitivity.gpus, key=lambda worth: -worth.more_node_rps)
    return [_node(worth) for worth in rows]


def _node(worth: GpuWorth) -> str:
    rent = money(worth.price_usd_per_gpu_hour * worth.gpus_per_node)
    price = f", for {rent} USD/hour" if worth.price_usd_per_gpu_hour else ""
    gain = signed_range(worth.more_node_rps, worth.more_node_most_rps)
    return f"{worth.gpus_per_node} {worth.gpu}, a node: {gain} requests/s{price}"


def _notes(answer: MoneyAnswer) -> list[str]:
    notes, plan = [], answer.plan
    if estimated := _estimated(answer):
        notes.append(f"the price of {estimated} is an estimate, no public one was found: give yours with --prices")
    if parts := _parts_of_nodes(answer):
        notes.append(f"{parts}: where only whole nodes are for rent, say whole_nodes: true in an offer (--offer)")
    if not plan.optimal and (answer.gap or 1.0) > WIDE:
        notes.append("the gap is wide: raise search.work_limit in the scenario for a closer proof")
    if plan.outlook.losses and not plan.scenario.survive.share:
        remaining = plan.outlook.worst_loss.rate_rps
        notes.append(
            "the loss of one node may leave nothing: --survive 1 asks for a fleet that outlives it"
            if remaining <= 0
            else f"after the loss of any one node {significant(remaining)} requests/s remain; --survive 1 asks for more"
        )
    return notes


def _offered_as(answer: MoneyAnswer) -> str:
    return "these GPUs" if answer.question is MoneyQuestion.MAX else "this offer"


def _parts_of_nodes(answer: MoneyAnswer) -> str:
    """GPUs that are rented but fill no node; "" where all do, or nothing is rented."""
    if answer.question is MoneyQuestion.MAX:
        return ""
    hosts = {item.gpu.name: item.gpu.gpus_per_host for item in answer.scenario.inventory.items}
    return " and ".join(
        f"{count} {gpu} are {'a part of a node' if count < hosts[gpu] else 'no whole nodes'} of {hosts[gpu]}"
        for gpu, count in answer.gpus
        if count % hosts[gpu]
    )


def _estimated(answer: MoneyAnswer) -> str:
    """GPU types of the fleet whose price is the shipped list's and nobody's in particular."""
    items = [item for item in answer.scenario.inventory.items if dict(answer.gpus).get(item.gpu.name)]
    return " and ".join(item.gpu.name for item in items if item.price_estimated)


def next_questions(
    answer: MoneyAnswer, scenario: Path | None, flags: str, run: Path | None = None
) -> list[tuple[str, str]]:
    """What to ask next: why, and a command that works as it stands. `scenario`, `run`: the file and the run folder that
    were written; `flags`: as typed, the model, the workload and the levels."""
    folder = shlex.quote(str(run or f"runs/{answer.document['name']}"))
    rows = [
        _whole_plan(answer, scenario, folder, flags)
        if run is None
        else ("the page to send", f"planner report {folder}"),
        ("does it keep its promise, request by request?", f"planner replay {folder} --trace lengths"),
    ]
    if answer.question is MoneyQuestion.CHEAPEST:
        double = f"{2 * answer.rent_usd_per_hour:.2f}".rstrip("0").rstrip(".")
        rows.append(("what would twice the rent serve?", f"planner buy --usd {double} {flags}"))
    elif answer.question is MoneyQuestion.BUY:
        rows.append(("what would twice the rate cost?", f"planner cheapest --rps {2 * answer.promise_rps:.4g} {flags}"))
    else:
        rows.append(
            ("what would this rate cost if it were rented?", f"planner cheapest --rps {answer.promise_rps:.4g} {flags}")
        )
    return [*rows, *_other_form(answer, flags)]


def _other_form(answer: MoneyAnswer, flags: str) -> Iterator[tuple[str, str]]:
    """The same question of the other form of serving, or of both where one was asked for."""
    if answer.scenario.beyond_mixed or sum(count for _, count in answer.gpus) < len(PHASES):
        return
    forms = answer.plan.outlook.forms
    other = ServingForm.AUTO if forms is None else forms.other
    words = shlex.split(flags)
    if "--serving" in words:
        at = words.index("--serving")
        del words[at : at + 2]
    why = f"what would {other} pools do?" if forms else "would the better of split and aggregated pools do more?"
    yield why, f"{_command(answer)} {shlex.join([*words, '--serving', other.value])}"


def _command(answer: MoneyAnswer) -> str:
    """The question's command with what it is about."""
    if answer.question is MoneyQuestion.MAX:
        gpus = ",".join(f"{item.gpu.name}={item.count}" for item in answer.scenario.inventory.items)
        return f"planner max --inventory {gpus}"
    flag = "rps" if answer.question is MoneyQuestion.CHEAPEST else "usd"
    return f"planner {answer.question.value} --{flag} {answer.amount:.12g}"


def _whole_plan(answer: MoneyAnswer, scenario: Path | None, folder: str, flags: str) -> tuple[str, str]:
    """Of the scenario where it is on the disk, else the same question again: nothing has to be copied into a file."""
    command = f"planner plan {shlex.quote(str(scenario))}" if scenario is not None else f"{_command(answer)} {flags}"
    return "the whole plan, with manifests", f"{command} --out {folder}"


def answer_document(
    answer: MoneyAnswer, *, scenario: Path | None = None, run: Path | None = None, flags: str = ""
) -> dict[str, Any]:
    """The answer for programs."""
    plan, band, statistic = answer.plan, answer.plan.rate_band, answer.plan.scenario.slo.statistic
    return {
        "question": answer.question.value,
        "amount": answer.amount or None,
        "gpus": dict(answer.gpus),
        "price_usd_per_hour": answer.rent_usd_per_hour,
        "price_usd_per_million_tokens": answer.price_usd_per_million_tokens,
        "promise_rps": answer.promise_rps,
        "capacity_rps": plan.throughput_rps,
        "low_rps": band.low_rps if band else None,
        "high_rps": band.high_rps if band else None,
        "carried_over": carried(plan) or None,
        "burst_rps": plan.outlook.burst_rps,
        "latency": [_latency(row, statistic) for row in plan.outlook.latencies],
        "objective": "USD/hour" if answer.question is MoneyQuestion.CHEAPEST else "requests/s",
        **({} if plan.outlook.odds is None else {"odds": asdict(plan.outlook.odds)}),
        "bound": answer.bound,
        "gap": answer.gap,
        "serving": _forms(plan),
        "whole_nodes": answer.whole_nodes,
        "offered": answer.offered,
        "rivals": [{**asdict(rival), "gpus": dict(rival.gpus)} for rival in answer.rivals],
        "notes": _notes(answer),
        "scenario": dict(answer.document),
        "scenario_text": text_of(answer, scenario.parent if scenario else None),
        "scenario_file": None if scenario is None else str(scenario),
        "folder": None if run is None else str(run),
        "next": [{"why": why, "command": command} for why, command in next_questions(answer, scenario, flags, run)],
    }


def _forms(plan: Plan) -> Mapping[str, object] | None:
    """The form of the pools, what it was chosen over and the margin; None of plans without pools, or of a form asked
    for."""
    return None if plan.outlook.forms is None else asdict(plan.outlook.forms)


def _latency(row: BucketLatency, statistic: str) -> Mapping[str, object]:
    return {
        "load": row.load.value,
        "rate_rps": row.rate_rps,
        "phase": row.phase.value,
        "from_tokens": row.start,
        "to_tokens": row.end,
        "p50_ms": row.p50_ms,
        "statistic": statistic,
        "late_ms": row.late_ms,
        "low_ms": row.low_ms,
        "high_ms": row.high_ms,
        "bound_ms": row.bound_ms,
    }
