"""A fleet as manifests: a folder for each deployment, which its own export writes, and one for what they share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner import export
from planner.domain.fleets import FleetPart, FleetPlan
from planner.errors import InputError
from planner.runs import runbook
from planner.runs.deployments import Rendered, render_plan

SHARED = "fleet"
"""The folder of what all deployments share."""
GATEWAY = "inference-gateway"
_PRIORITY_FILE = "priority-class.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFleet:
    """`deployments`: folder -> its export; `shared`: name -> text of the front, priorities and quotas."""

    deployments: Mapping[str, Rendered]
    shared: Mapping[str, str]

    @property
    def folder(self) -> dict[str, bytes]:
        """Path -> content of every file."""
        written = {f"{SHARED}/{name}": text.encode() for name, text in self.shared.items()}
        for name, rendered in self.deployments.items():
            written |= {f"{name}/{file}": content for file, content in rendered.folder.items()}
        return written

    @property
    def manifests(self) -> dict[str, str]:
        """Path -> text of what holds objects."""
        texts = {f"{SHARED}/{name}": text for name, text in self.shared.items()}
        for name, rendered in self.deployments.items():
            texts |= {f"{name}/{file}": text for file, text in rendered.files.items()}
        return texts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of all deployments."""
        return tuple(
            f"{name}: {warning}" for name, rendered in self.deployments.items() for warning in rendered.warnings
        )


def render_fleet(
    fleet_plan: FleetPlan,
    *,
    target: str = "",
    engine: str = "",
    router: str = "",
    queues: bool = False,
    gateway: str = GATEWAY,
    schemas: export.CrdSchemas | None = None,
) -> RenderedFleet:
    """Manifests of every deployment, and what routes requests to them by model. `queues`: Kueue admits them, by quotas
    that sum to the inventory. `gateway`: the Gateway of targets whose deployments are InferencePools.

    Raises what `render_plan` raises; ExportError where a deployment has no entry, or two objects one name; InputError
    where two deployments are called alike, or a service has a name that no request can carry.
    """
    _require_folders(fleet_plan)
    fleet = export.fleet_label(fleet_plan)
    classes = export.priority_files(fleet_plan, fleet)
    options = {
        part.name: _options(fleet_plan, part, fleet, classed=bool(classes), queues=queues) for part in fleet_plan.plans
    }
    deployments = {
        part.name: _without_class(
            render_plan(
                part.plan, target=target, engine=engine, options=options[part.name], router=router, schemas=schemas
            )
        )
        for part in fleet_plan.plans
    }
    entries = {
        part.name: export.entry_of(part, deployments[part.name].files, deployments[part.name].target)
        for part in fleet_plan.plans
    }
    rendered = RenderedFleet(
        deployments={export.slug(name): deployment for name, deployment in deployments.items()},
        shared={
            **export.fleet_front_files(fleet_plan, entries, fleet, gateway),
            **classes,
            **(export.queue_files(fleet_plan, fleet, options) if queues else {}),
        },
    )
    export.check_together(rendered.manifests, schemas)
    return rendered


def _require_folders(fleet_plan: FleetPlan) -> None:
    """InputError where two deployments would be called alike."""
    owners: dict[str, str] = {SHARED: "what all share"}
    for part in fleet_plan.plans:
        label = export.slug(part.name)
        if label in owners:
            raise InputError(
                f"Deployment {part.name}: must differ in letters or digits from {owners[label]}, both become {label!r}.",
                hint="Rename the service.",
            )
        owners[label] = part.name


def _options(
    fleet_plan: FleetPlan, part: FleetPart, fleet: str, *, classed: bool, queues: bool
) -> export.ExportOptions:
    """A deployment's own options, whose names tell it from the others."""
    asked_for = part.plan.scenario.deploy
    label = export.slug(part.name)
    return replace(
        asked_for,
        name=f"{asked_for.name}-{label}" if asked_for.name else "",
        model_volume=f"{asked_for.model_volume}-{label}" if asked_for.model_volume else "",
        priority_class=export.class_name(fleet, export.place_of(fleet_plan, part))
        if classed
        else asked_for.priority_class,
        queue=export.queue_name(fleet, part) if queues else asked_for.queue,
    )


def _without_class(rendered: Rendered) -> Rendered:
    """The class of a place in the order is the fleet's, and is written once."""
    if _PRIORITY_FILE not in rendered.files:
        return rendered
    files = {name: text for name, text in rendered.files.items() if name != _PRIORITY_FILE}
    page = runbook.runbook(rendered.plan, files, target=rendered.target, engine=rendered.engine, router=rendered.router)
    return replace(rendered, files=files, page=page)
