"""What a user may choose about manifests, beyond what the plan already fixes."""

import re
from dataclasses import dataclass

from planner.errors import InputError

_IMAGE = re.compile(
    r"(?P<path>[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Choices that shape the manifests and leave the plan as it is.

    `name`: prefix of every object's name; empty: the scenario's. `images`: (vendor, image) pairs that replace
    an engine's pinned image. `cpus_per_gpu` and `memory_gib_per_gpu` set limits equal to requests, so that
    pods get the Guaranteed class that NUMA alignment needs. `shared_memory_gib` is the size of `/dev/shm`.
    `pod_resources`: further extended resources of every pod, such as ("rdma/ib", 8).
    """

    name: str = ""
    images: tuple[tuple[str, str], ...] = ()
    cpus_per_gpu: int = 8
    memory_gib_per_gpu: int = 64
    shared_memory_gib: int = 16
    pod_resources: tuple[tuple[str, int], ...] = ()


def image_is_pinned(image: str) -> bool:
    """Whether `image` names one version: a digest, or a tag that is not a moving one."""
    match = _IMAGE.fullmatch(image)
    return match is not None and bool(match["digest"] or match["tag"] not in (None, "latest", "nightly"))


def check_options(options: ExportOptions) -> None:
    """Refuse options that no manifest can carry.

    Raises:
        InputError: a size below 1, shared memory above a one-GPU pod's memory, or an image that is not
            pinned.
    """
    for key in ("cpus_per_gpu", "memory_gib_per_gpu", "shared_memory_gib"):
        if getattr(options, key) < 1:
            raise InputError(f"ExportOptions.{key}: must be at least 1, got {getattr(options, key)}.")
    if options.shared_memory_gib > options.memory_gib_per_gpu:
        raise InputError(
            f"ExportOptions.shared_memory_gib: counts towards a pod's memory and must be at most "
            f"memory_gib_per_gpu ({options.memory_gib_per_gpu}), got {options.shared_memory_gib}."
        )
    for vendor, image in options.images:
        if not image_is_pinned(image):
            raise InputError(
                f"ExportOptions.images[{vendor}]: must name a fixed tag or a sha256 digest, got {image!r}.",
                hint="Write it as registry/name:version.",
            )
