"""The routers that are programs, by name: `haproxy`, and each engine's own."""

from collections.abc import Sequence
from functools import partial

from planner.export.routers.programs.rendering import behaviour, pod_annotations, pod_labels, render_programs
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles

_TARGETS = ("lws", "kubernetes", "disaggregatedset", "script")


def _router(name: str, engines: tuple[str, ...], *, direct: bool) -> Router:
    def render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
        return render_programs(deployment, endpoints, direct=direct)

    return Router(
        name=name,
        targets=_TARGETS,
        engines=engines,
        render=render,
        behaviour=partial(behaviour, direct=direct, engine="" if direct else engines[0]),
        pod_labels=pod_labels,
        pod_annotations=pod_annotations,
    )


HAPROXY = _router("haproxy", ("vllm", "sglang"), direct=True)
VLLM = _router("vllm", ("vllm",), direct=False)
MODEL_GATEWAY = _router("model-gateway", ("sglang",), direct=False)
