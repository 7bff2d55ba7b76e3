"""Router `llm-d`: an endpoint picker that goes by ranges of length on the pods, as values of its own chart, or inside
the one LLMInferenceService of a small plan.

The picker chooses the decode pod and, for split plans, the prefill pod, whose address it puts into a header for the
sidecar of the decode pod; so split plans go to targets whose decode pods have one. An endpoint is a pod and one of the
pool's ports: an attention rank where each has a port (`deploy.ranks`), else a pod, whose engine spreads requests over
its ranks by itself.

Lengths are counted by the model's tokenizer, which the chart starts beside the picker: 4 cores and 8 GiB more for each
picker, and a call within its pod before each request. The alternative, 4 bytes a token, is free, and a prompt that is
longer than its estimate meets an engine whose context it exceeds; it is left where the weights are a path, which the
tokenizer's container does not have, and inside an LLMInferenceService, where one island a phase takes all lengths.

Sources: llm-d/llm-d-router, config/charts/README.md (values) and pkg/epp/datastore (a port an endpoint, the annotation
of active ports), v0.10; InferencePool v1 (targetPorts, 1 to 8); serving.kserve.io/v1alpha2 (router.scheduler).

llm-d's EndpointPickerConfig: who may take a prompt, who of them does, in words of its plugins; and read back.

symbol  meaning                                                              unit    source
range   lengths that a pod takes, `min-max`, both ends included              tokens  context-length-aware, README
tokens  of prompts that an endpoint was sent and has not answered a first    tokens  inflight-load-producer, README
        token to; the part in its cache left out

Weights: a profile adds up weight x score, each score in 0..1.
- lengths 1: pods of a bucket have the same range, so it adds the same to all; with filtering on, others are out.
- prefill: tokens in flight 1 and nothing beside it. A queue's score is spread over 0..1 whatever it is about, and one
  request of difference would outweigh 100 000 tokens.
- decode: requests in flight 2, the picker's own count and never stale; free KV cache 1, scraped, which tells long
  answers from short ones.
- prefix 4 where the plan counts on cached prompts: a whole prompt in the cache outweighs the rest. The index of who was
  sent what is as large as an endpoint's device memory, as the engine tells it, or, where the plan has tiers below
  that, as the largest of them.
Every prompt is split where the plan is split: `prefix-based-pd-decider` with nonCachedTokens 0 never splits one.

Sources: llm-d/llm-d-router, READMEs of pkg/epp/framework/plugins and docs/disaggregation.md, v0.10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import LengthMeasure, Phase, Plan, RouterBehaviour, RouterPolicy
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import TARGET_ROWS, Reach
from planner.errors import ExportError
from planner.export.engines.seam import Launch
from planner.export.engines.tiers import tier_tokens
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_documents, yaml_text
from planner.export.objects.names import weights_location, workload_name
from planner.export.routers.intervals import require_intervals
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles, Step
from planner.export.templating import object_of

NAME = "llm-d"
CHART, VERSION = "llm-d-router-gateway", "v0.10.0"
POOL_LABEL = "planner/router-pool"
LENGTH_LABEL = "llm-d.ai/context-length-range"
ROLE_LABEL = "llm-d.ai/role"
PORTS_ANNOTATION = "llm-d.ai/active-ports"
MOST_PORTS = 8
WORKER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
FILE, VALUES_KEY, CONFIG_FILE = "llm-d-router.yaml", "values.yaml", "planner.yaml"
_ROLES = {Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.MIXED: "prefill-decode"}
BLOCK_TOKENS = 64
"""Of the picker's index of prompts, the least that it knows (approx-prefix-cache-producer, README)."""
_LEAST_TOKENS = 4_194_304  # the scorer's own default: where its score ends


def _render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
    """`llm-d-router.yaml`, a ConfigMap with the chart's values; none where the target's object holds the configuration.

    Raises:
        ExportError: split plans on a target without sidecars, plans with both forms, islands of several intervals, or
            ports that differ.
    """
    _check(deployment)
    if _alone(deployment):
        return RouterFiles()
    first = sorted({endpoint.port for endpoint in endpoints})
    if len(first) > 1:
        raise ExportError(
            f"Router {NAME}: the pods of a pool have the same ports, got {', '.join(map(str, first))}.",
            hint="Choose another router, or --router none.",
        )
    ports = max((endpoint.ports for endpoint in endpoints), key=len)
    return RouterFiles(files={FILE: yaml_text(_comments(deployment), [_config_map(deployment, ports)])})


def _check(deployment: Deployment) -> None:
    plan, mixed = deployment.plan, [island.id for island in deployment.islands if island.mixed]
    if mixed and len(mixed) < len(deployment.islands):
        raise ExportError(
            f"Router {NAME}, plan {plan.scenario.name}: the picker would find a prefill pod for every prompt, those of "
            f"{mixed[0]} too, which does both phases.",
            hint="Plan with serving: split or serving: aggregated, or take --router none.",
        )
    if not mixed and Reach.SIDECARS not in deployment.target.row.offers:
        paired = [name for name, row in TARGET_ROWS.items() if Reach.SIDECARS in row.offers]
        raise ExportError(
            f"Router {NAME}, target {deployment.target.name}: its decode pods have no sidecar that fetches from the "
            f"prefill pod that the picker names; those of {' and '.join(paired)} have one.",
            hint=f"Export for {' or '.join(paired)}, choose another router, or plan with serving: aggregated.",
        )
    require_intervals(plan, deployment.intervals, NAME)


def _alone(deployment: Deployment) -> bool:
    """Whether all islands are in one object of a target that starts a picker for each of its objects."""
    phases = [island.phase for island in deployment.islands]
    return deployment.target.row.picks and len(set(phases)) == len(phases)


def _inner(deployment: Deployment, /) -> dict[str, Any] | None:
    return _picker(deployment) if _alone(deployment) else None


def _picker(deployment: Deployment) -> dict[str, Any]:
    """Who may take a prompt, and who of them does: the picker's configuration."""
    plan, islands = deployment.plan, deployment.islands
    followed = [island for island in islands if island.grouping.pods > 1 and not island.by_rank]
    return object_of(
        "endpoint-picker",
        split=not any(island.mixed for island in islands),
        workers=[str(index) for index in range(1, max((i.grouping.pods for i in followed), default=1))],
        without_workers=sorted({"default" if island.mixed else island.phase.value for island in followed}),
        worker_label=WORKER_LABEL,
        length_label=LENGTH_LABEL,
        prefixes=plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE,
        remembered=max(map(tier_tokens, islands)) // BLOCK_TOKENS,
        block=BLOCK_TOKENS,
        tokenizer=_tokenizer(deployment),
        most_tokens=max(_LEAST_TOKENS, *(island.max_model_len for island in islands)),
    )


def _tokenizer(deployment: Deployment) -> str:
    """The model whose tokenizer answers beside the picker; empty: lengths are estimated."""
    return "" if _alone(deployment) or _by_path(deployment.plan) else deployment.islands[0].weights


def _config_map(deployment: Deployment, ports: Sequence[int]) -> dict[str, Any]:
    """Values of the router's chart, which makes the InferencePool of the pods with the label, and the picker; in an
    object, as the folder's other files are, so that all of them can be applied at once."""
    values = object_of(
        "llm-d-router-values",
        pool={POOL_LABEL: deployment.name},
        engine=deployment.engine.name,
        ports=ports,
        version=VERSION,
        file=CONFIG_FILE,
        picker=_plain(_picker(deployment)),
        tokenizer=_tokenizer(deployment),
    )
    name = workload_name(deployment.name, "router")
    return object_of("config-map", name=name, part_of=deployment.name, data={VALUES_KEY: _plain(values)})


def _plain(document: Mapping[str, Any]) -> str:
    return yaml_text((), [document]).removeprefix("---\n")


def _comments(deployment: Deployment) -> Iterator[str]:
    name = workload_name(deployment.name, "router")
    yield f"Plan {deployment.plan.scenario.name}: values of chart {CHART} {VERSION} of llm-d/llm-d-router."
    yield _install(name)
    yield f"The chart makes InferencePool {name} of the pods with the label {POOL_LABEL}, for an HTTPRoute to name."
    yield f"Pods tell their lengths (tokens, both ends included) by the label {LENGTH_LABEL}:"
    for island in deployment.islands:
        span = deployment.intervals.get(island.id)
        yield f"{island.id}, {island.phase}: {range_text(span) if span else 'none, and so no prompt'}"
    yield from _endpoint_words(deployment)
    yield from _notes(deployment.plan)
    if _tokenizer(deployment):
        yield "Prompts are counted by the model's tokenizer, beside the picker: 4 cores and 8 GiB for each picker."
    else:
        yield (
            "WARNING: the weights are a path, so prompts are counted at 4 bytes a token, and one may come to an engine "
            "whose context it exceeds; router.tokenizer of the chart, with that path mounted, counts exactly."
        )


def _endpoint_words(deployment: Deployment) -> Iterator[str]:
    """What the picker chooses among."""
    by_rank = [island.id for island in deployment.islands if island.by_rank]
    yield f"Assumed inside a bucket: {deployment.chooses}."
    if by_rank:
        yield (
            f"Each attention rank of {', '.join(by_rank)} is an endpoint: the pool has several ports, and pods "
            f"name theirs by the annotation {PORTS_ANNOTATION}. The gateway must know such pools (v1.1 of "
            "the inference extension)."
        )


def _rank_obstacle(island: ServingIsland, deployment: Deployment, /) -> str:
    """A pool has few ports; and workers are endpoints in all groups of a phase or in none, as one filter leaves them
    out."""
    if island.local_ranks > MOST_PORTS:
        return f"a pool of router {NAME} has at most {MOST_PORTS} ports, and a pod {island.local_ranks} ranks"
    for other in deployment.islands:
        if other.phase is not island.phase or other.grouping.pods == 1 or island.grouping.pods == 1:
            continue
        if other.parallel.dp == 1 or other.local_ranks > MOST_PORTS or deployment.engine.rank_obstacle(other):
            return f"router {NAME} leaves out the workers of all groups of pods, for {other.id}"
    return ""


def _pod_annotations(island: ServingIsland, deployment: Deployment, launch: Launch, /) -> dict[str, str]:
    """The ports of the pool at which a pod answers; all of them, too, as a later plan's pods may have more."""
    if island.id not in deployment.intervals or not any(other.by_rank for other in deployment.islands):
        return {}
    return {PORTS_ANNOTATION: ",".join(str(port.number) for port in launch.rank_ports)}


def _pod_labels(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
    if island.id not in deployment.intervals:
        return {}  # without a range the picker would send it any prompt
    lengths = range_text(deployment.intervals[island.id])
    return {POOL_LABEL: deployment.name, ROLE_LABEL: _ROLES[island.phase], LENGTH_LABEL: lengths}


def range_text(span: tuple[int, int]) -> str:
    """An interval start <= tokens < end as a pod's label has it."""
    return f"{span[0]}-{span[1] - 1}"


def _notes(plan: Plan) -> tuple[str, ...]:
    shares = {(route.phase, route.range_start): set[float]() for route in plan.routing}
    for route in plan.routing:
        shares[route.phase, route.range_start].add(route.share)
    uneven = any(len(set(amounts)) > 1 for amounts in shares.values())
    return (
        *(("It knows no shares: pods of a bucket take what keeps their tokens in flight alike.",) if uneven else ()),
        "Tokens in flight are compared as they are, not by how fast a pod works them off.",
    )


def _behaviour(plan: Plan, around: Surroundings, /) -> RouterBehaviour:
    """Tokens in flight, until the first chunk of a stream."""
    return replace(
        PROGRAMS[NAME](around),
        measure=LengthMeasure.CHARACTERS if _by_path(plan) else LengthMeasure.TOKENS,
        prefixes=plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE,
        notes=_notes(plan),
    )


def _by_path(plan: Plan) -> bool:
    """Whether the weights are on a disk and no repository's."""
    return weights_location(plan.scenario.model.name, plan.scenario.model.uri).startswith("/")


def _steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    if FILE not in files:
        return ()
    name = next(iter(yaml_documents(files[FILE])))["metadata"]["name"]  # type: ignore[index]
    return (
        Step(
            title="Endpoint picker",
            why=f"CHART is {CHART} {VERSION} of llm-d/llm-d-router; it makes InferencePool {name}, for an HTTPRoute.",
            commands=(_install(name),),
            looks=(f"kubectl get inferencepool {name} --namespace NAMESPACE",),
            undo=(f"helm uninstall {name} --namespace NAMESPACE",),
        ),
    )


def _install(name: str) -> str:
    values = f"kubectl get configmap {name} --namespace NAMESPACE -o jsonpath='{{.data.values\\.yaml}}'"
    return f"{values} | helm install {name} CHART --namespace NAMESPACE -f -"


LLM_D = Router(
    name=NAME,
    needs=(Reach.SIDECARS, Reach.LABELS),
    engines=("vllm", "sglang"),
    render=_render,
    behaviour=_behaviour,
    pod_labels=_pod_labels,
    pod_annotations=_pod_annotations,
    rank_obstacle=_rank_obstacle,
    inner=_inner,
    steps=_steps,
    requests_metric="llm_d_epp_request_total",
    passes_key=True,  # picker and sidecar leave a request's headers alone
)
