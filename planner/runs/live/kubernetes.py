"""A running Kubernetes cluster: lists of its objects and nothing else, so it is read alone.

What it gives is what `kubectl get ... -o json` prints, page by page, and goes through the same reader. Nothing of it
is written to the disk as it comes: environments of pods and annotations may hold secrets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from planner.errors import PlannerError
from planner.runs.live.api_resources import ApiResource, ServerLists
from planner.runs.live.kubeconfigs import CURRENT, ServerAddress, find_server

INSTALL = 'pip install "llm-fleet-planner[kubernetes]"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """A cluster's API server. Credentials are read anew whenever it is asked: they may have expired since."""

    address: ServerAddress

    @property
    def label(self) -> str:
        """Names it in errors and notes; no secret."""
        return self.address.label

    def read(self, resources: Sequence[ApiResource], *, strict: bool = False) -> ServerLists:
        """The lists of these resources over all namespaces; `strict`: all of them are needed.

        Raises InputError where nothing answers, the credentials are refused, what is needed may not be listed, or what
        answers is no API server.
        """
        from planner.runs.live.api_sessions import read_lists  # noqa: PLC0415  (the client takes a while to load)

        return read_lists(self.address, resources, strict=strict)


def kubernetes_at(context: str = CURRENT, kubeconfig: str | Path | None = None) -> Kubernetes:
    """The cluster of a context of the kubeconfig, `current`: the current one, or the one that this pod is part of.

    Raises InputError where there is no such context or usable server, PlannerError where the client is not installed.
    """
    if find_spec("kubernetes") is None:
        raise PlannerError("Clusters are read by Kubernetes' Python client, which is not installed.", hint=INSTALL)
    return Kubernetes(address=find_server(context, None if kubeconfig is None else Path(kubeconfig)))
