"""Files that targets of Kubernetes objects have in common: how islands are numbered, and what stands beside them. The
Job among them fetches the weights into the model's volume, once for all pods."""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.objects.operating.autoscaling import autoscaling_files
from planner.export.objects.operating.domains import domain_files
from planner.export.objects.operating.monitoring import monitoring_files
from planner.export.objects.pods import engine_image
from planner.export.objects.scheduling import preemption_policy
from planner.export.objects.security.confinement import confinement_words
from planner.export.objects.security.hardening import GROUP, confined_pod
from planner.export.objects.weights import (
    Source,
    fetching,
    model_claim,
    model_volume_gib,
    model_volumes,
    weights_source,
)
from planner.export.options import secret_of
from planner.export.routers.routing import routing_file, table_file
from planner.export.seams import Deployment, Endpoint
from planner.export.templating import object_of

FILE = "weights-job.yaml"
_RETRIES = 6  # Kubernetes' default; what is there already is not fetched again


def weights_job_files(deployment: Deployment) -> dict[str, str]:
    """The file of the Job; empty where no job fetches.

    Raises:
        ExportError: no image is known for the first island's GPUs.
        InputError: the options have a job fetch what is at a path.
    """
    first, options = deployment.islands[0], deployment.options
    if weights_source(first.weights, options) is not Source.JOB:
        return {}
    model = deployment.plan.scenario.model
    comments = (
        f"Fetches {first.weights}, {model.weights_gb:.0f} GB, into claim {options.model_volume} of "
        f"{model_volume_gib(model)} GiB; the engines' pods wait for it. Needs no GPU.",
        f"The claim must let group {GROUP} write; most storage heeds fsGroup. Exports of NFS may not.",
        "Its pod template cannot be changed: delete the Job before you apply another.",
        *_token_notes(deployment),
        *confinement_words(deployment.engine.exemptions(first)),
    )
    return {FILE: yaml_text(comments, [_job(deployment)])}


def _token_notes(deployment: Deployment) -> tuple[str, ...]:
    secret = secret_of(deployment.options)
    if secret is None:
        return ("Fetches without a token; a gated repository needs one (--hf-secret NAME:KEY).",)
    name, key = secret
    return (f"Takes the token from key {key} of Secret {name}: kubectl create secret generic {name} --from-file={key}",)


def _job(deployment: Deployment) -> dict[str, Any]:
    first, options = deployment.islands[0], deployment.options
    return object_of(
        "weights-job",
        name=f"{deployment.name}-weights",
        labels=plan_labels(deployment.name),
        retries=_RETRIES,
        container=fetching(
            first.weights, options, engine_image(first, deployment), deployment.engine.exemptions(first)
        ),
        volumes=model_volumes(deployment),
        confined=confined_pod(),
    )


def island_files(deployment: Deployment, suffix: str = ".yaml") -> Iterator[tuple[str, ServingIsland]]:
    """File name and island, `NN-<island>.yaml`, in the plan's order."""
    digits = max(2, len(str(len(deployment.islands))))
    for number, island in enumerate(deployment.islands, start=1):
        yield f"{number:0{digits}}-{island.slug}{suffix}", island


def shared_files(deployment: Deployment, endpoints: Sequence[Endpoint], *, applied: bool) -> dict[str, str]:
    """The routing table, as an object where it is `applied` with the rest, and the objects that the options ask for."""
    table = routing_file(deployment, endpoints) if applied else table_file(deployment, endpoints)
    return table | option_files(deployment)


def option_files(deployment: Deployment) -> dict[str, str]:
    """The objects that the options ask for: the priority class, the model's volume and the Job that fills it."""
    files: dict[str, str] = {}
    if deployment.options.priority_class:
        origin = "as their placement took it" if deployment.plan.placement else "placement.priority of its scenario"
        comments = (f"Priority of the plan's islands over other pods, {origin}.",)
        files["priority-class.yaml"] = yaml_text(comments, [_priority_class(deployment)])
    if deployment.options.model_volume:
        model = deployment.plan.scenario.model
        comments = (f"Weights of {model.name}: {model.weights_gb:.0f} GB and a fifth more.",)
        files["model-volume.yaml"] = yaml_text(comments, [model_claim(deployment)])
    files |= weights_job_files(deployment) | domain_files(deployment)
    return files | monitoring_files(deployment) | autoscaling_files(deployment)


def _priority_class(deployment: Deployment) -> dict[str, Any]:
    settings = deployment.plan.scenario.placement
    return object_of(
        "priority-class",
        name=deployment.options.priority_class,
        labels=plan_labels(deployment.name),
        value=settings.priority,
        policy=preemption_policy(settings),
    )
