"""What `planner export` takes in place of a scenario's settings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import DeploySettings

_NOT_GIVEN = (None, "", ())
"""What an option holds that nobody typed."""


def export_options(
    settings: "DeploySettings",
    *,
    name: str,
    images: Sequence[str] | None,
    cpus_per_gpu: int | None,
    memory_gib_per_gpu: int | None,
    pod_resources: Sequence[str] | None,
    topology: Sequence[str] | None,
    pin_nodes: bool,
    priority_class: str,
    queue: str,
    model_volume: str,
    namespace: str,
    bytes_per_token: float | None,
    target: str,
    router: str,
    monitoring: bool,
    autoscaling: str,
    prometheus: str,
    weights: str = "",
    hf_secret: str = "",
    load_gb_per_s: float | None = None,
    rdma: str = "",
    hugepages: str = "",
    nccl_ib_hca: str = "",
    socket_interface: str = "",
    kv_store: str = "",
    compute_domains: bool = False,
    router_counts: str = "",
    ranks: str = "",
    served_names: Sequence[str] | None = None,
    sbatch: Sequence[str] | None = None,
    time_zone: str = "",
) -> "DeploySettings":
    """The scenario's settings, with what was typed in their place; the export checks the values.

    InputError where a pair is malformed.
    """
    flags: dict[str, object] = {
        "target": target,
        "router": router,
        "name": name,
        "images": tuple(_pair("--image", text, "VENDOR=IMAGE", "AMD=name:tag") for text in images or ()),
        "cpus_per_gpu": cpus_per_gpu,
        "memory_gib_per_gpu": memory_gib_per_gpu,
        "pod_resources": tuple(_counted(text) for text in pod_resources or ()),
        "topology_labels": tuple(
            _pair("--topology", text, "LEVEL=LABEL", "asw=example.com/rack") for text in topology or ()
        ),
        "pin_nodes": pin_nodes or settings.pin_nodes,
        "priority_class": priority_class,
        "queue": queue,
        "model_volume": model_volume,
        "namespace": namespace,
        "weights": weights,
        "hf_secret": hf_secret,
        "load_gb_per_s": load_gb_per_s,
        "rdma": rdma,
        "hugepages": hugepages,
        "nccl_ib_hca": nccl_ib_hca,
        "socket_interface": socket_interface,
        "kv_store": kv_store,
        "compute_domains": compute_domains or settings.compute_domains,
        "bytes_per_token": bytes_per_token,
        "router_counts": router_counts,
        "ranks": ranks,
        "served_names": tuple(served_names or ()),
        "sbatch": tuple(_pair("--sbatch", text, "OPTION=VALUE", "partition=gpu") for text in sbatch or ()),
        "monitoring": monitoring or settings.monitoring,
        "autoscaling": autoscaling,
        "prometheus": prometheus,
        "time_zone": time_zone,
    }
    return replace(settings, **{key: value for key, value in flags.items() if value not in _NOT_GIVEN})  # type: ignore[arg-type]


def _pair(option: str, text: str, form: str, example: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key or not value:
        raise InputError(f"{option}: must be {form}, got {text!r}.", hint=f"For example {example}.")
    return key, value


def _counted(text: str) -> tuple[str, int]:
    name, count = _pair("--pod-resource", text, "RESOURCE=COUNT", "rdma/ib=8")
    if not (count.isascii() and count.isdecimal() and len(count) <= 15):
        raise InputError(f"--pod-resource: must be RESOURCE=COUNT, got {text!r}.", hint="For example rdma/ib=8.")
    return name, int(count)
