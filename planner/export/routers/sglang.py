"""Router `sglang`: the buckets of SGLang's router (experimental/sgl-router), as the JSON that it reads.

Its workers are the leaders of islands, by the addresses that the routing table has, so that targets whose leaders have
no names of their own are out. Prompts are counted by the model's tokenizer. Inside a bucket it draws two workers and
takes the one with less prefill waiting (`power_of_two`), or one that has the prompt's beginning (`cache_aware`); decode
workers are always the better of two. The ranks of a worker are its engine's own to choose.

`policy` of a bucket is left out: versions differ in whether they know the key, and refuse a file with unknown ones. The
command line says it. The router itself is built from source (cargo); no image of it is published, so none is started.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import LengthMeasure, Phase, Plan, RouterBehaviour, RouterPolicy
from planner.errors import ExportError
from planner.export.found import Kind
from planner.export.objects.documents import json_document, yaml_text
from planner.export.objects.names import workload_name
from planner.export.routers.coverage import covering_routes
from planner.export.routers.intervals import RoutedBucket, routed_buckets
from planner.export.routers.sglang_buckets import bucket_rows
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles

NAME = "sglang"
FILE, KEY, KIND = "sglang-router.yaml", "sglang-buckets.json", "SGLang buckets"
_SCHEMA = "sglang_buckets.json"
_ON_HOSTS = "script"  # the target whose files nobody applies


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
    if deployment.target == _ON_HOSTS:
        return RouterFiles(files={KEY: text, FILE: yaml_text(comments, ())})
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": workload_name(deployment.name, "router"),
            "labels": {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "planner"},
        },
        "data": {KEY: text},
    }
    return RouterFiles(files={FILE: yaml_text(comments, [config_map])})


def _checked_buckets(deployment: Deployment, endpoints: Sequence[Endpoint]) -> tuple[RoutedBucket, ...]:
    plan = deployment.plan
    nameless = [endpoint.island.id for endpoint in endpoints if not endpoint.leaders]
    if nameless:
        raise ExportError(
            f"Router {NAME}, target {deployment.target}: buckets name their workers, and nobody knows the names of "
            f"{nameless[0]}'s copies beforehand.",
            hint="Export for lws or script, or choose another router.",
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
    yield f"Assumed: {_policy(plan).value} inside a bucket, ranks of a worker left to its engine."
    yield from _notes(plan)


def _cached(plan: Plan) -> bool:
    return plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE


def _policy(plan: Plan) -> RouterPolicy:
    return RouterPolicy.PREFIX_AWARE if _cached(plan) else RouterPolicy.POWER_OF_TWO


def _notes(_plan: Plan) -> tuple[str, ...]:
    return (
        "It knows no shares: of two workers drawn it takes the one with less to do, whatever their speed.",
        "A decode bucket that is full overflows into the last one.",
    )


def _behaviour(plan: Plan) -> RouterBehaviour:
    return RouterBehaviour(policy=_policy(plan), measure=LengthMeasure.TOKENS, blind_to_speed=True, notes=_notes(plan))


def _parse(text: str) -> Iterator[object]:
    yield json_document(text)


SGLANG = Router(
    name=NAME,
    targets=("lws", "script"),
    engines=("sglang",),
    render=_render,
    behaviour=_behaviour,
    kinds=(Kind(kind=KIND, schema=_SCHEMA, files=KEY, parse=_parse),),
)
