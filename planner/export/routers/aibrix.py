"""Router `aibrix`: AIBrix' gateway, which goes by an annotation of lengths on the pods.

A gateway plugin that runs already is told by environment variables to heed lengths; the pods say which. Prefill and
decode pods belong to one role set here, so that any prefill pod of a prompt's length goes with any decode pod of it:
each side has its own intervals, which need not nest. A pod that does both phases is `combined`, and takes a prompt
where no pair of the others has its length.

The form is the one of AIBrix' main branch after 0.6 (docs/source/features/pd-disaggregation, package configprofiles):
`promptLenBucketMinLength` and `promptLenBucketMaxLength`, both ends included, inside `routingConfig` of the profile in
the annotation `model.aibrix.ai/config`. Earlier ones had them beside `routingStrategy`, or as pod labels, and read none
of this. Its strategy `pd`, which lengths belong to, takes a pod as one server: ranks at ports of their own are known to
`least-request` alone (pull requests 1866, merged, and 1970, closed). Whom it chooses: prefill by requests in flight;
decode by requests, tokens/s and free memory; one of the combined pods at random. A maximum of 0 stands for none.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import Phase, Plan, RouterBehaviour, RouterPolicy
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import Reach
from planner.errors import ExportError
from planner.export.engines.seam import Launch
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_documents, yaml_text
from planner.export.objects.names import is_label_value, workload_name
from planner.export.routers.intervals import covering_routes, require_intervals, routed_buckets
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles, Step
from planner.export.templating import object_of

NAME = "aibrix"
FILE = "aibrix.yaml"
SWITCH = "AIBRIX_PROMPT_LENGTH_BUCKETING"
CONFIG_ANNOTATION = "model.aibrix.ai/config"
ROLE_LABEL, SET_LABEL = "role-name", "roleset-name"
MODEL_LABEL = "model.aibrix.ai/name"
_PROFILE, _COMBINED = "default", "combined"
_ROLES = {Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.MIXED: _COMBINED}
_PORTS = {"vllm": "8000", "sglang": "30000"}
_UNTRIED = {"vllm": "whether this gateway's default KV connector (shfs) pairs pods that use vLLM's NIXL connector"}


def _render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
    """`aibrix.yaml`: the gateway's variables, as the data of a ConfigMap.

    Raises:
        ExportError: islands of several intervals, lengths that islands of both phases share with others, engines at
            several ports, or a model name that is no label.
    """
    _check(deployment)
    ports = sorted({endpoint.port for endpoint in endpoints})
    if [str(port) for port in ports] != [_PORTS[deployment.engine.name]]:
        raise ExportError(
            f"Router {NAME}: engines must listen at port {_PORTS[deployment.engine.name]}, as their pods' labels say, "
            f"got {', '.join(map(str, ports))}.",
            hint="Choose another router, or --router none.",
        )
    name = workload_name(deployment.name, "router")
    config_map = object_of("config-map", name=name, part_of=deployment.name, data=_variables(deployment))
    return RouterFiles(files={FILE: yaml_text(_comments(deployment), [config_map])})


def _check(deployment: Deployment) -> None:
    _served_name(deployment)
    plan, mixed = deployment.plan, {island.id for island in deployment.islands if island.mixed}
    require_intervals(plan, deployment.intervals, NAME)
    for name, (_, end) in deployment.intervals.items():
        if end == 1:
            raise ExportError(
                f"Router {NAME}, island {name}: a maximum of 0 tokens stands for none, so its prompts must be longer.",
                hint="Choose another router, or --router none.",
            )
    for bucket in routed_buckets(covering_routes(plan)):
        both = mixed.intersection(bucket.names)
        if both and len(both) < len(bucket.names):
            raise ExportError(
                f"Router {NAME}, prompts of {bucket.start}-{bucket.last} tokens: the gateway takes combined pods where "
                f"no others have the length, got {', '.join(bucket.names)}.",
                hint="Plan with serving: split or serving: aggregated, or take --router none.",
            )


def _served_name(deployment: Deployment, /) -> str:
    """The model as a label of the pods names it, and requests and engines have to.

    Raises:
        ExportError: the name is no label's value.
    """
    name = deployment.plan.scenario.model.name
    if not is_label_value(name):
        raise ExportError(
            f"Router {NAME}, model: its name must be a label's value, by which the gateway picks pods, got {name!r}.",
            hint="Rename the model, or choose another router.",
        )
    return name


def _variables(deployment: Deployment) -> dict[str, str]:
    slo = deployment.plan.scenario.slo
    patience = max(30.0, 10 * (slo.ttft_ms or 0.0) / 1000)  # the gateway's own default, and ten times the bound
    return {SWITCH: "true", "AIBRIX_PREFILL_REQUEST_TIMEOUT": str(round(patience))}


def _comments(deployment: Deployment) -> Iterator[str]:
    words = " ".join(f"{key}={value}" for key, value in _variables(deployment).items())
    yield f"Plan {deployment.plan.scenario.name}: what AIBrix' gateway must be started with, to heed the pods' lengths:"
    yield f"kubectl set env -n aibrix-system deployment/aibrix-gateway-plugins {words}"
    yield f"Written for AIBrix after 0.6, which reads lengths from routingConfig in the annotation {CONFIG_ANNOTATION};"
    yield "earlier versions read none of it and would send any prompt to any pod: look at its documentation first."
    yield f"Requests name the model {_served_name(deployment)}, as the pods' label {MODEL_LABEL} and the engines do."
    yield f"Assumed: {deployment.chooses}, inside a bucket."
    yield from _notes(deployment.plan)
    if deployment.engine.name in _UNTRIED and any(not island.mixed for island in deployment.islands):
        yield f"WARNING: not tried on a cluster: {_UNTRIED[deployment.engine.name]}."


def _pod_labels(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
    if island.id not in deployment.intervals:
        return {}  # without lengths the gateway would send it any prompt
    return {
        MODEL_LABEL: _served_name(deployment),
        "model.aibrix.ai/port": _PORTS[deployment.engine.name],
        "model.aibrix.ai/engine": deployment.engine.name,
        SET_LABEL: deployment.name,
        ROLE_LABEL: _ROLES[island.phase],
    }


def _pod_annotations(island: ServingIsland, deployment: Deployment, _launch: Launch, /) -> dict[str, str]:
    if island.id not in deployment.intervals:
        return {}
    start, end = deployment.intervals[island.id]
    lengths = {"promptLenBucketMinLength": start, "promptLenBucketMaxLength": end - 1}
    cached = deployment.plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE
    chosen: dict[str, Any] = {
        "prefillScorePolicy": "prefix_cache" if cached else "least_request",
        "decodeScorePolicy": "load_balancing",
    }
    config = {**lengths, **({_COMBINED: True} if island.mixed else chosen)}
    profile = {"routingStrategy": "pd", "routingConfig": config}
    return {CONFIG_ANNOTATION: json.dumps({"defaultProfile": _PROFILE, "profiles": {_PROFILE: profile}})}


def _notes(plan: Plan) -> tuple[str, ...]:
    combined = all(island.phase in (None, Phase.MIXED) for island in plan.islands)
    return (
        *(("Combined pods are drawn at random, whatever they have to do.",) if combined else ()),
        "It knows no shares, and compares pods by their requests, not by their speed.",
        "Its gateway counts tokens with a tokenizer of its own, not the model's: cut points fall nearby.",
    )


def _behaviour(plan: Plan, around: Surroundings, /) -> RouterBehaviour:
    return replace(
        PROGRAMS[NAME](around),
        prefixes=plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE,
        notes=_notes(plan),
    )


def _steps(files: Mapping[str, str], /) -> tuple[Step, ...]:
    if FILE not in files:
        return ()
    variables = next(iter(yaml_documents(files[FILE])))["data"]  # type: ignore[index]
    words = " ".join(f"{key}={value}" for key, value in variables.items())
    gateway = "-n aibrix-system deployment/aibrix-gateway-plugins"
    return (
        Step(
            title="Lengths in AIBrix' gateway",
            why="Its gateway looks at the pods' lengths only where its environment says so.",
            commands=(f"kubectl set env {gateway} {words}",),
            looks=(f"kubectl rollout status {gateway}",),
            undo=(f"kubectl set env {gateway} {' '.join(f'{key}-' for key in variables)}",),
        ),
    )


AIBRIX = Router(
    name=NAME,
    needs=(Reach.LABELS,),
    engines=("vllm", "sglang"),
    render=_render,
    behaviour=_behaviour,
    pod_labels=_pod_labels,
    pod_annotations=_pod_annotations,
    served_name=_served_name,
    steps=_steps,
)
