"""The options of commands that ask a running cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.runs.live.kubernetes import Kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServer:
    """Which cluster is asked; none unless there is a context."""

    kubernetes: Annotated[
        str,
        typer.Option(
            metavar="CONTEXT",
            help="Ask a running cluster, read-only: a context of the kubeconfig, or `current`.",
            show_default=False,
        ),
    ] = ""
    kubeconfig: Annotated[
        Path | None, typer.Option(help="For --kubernetes. [default: KUBECONFIG, or ~/.kube/config]", show_default=False)
    ] = None

    def reached(self) -> "Kubernetes | None":
        """The cluster, not asked yet. Raises InputError as `kubernetes_at`, and for a kubeconfig by itself."""
        if not self.kubernetes:
            if self.kubeconfig is not None:
                raise InputError("--kubeconfig: goes with --kubernetes alone.", hint="Add --kubernetes current.")
            return None
        from planner.runs.live.kubernetes import kubernetes_at

        return kubernetes_at(self.kubernetes, self.kubeconfig)
