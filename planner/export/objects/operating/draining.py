"""How a pod ends without losing the requests that it has taken.

symbol   meaning                                      unit   source
TTFT     time to the first token at the promise       s      99th percentile of the slowest bucket; without buckets two
                                                             prefill steps: one under way and its own
K        handing the longest prompt's cache over      s      KvTransfer.longest_ms, 0 where the plan has none
TPOT     time per output token at the promise         s      99th percentile of the slowest bucket; without buckets the
                                                             slowest decode step
O        longest answer                               -      LengthProfile.max_output_tokens
D        longest request under way                    s      prefill: TTFT + K; else TTFT + K + O TPOT
LEAVING  until nobody sends requests any more         s      15, as in KServe's presets (kserve pull request 5485)
EXIT     the engine's own end                         s      30, an assumption: Kubernetes' default for a whole pod
grace    = LEAVING + D + EXIT                         s      terminationGracePeriodSeconds

An endpoint leaves its Service when termination begins, at the same time as the preStop hook; only after the hook comes
SIGTERM. The hook is the kubelet's own sleep (KEP-3960, on by default since Kubernetes 1.30) and needs nothing of the
image. What the engines do on SIGTERM:

vllm    refuses new requests and aborts those under way at once, unless --shutdown-timeout gives them seconds (vLLM pull
        request 36666, since 0.18.0); it does not wait until others have fetched KV caches
sglang  refuses new requests and ends when those under way have (TokenizerManager.sigterm_watchdog), in the leader alone
trtllm  the same: its HTTP server, uvicorn, waits for the answers under way (tensorrt_llm/serve/openai_server.py)

So leaders that decode sleep LEAVING and let the engine finish, and so do workers where ranks are endpoints; prefill
pods, whose caches others still fetch, and other workers, which know nothing of requests, sleep LEAVING + D.
"""

import math
from collections.abc import Iterator
from typing import Any

from planner.domain import LoadPoint, Phase, Plan
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment

LEAVING_S, EXIT_S = 15, 30
_FEWEST_S = 1
_AUTOSCALER_S = 600  # cluster-autoscaler, --max-graceful-termination-sec by default


def drain_seconds(island: ServingIsland, deployment: Deployment) -> int:
    """D: the longest that a request may be under way on the island (s)."""
    plan = deployment.plan
    transfer = plan.outlook.transfer
    ms = _first_token_ms(deployment) + (transfer.longest_ms if transfer else 0.0)
    if island.phase is not Phase.PREFILL:
        ms += plan.scenario.workload.max_output_tokens * _token_ms(deployment)
    return max(_FEWEST_S, math.ceil(ms / 1000))


def grace_seconds(island: ServingIsland, deployment: Deployment) -> int:
    """terminationGracePeriodSeconds of the island's pods."""
    return LEAVING_S + drain_seconds(island, deployment) + EXIT_S


def engine_finishes(island: ServingIsland, *, leads: bool) -> bool:
    """Whether the pod's engine, told to end, first finishes what it has."""
    return (leads or island.by_rank) and island.phase is not Phase.PREFILL


def drain_arguments(island: ServingIsland, deployment: Deployment, *, leads: bool) -> tuple[str, ...]:
    """The flag by which the engine finishes what it has; none where it does so by itself, or need not."""
    flag = deployment.engine.drain_flag
    if not flag or not engine_finishes(island, leads=leads):
        return ()
    return (f"--{flag}={drain_seconds(island, deployment)}",)


def lifecycle(island: ServingIsland, deployment: Deployment, *, finishes: bool) -> dict[str, Any]:
    """The container's hook before SIGTERM; `finishes`: its engine does the rest."""
    seconds = LEAVING_S + (0 if finishes else drain_seconds(island, deployment))
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}


def drain_note(island: ServingIsland, deployment: Deployment) -> str:
    """The end of a pod in words."""
    drain, grace = drain_seconds(island, deployment), grace_seconds(island, deployment)
    note = (
        f"End: requests under way have {drain} s (the plan's slowest at its promise) after {LEAVING_S} s in which "
        f"routers turn away; a pod has {grace} s."
    )
    if grace > _AUTOSCALER_S:
        note += f" The cluster autoscaler waits {_AUTOSCALER_S} s unless --max-graceful-termination-sec says more."
    return note


def _first_token_ms(deployment: Deployment) -> float:
    step_ms = deployment.slowest_step_ms.get(Phase.PREFILL, 0.0)
    return max(_promised_ms(deployment.plan, Phase.PREFILL), default=2 * step_ms)


def _token_ms(deployment: Deployment) -> float:
    step_ms = deployment.slowest_step_ms.get(Phase.DECODE, 0.0)
    return max(_promised_ms(deployment.plan, Phase.DECODE), default=step_ms)


def slowest_step_ms(plan: Plan) -> dict[Phase, float]:
    """The slowest step of each phase that the plan routes (ms)."""
    slowest: dict[Phase, float] = {}
    for route in plan.routing:
        slowest[route.phase] = max(route.step_ms, slowest.get(route.phase, 0.0))
    return slowest


def _promised_ms(plan: Plan, phase: Phase) -> Iterator[float]:
    """The slow end of every bucket at the promise, as far as its queue has one."""
    for row in plan.outlook.latencies:
        slow = row.late_ms if row.late_ms is not None else row.p50_ms
        if row.phase is phase and row.load is LoadPoint.PROMISE and slow is not None:
            yield slow
