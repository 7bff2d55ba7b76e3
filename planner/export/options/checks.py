"""What a user may choose about manifests, beyond what the plan already fixes."""

import re
from collections.abc import Sequence

from planner.domain import SWITCH_LEVELS, DeploySettings, PlacementSettings
from planner.domain.serving.deploy import AUTOSCALERS
from planner.errors import ExportError, InputError
from planner.export.objects.names import is_dns_label, is_label_key
from planner.export.options.operating import check_operating

_MOST_PRIORITY = 1_000_000_000  # above are Kubernetes' own
LEAST_SHARED_GIB = 1
"""The shared memory that an engine needs at least."""
_MOST = {"cpus_per_gpu": 1024, "memory_gib_per_gpu": 65_536, "shared_memory_gib": 65_536}
"""For a GPU: a host of 8 would have 8192 cores and 512 TiB, ten times the largest there are."""

_MOST_PIECES = 1_000_000
_BYTES_PER_TOKEN = (1.0, 64.0)

_ADDRESS = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?")
_IMAGE = re.compile(
    r"(?=.{1,512}$)(?P<path>[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)


ExportOptions = DeploySettings
"""Choices that shape the manifests and leave the plan as it is."""


def image_is_pinned(image: str) -> bool:
    """Whether `image` names one version: a digest, or a tag that is not a moving one."""
    match = _IMAGE.fullmatch(image)
    return match is not None and bool(match["digest"] or match["tag"] not in (None, "latest", "nightly"))


def check_options(options: ExportOptions, settings: PlacementSettings) -> None:
    """Refuse options that no manifest can carry; `settings` are the plan's.

    Raises:
        InputError: a size below 1 or beyond any host, shared memory above a one-GPU pod's memory, an image that is not
            pinned, or a name or label that Kubernetes would refuse.
    """
    _check_sizes(options, settings)
    _check_images(options)
    _check_names(options)
    _check_topology(options)
    check_operating(options)
    _check_autoscaling(options)
    if options.priority_class and settings.priority > _MOST_PRIORITY:
        raise InputError(
            f"placement.priority: must be at most {_MOST_PRIORITY} for a PriorityClass, got {settings.priority}.",
            hint="Lower placement.priority, or leave the PriorityClass out.",
        )


def check_heeded(options: ExportOptions, target: str, unheeded: Sequence[str]) -> None:
    """Refuse options that `target` would silently drop.

    Raises:
        ExportError: one of `unheeded` is given.
    """
    dropped = [name for name in unheeded if getattr(options, name) != getattr(ExportOptions(), name)]
    if dropped:
        raise ExportError(
            f"Target {target}: nothing in its files can carry {', '.join(dropped)}.",
            hint="Leave those options out, or choose another target; `kubectl apply -n` takes a namespace.",
        )


def _check_sizes(options: ExportOptions, settings: PlacementSettings) -> None:
    for key in ("cpus_per_gpu", "memory_gib_per_gpu", "shared_memory_gib"):
        value = getattr(options, key)
        if value is not None and not 1 <= value <= _MOST[key]:
            raise InputError(
                f"deploy.{key}: must be at least 1 and at most {_MOST[key]}, got {value}.",
                hint="Give what a host has, divided by its GPUs.",
            )
    low, high = _BYTES_PER_TOKEN
    if not low <= options.bytes_per_token <= high:
        raise InputError(
            f"deploy.bytes_per_token: must lie in {low:g}..{high:g}, got {options.bytes_per_token}.",
            hint="Divide the bytes of some of your prompts by their tokens; English has about 4.",
        )
    memory = options.memory_gib(settings)
    if options.shared_memory_gib > memory:
        raise InputError(
            f"deploy.shared_memory_gib: counts towards a pod's memory and must be at most "
            f"memory_gib_per_gpu ({memory}), got {options.shared_memory_gib}.",
            hint="Give more memory a GPU, or less shared memory.",
        )
    for name, count in options.pod_resources:
        if "/" not in name or not is_label_key(name) or not 1 <= count <= _MOST_PIECES:
            raise InputError(
                f"deploy.pod_resources: must be extended resources and counts of 1 to {_MOST_PIECES}, got "
                f"{name}={count}.",
                hint="For example rdma/ib=8.",
            )


def _check_names(options: ExportOptions) -> None:
    for key in ("priority_class", "queue", "model_volume"):
        name = getattr(options, key)
        if name and not is_dns_label(name):
            raise InputError(f"deploy.{key}: must be a DNS label, got {name!r}.", hint="Use a-z, 0-9 and '-'.")
    if not is_dns_label(options.namespace):
        raise InputError(
            f"deploy.namespace: must be a DNS label, got {options.namespace!r}.", hint="Use a-z, 0-9 and '-'."
        )
    if options.priority_class.startswith("system-"):
        raise InputError(
            f"deploy.priority_class: must not begin with system-, which is Kubernetes' own, got "
            f"{options.priority_class!r}.",
            hint="Choose another name.",
        )


def _check_topology(options: ExportOptions) -> None:
    levels = [level for level, _ in options.topology_labels]
    for level, label in options.topology_labels:
        if level not in SWITCH_LEVELS or levels.count(level) > 1:
            raise InputError(
                f"deploy.topology: must be of {', '.join(SWITCH_LEVELS)}, each once, got {level!r}.",
                hint="Name each level once, for example asw=example.com/rack.",
            )
        if not is_label_key(label):
            raise InputError(
                f"deploy.topology[{level}]: must be a node label's key, got {label!r}.",
                hint="Give a key as of `kubectl get nodes --show-labels`.",
            )


def _check_autoscaling(options: ExportOptions) -> None:
    if options.autoscaling not in AUTOSCALERS:
        raise InputError(
            f"deploy.autoscaling: must be one of {', '.join(AUTOSCALERS)}, got {options.autoscaling!r}.",
            hint="Choose one of them.",
        )
    if not _ADDRESS.fullmatch(options.prometheus):
        raise InputError(
            f"deploy.prometheus: must be an address such as http://prometheus.monitoring.svc:9090, got "
            f"{options.prometheus!r}.",
            hint="Give scheme, host and port, without user and password.",
        )


def _check_images(options: ExportOptions) -> None:
    for vendor, image in options.images:
        if not image_is_pinned(image):
            raise InputError(
                f"deploy.images[{vendor}]: must name a fixed tag or a sha256 digest, got {image!r}.",
                hint="Write it as registry/name:version.",
            )
