"""The routers that are programs, by name: `haproxy`, and each engine's own."""

from collections.abc import Sequence
from functools import partial

from planner.domain import DeployedRoute
from planner.export.found import Manifest
from planner.export.routers.programs.reading import listed_intervals, read_routes
from planner.export.routers.programs.rendering import behaviour, pod_annotations, pod_labels, render_programs
from planner.export.seams import Addresses, Deployment, Endpoint, ListedInterval, Router, RouterFiles

_TARGETS = ("lws", "kubernetes", "disaggregatedset", "script")


def _router(name: str, engines: tuple[str, ...], *, direct: bool) -> Router:
    def render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
        return render_programs(deployment, endpoints, direct=direct)

    def read(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[DeployedRoute, ...] | None:
        return read_routes(manifests, addresses, name)

    def servers(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[ListedInterval, ...]:
        return listed_intervals(manifests, addresses, name) or ()

    return Router(
        name=name,
        targets=_TARGETS,
        engines=engines,
        render=render,
        read=read,
        behaviour=partial(behaviour, direct=direct, engine="" if direct else engines[0]),
        pod_labels=pod_labels,
        pod_annotations=pod_annotations,
        servers=servers,
    )


HAPROXY = _router("haproxy", ("vllm", "sglang"), direct=True)
VLLM = _router("vllm", ("vllm",), direct=False)
MODEL_GATEWAY = _router("model-gateway", ("sglang",), direct=False)
