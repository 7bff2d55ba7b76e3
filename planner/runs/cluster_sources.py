"""Where a cluster to be imported is described, and what the user says of it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from planner.domain import CORE_GROUP_SIZE, SWITCH_LEVELS
from planner.errors import InputError
from planner.files.kubernetes.kubectl_lists import RULE as TIME_RULE
from planner.files.kubernetes.kubectl_lists import parse_time
from planner.files.sections import NAME_PATTERN
from planner.runs.live.kubernetes import Kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSources:
    """Where a cluster is described. `hosts`: node and folder of its probes; `levels`: level and label of its switches.

    `gpu_types`: product and the planner's type. `gpu_numa`, `devices`: the user's files (see `files.import_maps`).
    `taken_at`: when the kubectl lists were taken ("": at the latest time in them). `preempt_unclassed`: pods without a
    priority class, which Kubernetes runs at priority 0, may be evicted, too. `strict`: what cannot be read refuses the
    import, where it would be left out with a note. `kubernetes`: a running cluster, in place of kubectl lists.
    """

    name: str = "imported"
    flextopo: tuple[Path, ...] = ()
    nrt: tuple[Path, ...] = ()
    kubectl: tuple[Path, ...] = ()
    hosts: tuple[tuple[str, Path], ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    gpu_types: tuple[tuple[str, str], ...] = ()
    gpu_numa: Path | None = None
    devices: Path | None = None
    taken_at: str = ""
    core_group_size: int = CORE_GROUP_SIZE
    preempt_unclassed: bool = False
    strict: bool = False
    kubernetes: Kubernetes | None = None

    @property
    def labelled(self) -> str:
        """Where nodes are listed with their labels, in words; "": nowhere."""
        return self.kubernetes.label if self.kubernetes else ", ".join(map(str, self.kubectl))


def require_usable(sources: ClusterSources) -> None:
    """InputError where an option is missing, given twice or not what it must be."""
    if not (sources.labelled or sources.flextopo or sources.nrt or sources.hosts):
        raise InputError(
            "import: must have a source; there is none.",
            hint="Give --kubernetes, --kubectl, --flextopo, --nrt or --host.",
        )
    if sources.kubernetes and (sources.kubectl or sources.taken_at):
        option = "--kubectl" if sources.kubectl else "--taken-at"
        raise InputError(
            f"{option}: must be left out with --kubernetes, which lists the cluster as it is now.",
            hint=f"Give --kubernetes, or --kubectl{' with --taken-at' if sources.taken_at else ''}.",
        )
    if not NAME_PATTERN.fullmatch(sources.name):
        raise InputError(f"--name: must be a plain name of at most 63 letters, digits, '.', '_' or '-', got "
                         f"{sources.name!r}.", hint="Rename it.")  # fmt: skip
    if sources.core_group_size < 1:
        raise InputError(f"--core-group-size: must be at least 1, got {sources.core_group_size}.", hint="Give 8.")
    _require_once([level for level, _ in sources.levels], "--level")
    _require_once([product for product, _ in sources.gpu_types], "--gpu-type")
    _require_once([node for node, _ in sources.hosts], "--host")
    for level, label in sources.levels:
        if not label or (sources.strict and level not in SWITCH_LEVELS):
            raise InputError(
                f"--level: must be {' or '.join(SWITCH_LEVELS)}, with a label, got {level}={label}.",
                hint="For example --level asw=topology.kubernetes.io/rack.",
            )
    for product, gpu in sources.gpu_types:
        if not product or not NAME_PATTERN.fullmatch(gpu):
            raise InputError(
                f"--gpu-type: must be PRODUCT=TYPE, the type a plain name, got {product}={gpu}.",
                hint="For example --gpu-type NVIDIA-H200-NVL=H200.",
            )
    _require_levels(sources)


def taken_at_of(sources: ClusterSources) -> datetime | None:
    """When the lists were taken, where the user says; InputError where it is no time."""
    if not sources.taken_at:
        return None
    try:
        return parse_time(sources.taken_at)
    except ValueError:
        raise InputError(
            f"--taken-at: must be {TIME_RULE}, got {sources.taken_at!r}.",
            hint="Leave it out for the latest time told.",
        ) from None


def _require_once(names: list[str], option: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{option}: {twice[0]} must be given once; it is given twice.", hint="Remove one.")


def _require_levels(sources: ClusterSources) -> None:
    """Switches are read from labels, and only lists of nodes give labels."""
    if sources.levels and not sources.labelled:
        raise InputError(
            "--level: needs the labels of nodes, got no --kubectl.", hint="Add --kubectl FILE, or --kubernetes."
        )
