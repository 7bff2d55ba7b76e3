"""The Job that fetches the weights into the model's volume, once for all pods."""

from typing import Any

from planner.export.objects.documents import yaml_text
from planner.export.objects.model_volume import model_volume_gib, model_volumes
from planner.export.objects.operating.weights import Source, fetching, weights_source
from planner.export.objects.pods import PART_OF_LABEL, engine_image
from planner.export.options.operating import secret_of
from planner.export.seams import Deployment

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
        "Its pod template cannot be changed: delete the Job before you apply another.",
        *_token_notes(deployment),
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
    labels = {PART_OF_LABEL: deployment.name, "app.kubernetes.io/managed-by": "planner"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{deployment.name}-weights", "labels": labels},
        "spec": {
            "backoffLimit": _RETRIES,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "containers": [fetching(first.weights, options, engine_image(first, deployment))],
                    "volumes": model_volumes(deployment),
                },
            },
        },
    }
