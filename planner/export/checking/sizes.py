"""How large an object may be: an API server refuses a larger one, and then half of a plan is applied."""

from collections.abc import Iterator, Sequence

from planner.export.found import Fault, Kind, Manifest
from planner.export.objects.quantities import MOST_OF_A_CONFIG_MAP, config_map_bytes


def size_faults(sound: Sequence[tuple[Manifest, Kind | None]]) -> Iterator[Fault]:
    """ConfigMaps whose data are larger than Kubernetes takes."""
    for manifest, _ in sound:
        if manifest.kind == "ConfigMap" and (size := config_map_bytes(manifest.body["data"])) > MOST_OF_A_CONFIG_MAP:
            yield manifest.fault("data", f"must have at most {MOST_OF_A_CONFIG_MAP:,} bytes together", f"{size:,}")
