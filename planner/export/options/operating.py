"""The options about what pods need to be operated: read from their short texts, and refused where no manifest can carry
them."""

import re
from fractions import Fraction

from planner.domain import DeploySettings
from planner.errors import InputError
from planner.export.objects.names import is_dns_subdomain, is_label_key
from planner.export.objects.quantities import amount

WEIGHTS = ("job", "node", "hub")
TOKEN = "HF_TOKEN"  # noqa: S105  # the name of a variable
_MOST_DEVICES = 1024
_MOST_PAGES = 1_000_000
_PAGES = {"2Mi": 2 * 2**20, "1Gi": 2**30}
_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")
_DEVICES = re.compile(r"[\^=]{0,2}[A-Za-z0-9_.-]+(:[0-9]+)?(,[A-Za-z0-9_.-]+(:[0-9]+)?){0,63}")
_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_LOAD_RANGE = (0.01, 1000.0)


def secret_of(options: DeploySettings) -> tuple[str, str] | None:
    """Name and key of the Secret with the token; None where none is named.

    Raises:
        InputError: no Secret can have the name, or the key.
    """
    if not options.hf_secret:
        return None
    name, colon, key = options.hf_secret.partition(":")
    key = key if colon else TOKEN
    if not is_dns_subdomain(name) or not _KEY.fullmatch(key):
        raise InputError(
            f"deploy.hf_secret: must be NAME or NAME:KEY of a Secret, got {options.hf_secret!r}.",
            hint=f"For example hf-token:{TOKEN}; make it by `kubectl create secret generic`.",
        )
    return name, key


def rdma_of(options: DeploySettings) -> tuple[str, int] | None:
    """The resource of RDMA devices, and how many a pod gets (0: one for each GPU); None where none is asked for.

    Raises:
        InputError: it is no extended resource with a count.
    """
    if not options.rdma:
        return None
    name, equals, count = options.rdma.partition("=")
    sound = "/" in name and is_label_key(name) and (not equals or _COUNT.fullmatch(count))
    if not sound or int(count or 0) > _MOST_DEVICES:
        raise InputError(
            f"deploy.rdma: must be RESOURCE or RESOURCE=COUNT, an extended resource and 1 to {_MOST_DEVICES}, "
            f"got {options.rdma!r}.",
            hint="For example rdma/ib, or rdma/ib=1 where one device serves all GPUs of a pod.",
        )
    if name in dict(options.pod_resources):
        raise InputError(f"deploy.rdma: must not repeat {name} of pod_resources.", hint="Leave one of them out.")
    return name, int(count or 0)


def hugepages_of(options: DeploySettings) -> tuple[str, str] | None:
    """The size of huge pages and a pod's amount of them; None where none are asked for.

    Raises:
        InputError: it is no size that processors have, or no multiple of it.
    """
    if not options.hugepages:
        return None
    size, _, total = options.hugepages.partition("=")
    pieces = (amount(total) or Fraction(0)) / _PAGES.get(size, 1)
    if size not in _PAGES or pieces.denominator != 1 or not 1 <= pieces <= _MOST_PAGES:
        raise InputError(
            f"deploy.hugepages: must be SIZE=AMOUNT, a page size ({', '.join(_PAGES)}) and a multiple of it, "
            f"got {options.hugepages!r}.",
            hint="For example 2Mi=4Gi.",
        )
    return size, total


def check_operating(options: DeploySettings) -> None:
    """Refuse what no manifest can carry.

    Raises:
        InputError: weights that nobody can fetch so, a bandwidth beyond any storage, or a name that Kubernetes or NCCL
            would refuse.
    """
    secret_of(options)
    rdma_of(options)
    hugepages_of(options)
    _check_weights(options)
    low, high = _LOAD_RANGE
    if not low <= options.load_gb_per_s <= high:
        raise InputError(
            f"deploy.load_gb_per_s: must be {low:g} to {high:g} GB/s, got {options.load_gb_per_s}.",
            hint="Give what a pod reads from its storage, as `fio` measures it.",
        )
    for key in ("nccl_ib_hca", "socket_interface"):
        text = getattr(options, key)
        if text and not _DEVICES.fullmatch(text):
            raise InputError(f"deploy.{key}: must be names of devices, got {text!r}.", hint="For example mlx5 or eth0.")


def _check_weights(options: DeploySettings) -> None:
    if options.weights not in ("", *WEIGHTS):
        raise InputError(
            f"deploy.weights: must be one of {', '.join(WEIGHTS)}, got {options.weights!r}.",
            hint="A job fetches once into the model volume, a node once for its pods, from the hub every pod.",
        )
    if options.weights == "job" and not options.model_volume:
        raise InputError(
            "deploy.weights: must not be job without a model_volume, which the job fills, got none.",
            hint="Name a claim with --model-volume, or take --weights node or hub.",
        )
    if options.weights == "node" and options.model_volume:
        raise InputError(
            f"deploy.weights: must not be node beside a model_volume, got {options.model_volume!r}.",
            hint="Leave one of them out: a node keeps the weights in a folder of its own.",
        )
