"""The `network:` section of a scenario."""

from collections.abc import Collection

from planner.domain import AssignmentSettings, Formulation, NetworkSettings
from planner.errors import InputError
from planner.files.sections import Section, nearest_hint

WIDEST_GB_S = 1e9


def read_network(document: Section, types: Collection[str]) -> NetworkSettings | None:
    """What KV transfer may take of the network; None where the section is missing or null.

    InputError where a figure is no positive number, or an uplink belongs to no GPU type of the inventory.
    """
    if document.is_empty("network"):
        return None
    section = document.section("network")
    section.allow_only("nic_share", "uplinks_gb_s")
    uplinks = section.section("uplinks_gb_s", optional=True)
    for gpu in uplinks:
        if gpu not in types:
            raise InputError(
                f"{uplinks.file}: {uplinks.key_path(gpu)} must be a GPU type of the inventory; {gpu} is not.",
                hint=nearest_hint(gpu, tuple(types), what="inventory's types"),
            )
    return NetworkSettings(
        nic_share=section.number("nic_share", default=NetworkSettings().nic_share, above=0, high=1),
        switch_gb_s=tuple((gpu, uplinks.number(gpu, above=0, high=WIDEST_GB_S)) for gpu in sorted(uplinks)),
    )


def network_document(settings: NetworkSettings | None) -> dict[str, object]:
    """The section, under its key, that `read_network` reads back as the same settings; nothing for no network."""
    if settings is None:
        return {}
    return {"network": {"nic_share": settings.nic_share, "uplinks_gb_s": dict(settings.switch_gb_s)}}


def require_flows(file: str, network: NetworkSettings | None, assignment: AssignmentSettings) -> None:
    """InputError where the formulation has no KV flows to hold against the network."""
    if network is not None and assignment.formulation is not Formulation.MAX_RATE:
        raise InputError(
            f"{file}: assignment.formulation must be max_rate where network is given; "
            f"came {assignment.formulation.value}.",
            hint="Leave out network, or set assignment.formulation to max_rate.",
        )
