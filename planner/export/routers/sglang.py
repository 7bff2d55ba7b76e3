"""Router `sglang`: the buckets of SGLang's router (experimental/sgl-router), as the JSON that it reads.

Its workers are the leaders of islands, by the addresses that the routing table has, so that targets whose leaders have
no names of their own are out. Prompts are counted by the model's tokenizer. Inside a bucket it draws two workers and
takes the one with less prefill waiting (`power_of_two`), or one that has the prompt's beginning (`cache_aware`); decode
workers are always the better of two. The ranks of a worker are its engine's own to choose.

`policy` of a bucket is left out: versions differ in whether they know the key, and refuse a file with unknown ones. The
command line says it. The router itself is built from source (cargo); no image of it is published, so none is started.

SGLang's buckets: who may take a prompt, in the JSON that `sgl-router --bucket-config` reads.

symbol    meaning                                                                        unit
[a, b]    uncached tokens of a prompt, both ends included (min/max_extend_tokens)        tokens
A         answer that requests are taken to ask for: what the engines hold beyond the    tokens
          longest prompt of their island, the most of all decode islands
[c, d]    prompt and asked answer (min/max_sequence_tokens): c = start + A,              tokens
          d = end - 1 + A; the first bucket has no c, the last neither c nor d
P         pending tokens (max_pending_prefill_tokens): rate of full servers x the mean   tokens
          prompt x the bound on TTFT, no less than the longest prompt
rank      smaller first: by length, so that of two buckets that fit the shorter wins

The plan's decode buckets go by the prompt alone, SGLang's by prompt and asked answer. A request that asks for A comes
to the plan's bucket; one that asks for less, to the same or a bucket of shorter prompts, whose engines hold it all the
same: d is what they hold. Requests that name no `max_tokens` have an unknown sequence, which only a bucket without c
and d takes, so the last one has neither: it also takes what earlier ones are too full for.
`ttft_p95_at_capacity_ms` and `tps_p05_at_capacity` are the plan's at the percentile that it is asked for
of the two. A bucket of a plan that has neither goes without.

Sources: sgl-project/sglang, experimental/sgl-router, src/config/types.rs and its validation, src/policies/buckets.rs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import LengthProfile, LoadPoint, Phase, Plan, RouterBehaviour, RouterPolicy
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import Reach
from planner.errors import ExportError
from planner.export.found import Kind
from planner.export.islands import ServingIsland
from planner.export.objects.documents import json_document, yaml_text
from planner.export.objects.names import workload_name
from planner.export.routers.intervals import RoutedBucket, covering_routes, routed_buckets
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles
from planner.export.templating import object_of
from planner.units import MS_PER_S

_STAGES = {Phase.PREFILL: "prefill", Phase.DECODE: "decode"}
_RANKS = 10  # apart, so that a bucket can be put between two by hand


def asked_answer(contexts: Mapping[str, int], longest: Mapping[str, int]) -> int:
    """A, of the decode islands: what each engine holds (`contexts`), and its `longest` prompt."""
    return max((context - longest[name] for name, context in contexts.items() if name in longest), default=0)


def bucket_rows(
    plan: Plan, buckets: Sequence[RoutedBucket], islands: Mapping[str, ServingIsland], urls: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """A row for each bucket; `urls` of each island's leaders. Islands that do both phases have none in decode."""
    longest = {planned.id: planned.longest_prompt for planned in plan.islands}
    decode = {name for b in buckets if b.phase is Phase.DECODE for name in b.names if not islands[name].mixed}
    answer = asked_answer({name: islands[name].max_model_len for name in decode}, longest)
    for phase, stage in _STAGES.items():
        of_stage = [b for b in buckets if b.phase is phase and (phase is Phase.PREFILL or decode.intersection(b.names))]
        for number, bucket in enumerate(of_stage):
            yield {
                "id": f"{stage}-{bucket.start}",
                "stage": stage,
                "rank": _RANKS * (number + 1),
                "worker_ids": [url for name in bucket.names for url in urls[name]],
                **_limits(bucket, answer, first=number == 0, last=number == len(of_stage) - 1),
                "max_context_tokens": min(islands[name].max_model_len for name in bucket.names),
                **_capacity(plan, bucket),
            }


def _limits(bucket: RoutedBucket, answer: int, *, first: bool, last: bool) -> dict[str, int]:
    if bucket.phase is Phase.PREFILL:
        limits = {"min_extend_tokens": bucket.start, "max_extend_tokens": bucket.last}
    else:
        limits = {"min_sequence_tokens": bucket.start + answer, "max_sequence_tokens": bucket.last + answer}
    low, high = limits
    if last and bucket.phase is Phase.DECODE:
        return {}
    return {high: limits[high]} if first else {low: limits[low], high: limits[high]}


def _capacity(plan: Plan, bucket: RoutedBucket) -> dict[str, float | int]:
    """What the plan says of the bucket at capacity, and how many tokens may wait there."""
    figures: dict[str, float | int] = {}
    late_ms = _late_ms(plan, bucket)
    if late_ms and bucket.phase is Phase.PREFILL:
        figures["ttft_p95_at_capacity_ms"] = max(1, round(late_ms))
    elif late_ms:
        figures["tps_p05_at_capacity"] = round(MS_PER_S / late_ms, 3)
    pending = _pending_tokens(plan, bucket)
    return figures | ({"max_pending_prefill_tokens": pending} if pending else {})


def _late_ms(plan: Plan, bucket: RoutedBucket) -> float | None:
    """Of TTFT (prefill) or TPOT (decode) at capacity, the worst of what the bucket covers."""
    parts = plan.outlook.latencies
    covered_ms = [
        part.late_ms
        for part in parts
        if part.load is LoadPoint.CAPACITY and part.phase is bucket.phase and _overlap(part, bucket)
    ]
    sound = [late_ms for late_ms in covered_ms if late_ms is not None]
    return max(sound) if sound and len(sound) == len(covered_ms) else None


def _overlap(part: Any, bucket: RoutedBucket) -> bool:  # a pool or a latency: both have ends
    return bool(part.start < bucket.end and bucket.start < part.end)


def _pending_tokens(plan: Plan, bucket: RoutedBucket) -> int | None:
    """P of the slowest server; None without a bound on TTFT, and in decode."""
    mean = _mean_prompt(plan.scenario.workload, bucket)
    bound_ms, _ = plan.scenario.slo.bounds(mean)
    if bound_ms is None or bucket.phase is not Phase.PREFILL:
        return None
    rates = [p.full_rps for p in plan.outlook.pools if p.serves(Phase.PREFILL) and p.island in bucket.names]
    if not rates:
        return None
    longest = max(planned.longest_prompt for planned in plan.islands if planned.id in bucket.names)
    return max(longest, int(min(rates) * mean * bound_ms / MS_PER_S))


def _mean_prompt(workload: LengthProfile, bucket: RoutedBucket) -> float:
    """Tokens of the bucket's mean prompt; its longest where the workload has none there."""
    rows = [
        (tokens, probability)
        for tokens, probability in zip(workload.input_tokens, workload.probabilities, strict=True)
        if bucket.start <= tokens < bucket.end
    ]
    weight = sum(probability for _, probability in rows)
    return sum(tokens * probability for tokens, probability in rows) / weight if weight else bucket.last


NAME = "sglang"
FILE, KEY, KIND = "sglang-router.yaml", "sglang-buckets.json", "SGLang buckets"
_SCHEMA = "sglang_buckets.json"


def _render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
    """`sglang-router.yaml` with a ConfigMap; where nobody applies objects, its remarks alone beside the file itself,
    `sglang-buckets.json`.

    Raises:
        ExportError: leaders without names, islands of several buckets, or both forms of serving.
    """
    buckets = _checked_buckets(deployment, endpoints)
    islands = {island.id: island for island in deployment.islands}
    urls = {e.island.id: [f"http://{leader}" for leader in e.leaders] for e in endpoints}
    text = _text(list(bucket_rows(deployment.plan, buckets, islands, urls)), deployment.plan)
    comments = tuple(_comments(deployment, [url for name in sorted(urls) for url in urls[name]]))
    if not deployment.target.applied:
        return RouterFiles(files={KEY: text, FILE: yaml_text(comments, ())})
    name = workload_name(deployment.name, "router")
    config_map = object_of("config-map", name=name, part_of=deployment.name, data={KEY: text})
    return RouterFiles(files={FILE: yaml_text(comments, [config_map])})


def _checked_buckets(deployment: Deployment, endpoints: Sequence[Endpoint]) -> tuple[RoutedBucket, ...]:
    plan = deployment.plan
    nameless = [endpoint.island.id for endpoint in endpoints if not endpoint.leaders]
    if nameless:
        raise ExportError(
            f"Router {NAME}, target {deployment.target.name}: buckets name their workers, and nobody knows the names "
            f"of {nameless[0]}'s copies beforehand.",
            hint=f"Export for {' or '.join(SGLANG.targets)}, or choose another router.",
        )
    mixed = [island.id for island in deployment.islands if island.mixed]
    if mixed and len(mixed) < len(deployment.islands):
        raise ExportError(
            f"Router {NAME}, plan {plan.scenario.name}: it serves by pairs or by single workers, got {mixed[0]}, which "
            "does both phases, beside others.",
            hint="Plan with serving: split or serving: aggregated, or take --router none.",
        )
    buckets = routed_buckets(covering_routes(plan))
    for phase in (Phase.PREFILL, Phase.DECODE):
        names = [name for bucket in buckets if bucket.phase is phase for name in bucket.names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ExportError(
                f"Router {NAME}, plan {plan.scenario.name}: a worker belongs to one bucket of {phase}, got {twice} in "
                f"{names.count(twice)}.",
                hint="Plan with routing: {form: buckets}, or take --router none and route by the table.",
            )
    return buckets


def _text(rows: Sequence[Mapping[str, Any]], plan: Plan) -> str:
    """One bucket a line, so that two plans can be compared."""
    bounds, lines = plan.scenario.slo, ",\n".join(json.dumps(row) for row in rows)
    policies = {
        "ttft_slo_policy": "slo_first" if bounds.ttft_ms is not None else "disabled",
        "tps_slo_policy": "slo_first" if bounds.tpot_ms is not None else "disabled",
    }
    tail = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in policies.items())
    return f'{{"buckets": [\n{lines}\n],\n{tail}}}\n'


def _comments(deployment: Deployment, urls: Sequence[str]) -> Iterator[str]:
    plan = deployment.plan
    policy = "cache_aware" if _cached(plan) else "power_of_two"
    yield f"Plan {plan.scenario.name}: buckets of SGLang's router (sgl-project/sglang, experimental/sgl-router)."
    yield (
        f"sgl-router --model-id {deployment.islands[0].weights} --policy {policy} --bucket-config {KEY} "
        f"--worker-urls {' '.join(urls)}"
    )
    yield "Prefill goes by the prompt, decode by the prompt and the answer that is asked for, up to what engines hold:"
    yield "requests that ask for less than the longest answer may come to a decode bucket of shorter prompts than they"
    yield "have, and those that name no max_tokens to the last bucket alone."
    yield "ttft_p95_at_capacity_ms and tps_p05_at_capacity are the plan's at capacity, at the percentile of its levels."
    yield f"Assumed inside a bucket: {deployment.chooses}."
    yield from _notes(plan)


def _cached(plan: Plan) -> bool:
    return plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE


def _notes(_plan: Plan) -> tuple[str, ...]:
    return (
        "It knows no shares: of two workers drawn it takes the one with less to do, whatever their speed.",
        "A decode bucket that is full overflows into the last one.",
    )


def _behaviour(plan: Plan, around: Surroundings, /) -> RouterBehaviour:
    return replace(PROGRAMS[NAME](around), prefixes=_cached(plan), notes=_notes(plan))


def _parse(text: str) -> Iterator[object]:
    yield json_document(text)


SGLANG = Router(
    name=NAME,
    needs=(Reach.NAMES,),
    engines=("sglang",),
    render=_render,
    behaviour=_behaviour,
    kinds=(Kind(kind=KIND, schema=_SCHEMA, files=KEY, parse=_parse),),
)
