"""What labels of a node say of its GPUs, whoever set them: their names, their machine, the NVLink domain of its host.

Sources: GPU feature discovery (NVIDIA/k8s-device-plugin), AMD's node labeller (ROCm/k8s-device-plugin), the providers'
lists that gpu_names.yaml names, and topograph's reference of labels (network.topology.nvidia.com/accelerator).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from planner.domain.node_report import GpuName
from planner.files.disk.documents import read_yaml

MACHINES = ("nvidia.com/gpu.machine", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
CLIQUE = "nvidia.com/gpu.clique"
DOMAINS = (
    CLIQUE,
    "network.topology.nvidia.com/accelerator",
    "accelerator.topograph.run/domain",
    "ds.coreweave.com/nvlink.domain",
)
"""Labels of NVLink domains of several hosts. Topograph leaves its own out where there is a clique."""

_DRIVERS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
_CUT_UP = re.compile(r"(-SHARED|-MIG-.+)$")
_NO_FABRIC = re.compile(r"[0-]*\.[0-9]+|0*")
_A4X_HOSTS, _SUBBLOCK = "a4x-", "cloud.google.com/gce-topology-subblock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NameRow:
    gpu: str
    value: str
    label: str
    also: tuple[tuple[str, str], ...]


@cache
def _names() -> tuple[tuple[str, ...], tuple[_NameRow, ...]]:
    """Labels in the order of trust, and the rows of gpu_names.yaml."""
    document = read_yaml(Path(__file__).with_name("gpu_names.yaml"))
    rows = []
    for row in document.sections("names"):
        also = row.section("also", optional=True)
        rows.append(
            _NameRow(
                gpu=row.text("gpu"),
                value=row.text("value"),
                label=row.text("label", default=""),
                also=tuple((key, also.text(key)) for key in also),
            )
        )
    return document.texts("labels"), tuple(rows)


def gpu_names(labels: Mapping[str, str]) -> tuple[GpuName, ...]:
    """What labels call the GPUs of a node, the surest first; types where a row of gpu_names.yaml has them."""
    keys, rows = _names()
    return tuple(
        GpuName(label=key, value=value, gpu=_gpu_of(key, value, labels, rows), of_driver=key in _DRIVERS)
        for key in keys
        for value in _values(key, labels)
    )


def _values(key: str, labels: Mapping[str, str]) -> Iterator[str]:
    """The label's value; AMD's labeller also writes the value into the key, with a count."""
    if value := _CUT_UP.sub("", labels.get(key, "")):
        yield value
    elif "amd.com/" in key:
        yield from sorted({name.removeprefix(f"{key}.") for name in labels if name.startswith(f"{key}.")})[:1]


def _gpu_of(key: str, value: str, labels: Mapping[str, str], rows: tuple[_NameRow, ...]) -> str:
    for row in rows:
        if (
            fnmatchcase(value.lower(), row.value)
            and row.label in ("", key)
            and all(labels.get(label) == wanted for label, wanted in row.also)
        ):
            return row.gpu
    return ""


def machine_of(labels: Mapping[str, str]) -> str:
    """What the host is, where a label says."""
    return next((labels[key] for key in MACHINES if labels.get(key)), "")


def nvlink_domain_of(labels: Mapping[str, str]) -> str:
    """The NVLink domain of several hosts that a host is part of; "" where no label names one. A clique whose cluster is
    all zeros is none: the driver writes that of hosts by themselves.
    """
    for key in DOMAINS:
        value = labels.get(key, "")
        if value and not (key == CLIQUE and _NO_FABRIC.fullmatch(value)):
            return value
    machine = labels.get("node.kubernetes.io/instance-type", "")
    return labels.get(_SUBBLOCK, "") if machine.startswith(_A4X_HOSTS) else ""
