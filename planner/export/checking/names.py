"""Names and sizes of objects: DNS labels, short enough for what controllers derive from them, each used once a kind;
and no object so large that an API server refuses it, so that half of a plan is applied."""

from collections.abc import Iterator, Sequence

from planner.export.found import Fault, Kind, Manifest
from planner.export.objects.names import MAX_DNS_LABEL, is_dns_label, is_dns_subdomain
from planner.export.objects.quantities import MOST_OF_A_CONFIG_MAP, config_map_bytes


def name_faults(sound: Sequence[tuple[Manifest, Kind | None]]) -> Iterator[Fault]:
    """Names that no object may have, or that two have. Two namespaces may repeat a name."""
    files: dict[tuple[str, str, str], str] = {}
    for manifest, kind in sound:
        if kind is not None and kind.files:
            continue
        longest = kind.longest_name if kind else MAX_DNS_LABEL
        if kind is not None and kind.of_node:
            if not is_dns_subdomain(manifest.name):
                yield manifest.fault("metadata.name", "must be a node's name, a DNS subdomain", manifest.name)
        elif not is_dns_label(manifest.name, longest):
            yield manifest.fault("metadata.name", f"must be a DNS label of at most {longest} characters", manifest.name)
        space = str(manifest.body["metadata"].get("namespace", ""))
        for claimed in (manifest.kind, *(kind.claims if kind else ())):
            key = (claimed, space, manifest.name)
            if key in files:
                yield manifest.fault("metadata.name", "must be unique", f"{manifest.name}, used in {files[key]}")
            files[key] = manifest.file


def size_faults(sound: Sequence[tuple[Manifest, Kind | None]]) -> Iterator[Fault]:
    """ConfigMaps whose data are larger than Kubernetes takes."""
    for manifest, _ in sound:
        if manifest.kind == "ConfigMap" and (size := config_map_bytes(manifest.body["data"])) > MOST_OF_A_CONFIG_MAP:
            yield manifest.fault("data", f"must have at most {MOST_OF_A_CONFIG_MAP:,} bytes together", f"{size:,}")
