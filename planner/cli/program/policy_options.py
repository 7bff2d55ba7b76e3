"""Options of exports that a cluster's policies ask for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from planner.domain import DeploySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Images by digest, the engines' key, and who may speak to whom."""

    pin: Annotated[
        Path | None,
        typer.Option(help="YAML of IMAGE: sha256:... for every image, which are then written by their digests."),
    ] = None
    api_key_secret: Annotated[
        str, typer.Option(help="NAME[:KEY] of the Secret with the key that engines ask for; KEY is API_KEY.")
    ] = ""
    client_namespace: Annotated[
        list[str] | None,
        typer.Option(help="A namespace from which requests come, by network-policies.yaml; may be repeated; else any."),
    ] = None
    no_network_policies: Annotated[
        bool, typer.Option("--no-network-policies", help="No NetworkPolicies: anybody may speak to engines.")
    ] = False

    def applied_to(self, settings: "DeploySettings") -> "DeploySettings":
        """The settings with what was typed in their place. InputError where the file is no such YAML."""
        from planner import files

        typed = {
            "image_digests": files.load_digests(self.pin) if self.pin else (),
            "api_key_secret": self.api_key_secret,
            "client_namespaces": tuple(self.client_namespace or ()),
        }
        policies = settings.network_policies and not self.no_network_policies
        return replace(settings, **{key: value for key, value in typed.items() if value}, network_policies=policies)  # type: ignore[arg-type]
